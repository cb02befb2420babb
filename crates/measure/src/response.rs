//! The fold over responses: percentiles, mean parts, and the slowest 1 % apart from the rest.
//!
//! Responses are kept by buckets of their time (each at most 1/32 wide), with the sums of their parts; so the fold is
//! bounded, two folds merge exactly, and what is asked later (the slowest 1 %, the middle) needs no second pass.

use crate::part::{Part, PartTimes};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;

/// Sub-buckets of an octave of response time.
const SUB_BUCKETS: u64 = 32;
/// Details of a part that a bucket tells apart; what comes after is detail 0.
const MOST_DETAILS: usize = 48;
/// The largest time that the histogram holds: an hour, in nanoseconds.
const LARGEST_NS: u64 = 3_600_000_000_000;

/// A stretch of a response, as the fold takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// What it was.
    pub part: Part,
    /// What was to blame: a label's number, 0 for none that is told apart.
    pub detail: u32,
    /// Its length.
    pub ns: u64,
}

/// Sums over the responses of a bucket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bucket {
    /// Responses.
    pub count: u64,
    /// Sum of their times.
    pub sum_ns: u64,
    /// Sums of their parts.
    pub parts: PartTimes,
    /// Sums by part and detail.
    pub details: BTreeMap<(Part, u32), u64>,
}

impl Bucket {
    fn push(&mut self, response_ns: u64, pieces: &[Piece]) {
        self.count += 1;
        self.sum_ns += response_ns;
        for piece in pieces {
            self.parts[piece.part as usize] += piece.ns;
            if piece.detail != 0 {
                self.detail(piece.part, piece.detail, piece.ns);
            }
        }
    }

    fn detail(&mut self, part: Part, detail: u32, ns: u64) {
        let known = self.details.contains_key(&(part, detail)) || self.details.len() < MOST_DETAILS;
        *self.details.entry((part, if known { detail } else { 0 })).or_default() += ns;
    }

    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        for (sum, more) in self.parts.iter_mut().zip(other.parts) {
            *sum += more;
        }
        for ((part, detail), ns) in &other.details {
            self.detail(*part, *detail, *ns);
        }
    }
}

/// Mean parts of some responses.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Profile {
    /// How many responses.
    pub count: f64,
    /// Their mean time.
    pub response_ns: f64,
    /// Their mean parts.
    pub parts_ns: [f64; Part::COUNT],
    /// Mean by part and detail.
    pub details_ns: BTreeMap<(Part, u32), f64>,
}

impl Profile {
    fn add(&mut self, bucket: &Bucket, share: f64) {
        self.count += bucket.count as f64 * share;
        self.response_ns += bucket.sum_ns as f64 * share;
        for (sum, part) in self.parts_ns.iter_mut().zip(bucket.parts) {
            *sum += part as f64 * share;
        }
        for (key, ns) in &bucket.details {
            *self.details_ns.entry(*key).or_default() += *ns as f64 * share;
        }
    }

    /// Turns sums into means.
    fn divided(mut self) -> Self {
        if self.count > 0.0 {
            self.response_ns /= self.count;
            self.parts_ns.iter_mut().for_each(|ns| *ns /= self.count);
            self.details_ns.values_mut().for_each(|ns| *ns /= self.count);
        }
        self
    }
}

/// The fold.
#[derive(Debug, Clone)]
pub struct ResponseFold {
    times: Histogram<u64>,
    buckets: BTreeMap<u16, Bucket>,
}

impl Default for ResponseFold {
    fn default() -> Self {
        Self::new()
    }
}

impl ResponseFold {
    /// An empty fold.
    #[must_use]
    pub fn new() -> Self {
        // The bounds are constants that hdrhistogram accepts: low >= 1, high >= 2 * low, digits <= 5.
        let times = Histogram::new_with_bounds(1, LARGEST_NS, 3).expect("constant bounds are valid");
        Self { times, buckets: BTreeMap::new() }
    }

    /// Takes one response. The pieces should add up to its time; [`ResponseFold`] does not mend them.
    pub fn push(&mut self, response_ns: u64, pieces: &[Piece]) {
        self.times.saturating_record(response_ns);
        self.buckets.entry(bucket_of(response_ns)).or_default().push(response_ns, pieces);
    }

    /// Adds another fold: the result is that of one fold over the responses of both.
    pub fn merge(&mut self, other: &Self) {
        // Both have the same bounds, so the addition cannot fail.
        self.times.add(&other.times).expect("equal bounds");
        for (number, bucket) in &other.buckets {
            self.buckets.entry(*number).or_default().merge(bucket);
        }
    }

    /// Response times, nanoseconds.
    #[must_use]
    pub fn times(&self) -> &Histogram<u64> {
        &self.times
    }

