//! Has a figure shifted for good? Change points of a history with few results and outliers among them.
//!
//! With each new result the level of the latest few is held against all earlier ones since the last shift, for every
//! number of latest ones from [`LATER_LEAST`] to [`LATER_MOST`], by the exact rank-sum test ([`crate::mann_whitney`]). A
//! shift is told when the least of these probabilities is at most the detector's level and the medians differ by as
//! much as interests. It began where two levels fit best, by the least sum of distances from their medians, which an
//! outlier cannot move either; the history then begins anew there.
//!
//! A rank test because its false alarms do not depend on how the figures are distributed: no normal distribution is
//! assumed, outliers do no harm, and a single one is no shift, for at least [`LATER_LEAST`] results have to agree. What
//! is assumed is that results follow each other without memory; a machine that drifts has shifted.
//!
//! Sources: Hawkins and Deng, *A Nonparametric Change-Point Control Chart* (Journal of Quality Technology 42, 2010), for
//! the repeated rank-sum test over all places of a change, with the rate of false alarms by simulation; here with exact
//! probabilities, which are fairer to a change that is few results old than its standardised statistic. Daly, Brown,
//! Ingo, O'Leary and Bradford, *The Use of Change Point Detection to Identify Software Performance Regressions in a
//! Continuous Integration System* (ICPE 2020), for persistent shifts instead of thresholds for single results.

use crate::comparison::median;
use crate::mann_whitney::RankSums;

/// Fewer results than this are no level of their own.
pub const LATER_LEAST: usize = 3;
/// The latest results that are taken as the new level at most.
pub const LATER_MOST: usize = 16;
/// Of the earlier results the latest of these are the old level.
pub const EARLIER_MOST: usize = 60;
/// A history of this length has a false alarm in at most [`FALSE_ALARMS`] of cases.
pub const HISTORY: usize = 200;
/// See [`HISTORY`]; all figures of a history together.
pub const FALSE_ALARMS: f64 = 0.05;
/// The level of a single test that makes it so, by simulation (the test in this file repeats it).
const LEVEL: f64 = 6e-5;

/// A level that lasts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shift {
    /// Index of the first value of the new level.
    pub since: usize,
    /// Index of the value with which it was found.
    pub found: usize,
    /// The median of the values before, as far as they were looked at.
    pub before: f64,
    /// The median of the new level's values, to the next shift or the end.
    pub after: f64,
    /// The probability by which it was found.
    pub probability: f64,
}

/// What looks for shifts in histories.
#[derive(Debug, Clone)]
pub struct Detector {
    sums: RankSums,
    level: f64,
    smallest: f64,
}

impl Detector {
    /// For a history of so many `figures` (at least 1), all of which together keep to [`FALSE_ALARMS`], and shifts of at
    /// least `smallest` as a fraction: 0.02 is 2 %.
    #[must_use]
    pub fn new(figures: usize, smallest: f64) -> Self {
        let sums = RankSums::up_to(EARLIER_MOST, LATER_MOST);
        Self { sums, level: LEVEL / figures.max(1) as f64, smallest: smallest.max(0.0) }
    }

    /// The shifts in these values, which are finite and above 0, in the order of their results.
    #[must_use]
    pub fn shifts(&self, values: &[f64]) -> Vec<Shift> {
        let mut shifts: Vec<Shift> = Vec::new();
        let mut begin = 0;
        for end in 1..=values.len() {
            let Some(probability) = self.least_probability(&values[begin..end]) else { continue };
            let since = begin + best_place(&values[begin..end]);
            let (Some(before), Some(after)) = (median(&values[begin..since]), median(&values[since..end])) else {
                continue;
            };
            if (after / before).max(before / after) >= 1.0 + self.smallest {
                shifts.push(Shift { since, found: end - 1, before, after, probability });
                begin = since;
            }
        }
        let ends: Vec<usize> = shifts.iter().skip(1).map(|shift| shift.since).chain([values.len()]).collect();
        for (shift, end) in shifts.iter_mut().zip(ends) {
            shift.after = median(&values[shift.since..end]).unwrap_or(shift.after);
        }
        shifts
    }

    /// How many results there have to be until a shift can be found at all.
    #[must_use]
    pub fn fewest(&self) -> usize {
        let can = |results: &usize| {
            (LATER_LEAST..=LATER_MOST.min(results.saturating_sub(1)))
                .any(|later| self.sums.least(*results - later, later).is_some_and(|least| least <= self.level))
        };
        (LATER_LEAST + 1..=EARLIER_MOST + LATER_LEAST).find(can).unwrap_or(EARLIER_MOST + LATER_LEAST)
    }

    /// The least probability of all places, if that is at most the level.
    fn least_probability(&self, values: &[f64]) -> Option<f64> {
        let probability = |since: usize| {
            let earlier = &values[since.saturating_sub(EARLIER_MOST)..since];
            self.sums.probability(earlier, &values[since..])
        };
        let least = places(values).filter_map(probability).min_by(f64::total_cmp)?;
        (least <= self.level).then_some(least)
    }
}

/// Where the latest values may begin to be a level.
fn places(values: &[f64]) -> impl Iterator<Item = usize> {
    (LATER_LEAST..=LATER_MOST).filter_map(|later| values.len().checked_sub(later)).filter(|since| *since > 0)
}

