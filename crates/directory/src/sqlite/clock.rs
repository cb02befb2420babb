//! The clock of leases: it goes on while the machine sleeps, and does not jump when its time is set.

use std::fs;
use std::sync::OnceLock;

/// Milliseconds since the machine was started (CLOCK_BOOTTIME of clock_gettime(2)).
pub(super) fn now_ms() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes the structure, which lives through the call; the clock exists since Linux 2.6.39.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    time.tv_sec * 1000 + time.tv_nsec / 1_000_000
}

/// What distinguishes this start of the machine from all others: leases of an earlier one have ended.
pub(super) fn boot() -> &'static str {
    static BOOT: OnceLock<String> = OnceLock::new();
    BOOT.get_or_init(|| {
        let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        id.trim().to_owned()
    })
}