    /// How many responses.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.times.len()
    }

    /// Mean parts over all responses.
    #[must_use]
    pub fn all(&self) -> Profile {
        self.between(0.0, 1.0)
    }

    /// Mean parts of the slowest share, such as 0.01; at least one response where there is any.
    #[must_use]
    pub fn slowest(&self, share: f64) -> Profile {
        let least = if self.count() == 0 { 0.0 } else { 1.0 / self.count() as f64 };
        self.between(1.0 - share.max(least), 1.0)
    }

    /// Mean parts of all but the slowest share.
    #[must_use]
    pub fn rest(&self, share: f64) -> Profile {
        let least = if self.count() == 0 { 0.0 } else { 1.0 / self.count() as f64 };
        self.between(0.0, 1.0 - share.max(least))
    }

    /// Mean parts of the middle tenth, around the median.
    #[must_use]
    pub fn median(&self) -> Profile {
        self.between(0.45, 0.55)
    }

    /// Mean parts of the responses around a quantile of 0 to below 1: on either side so many as a tenth of those that are
    /// slower. `None` where fewer than one is slower, so that the quantile says nothing.
    #[must_use]
    pub fn around(&self, quantile: f64) -> Option<Profile> {
        let slower = 1.0 - quantile;
        // The difference of two numbers that have no end in base 2 is as little below as it is above.
        (self.count() as f64 * slower >= 1.0 - 1e-9)
            .then(|| self.between(quantile - slower / 10.0, quantile + slower / 10.0))
    }

    /// Mean parts of the responses between two quantiles of the response time.
    ///
    /// A bucket at the edge counts with the share that lies within, as if its responses were alike.
    #[must_use]
    pub fn between(&self, from: f64, to: f64) -> Profile {
        let total = self.count() as f64;
        let (low, high) = (from.clamp(0.0, 1.0) * total, to.clamp(0.0, 1.0) * total);
        let mut profile = Profile::default();
        let mut before = 0.0;
        for bucket in self.buckets.values() {
            let count = bucket.count as f64;
            let within = (high.min(before + count) - low.max(before)).max(0.0);
            if within > 0.0 {
                profile.add(bucket, within / count);
            }
            before += count;
        }
        profile.divided()
    }
}

