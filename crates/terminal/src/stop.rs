//! Ctrl-C and SIGTERM: the first asks for an end with a report, the second ends at once.
//!
//! A wish often comes twice: `timeout` signals its child and then its child's group, and a terminal's Ctrl-C reaches a
//! program that its shell signals, too. What comes within a moment of the first signal is the same wish.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Signals so soon after the first are the same wish: longer than one sender takes for two, shorter than a user takes.
const SAME_WISH: Duration = Duration::from_millis(200);
/// What a program returns that SIGINT ended, as a shell says it.
const ENDED_BY_SIGINT: i32 = 130;
/// No signal has come: the clock says nothing as small, as it counts from the start of the machine.
const NEVER: u64 = 0;

/// Whether the user has asked for an end.
#[derive(Debug, Clone)]
pub struct Stop {
    /// When the first signal came, in nanoseconds of CLOCK_MONOTONIC.
    first_ns: Arc<AtomicU64>,
    /// Set with it, for code that reads a flag.
    asked: Arc<AtomicBool>,
}

impl Stop {
    /// Listens for SIGINT and SIGTERM.
    ///
    /// # Errors
    /// The system refuses a handler.
    pub fn on_signals() -> std::io::Result<Self> {
        let (first_ns, asked) = (Arc::new(AtomicU64::new(NEVER)), Arc::new(AtomicBool::new(false)));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            let (first_ns, asked) = (Arc::clone(&first_ns), Arc::clone(&asked));
            let action = move || {
                if is_another_wish(&first_ns, monotonic_ns()) {
                    signal_hook::low_level::exit(ENDED_BY_SIGINT);
                }
                asked.store(true, Ordering::Release);
            };
            // SAFETY: the action reads the clock, changes two atomics and may call _exit, all of which are
            // async-signal-safe; it neither allocates nor locks nor panics.
            unsafe { signal_hook::low_level::register(signal, action) }?;
        }
        Ok(Self { first_ns, asked })
    }

    /// Asks for an end as the first signal does.
    pub fn ask(&self) {
        let _other_was_first =
            self.first_ns.compare_exchange(NEVER, monotonic_ns(), Ordering::AcqRel, Ordering::Acquire);
        self.asked.store(true, Ordering::Release);
    }

    /// Set when an end is asked for.
    pub fn flag(&self) -> &AtomicBool {
        &self.asked
    }

    /// Whether an end was asked for.
    pub fn asked(&self) -> bool {
        self.first_ns.load(Ordering::Acquire) != NEVER
    }
}

/// Takes in a signal that comes now; whether it is another wish than that of the first one.
fn is_another_wish(first_ns: &AtomicU64, now_ns: u64) -> bool {
    match first_ns.compare_exchange(NEVER, now_ns, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => false,
        // Two threads may read the clock in one order and get here in the other.
        Err(first_ns) => u128::from(now_ns.saturating_sub(first_ns)) >= SAME_WISH.as_nanos(),
    }
}

/// CLOCK_MONOTONIC in nanoseconds, in a way that a signal handler may call.
fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of ours; the clock is always there, so the call cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    // Neither is negative, and the seconds since the start of the machine are few.
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_soon_after_the_first_signal_is_the_same_wish() {
        let (first_ns, begin, same) = (AtomicU64::new(NEVER), 7_000_000_000, SAME_WISH.as_nanos() as u64);
        for (after_ns, another) in [(0, false), (1, false), (same - 1, false), (same, true), (5 * same, true)] {
            assert_eq!(is_another_wish(&first_ns, begin + after_ns), another, "{after_ns} ns after the first");
        }
        // Read before the first one's clock, by another thread.
        assert!(!is_another_wish(&first_ns, begin - 5));
    }
}
