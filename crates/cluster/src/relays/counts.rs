//! What is counted of relayed responses.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a node has counted of relayed responses.
#[derive(Debug, Default)]
pub(super) struct RelayCounts {
    pub(super) begun: AtomicU64,
    pub(super) ended: AtomicU64,
    pub(super) broken: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) shortened: AtomicU64,
}

/// The same at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RelayCountsNow {
    /// Responses that this node went on making for another one.
    pub begun: u64,
    /// Those that came to their end, or whose client had enough.
    pub ended: u64,
    /// Those that were broken off, as the other node was not to be reached or did not know them.
    pub broken: u64,
    /// Bytes that the other nodes have taken.
    pub bytes: u64,
    /// Of those that ended, so many go on without this node, which had passed them on for another one.
    pub shortened: u64,
}

impl RelayCounts {
    pub(crate) fn now(&self) -> RelayCountsNow {
        let [begun, ended, broken, bytes, shortened] =
            [&self.begun, &self.ended, &self.broken, &self.bytes, &self.shortened]
                .map(|count| count.load(Ordering::Relaxed));
        RelayCountsNow { begun, ended, broken, bytes, shortened }
    }
}
