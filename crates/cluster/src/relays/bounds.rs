//! Bounds of relayed responses.

use std::time::Duration;

/// Bytes of a response that a node holds for the other one, at most.
pub const WINDOW_BYTES: usize = 128 << 10;

/// How often a response goes through a node at most, in stays of its session from which that node is not out of the way.
pub const STAYS_MAX: usize = 4;

/// How long nodes wait for each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RelaySettings {
    /// After so long without a word the other node is taken for gone; a node says ten times as often that it lives.
    pub silence: Duration,
    /// The other node may not know of a response for so long, as its session arrives.
    pub unknown: Duration,
}

impl Default for RelaySettings {
    fn default() -> Self {
        Self { silence: Duration::from_secs(10), unknown: Duration::from_secs(5) }
    }
}
