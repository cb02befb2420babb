//! How small a difference an experiment can find: its verdict, tried on differences planted into its own noise.
//!
//! Source: Efron and Tibshirani, *An Introduction to the Bootstrap* (1993), chapter 25 (power by resampling).

use crate::comparison::{BLOCKS_FOR_A_VERDICT, Bootstrap, Direction, Interval, Verdict, verdict};
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
/// Simulated experiments for each difference that is tried: the share is known to 4 points.
const EXPERIMENTS: usize = 60;
/// Resamples of a simulated experiment.
const RESAMPLES: usize = 100;
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
    let found = (0..experiments).filter(|_| judged(noise, factor, power, &mut random) == Verdict::Worse).count();
    found as f64 / experiments.max(1) as f64
}

/// The verdict of one simulated experiment.
///
/// Which of both slices of a noise ratio was whose is drawn too: in truth they are alike.
pub fn judged(noise: &[f64], factor: f64, power: &Power, random: &mut fastrand::Rng) -> Verdict {
    if noise.is_empty() {
        return Verdict::CannotTell;
    }
    let mut draw = || {
        let ratio = noise[random.usize(..noise.len())];
        if random.bool() { ratio } else { 1.0 / ratio }
    };
    let ratios: Vec<f64> = (0..power.blocks).map(|_| factor * draw()).collect();
    let floor: Vec<f64> = noise.iter().map(|_| draw()).collect();
    let seed = random.u64(..);
    let bootstrap = Bootstrap { resamples: RESAMPLES, ..Bootstrap::with_seed(seed) };
    let (Ok(effect), Ok(floor)) = (bootstrap.median_ratio(&ratios), bootstrap.median_ratio(&floor)) else {
        return Verdict::CannotTell;
    };
    let plain = verdict(&effect, Some(&floor), power.smallest_effect, Direction::LowerIsBetter);
    let by_chance = signed_rank::probability(&ratios).is_none_or(|probability| probability > power.level);
    let is_clear = matches!(plain, Verdict::Better | Verdict::Worse);
    if is_clear && by_chance { Verdict::CannotTell } else { plain }
}

/// The smallest difference, as a fraction, that an experiment like this finds nine times of ten; `None` when it finds
/// none up to a factor of 4, or when there are too few ratios of A against itself to tell.
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

    fn noise(spread: f64) -> Vec<f64> {
        let mut random = fastrand::Rng::with_seed(5);
        // Roughly normal: the sum of twelve uniform numbers (Irwin-Hall).
        (0..60).map(|_| (spread * ((0..12).map(|_| random.f64()).sum::<f64>() - 6.0)).exp()).collect()
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
        let told = (0..1000)
            .filter(|_| matches!(judged(&noise, 1.0, &POWER, &mut random), Verdict::Better | Verdict::Worse))
            .count();
        // At a level of 5 %.
        assert!(told <= 50, "{told} of 1000");
    }
}
