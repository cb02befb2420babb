//! How much of the slow requests' time was the generator's own.
//!
//! A loop looks closely only at requests that are slow for their run: from a bound on that follows the latencies, so
//! that about one in sixteen is looked at. What it finds is kept by latency, in ranges of a sixteenth, as only the end
//! of the run says where the 99th percentile lies.

use crate::carried::{Carried, CarriedError, Reader, carried, put_number};
use crate::counts::histogram::Histogram;

/// Ranges in each doubling of the latency, as a power of two.
const PARTS_BITS: u32 = 4;
/// Ranges up to an hour, the longest latency that is told apart.
const RANGES: usize = 640;
/// One request in so many is looked at, or more: enough for the slowest hundredth.
const ONE_IN: u64 = 16;
/// Fewer than one in so many: the bound is too high.
const TOO_FEW: u64 = 40;
/// So many more are looked at, as the first requests say little of those that follow.
const AT_FIRST: u64 = 256;
/// The slowest requests are one in so many.
const SLOWEST: u64 = 100;

/// A slow request.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SlowOne {
    pub(crate) latency_ns: u64,
    /// From its intended time until the generator turned to it: sent it, queued it or opened a connection for it.
    pub(crate) late_ns: u64,
    /// How long the end of its response lay in the socket before it was read; `None` where that is not known.
    pub(crate) unread_ns: Option<u64>,
}

/// The slow requests of one range of latencies.
#[derive(Debug, Clone, Copy, Default)]
struct Range {
    requests: u64,
    latency_ns: u64,
    late_ns: u64,
    unread_ns: u64,
    unread_known: u64,
}

/// The slow requests of a loop.
#[derive(Debug)]
pub(crate) struct SlowTally {
    /// Requests that took so long are looked at.
    pub(crate) from_ns: u64,
    /// Whether all are looked at, as something else asks for it.
    pub(crate) all: bool,
    recorded: u64,
    ranges: Box<[Range; RANGES]>,
    /// The kernel's tick: what it says of receptions is told in such steps.
    pub(crate) tick_ns: u64,
}

/// What the slowest requests spent in the generator itself.
///
/// These are the successes whose latency is the 99th percentile or more, which is told within a sixteenth. Responses that
/// fail a check are among them, as they are checked when this is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slowest {
    /// How many there were.
    pub requests: u64,
    /// Of how many of them it is known how late they were. The others came while most requests were as slow.
    pub known: u64,
    /// Their mean latency, in nanoseconds.
    pub latency_ns: f64,
    /// Of that, on average: from the intended time until the generator turned to the request, in nanoseconds. Waiting for
    /// a connection that is free or made is not in it.
    pub late_ns: f64,
    /// Of that, on average: how long the end of the response lay in the socket before the generator read it, in
    /// nanoseconds; at least so long where a connection carries several responses. `None` where it is known of none: no
    /// response took a tick of the kernel's, clients read slowly on purpose, or the socket is none of TCP.
    pub unread_ns: Option<f64>,
    /// Of how many of them that is known.
    pub unread_known: u64,
    /// The kernel's tick, in nanoseconds: each unread time is known within one.
    pub tick_ns: u64,
}

impl Slowest {
    /// The generator's own part of their mean latency, in nanoseconds, as far as it is known.
    #[must_use]
    pub fn own_ns(&self) -> f64 {
        (self.late_ns + self.unread_ns.unwrap_or(0.0)).min(self.latency_ns)
    }

    /// The same as a share, 0 to 1.
    #[must_use]
    pub fn own_share(&self) -> f64 {
        if self.latency_ns > 0.0 { self.own_ns() / self.latency_ns } else { 0.0 }
    }
}

impl Range {
    fn add(&mut self, other: &Self) {
        self.requests = self.requests.saturating_add(other.requests);
        self.latency_ns = self.latency_ns.saturating_add(other.latency_ns);
        self.late_ns = self.late_ns.saturating_add(other.late_ns);
        self.unread_ns = self.unread_ns.saturating_add(other.unread_ns);
        self.unread_known = self.unread_known.saturating_add(other.unread_known);
    }
}

