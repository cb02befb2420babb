//! What is taken out of a loop's statistics at a tick.

use std::sync::Arc;
use weir_server::Link;

/// What the controller takes out of a loop's statistics.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// Places that are new, or another path's now.
    pub(crate) paths: Vec<(u32, Arc<str>)>,
    /// Paths without a place, and how often they were asked for, within the error of a sketch.
    pub(crate) placeless: Vec<(Box<str>, u64)>,
    /// Places with what became of their requests, and responses under way now.
    pub(crate) tallies: Vec<(u32, Tally, u32)>,
    pub(crate) seen: Vec<Seen>,
    /// Requests for paths that are not in the statistics, and those of clients that are not among the seen.
    pub(crate) fileless: u64,
    pub(crate) clientless: u64,
    /// Sessions with what was measured of their links last.
    pub(crate) links: Vec<(u64, Link)>,
    /// Sessions that are over.
    pub(crate) ended: Vec<u64>,
}

/// What became of requests since the last look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) requests: u64,
    pub(crate) refused: u64,
    pub(crate) failed: u64,
    /// Sum of the waits that the server measured for single requests.
    pub(crate) waited_ns: u64,
}

/// A client and its network, each as a stable number, and its requests. A client may occur several times.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) client: u64,
    pub(crate) network: u64,
    pub(crate) requests: u64,
}
