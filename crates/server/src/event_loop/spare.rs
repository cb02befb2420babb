//! Connections that can be closed for a new client.

use crate::exchange::eviction::Yields;

/// Those that were found at the last look, the next to be closed at the end.
#[derive(Debug, Default)]
pub(super) struct Eviction {
    pub(super) found: Vec<(Yields, u64)>,
    pub(super) next_look_ms: u64,
}