impl SlowTally {
    /// Nothing so far.
    pub(crate) fn new() -> Self {
        Self { from_ns: 0, all: false, recorded: 0, ranges: Box::new([Range::default(); RANGES]), tick_ns: tick_ns() }
    }

    /// A slow request of a loop is over that has had so many successes.
    pub(crate) fn add(&mut self, one: SlowOne, successes: u64) {
        let late_ns = one.late_ns.min(one.latency_ns);
        let range = &mut self.ranges[range_of(one.latency_ns)];
        range.requests += 1;
        range.latency_ns += one.latency_ns;
        range.late_ns += late_ns;
        if let Some(unread_ns) = one.unread_ns {
            range.unread_known += 1;
            range.unread_ns += unread_ns.min(one.latency_ns - late_ns);
        }
        self.recorded += 1;
        if !self.all && self.recorded * ONE_IN > successes + AT_FIRST * ONE_IN {
            // Towards this one's latency and never beyond: a few slow ones do not hide those that follow.
            self.from_ns += one.latency_ns.saturating_sub(self.from_ns) / ONE_IN + 1;
        }
    }

    /// Lowers the bound where it lets too few of so many successes be looked at.
    pub(crate) fn relax(&mut self, successes: u64) {
        if self.recorded * TOO_FEW < successes {
            self.from_ns -= self.from_ns / ONE_IN;
        }
    }

    /// Adds another loop's.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.recorded += other.recorded;
        // All loops speak the same version of HTTP, and so know by the same clock when responses came.
        self.tick_ns = self.tick_ns.min(other.tick_ns);
        for (range, more) in self.ranges.iter_mut().zip(other.ranges.iter()) {
            range.add(more);
        }
    }

    /// What the slowest of all successes spent in the generator; `None` without any.
    pub(crate) fn slowest(&self, latency: &Histogram) -> Option<Slowest> {
        let mut counts = [0; RANGES];
        for value in latency.iter_recorded() {
            counts[range_of(latency.median_equivalent(value.value_iterated_to()))] += value.count_at_value();
        }
        let wanted = latency.len().div_ceil(SLOWEST).max(1);
        let (mut requests, mut sum) = (0, Range::default());
        for (count, range) in counts.iter().zip(self.ranges.iter()).rev() {
            if requests >= wanted {
                break;
            }
            requests += count;
            sum.add(range);
        }
        let mean = |sum_ns: u64, count: u64| sum_ns as f64 / count as f64;
        (sum.requests > 0).then(|| Slowest {
            // The histogram's digits may place one at an edge elsewhere.
            requests: requests.max(sum.requests),
            known: sum.requests,
            latency_ns: mean(sum.latency_ns, sum.requests),
            late_ns: mean(sum.late_ns, sum.requests),
            unread_ns: (sum.unread_known > 0).then(|| mean(sum.unread_ns, sum.unread_known)),
            unread_known: sum.unread_known,
            tick_ns: self.tick_ns,
        })
    }
}

/// The step in which the kernel tells times that it keeps by its timer: 1 to 10 ms.
fn tick_ns() -> u64 {
    let mut step = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `step` is a valid place for the result; the clock exists since Linux 2.6.32, so the call cannot fail.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut step) };
    (step.tv_sec as u64 * 1_000_000_000 + step.tv_nsec as u64).max(1)
}

/// The range of a latency.
fn range_of(latency_ns: u64) -> usize {
    let parts = 1 << PARTS_BITS;
    if latency_ns < parts {
        return latency_ns as usize;
    }
    let doubling = latency_ns.ilog2();
    let part = latency_ns >> (doubling - PARTS_BITS) & (parts - 1);
    ((u64::from(doubling - PARTS_BITS + 1) << PARTS_BITS | part) as usize).min(RANGES - 1)
}

