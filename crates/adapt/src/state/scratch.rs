//! What a tick computes with; nothing of it lasts.

use crate::policy::Scope;
use crate::series::Unknown;

/// The value of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Value {
    pub(crate) value: f64,
    /// Age of the oldest of the latest readings.
    pub(crate) age_ms: u64,
    pub(crate) readings: usize,
    pub(crate) fit: Option<f64>,
}

/// What was computed already is not computed again, and room for values is kept: several rules look at the same metric
/// of a subject, and most at the same ones of nodes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scratch {
    /// Of each metric the last value, and for which subject or tick it was computed.
    pub(crate) values: Vec<(u64, Option<Result<Value, Unknown>>)>,
    /// Counts ticks and subjects.
    epoch: u64,
    /// The epoch in which the tick began.
    tick: u64,
    pub(crate) room: Vec<f64>,
    /// Room for the times of a sum of nodes, milliseconds, and for the sums.
    pub(crate) times: Vec<u64>,
    pub(crate) sums: Vec<f64>,
    /// Atoms and sessions that were looked at since the tick began.
    pub(crate) looks: u64,
    /// Room for the numbers of the atoms that are due.
    pub(crate) due: Vec<u32>,
    /// Room for the classes that are taken of each block.
    pub(crate) taken: Vec<u8>,
}

impl Scratch {
    /// A tick begins: nothing that was computed before counts any more.
    #[inline]
    pub(crate) fn begin(&mut self, metrics: usize) {
        self.values.resize(metrics, (0, None));
        self.epoch += 1;
        self.tick = self.epoch;
        self.looks = 0;
    }

    /// Another subject: what is its own is to be computed anew.
    #[inline]
    pub(crate) fn next_subject(&mut self) {
        self.epoch += 1;
        self.looks += 1;
    }

    /// The epoch in which a value of such a scope is to be computed.
    #[inline]
    pub(crate) fn epoch_of(&self, scope: Scope) -> u64 {
        if scope.is_fixed() { self.tick } else { self.epoch }
    }
}

// What is computed in a tick is no part of what is remembered.
impl PartialEq for Scratch {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
