//! Times of a recording by the real clock.

use std::time::{SystemTime, UNIX_EPOCH};
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

    /// The same by both clocks of this host as they are now.
    #[must_use]
    pub fn now() -> Self {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the pointer is to a timespec of ours; the call writes it and nothing else.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
        let recording_ns = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
        let real = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::of(u64::try_from(real.as_nanos()).unwrap_or(u64::MAX), recording_ns)
    }

    /// Takes a record: some tell both times.
    pub(crate) fn push(&mut self, record: &Record) {
        if record.kind == Kind::ClockPair as u16 {
            self.ahead_ns = Some(i128::from(record.a) - i128::from(record.time_ns));
        }
    }

    /// Real time at a time of the recording; `None` as long as none was told.
    #[must_use]
    pub fn at(self, at_ns: u64) -> Option<u64> {
        u64::try_from(i128::from(at_ns) + self.ahead_ns?).ok()
    }
}
