//! Which transactions may have children: those that run, with where they do, and those of the last seconds.

use crate::keyed::Keyed;
use std::collections::{HashMap, HashSet};
use weir_wire::arm::Handle;

/// Running ones that are known.
pub const MOST_RUNNING: usize = 131_072;
/// Ended ones of each of two generations.
const MOST_ENDED: usize = 32_768;
/// How long a generation of ended ones is.
const GENERATION_NS: u64 = 10_000_000_000;

/// Where a transaction runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The client's number.
    pub client: u32,
    /// The handle in it.
    pub handle: Handle,
}

/// The spans that are known.
#[derive(Debug, Default)]
pub struct Spans {
    running: HashMap<u64, Place, Keyed>,
    ended: HashSet<u64, Keyed>,
    ended_before: HashSet<u64, Keyed>,
    turned_ns: u64,
}

impl Spans {
    /// One begins.
    pub fn begin(&mut self, span: u64, place: Place) {
        if self.running.len() < MOST_RUNNING {
            self.running.insert(span, place);
        }
    }

    /// One ends: it is known for some seconds more.
    pub fn end(&mut self, span: u64) {
        if self.running.remove(&span).is_some() && self.ended.len() < MOST_ENDED {
            self.ended.insert(span);
        }
    }

    /// Whether one is known, and where it runs if it still does.
    #[must_use]
    pub fn find(&self, span: u64) -> Option<Option<Place>> {
        let ended = || self.ended.contains(&span) || self.ended_before.contains(&span);
        self.running.get(&span).map(|place| Some(*place)).or_else(|| ended().then_some(None))
    }

    /// Forgets those that ended long ago.
    pub fn turn(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.turned_ns) >= GENERATION_NS {
            self.turned_ns = now_ns;
            self.ended_before = std::mem::take(&mut self.ended);
        }
    }
}