carried!(SlowTally { from_ns, all, recorded, ranges, tick_ns });

impl Carried for Range {
    fn put(&self, to: &mut Vec<u8>) {
        // Sums of times are larger than counts.
        for number in [self.requests, self.latency_ns, self.late_ns, self.unread_ns, self.unread_known] {
            put_number(to, number);
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CarriedError> {
        let mut number = || from.number(u64::MAX);
        Ok(Self {
            requests: number()?,
            latency_ns: number()?,
            late_ns: number()?,
            unread_ns: number()?,
            unread_known: number()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::histogram::histogram;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    /// A loop whose requests took so long and were so late, as the loop itself looks at them.
    fn run(requests: impl Iterator<Item = (u64, u64, Option<u64>)>) -> (SlowTally, Histogram) {
        let (mut tally, mut latency) = (SlowTally::new(), histogram());
        for (number, (latency_ns, late_ns, unread_ns)) in (0..).zip(requests) {
            if latency_ns >= tally.from_ns {
                tally.add(SlowOne { latency_ns, late_ns, unread_ns }, number);
            }
            latency.saturating_record(latency_ns);
            if number % 50 == 0 {
                tally.relax(number);
            }
        }
        (tally, latency)
    }

    #[test]
    fn the_slowest_hundredth_is_found_among_the_others() {
        // Each hundredth request takes 80 ms, of which 20 ms are the generator's.
        let requests = (0..100_000u64).map(|number| match number % 100 {
            7 => (80 * MS, 15 * MS, Some(5 * MS)),
            other => (MS + other * 1000, 10_000, None),
        });
        let (tally, latency) = run(requests);
        let slowest = tally.slowest(&latency).expect("some succeeded");
        assert_eq!((slowest.requests, slowest.known, slowest.unread_known), (1000, 1000, 1000));
        assert!((slowest.own_share() - 0.25).abs() < 1e-9, "{slowest:?}");
        assert!(tally.recorded < 10_000, "{} were looked at", tally.recorded);
        assert!(run(std::iter::empty()).0.slowest(&histogram()).is_none());
    }

    #[test]
    fn a_server_that_gets_slower_or_faster_is_followed() {
        let slower = (0..100_000u64).map(|number| (MS + number * 500, 1000, None));
        let (tally, latency) = run(slower);
        let slowest = tally.slowest(&latency).expect("some succeeded");
        assert!(slowest.known * 2 > slowest.requests, "{slowest:?}");
        let faster = (0..100_000u64).map(|number| (if number < 500 { 50 * MS } else { MS }, 1000, None));
        let (tally, latency) = run(faster);
        let slowest = tally.slowest(&latency).expect("some succeeded");
        assert!(slowest.known > 0 && tally.from_ns <= MS + MS / 8, "{slowest:?}, from {} ns", tally.from_ns);
    }

    proptest! {
        #[test]
        fn ranges_rise_and_are_a_sixteenth_wide(latency_ns in 16..3_600_000_000_000u64) {
            let range = range_of(latency_ns);
            prop_assert!(range < RANGES - 1 && range_of(latency_ns - 1) <= range);
            prop_assert!(range_of(latency_ns + latency_ns / 16 + 1) > range);
            prop_assert_eq!(range_of(u64::MAX), RANGES - 1);
        }

        #[test]
        fn the_own_part_is_never_more_than_the_whole(
            requests in proptest::collection::vec((1..1u64 << 40, 0..1u64 << 41, proptest::option::of(0..1u64 << 41)), 1..200)
        ) {
            let (one, latency) = run(requests.into_iter());
            let mut both = SlowTally::new();
            both.merge(&one);
            let slowest = both.slowest(&latency).expect("some succeeded");
            prop_assert!((0.0..=1.0).contains(&slowest.own_share()), "{:?}", slowest);
            prop_assert!(slowest.known <= slowest.requests);
        }
    }
}
