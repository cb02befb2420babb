//! How long requests wait for their loop to take them up, estimated from when its rounds begin and end. Only servers
//! with an adviser, or that are told to, measure it.
//!
//! A round begins when the loop returns from its wait, and ends before the next wait. The loop takes up the requests of
//! a round one after the other, so that of `n` requests each waits for `(n - 1) / 2` others on average. A request that
//! is there already at the end of a round came at some time during that round: on average it waited half of it. A
//! request that comes while the loop sleeps does not wait.
//!
//! So a round reads the clock twice, however many requests it has. Of rounds with few requests one in [`EVERY`] is
//! timed and stands for all of them, unless they take long.

use crate::counters::LoopCounters;
use std::time::{Duration, Instant};

/// Every round with at least so many events is timed.
const EVENTS_TIMED: usize = 16;
/// Of the other rounds one in so many is timed.
const EVERY: u64 = 256;
/// A round that follows one of at least this length is timed too: half of that length is a wait that counts, and
/// polling before sleeping costs less than a hundredth of it.
const LONG: Duration = Duration::from_micros(200);

/// The rounds of one loop.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    /// Requests answered before this round.
    requests: u64,
    /// When this round began, where it is timed, and for how many rounds that stands.
    began: Option<(Instant, u64)>,
    /// How long the round before took, where the requests of this one came meanwhile, and for how many that stands.
    before: Option<(Duration, u64)>,
    untimed: u64,
    is_long: bool,
}

impl Rounds {
    /// Whether the loop must poll once more before it blocks, to see what came during the last round.
    #[inline]
    pub(crate) fn asks_first(&self) -> bool {
        self.is_long
    }

    /// Whether this round is timed.
    #[inline]
    pub(crate) fn is_timed(&self) -> bool {
        self.began.is_some()
    }

    /// Whether a round that begins with so many events is not timed.
    #[inline]
    pub(crate) fn passes(&mut self, events: usize) -> bool {
        if events >= EVENTS_TIMED || self.is_long {
            return false;
        }
        self.untimed += 1;
        self.untimed < EVERY
    }

    /// A round begins that is timed, with so many events; those were `found` when they were asked for first, without
    /// sleeping.
    #[inline(never)]
    pub(crate) fn begin(&mut self, events: usize, found: bool, counters: &LoopCounters) {
        let now = Instant::now();
        let is_chosen = events >= EVENTS_TIMED || self.is_long;
        self.before = self.began.take().filter(|_| found).map(|(began, rounds)| (now - began, rounds));
        self.began = Some((now, if is_chosen { 1 } else { EVERY }));
        self.requests = counters.requests.read();
        if !is_chosen {
            self.untimed = 0;
        }
    }

    /// A round that is timed ends, and the loop is about to wait.
    #[inline(never)]
    pub(crate) fn end(&mut self, counters: &LoopCounters) {
        let Some((began, rounds)) = self.began else { return };
        let took = began.elapsed();
        let requests = counters.requests.read().saturating_sub(self.requests);
        let before =
            self.before.take().map_or(0, |(before, rounds)| waited_ns(before, requests).saturating_mul(rounds));
        let within = waited_ns(took, requests.saturating_sub(1)).saturating_mul(rounds);
        counters.waits.queued_ns.add(within.saturating_add(before));
        self.is_long = took >= LONG;
        if !self.is_long {
            // The loop does not poll before it sleeps, so it cannot tell what came during this round.
            self.began = None;
        }
    }
}

/// Nanoseconds that so many requests wait together which come, or have their turn, evenly within a time.
fn waited_ns(within: Duration, requests: u64) -> u64 {
    u64::try_from(within.as_nanos()).unwrap_or(u64::MAX).saturating_mul(requests) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has a round take at least so long and answer so many. Returns what is counted for it, in nanoseconds, and how long
    /// it took at most, as the machine may give the CPU to others meanwhile.
    fn round(
        rounds: &mut Rounds,
        counters: &LoopCounters,
        (events, found): (usize, bool),
        took: Duration,
    ) -> (u64, Duration) {
        let (before, begun) = (counters.waits.queued_ns.read(), Instant::now());
        if !rounds.passes(events) {
            rounds.begin(events, found, counters);
        }
        counters.requests.add(events as u64);
        std::thread::sleep(took);
        rounds.end(counters);
        (counters.waits.queued_ns.read() - before, begun.elapsed())
    }

    #[test]
    fn those_behind_others_wait_and_those_of_quiet_rounds_do_not() {
        let (counters, ms) = (LoopCounters::default(), Duration::from_millis);
        let mut rounds = Rounds::default();
        // So many waited for half of a time that lies between these two.
        let is_of = |ns: u64, requests: u64, least: Duration, most: Duration| {
            let half_ns = |time: Duration| time.as_nanos() as u64 * requests / 2;
            assert!(
                (half_ns(least)..=half_ns(most)).contains(&ns),
                "{ns} ns, not {requests} times {least:?} to {most:?}"
            );
        };
        // 101 of one round: each waits for half of the others.
        let begun = Instant::now();
        let (ns, first) = round(&mut rounds, &counters, (101, false), ms(4));
        is_of(ns, 100, ms(4), first);
        assert!(rounds.asks_first());
        // One that came meanwhile waited for half of that, and one that came while the loop slept for nothing.
        let (ns, _) = round(&mut rounds, &counters, (1, true), ms(4));
        is_of(ns, 1, ms(4), begun.elapsed());
        // The first of them is short, unless the CPU is lost meanwhile.
        let is_short = (0..100).any(|_| {
            assert_eq!(round(&mut rounds, &counters, (1, false), Duration::ZERO).0, 0);
            !rounds.asks_first()
        });
        assert!(is_short);
        // Of small rounds that are not long one in so many is looked at, for all of them.
        let all: Vec<(u64, Duration)> = (0..EVERY).map(|_| round(&mut rounds, &counters, (3, false), ms(1))).collect();
        let longest = all.iter().map(|(_, took)| *took).max().unwrap_or_default();
        is_of(all.iter().map(|(ns, _)| ns).sum(), 2 * EVERY, ms(1), longest);
        assert!(rounds.asks_first(), "the last one was");
    }
}
