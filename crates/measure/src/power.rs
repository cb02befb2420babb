//! How small a difference an experiment can find: its verdict, tried on differences planted into its own noise.
//!
//! Source: Efron and Tibshirani, *An Introduction to the Bootstrap* (1993), chapter 25 (power by resampling).

use crate::comparison::{BLOCKS_FOR_A_VERDICT, Direction, Estimate, Interval, Verdict, verdict};
use crate::signed_rank;

/// An experiment whose power is asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Power {
    /// Blocks that it has; 1 to 10,000.
    pub blocks: usize,
    /// The smallest effect that interests, a fraction of 0 or above.
    pub smallest_effect: f64,
    /// A verdict needs a probability of the signed-rank test of at most this.
    pub level: f64,
    /// Seed of the simulation.
    pub seed: u64,
}

/// The share of experiments in which a difference is to be found.
const FOUND: f64 = 0.9;
/// Simulated experiments for each difference that is tried: the share is known to 2 points.
const EXPERIMENTS: usize = 200;
/// Cut off at either end of an interval of 95 %.
const CUT: f64 = 0.025;
/// Differences beyond this factor are not looked for.
const LARGEST: f64 = 4.0;

/// How often `experiments` with such noise, in which B takes `factor` times what A takes, find it worse: the share of
/// them, within 0 and 1.
///
/// `noise` are ratios of A against itself; each experiment draws its blocks from them, and as many as there are for its
/// noise floor.
#[must_use]
pub fn share_found(noise: &[f64], factor: f64, power: &Power, experiments: usize) -> f64 {
    let mut random = fastrand::Rng::with_seed(power.seed);
    let ranks = [power.blocks, noise.len()].map(rank_of_the_end);
    let found = (0..experiments).filter(|_| judged(noise, factor, power, ranks, &mut random) == Verdict::Worse).count();
    found as f64 / experiments.max(1) as f64
}

/// The verdict of one simulated experiment.
///
/// Which of both slices of a noise ratio was whose is drawn too: in truth they are alike.
fn judged(noise: &[f64], factor: f64, power: &Power, ranks: [usize; 2], random: &mut fastrand::Rng) -> Verdict {
    if noise.is_empty() {
        return Verdict::CannotTell;
    }
    let mut draw = || {
        let ratio = noise[random.usize(..noise.len())];
        if random.bool() { ratio } else { 1.0 / ratio }
    };
    let mut ratios: Vec<f64> = (0..power.blocks).map(|_| factor * draw()).collect();
    let mut floor: Vec<f64> = noise.iter().map(|_| draw()).collect();
    let effect = median_with_interval(&mut ratios, ranks[0]);
    let (Some(effect), Some(floor)) = (effect, median_with_interval(&mut floor, ranks[1])) else {
        return Verdict::CannotTell;
    };
    let plain = verdict(&effect, Some(&floor), power.smallest_effect, Direction::LowerIsBetter);
    let by_chance = signed_rank::probability(&ratios).is_none_or(|probability| probability > power.level);
    let is_clear = matches!(plain, Verdict::Better | Verdict::Worse);
    if is_clear && by_chance { Verdict::CannotTell } else { plain }
}

/// The median with the interval that a bootstrap without end would give, found without drawing: the median of a resample
/// lies at or below the k-th ratio when half of its draws do, each of which does with a probability of k/n (Efron 1979,
/// *Bootstrap Methods*, section 3).
///
/// `rank` is [`rank_of_the_end`] of as many as there are. The ratios are sorted.
fn median_with_interval(ratios: &mut [f64], rank: usize) -> Option<Estimate> {
    ratios.sort_unstable_by(f64::total_cmp);
    let blocks = ratios.len();
    let (below, above) = (ratios.get(blocks.checked_sub(1)? / 2)?, ratios.get(blocks / 2)?);
    let interval = Interval { low: *ratios.get(rank - 1)?, high: *ratios.get(blocks - rank)? };
    Some(Estimate { point: (below * above).sqrt(), interval, blocks })
}

/// Which of so many sorted values is the lower end of the median's interval, from 1 on.
fn rank_of_the_end(count: usize) -> usize {
    let half = count.div_ceil(2);
    let (mut below, mut rank) = (0, half.max(1));
    // The probability grows with the rank.
    while rank - below > 1 {
        let middle = below.midpoint(rank);
        if at_least(half, count, middle as f64 / count as f64) > CUT { rank = middle } else { below = middle }
    }
    rank
}

/// The probability that at least `least` of `count` draws succeed.
fn at_least(least: usize, count: usize, success: f64) -> f64 {
    let (success_ln, failure_ln) = (success.ln(), (-success).ln_1p());
    let factorial_ln = |number: usize| libm::lgamma(number as f64 + 1.0);
    let exactly = |hits: usize| {
        let ways_ln = factorial_ln(count) - factorial_ln(hits) - factorial_ln(count - hits);
        (ways_ln + hits as f64 * success_ln + (count - hits) as f64 * failure_ln).exp()
    };
    (least..=count).map(exactly).sum()
}

