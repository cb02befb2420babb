//! What was asked, and what came of it.

use weir_plan::{Cluster, Found, Limits, Log, Service, Tried};

/// What was asked, and what came of it.
pub(super) struct Planned<'a> {
    pub(super) log: &'a Log,
    pub(super) service: Service,
    /// Where the service times come from, in words.
    pub(super) service_words: String,
    pub(super) cluster: Cluster,
    pub(super) limits: Option<Limits>,
    pub(super) objective: Option<String>,
    pub(super) growth: f64,
    pub(super) seeds: u64,
    pub(super) found: Found,
    pub(super) warnings: Vec<String>,
}

impl Planned<'_> {
    pub(super) fn best(&self) -> Option<&Tried> {
        self.found.best.and_then(|best| self.found.tried.get(best))
    }
}