/// The place at which two levels fit best: the least sum of the distances from their medians, as logarithms.
fn best_place(values: &[f64]) -> usize {
    let distances = |values: &[f64]| {
        let middle = median(values).unwrap_or(1.0);
        values.iter().map(|value| (value / middle).ln().abs()).sum::<f64>()
    };
    let cost = |since: usize| {
        // The same values at every place, so that the sums can be compared.
        let from = values.len().saturating_sub(EARLIER_MOST);
        distances(&values[from..since]) + distances(&values[since..])
    };
    places(values).min_by(|one, other| cost(*one).total_cmp(&cost(*other))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Roughly normal, mean 0 and deviation 1: the sum of twelve uniform numbers (Irwin-Hall).
    fn normal(random: &mut fastrand::Rng) -> f64 {
        (0..12).map(|_| random.f64()).sum::<f64>() - 6.0
    }

    /// Results that differ by `noise`; one of twenty is an outlier, up to ten times as far away.
    fn result(random: &mut fastrand::Rng, level: f64, noise: f64) -> f64 {
        let far = if random.f64() < 0.05 { 10.0 } else { 1.0 };
        level * (noise * far * normal(random)).exp()
    }

    fn steady(seed: u64, results: usize, noise: f64) -> Vec<f64> {
        let mut random = fastrand::Rng::with_seed(seed);
        (0..results).map(|_| result(&mut random, 1.1, noise)).collect()
    }

    #[test]
    fn a_steady_history_is_rarely_called_shifted() {
        // With no smallest difference, which would only take alarms away. 2,000 histories: 1 % more or less is chance.
        let detector = Detector::new(1, 0.0);
        let alarmed = |seed: &u64| !detector.shifts(&steady(*seed, HISTORY, 0.02)).is_empty();
        let share = (0..2_000).filter(alarmed).count() as f64 / 2_000.0;
        assert!((0.02..=FALSE_ALARMS).contains(&share), "{share}");
    }

    /// How many results after a shift of 5 % it was found in nine of ten histories, noise and outliers as above.
    fn results_needed(figures: usize, before: usize) -> usize {
        let detector = Detector::new(figures, 0.02);
        let mut needed: Vec<usize> = (0..200)
            .map(|seed| {
                let mut random = fastrand::Rng::with_seed(seed);
                let mut values: Vec<f64> = (0..before).map(|_| result(&mut random, 1.0, 0.01)).collect();
                values.extend((0..60).map(|_| result(&mut random, 1.05, 0.01)));
                let shifts = detector.shifts(&values);
                shifts.iter().find(|shift| shift.found >= before).map_or(usize::MAX, |shift| shift.found + 1 - before)
            })
            .collect();
        needed.sort_unstable();
        needed[needed.len() * 9 / 10]
    }

    #[test]
    fn a_shift_of_five_percent_is_found_within_ten_results() {
        let needed = [(1, 20), (1, 50), (10, 50)].map(|(figures, before)| results_needed(figures, before));
        assert!(needed.iter().all(|results| *results <= 10), "{needed:?}");
    }

    #[test]
    fn outliers_are_no_shift_and_a_shift_tells_since_when() {
        let detector = Detector::new(1, 0.02);
        let mut values = steady(3, 40, 0.005);
        assert_eq!(detector.shifts(&values), []);
        values.extend([1.8, 1.9]);
        assert_eq!(detector.shifts(&values), [], "two of them are no level");
        values.truncate(40);
        values.extend(steady(4, 12, 0.005).iter().map(|value| value * 1.08));
        values.extend(steady(5, 40, 0.005));
        let shifts = detector.shifts(&values);
        let since: Vec<usize> = shifts.iter().map(|shift| shift.since).collect();
        assert_eq!(since, [40, 52], "{shifts:?}");
        assert!((shifts[0].after / shifts[0].before / 1.08 - 1.0).abs() < 0.01, "{shifts:?}");
        assert!((shifts[1].after / shifts[1].before * 1.08 - 1.0).abs() < 0.01, "{shifts:?}");
        // The same shift does not interest those who care for 10 %.
        assert_eq!(Detector::new(1, 0.1).shifts(&values), []);
    }

    #[test]
    fn a_short_history_cannot_tell() {
        let detector = Detector::new(1, 0.0);
        let fewest = detector.fewest();
        let clear = |results: usize| -> Vec<f64> {
            (0..results)
                .map(|at| if at < results / 2 { 1.0 + 1e-6 * at as f64 } else { 2.0 + 1e-6 * at as f64 })
                .collect()
        };
        assert_eq!(detector.shifts(&clear(fewest - 1)), []);
        assert_eq!(detector.shifts(&clear(fewest)).len(), 1, "{fewest}");
        assert!(Detector::new(10, 0.0).fewest() > fewest && fewest <= 20, "{fewest}");
        assert_eq!(detector.shifts(&[]), []);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn what_was_found_stays_found(values in prop::collection::vec(prop_oneof![0.9..1.1_f64, 1.5..1.6_f64, Just(1.0)], 0..80), cut in 0.0..1.0_f64, scale in 1e-6..1e6_f64) {
            let detector = Detector::new(1, 0.02);
            let whole = detector.shifts(&values);
            let cut = (values.len() as f64 * cut) as usize;
            let places = |shifts: &[Shift]| -> Vec<(usize, usize)> { shifts.iter().map(|shift| (shift.since, shift.found)).collect() };
            let until: Vec<Shift> = whole.iter().copied().filter(|shift| shift.found < cut).collect();
            prop_assert_eq!(places(&detector.shifts(&values[..cut])), places(&until));
            prop_assert!(whole.iter().all(|shift| shift.since + LATER_LEAST <= shift.found + 1 && shift.found < values.len()));
            let scaled: Vec<f64> = values.iter().map(|value| value * 2.0_f64.powi(scale.log2() as i32)).collect();
            prop_assert_eq!(places(&detector.shifts(&scaled)), places(&whole));
        }
    }
}
