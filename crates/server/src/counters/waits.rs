//! What requests have waited for, as loops count it.

use crate::counters::counter::Counter;

/// What one loop counts of waiting; each only grows but for the last two.
#[derive(Debug, Default)]
pub(crate) struct WaitCounters {
    /// Nanoseconds, of all requests together, that they waited to be taken up.
    pub(crate) queued_ns: Counter,
    /// The same that loops spent looking at files for them.
    pub(crate) looked_ns: Counter,
    /// Milliseconds, of all together, that some waited behind a bound, up to the time below.
    pub(crate) parked_ms: Counter,
    /// How many have waited so since this time of the loop's clock, milliseconds.
    pub(crate) parked: Counter,
    pub(crate) parked_since_ms: Counter,
}

impl WaitCounters {
    /// So many wait behind a bound from now on, by the loop's clock.
    pub(crate) fn park(&self, waiting: usize, now_ms: u64) {
        let before = self.parked.read();
        if before != waiting as u64 {
            self.parked_ms.add(before * now_ms.saturating_sub(self.parked_since_ms.read()));
            self.parked_since_ms.set(now_ms);
            self.parked.set(waiting as u64);
        }
    }

    /// Milliseconds that all requests together have waited behind a bound by now.
    pub(crate) fn parked_ms(&self, now_ms: u64) -> u64 {
        let since_ms = now_ms.saturating_sub(self.parked_since_ms.read());
        self.parked_ms.read().saturating_add(self.parked.read().saturating_mul(since_ms))
    }
}

/// What requests have waited for by a server's own timestamps, all of them together since its start, in nanoseconds.
/// Counted only where an adviser is asked, or by [`crate::Options::measures_waits`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waits {
    /// For their loop, behind other requests of it.
    pub queued_ns: u64,
    /// For others to be over, behind a bound on how many may be under way.
    pub parked_ns: u64,
    /// For their files to be found and read.
    pub looked_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_behind_a_bound_waits_from_the_first_moment_to_the_last() {
        let waits = WaitCounters::default();
        waits.park(2, 1000);
        assert_eq!((waits.parked_ms(1000), waits.parked_ms(1500)), (0, 1000));
        waits.park(2, 1700);
        waits.park(1, 2000);
        waits.park(0, 2100);
        assert_eq!((waits.parked_ms(2100), waits.parked_ms(9000)), (2100, 2100));
    }
}
