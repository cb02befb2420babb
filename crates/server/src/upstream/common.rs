//! What all loops share of an upstream.

use super::gate::Gate;
use super::gateway::settings::{Gateway, Split};
use super::settings::{Place, UpstreamRules};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// What all loops share of an upstream.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) rules: UpstreamRules,
    /// How the variables of a script are made; None for HTTP.
    pub(crate) gateway: Option<Gateway>,
    /// Places for requests under way, and the queue for them.
    pub(crate) gate: Arc<Gate>,
    /// Open connections, idle ones included.
    pub(crate) open: AtomicU32,
}

impl Common {
    pub(crate) fn new(rules: UpstreamRules) -> Self {
        let gateway = rules.gateway.as_ref().map(|said| {
            let root = said.root.clone().unwrap_or_default();
            let mut gateway = match said.endings.as_slice() {
                [] => Gateway::application(root, said.mount.clone()),
                endings => {
                    let split = Split::Script { endings: endings.to_vec(), index: said.index.clone() };
                    Gateway { root, split, params: Vec::new() }
                }
            };
            gateway.params.clone_from(&said.params);
            gateway
        });
        Self { rules, gateway, gate: Arc::default(), open: AtomicU32::new(0) }
    }

    /// Whether addresses of its servers have to be looked up.
    pub(crate) fn has_names(&self) -> bool {
        self.rules.servers.iter().any(|server| matches!(server.place, Place::Name(..)))
    }

    /// Requests that may be under way at once.
    pub(crate) fn places_max(&self) -> u32 {
        let all = self.rules.pool.connections_max.saturating_mul(self.rules.servers.len());
        u32::try_from(all).unwrap_or(u32::MAX)
    }
}
