//! Advice that may be given again without asking, and the count of what it was given for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Requests that one lease is for at most, so that both counts fit into one word.
const BEGUN_MAX: u64 = 1 << 31;
/// A request that begins counts one in the upper half of the word, one that is over in the lower.
const BEGUN: u64 = 1 << 32;
/// Looks at a request that is just beginning, and the time between two further ones: its loop may not have a CPU.
const TRIES: u32 = 400;
const PAUSE: Duration = Duration::from_micros(50);

/// Advice that a loop gives again to one connection for one path, until what it depends on changes.
///
/// Only that loop counts the requests that it was given for, by plain stores; the adviser that let it may read the
/// counts at any time. The counts of begun and finished requests are in one word, so that their difference, the
/// requests under way, is exact at each read.
#[derive(Debug)]
pub struct Lease {
    counts: AtomicU64,
    failed: AtomicU32,
    /// A request is just beginning, of a lease that is exact.
    is_beginning: AtomicBool,
    is_exact: bool,
    holds_at: u64,
    now: Arc<LeaseClock>,
}

/// Moves on when something changes that leased advice depends on. It stays in the caches of all loops, as nothing else
/// is written beside it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct LeaseClock(AtomicU64);

/// What a lease was given for so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeaseCounts {
    /// Requests that have begun.
    pub begun: u32,
    /// Those of them that are over.
    pub over: u32,
    /// Those of these that have failed.
    pub failed: u32,
}

impl LeaseClock {
    /// The number of the last change.
    #[inline]
    pub fn now(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Ends all leases that were let until now.
    pub fn move_on(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Lease {
    /// One that holds as long as it is `holds_at` by this clock. Of an exact one no request begins any more once
    /// [`Self::counts_at_last`] has been asked after the change; of another one a last one may, at the moment of the
    /// change.
    pub fn new(now: &Arc<LeaseClock>, holds_at: u64, is_exact: bool) -> Self {
        Self {
            counts: AtomicU64::new(0),
            failed: AtomicU32::new(0),
            is_beginning: AtomicBool::new(false),
            is_exact,
            holds_at,
            now: Arc::clone(now),
        }
    }

    /// Until when it holds.
    pub fn holds_at(&self) -> u64 {
        self.holds_at
    }

    /// What was counted up to now.
    pub fn counts(&self) -> LeaseCounts {
        // What has failed is counted before it is over.
        let counts = self.counts.load(Ordering::Acquire);
        let failed = self.failed.load(Ordering::Relaxed);
        LeaseCounts { begun: (counts >> 32) as u32, over: counts as u32, failed }
    }

    /// The same after the clock has moved on: as many have begun as ever will, of a lease that is exact.
    pub fn counts_at_last(&self) -> LeaseCounts {
        let mut tries = 0;
        // It takes some nanoseconds, unless its loop has lost its CPU.
        while self.is_beginning.load(Ordering::SeqCst) {
            tries += 1;
            if tries < TRIES { std::hint::spin_loop() } else { std::thread::sleep(PAUSE) }
        }
        self.counts()
    }

    /// Another request begins: for the loop that has the lease. `false`: it does not hold any more, and nothing is
    /// counted.
    #[inline]
    pub fn begin(&self) -> bool {
        if self.is_exact {
            return self.begin_exactly();
        }
        self.holds() && self.count()
    }

    #[inline]
    fn begin_exactly(&self) -> bool {
        // Either this call sees that the clock has moved on, or the thread that moved it sees `is_beginning`.
        self.is_beginning.swap(true, Ordering::SeqCst);
        let has_begun = self.holds() && self.count();
        self.is_beginning.store(false, Ordering::Release);
        has_begun
    }

    #[inline]
    fn holds(&self) -> bool {
        self.now.now() == self.holds_at
    }

    #[inline]
    fn count(&self) -> bool {
        // Only this loop writes it.
        let counts = self.counts.load(Ordering::Relaxed);
        let has_room = counts < BEGUN_MAX * BEGUN;
        if has_room {
            self.counts.store(counts + BEGUN, Ordering::Release);
        }
        has_room
    }

    /// A request that has begun is over: for that loop, too.
    #[inline]
    pub fn end(&self, has_failed: bool) {
        if has_failed {
            self.failed.store(self.failed.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        self.counts.store(self.counts.load(Ordering::Relaxed) + 1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_until_the_change_and_counts_what_is_under_way() {
        for is_exact in [false, true] {
            let now = Arc::new(LeaseClock::default());
            let lease = Lease::new(&now, 0, is_exact);
            assert!(lease.begin() && lease.begin());
            lease.end(true);
            assert_eq!(lease.counts(), LeaseCounts { begun: 2, over: 1, failed: 1 });
            now.move_on();
            assert!(!lease.begin());
            lease.end(false);
            assert_eq!(lease.counts_at_last(), LeaseCounts { begun: 2, over: 2, failed: 1 });
            let lease = Lease::new(&now, 1, is_exact);
            lease.counts.store(BEGUN_MAX * BEGUN - BEGUN, Ordering::Relaxed);
            assert!(lease.begin() && !lease.begin(), "it is used up");
        }
    }

    #[test]
    fn of_an_exact_one_nothing_begins_behind_the_last_count() {
        let now = Arc::new(LeaseClock::default());
        for round in 0..500 {
            let lease = Lease::new(&now, round, true);
            let (begun, last) = std::thread::scope(|scope| {
                let begins = scope.spawn(|| (0..50_000_000).take_while(|_| lease.begin()).count());
                // In the midst of it: before the thread runs there is nothing to be seen.
                while lease.counts().begun == 0 {
                    std::thread::yield_now();
                }
                now.move_on();
                let last = lease.counts_at_last();
                (begins.join().expect("no panic"), last)
            });
            assert_eq!(begun, last.begun as usize, "round {round}");
        }
    }
}
