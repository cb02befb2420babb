//! What is taken out of a loop's book at a tick.

use super::{Seen, Tally};
use std::sync::Arc;
use weir_server::Link;

/// What the controller takes out of a book.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// Places that are new, or another path's now.
    pub(crate) paths: Vec<(u32, Arc<str>)>,
    /// Paths without a place, and how often they were asked for, within the error of a sketch.
    pub(crate) placeless: Vec<(Box<str>, u64)>,
    /// Places with what became of their requests, and responses under way now.
    pub(crate) tallies: Vec<(u32, Tally, u32)>,
    pub(crate) seen: Vec<Seen>,
    /// Requests for paths that are not in the book, and those of clients that are not among the seen.
    pub(crate) fileless: u64,
    pub(crate) clientless: u64,
    /// Sessions with what was measured of their links last.
    pub(crate) links: Vec<(u64, Link)>,
    /// Sessions that are over.
    pub(crate) ended: Vec<u64>,
}
