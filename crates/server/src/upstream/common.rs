//! What all loops share of an upstream.

use super::concurrency::MeasuredLimit;
use super::gate::Gate;
use super::gateway::settings::{Gateway, Split};
use super::health::Health;
use super::retry::Budget;
use super::settings::{LimitBy, Place, UpstreamRules};
use super::trust::Trust;
use crate::counters::upstream_counts::{UpstreamCounts, UpstreamReading};
use crate::http::target::{self, Target};
use std::sync::Arc;

/// What all loops share of an upstream.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) rules: UpstreamRules,
    /// How the variables of a script are made; None for HTTP.
    pub(crate) gateway: Option<Gateway>,
    /// Places for requests under way, and the queue for them.
    pub(crate) gate: Arc<Gate>,
    /// Which servers can be asked.
    pub(super) health: Health,
    /// How many requests may be sent once more.
    pub(super) budget: Budget,
    /// Bounds on requests under way, by server; empty where the rules bound them alone.
    pub(super) limits: Vec<MeasuredLimit>,
    /// What TLS with its servers needs; none if none speaks it.
    pub(super) trust: Option<Trust>,
}

impl Common {
    pub(crate) fn new(rules: UpstreamRules, trust: Option<Trust>) -> Self {
        let gateway = rules.gateway.as_ref().map(|said| {
            let root = said.root.clone().unwrap_or_default();
            let split = match said.endings.as_slice() {
                [] if said.is_any => Split::Any { mount: said.mount.clone() },
                [] => Split::Application { mount: said.mount.clone() },
                endings => Split::Script { endings: endings.to_vec(), index: said.index.clone() },
            };
            // An application has no file that a root could stand for.
            let alias_bytes = if matches!(split, Split::Application { .. }) { 0 } else { said.alias_bytes };
            Gateway {
                root,
                split,
                params: said.params.clone(),
                alias_bytes,
                passes_authorization: said.passes_authorization,
            }
        });
        let servers = rules.servers.len();
        let health = Health::new(rules.health.clone(), servers);
        let limits = match rules.pool.limit {
            LimitBy::Rule => Vec::new(),
            LimitBy::Measured => {
                let max = u32::try_from(rules.pool.connections_max).unwrap_or(u32::MAX);
                (0..servers).map(|_| MeasuredLimit::new(max)).collect()
            }
        };
        let budget = Budget::default();
        let gate = Arc::new(Gate::new(rules.name.clone()));
        Self { rules, gateway, gate, health, budget, limits, trust }
    }

    /// Has one gate with an upstream of others whose workers are its own, if there is one: each worker serves one
    /// connection, so that those that one of them keeps are ones that the other cannot have.
    pub(crate) fn join(&mut self, others: &[Arc<Self>]) {
        if let Some(other) = others.iter().find(|other| other.rules.shares_workers(&self.rules)) {
            self.gate = Arc::clone(&other.gate);
        }
    }

    /// The target that it is asked for; none where that is the request's own. With `is_other` the path is not the one
    /// that the client has asked for.
    pub(crate) fn target_for(&self, found: &Target<'_>, is_other: bool) -> Option<String> {
        let mut target = Vec::new();
        if !self.rules.path.write(found, &mut target) {
            if !is_other {
                return None;
            }
            target::encode(found.path, &mut target);
            target.extend_from_slice(found.query);
        }
        // What is not ASCII is encoded, and a query comes out of a text.
        Some(String::from_utf8(target).unwrap_or_else(|_| "/".to_owned()))
    }

    /// Whether addresses of its servers have to be looked up.
    pub(crate) fn has_names(&self) -> bool {
        self.rules.servers.iter().any(|server| matches!(server.place, Place::Name(..)))
    }

    pub(crate) fn counts(&self) -> &UpstreamCounts {
        &self.gate.counts
    }

    /// The counts as of now.
    pub(crate) fn reading(&self) -> UpstreamReading {
        let out = (0..self.rules.servers.len()).filter(|server| !self.health.is_in(*server)).count();
        let (places, oldest_wait_ns) = (self.places_max(), self.gate.oldest_ns());
        UpstreamReading { servers_out: out as u32, places, oldest_wait_ns, ..self.counts().read() }
    }

    /// Requests that may be under way at once.
    pub(crate) fn places_max(&self) -> u32 {
        if !self.limits.is_empty() {
            return self.limits.iter().map(MeasuredLimit::limit).fold(0, u32::saturating_add);
        }
        self.gate.places(self.places_configured())
    }

    fn places_configured(&self) -> u32 {
        let all = self.rules.pool.connections_max.saturating_mul(self.rules.servers.len());
        u32::try_from(all).unwrap_or(u32::MAX)
    }

    /// Has so many workers of scripts get requests, as far as there may be so many; with `None` as many as the configuration
    /// says. Other upstreams stay as they are.
    pub(crate) fn order_workers(&self, workers: Option<u32>) {
        if let Some(max) = self.rules.workers_max() {
            self.gate.order(workers.map(|workers| workers.clamp(1, max)), self.places_configured());
        }
    }
}
