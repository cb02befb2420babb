//! How long a request would have to wait in a queue, by what has left it so far: those before it, at the pace at which
//! they leave.
//!
//! By Little's law the wait is the length of the queue over its throughput. The throughput is that of the present queue
//! alone: what was measured before it was empty says nothing of a server that may be another one by now. Until enough
//! has left it, and where nothing leaves it any more, the wait of the oldest says how long it is at least.

/// Departures after which their pace is believed.
const KNOWN_AFTER: u32 = 4;
/// The part of a new interval in the average: the last 16 or so count, so that a single slow one says little.
const PARTS: f64 = 16.0;

/// The pace at which requests leave a queue. Times are nanoseconds.
#[derive(Debug, Default)]
pub(super) struct Queueing {
    /// When one left last, while others wait.
    last_ns: Option<u64>,
    /// Intervals between two, as their average.
    interval_ns: f64,
    seen: u32,
}

impl Queueing {
    /// A request leaves the queue, and has its turn; `is_last` says that no other one waits.
    pub(super) fn granted(&mut self, now_ns: u64, is_last: bool) {
        if let Some(last_ns) = self.last_ns {
            let interval_ns = now_ns.saturating_sub(last_ns) as f64;
            self.seen = self.seen.saturating_add(1);
            self.interval_ns += (interval_ns - self.interval_ns) / PARTS.min(f64::from(self.seen));
        }
        if is_last {
            *self = Self::default();
        } else {
            self.last_ns = Some(now_ns);
        }
    }

    /// How long a request has to wait that comes now, behind so many of which the oldest has waited so long.
    pub(super) fn wait_ns(&self, before: usize, oldest_ns: u64, now_ns: u64) -> u64 {
        if before == 0 {
            return 0;
        }
        let Some(last_ns) = self.last_ns.filter(|_| self.seen >= KNOWN_AFTER) else { return oldest_ns };
        // A pause that is longer than usual counts before it is over.
        let interval_ns = self.interval_ns.max(now_ns.saturating_sub(last_ns) as f64 / PARTS);
        oldest_ns.max((interval_ns * (before + 1) as f64) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_wait_is_what_those_before_take() {
        let mut queueing = Queueing::default();
        assert_eq!((queueing.wait_ns(0, 0, 0), queueing.wait_ns(9, 3 * MS, 0)), (0, 3 * MS));
        for turn in 0..=20 {
            queueing.granted(turn * 10 * MS, false);
        }
        assert_eq!(queueing.wait_ns(9, 3 * MS, 200 * MS), 100 * MS);
        assert_eq!(queueing.wait_ns(9, 300 * MS, 200 * MS), 300 * MS, "the oldest one knows better");
        assert_eq!(queueing.wait_ns(9, 3 * MS, 520 * MS), 200 * MS, "none has left for 320 ms");
        queueing.granted(530 * MS, true);
        assert_eq!(queueing.wait_ns(9, 3 * MS, 900 * MS), 3 * MS, "another queue may be a faster one");
    }
}
