//! An arrival that waits for a stream.

use crate::engine::slowest::{held_us, micros};

/// An arrival that waits for a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) intended_ns: u64,
    /// How long after its intended time it was queued, in microseconds.
    pub(crate) late_us: u32,
}

impl Wanted {
    /// An arrival that is queued now.
    pub(crate) fn at(intended_ns: u64, now_ns: u64) -> Self {
        Self { intended_ns, late_us: micros(now_ns.saturating_sub(intended_ns)) }
    }

    /// How long it has waited until now, in microseconds.
    pub(crate) fn held_us(self, now_ns: u64) -> u32 {
        held_us(self.intended_ns, self.late_us, now_ns)
    }
}