/// The bucket of a time: octave and the five bits below its leading one.
fn bucket_of(ns: u64) -> u16 {
    if ns < SUB_BUCKETS {
        return ns as u16;
    }
    let octave = u64::from(63 - ns.leading_zeros());
    let sub = ns >> (octave - 5) & (SUB_BUCKETS - 1);
    ((octave - 4) * SUB_BUCKETS + sub) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn piece(part: Part, detail: u32, ns: u64) -> Piece {
        Piece { part, detail, ns }
    }

    #[test]
    fn the_slow_ones_are_told_apart() {
        let mut fold = ResponseFold::new();
        for _ in 0..990 {
            fold.push(1000, &[piece(Part::Run, 0, 1000)]);
        }
        for _ in 0..10 {
            fold.push(50_000, &[piece(Part::Run, 0, 1000), piece(Part::WaitLock, 7, 49_000)]);
        }
        let slow = fold.slowest(0.01);
        assert!((slow.count - 10.0).abs() < 1e-9);
        assert!((slow.parts_ns[Part::WaitLock as usize] - 49_000.0).abs() < 1e-6);
        assert!((slow.details_ns[&(Part::WaitLock, 7)] - 49_000.0).abs() < 1e-6);
        assert!(fold.rest(0.01).parts_ns[Part::WaitLock as usize].abs() < 1e-9);
        assert!((fold.median().response_ns - 1000.0).abs() < 1e-9);
    }

    #[test]
    fn around_a_quantile_are_its_neighbours() {
        let mut fold = ResponseFold::new();
        for number in 1..=1000u64 {
            let wait = if number > 950 { number * 500 } else { 0 };
            fold.push(number * 1000, &[piece(Part::Run, 0, number * 1000 - wait), piece(Part::WaitLock, 7, wait)]);
        }
        let shares = |quantile: f64| {
            let around = fold.around(quantile)?;
            Some((around.response_ns, around.parts_ns[Part::WaitLock as usize] / around.response_ns))
        };
        let (p50_ns, p50) = shares(0.5).expect("half are slower");
        assert!((p50_ns / 500_000.0 - 1.0).abs() < 0.04 && p50.abs() < 1e-9, "{p50_ns}, {p50}");
        let (p99_ns, p99) = shares(0.99).expect("ten are slower");
        assert!((p99_ns / 990_000.0 - 1.0).abs() < 0.04 && (p99 - 0.5).abs() < 1e-6, "{p99_ns}, {p99}");
        assert!(shares(0.999).is_some() && shares(0.9995).is_none());
        assert!(ResponseFold::new().around(0.5).is_none());
    }

    #[test]
    fn an_empty_fold_says_nothing_and_merges_with_anything() {
        let mut fold = ResponseFold::new();
        assert_eq!(fold.all(), Profile::default());
        assert_eq!(fold.slowest(0.01), Profile::default());
        let mut other = ResponseFold::new();
        other.push(700, &[piece(Part::Run, 3, 700)]);
        fold.merge(&other);
        assert_eq!((fold.count(), fold.all()), (1, other.all()));
        assert!((fold.slowest(0.01).count - 1.0).abs() < 1e-9, "at least one is the slowest");
        assert!(fold.rest(0.01).count.abs() < 1e-9);
    }

    #[test]
    fn times_beyond_the_histogram_and_zero_are_counted() {
        let mut fold = ResponseFold::new();
        fold.push(0, &[]);
        fold.push(u64::MAX / 4, &[piece(Part::WaitTimer, 0, u64::MAX / 4)]);
        assert_eq!(fold.count(), 2);
        assert!(fold.all().parts_ns[Part::WaitTimer as usize] > 1e18);
    }

    #[test]
    fn details_are_bounded_and_their_sum_is_kept() {
        let mut fold = ResponseFold::new();
        for detail in 1..=200 {
            fold.push(1000, &[piece(Part::WaitCpu, detail, 10)]);
        }
        let all = fold.all();
        assert!(all.details_ns.len() <= MOST_DETAILS + 1);
        let sum: f64 = all.details_ns.values().sum();
        assert!((sum - 10.0).abs() < 1e-9, "{sum}");
    }

    proptest! {
        /// Ten tenths are the whole, for any responses.
        #[test]
        fn profiles_of_all_shares_are_the_whole(times in proptest::collection::vec(1u64..1_000_000_000, 1..300)) {
            let mut fold = ResponseFold::new();
            for time in &times {
                fold.push(*time, &[piece(Part::Run, 0, time / 3), piece(Part::WaitLock, 1, time - time / 3)]);
            }
            let tenths: Vec<Profile> = (0..10).map(|at| fold.between(f64::from(at) / 10.0, f64::from(at + 1) / 10.0)).collect();
            let (count, sum): (f64, f64) = (
                tenths.iter().map(|one| one.count).sum(),
                tenths.iter().map(|one| one.count * one.response_ns).sum(),
            );
            let truth: u64 = times.iter().sum();
            prop_assert!((count - times.len() as f64).abs() < 1e-6);
            prop_assert!((sum - truth as f64).abs() <= 1e-6 * truth as f64);
            prop_assert!(tenths.windows(2).all(|pair| pair[0].response_ns <= pair[1].response_ns * (1.0 + 1e-9)));
        }

        #[test]
        fn a_bucket_is_at_most_a_thirty_second_wide(ns in 64u64..u64::MAX / 2) {
            prop_assert!(bucket_of(ns) != bucket_of(ns + ns / 16 + 1));
        }

        #[test]
        fn buckets_ascend_with_time(a in 0u64..u64::MAX, b in 0u64..u64::MAX) {
            let (low, high) = (a.min(b), a.max(b));
            prop_assert!(bucket_of(low) <= bucket_of(high));
        }

        /// Parts that add up to each response add up in every profile, and folds merge exactly.
        #[test]
        fn sums_hold_and_merge(times in proptest::collection::vec((1u64..1_000_000, 0u64..1_000_000), 1..200), cut in 0usize..200) {
            let (mut whole, mut left, mut right) = (ResponseFold::new(), ResponseFold::new(), ResponseFold::new());
            for (index, (run, wait)) in times.iter().enumerate() {
                let pieces = [piece(Part::Run, 0, *run), piece(Part::WaitCpu, (wait % 90) as u32, *wait)];
                whole.push(run + wait, &pieces);
                if index < cut { &mut left } else { &mut right }.push(run + wait, &pieces);
            }
            left.merge(&right);
            prop_assert_eq!(left.count(), whole.count());
            for (a, b) in left.buckets.values().zip(whole.buckets.values()) {
                prop_assert_eq!((a.count, a.sum_ns, a.parts), (b.count, b.sum_ns, b.parts));
            }
            for profile in [whole.all(), whole.slowest(0.01), whole.median(), whole.rest(0.2)] {
                let sum: f64 = profile.parts_ns.iter().sum();
                prop_assert!((sum - profile.response_ns).abs() <= 1e-6 * profile.response_ns.max(1.0));
            }
        }
    }
}
