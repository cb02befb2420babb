//! What recording costs.

/// What a recorded event costs the server at most, nanoseconds: the upper end of what was measured for the sockets'
/// probes (docs/explanation/what-observing-costs.md says how).
pub(crate) const EVENT_NS: u64 = 200;

/// CPU time of this process with all its threads, nanoseconds.
pub(crate) fn own_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of ours; the call writes it and nothing else.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
