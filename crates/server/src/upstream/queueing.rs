//! How long a request would have to wait in a queue, by what has left it so far: those before it, at the pace at which
//! they leave.
//!
//! By Little's law the wait is the length of the queue over its throughput. The throughput is that of the present queue
//! alone: what was measured before it was empty says nothing of a server that may be another one by now. Until enough
//! has left it, and where nothing leaves it any more, the wait of the oldest says how long it is at least.
//!
//! A queue that is as long as it may be keeps the server at work, and so does one of a quarter of that, whose requests
//! are answered sooner. The longer one is there for bursts, which are over before any request is refused. So while
//! requests are refused, and for as long again, the others wait for a quarter of the time.

/// Departures after which their pace is believed.
const KNOWN_AFTER: u32 = 4;
/// The part of a new interval in the average: the last 64 or so count, so that a single slow one says little.
const PARTS: f64 = 64.0;
/// A pause counts as so many intervals before it is over: one that is so much longer than usual is hardly chance.
const PAUSE_PARTS: f64 = 8.0;
/// While requests are refused, the others may wait for a part of the time only.
const REFUSING_PARTS: u64 = 4;

/// The pace at which requests leave a queue. Times are nanoseconds.
#[derive(Debug, Default)]
pub(super) struct Queueing {
    /// When one left last, while others wait.
    last_ns: Option<u64>,
    /// Intervals between two, as their average.
    interval_ns: f64,
    seen: u32,
    /// When a request was refused last.
    refused_ns: Option<u64>,
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
            *self = Self { refused_ns: self.refused_ns, ..Self::default() };
        } else {
            self.last_ns = Some(now_ns);
        }
    }

    /// Whether a request may wait that comes now, behind so many of which the oldest has waited so long.
    pub(super) fn admits(&mut self, (before, oldest_ns): (usize, u64), now_ns: u64, wait_max_ns: u64) -> bool {
        let refuses = self.refused_ns.is_some_and(|refused_ns| now_ns.saturating_sub(refused_ns) < wait_max_ns);
        let most_ns = if refuses { wait_max_ns / REFUSING_PARTS } else { wait_max_ns };
        let is_admitted = self.wait_ns(before, oldest_ns, now_ns) <= most_ns;
        if !is_admitted {
            self.refused_ns = Some(now_ns);
        }
        is_admitted
    }

    /// How long a request has to wait that comes now, behind so many of which the oldest has waited so long.
    fn wait_ns(&self, before: usize, oldest_ns: u64, now_ns: u64) -> u64 {
        if before == 0 {
            return 0;
        }
        let Some(last_ns) = self.last_ns.filter(|_| self.seen >= KNOWN_AFTER) else { return oldest_ns };
        // A pause that is longer than usual counts before it is over.
        let interval_ns = self.interval_ns.max(now_ns.saturating_sub(last_ns) as f64 / PAUSE_PARTS);
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
        assert_eq!(queueing.wait_ns(9, 3 * MS, 520 * MS), 400 * MS, "none has left for 320 ms");
        queueing.granted(530 * MS, true);
        assert_eq!(queueing.wait_ns(9, 3 * MS, 900 * MS), 3 * MS, "another queue may be a faster one");
    }

    #[test]
    fn while_requests_are_refused_the_others_wait_for_a_part_of_the_time() {
        let mut queueing = Queueing::default();
        for (oldest_ms, now_ms, expected) in [
            (90, 0, true),
            (110, 10, false),
            (30, 50, false),
            (25, 60, true),
            (30, 140, false),
            (0, 200, true),
            (90, 300, true),
        ] {
            assert_eq!(queueing.admits((3, oldest_ms * MS), now_ms * MS, 100 * MS), expected, "at {now_ms} ms");
        }
        assert!(queueing.admits((0, 0), 0, 0), "where none waits there is nothing to wait for");
    }
}
