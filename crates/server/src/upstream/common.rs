//! What all loops share of an upstream.

use super::gate::Gate;
use super::settings::UpstreamRules;
use super::trouble::Trouble;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// What all loops share of an upstream.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) rules: UpstreamRules,
    /// Places for requests under way, and the queue for them.
    pub(crate) gate: Arc<Gate>,
    /// Open connections, idle ones included.
    pub(crate) open: AtomicU32,
}

impl Common {
    pub(crate) fn new(rules: UpstreamRules) -> Self {
        Self { rules, gate: Arc::default(), open: AtomicU32::new(0) }
    }

    /// Takes note of what went wrong.
    #[cold]
    pub(crate) fn note(&self, trouble: &Trouble) {
        tracing::warn!(upstream = %self.rules.name, %trouble, "a request to an upstream failed");
    }

    /// Requests that may be under way at once.
    pub(crate) fn places_max(&self) -> u32 {
        let all = self.rules.pool.connections_max.saturating_mul(self.rules.servers.len());
        u32::try_from(all).unwrap_or(u32::MAX)
    }
}
