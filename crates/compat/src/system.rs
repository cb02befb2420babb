//! What the system says and allows.

use std::io;

/// The most connections of a rate.
const CONNECTIONS_MAX: u64 = 8192;
/// The largest list that is read, in bytes.
pub(crate) const LIST_BYTES_MAX: u64 = 1 << 30;
/// Files that a run has open besides its connections and those that linger.
const OTHER_FILES: u64 = 1024 + 64;

/// What the C library calls an error: `Connection refused`.
pub(crate) fn error_text(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error ").next().unwrap_or(&text).to_owned()
}

/// The number of an error of the kernel's.
pub(crate) fn error_number(error: &io::Error) -> Option<i32> {
    error.raw_os_error()
}

/// CLOCK_MONOTONIC, in nanoseconds.
pub(crate) fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the result, and every Linux has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// How often the calling thread has waited for something so far.
pub(crate) fn waits() -> i64 {
    // SAFETY: an all-zero `rusage` is a value of it.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a valid place for the result; asked for this thread, the call cannot fail.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    usage.ru_nvcsw
}

/// The most files that this process may have open.
pub(crate) fn open_files_max() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid place for the result; without one there is the least that every process has.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0;
    if known { limit.rlim_max } else { 1024 }
}

/// Raises the limit on open files to what is needed; the highest that this process may have, if that is less.
pub(crate) fn raise_open_files(needed: u64) -> Result<(), u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid place for the result.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 || limit.rlim_cur >= needed {
        return Ok(());
    }
    if limit.rlim_max < needed {
        return Err(limit.rlim_max);
    }
    limit.rlim_cur = needed;
    // SAFETY: `limit` outlives the call. It stays within the hard limit, so it is allowed.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    Ok(())
}

/// As many connections as the limit on open files has room for, within reason.
pub(crate) fn connections_of_a_rate(hosts: u64) -> u32 {
    let connections = open_files_max().saturating_sub(OTHER_FILES).max(16) / hosts.max(1);
    connections.clamp(1, CONNECTIONS_MAX) as u32
}