/// The smallest difference, as a fraction, that an experiment like this finds nine times of ten where its ratios are
/// independent; `None` when it finds none up to a factor of 4, or when there are too few ratios of A against itself to
/// tell.
///
/// Real noise comes in spells, and a recording of it knows only its own: of recorded slices such a difference was found in
/// 70 to 94 of 100 experiments (`crates/compare/tests/comparisons/recorded.rs`).
#[must_use]
pub fn smallest_found(noise: &[f64], power: &Power) -> Option<f64> {
    if noise.len() < BLOCKS_FOR_A_VERDICT || power.blocks < BLOCKS_FOR_A_VERDICT {
        return None;
    }
    let is_found = |factor: f64| share_found(noise, factor, power, EXPERIMENTS) >= FOUND;
    if !is_found(LARGEST) {
        return None;
    }
    let mut between = Interval { low: 1.0, high: LARGEST };
    // To a thirtieth of the difference, or a tenth of a percent.
    while between.high - between.low > ((between.high - 1.0) * 0.03).max(1e-3) {
        let middle = between.low.midpoint(between.high);
        if is_found(middle) { between.high = middle } else { between.low = middle }
    }
    Some(between.high - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::Bootstrap;

    fn noise(spread: f64) -> Vec<f64> {
        let mut random = fastrand::Rng::with_seed(5);
        // Roughly normal: the sum of twelve uniform numbers (Irwin-Hall).
        (0..60).map(|_| (spread * ((0..12).map(|_| random.f64()).sum::<f64>() - 6.0)).exp()).collect()
    }

    #[test]
    fn ends_equal_an_independent_implementation() {
        // SciPy 1.17.1: the first k with scipy.stats.binom.sf((n + 1)//2 - 1, n, k/n) > 0.025.
        let golden = [(5, 1), (8, 2), (11, 3), (20, 6), (50, 18), (99, 40), (100, 40), (200, 86), (201, 87)];
        for (count, rank) in golden {
            assert_eq!(rank_of_the_end(count), rank, "{count}");
        }
        assert!(median_with_interval(&mut [], rank_of_the_end(0)).is_none());
        let one = median_with_interval(&mut [1.5], rank_of_the_end(1)).map(|found| found.interval);
        assert_eq!(one, Some(Interval { low: 1.5, high: 1.5 }));
        // And nearly the drawn bootstrap of the verdicts.
        let drawn = Bootstrap::with_seed(1).median_ratio(&noise(0.05)).expect("valid ratios").interval;
        let exact = median_with_interval(&mut noise(0.05), rank_of_the_end(60)).expect("there are some").interval;
        let close = |one: f64, other: f64| (one / other - 1.0).abs() < 0.004;
        assert!(close(drawn.low, exact.low) && close(drawn.high, exact.high), "{drawn:?} {exact:?}");
    }

    const POWER: Power = Power { blocks: 20, smallest_effect: 0.0, level: 0.05, seed: 3 };

    #[test]
    fn noisier_blocks_find_less_and_more_blocks_find_more() {
        let found =
            |spread, blocks| smallest_found(&noise(spread), &Power { blocks, ..POWER }).expect("something is found");
        let (quiet, loud, many) = (found(0.01, 20), found(0.05, 20), found(0.05, 80));
        assert!(quiet < 0.04 && loud > 2.0 * quiet && many < 0.7 * loud, "{quiet} {loud} {many}");
        // Theory: the sum of two medians' reaches (1.96 deviations of 1.25 s / sqrt n) and 1.28 deviations more.
        let expected = (1.96 + 1.96 + 1.28) * 1.25 * 0.05 / 20.0_f64.sqrt();
        assert!((0.6..1.5).contains(&(loud / expected)), "{loud} for about {expected}");
    }

    #[test]
    fn nothing_is_found_below_what_interests() {
        let found = smallest_found(&noise(0.01), &Power { smallest_effect: 0.1, ..POWER }).expect("something is found");
        assert!(found >= 0.1, "{found}");
        assert_eq!(smallest_found(&noise(0.01)[..4], &POWER), None);
        assert_eq!(smallest_found(&[1.0, 90.0, 0.01, 1e4, 30.0], &Power { blocks: 5, ..POWER }), None);
    }

    #[test]
    fn without_a_difference_verdicts_are_seldom() {
        let noise = noise(0.03);
        let mut random = fastrand::Rng::with_seed(9);
        let ranks = [POWER.blocks, noise.len()].map(rank_of_the_end);
        let told = (0..1000)
            .filter(|_| matches!(judged(&noise, 1.0, &POWER, ranks, &mut random), Verdict::Better | Verdict::Worse))
            .count();
        // At a level of 5 %.
        assert!(told <= 50, "{told} of 1000");
    }
}
