//! When a policy runtime began, by each clock that counts.

use std::time::{Instant, SystemTime, UNIX_EPOCH};
use weir_adapt::log::ClockPair;

/// The present, to begin with.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) at: Instant,
    pub(crate) unix_ms: u64,
    pub(crate) clock_pair: Option<ClockPair>,
}

impl Started {
    pub(crate) fn now() -> Self {
        let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (at, monotonic_ns) = (Instant::now(), monotonic_ns());
        let at_ms = u64::try_from(unix.as_millis()).unwrap_or(0);
        let of_boot = |id: String| ClockPair { boot_id: id.trim().to_owned(), at_ms, monotonic_ns };
        Self { at, unix_ms: at_ms, clock_pair: boot_id.ok().map(of_boot) }
    }
}

/// Milliseconds since 1970.
pub(crate) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// What an `Instant` counts in, as a number.
fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of ours; the call writes it and nothing else.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}
