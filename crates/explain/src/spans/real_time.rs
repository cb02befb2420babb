//! Times of a recording by the real clock.

use weir_wire::{Kind, Record};

/// The real time of the recording's times.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealTime {
    /// To be added, by the last pair of times that was told.
    ahead_ns: Option<i128>,
}

impl RealTime {
    /// By both clocks of this host, as they are now, nanoseconds: the real one, since 1970, and that of recordings
    /// (CLOCK_MONOTONIC).
    #[must_use]
    pub fn of(real_ns: u64, recording_ns: u64) -> Self {
        Self { ahead_ns: Some(i128::from(real_ns) - i128::from(recording_ns)) }
    }

    /// Takes a record: some tell both times.
    pub(crate) fn push(&mut self, record: &Record) {
        if record.kind == Kind::ClockPair as u16 {
            self.ahead_ns = Some(i128::from(record.a) - i128::from(record.time_ns));
        }
    }

    /// Real time at a time of the recording; `None` as long as none was told.
    pub(crate) fn at(self, at_ns: u64) -> Option<u64> {
        u64::try_from(i128::from(at_ns) + self.ahead_ns?).ok()
    }
}
