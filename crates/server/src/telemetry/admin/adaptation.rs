//! The part of the status about rules: what the adviser decided and what the server did.

use crate::counters::Counts;
use crate::counters::census::Census;
use crate::policy::throttle::{Throttle, Throttles};
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(super) struct Adaptation {
    /// Requests that an adviser was asked about, and what came of them.
    pub(super) asked: u64,
    pub(super) refused: u64,
    pub(super) stale: u64,
    pub(super) variants: u64,
    pub(super) variants_missing: u64,
    /// Responses that can go on in another variant, and how often they did, or could not.
    pub(super) swappable: u64,
    pub(super) swaps: u64,
    pub(super) swaps_refused: u64,
    /// Looks at clients' connections; connections, and addresses and networks, whose readings were given up for others.
    pub(super) looks: u64,
    pub(super) links_evicted: u64,
    pub(super) priors: u64,
    pub(super) priors_evicted: u64,
    /// Requests of throttled paths that are answered and that wait, and those that waited, were refused, or went away.
    pub(super) throttle_running: u64,
    pub(super) throttle_waiting: u64,
    pub(super) throttle_queued: u64,
    pub(super) throttle_refused: u64,
    pub(super) throttle_gone: u64,
    /// The bounds, one by one.
    pub(super) throttles: Vec<ThrottleNow>,
    /// What caches keep by order, of all loops.
    pub(super) pinned_bytes: u64,
    pub(super) pinned_entries: u64,
    pub(super) warmed: u64,
    pub(super) warm_dropped: u64,
    /// Loops of the reserve, and those of them that serve or finish what is under way.
    pub(super) loops_reserve: u64,
    pub(super) loops_serving: u64,
}

/// A bound as it is now.
#[derive(Debug, Serialize)]
pub(super) struct ThrottleNow {
    /// The pattern of its paths.
    path: String,
    /// What it allows.
    allows: String,
    running: u64,
    waiting: u64,
}

impl ThrottleNow {
    fn of(throttle: &Throttle) -> Self {
        let (running, waiting) = throttle.now();
        Self { path: throttle.glob().to_owned(), allows: throttle.said(), running, waiting }
    }
}

impl Adaptation {
    /// `priors` are what there is of them, in the order of the fields.
    pub(super) fn of(
        counts: &Counts,
        census: &Census,
        (priors, priors_evicted): (u64, u64),
        throttles: &[Throttle],
        loops_reserve: usize,
    ) -> Self {
        let (throttle_running, throttle_waiting) = Throttles::fill(throttles);
        Self {
            asked: counts.advised,
            refused: counts.advice_refused,
            stale: counts.stale_allowed,
            variants: counts.variants_served,
            variants_missing: counts.variants_missing,
            swappable: counts.swappable,
            swaps: counts.swaps,
            swaps_refused: counts.swaps_refused,
            looks: counts.link_looks,
            links_evicted: counts.links_evicted,
            priors,
            priors_evicted,
            throttle_running,
            throttle_waiting,
            throttle_queued: counts.throttle_queued,
            throttle_refused: counts.throttle_refused,
            throttle_gone: counts.throttle_gone,
            throttles: throttles.iter().map(ThrottleNow::of).collect(),
            pinned_bytes: census.pinned_bytes,
            pinned_entries: census.pinned_entries,
            warmed: counts.warmed,
            warm_dropped: counts.warm_dropped,
            loops_reserve: loops_reserve as u64,
            // The counts are not read at one moment.
            loops_serving: counts.loops_begun.saturating_sub(counts.loops_given_back),
        }
    }
}
