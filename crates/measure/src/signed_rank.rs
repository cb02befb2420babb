//! Wilcoxon's signed-rank test of paired ratios: are B's values shifted against A's at all?
//!
//! The test stands beside the interval of the median ratio ([`crate::comparison`]): many comparisons made at once need
//! a probability each, to be corrected together ([`crate::family`]), and an interval gives none.
//!
//! Sources: Wilcoxon, *Individual Comparisons by Ranking Methods* (Biometrics Bulletin 1, 1945); ties by average ranks
//! with the exact distribution given the ranks (Pratt and Gibbons, *Concepts of Nonparametric Theory*, 1981, chapter 3).

/// Up to this many pairs the distribution is counted out exactly; beyond it the normal approximation with the
/// correction for ties is right to three digits.
pub const EXACT_PAIRS: usize = 60;

/// The two-sided probability that pairs without any shift differ as much as these, within 0 and 1; `None` without a
/// pair that differs.
///
/// `ratios` are B/A, finite and above 0; their logarithms are ranked, so that exchanging A and B changes nothing. Equal
/// pairs (a ratio of 1) are left out, as Wilcoxon did.
///
/// ```
/// use weir_measure::signed_rank::probability;
/// // Six pairs, all in one direction: 2 of the 2^6 equally likely sign patterns.
/// assert_eq!(probability(&[1.1, 1.2, 1.3, 1.4, 1.5, 1.6]), Some(2.0 / 64.0));
/// ```
#[must_use]
pub fn probability(ratios: &[f64]) -> Option<f64> {
    let mut shifts: Vec<f64> =
        ratios.iter().map(|ratio| ratio.ln()).filter(|shift| shift.is_finite() && *shift != 0.0).collect();
    if shifts.is_empty() {
        return None;
    }
    shifts.sort_unstable_by(|one, other| one.abs().total_cmp(&other.abs()));
    let ranks = doubled_ranks(&shifts);
    let above: u64 = shifts.iter().zip(&ranks).filter(|(shift, _)| **shift > 0.0).map(|(_, rank)| *rank).sum();
    let all: u64 = ranks.iter().sum();
    let smaller = above.min(all - above);
    Some(if shifts.len() <= EXACT_PAIRS { exact(&ranks, smaller) } else { approximate(&ranks, smaller) })
}

/// The fewest pairs of which all in one direction give a two-sided probability of at most `level`: `2^(1-n)`.
#[must_use]
pub fn fewest_pairs(level: f64) -> usize {
    (1..1024).find(|pairs| 2.0_f64.powi(1 - *pairs) <= level).map_or(1024, |pairs| pairs as usize)
}

/// Twice the rank of each, so that the average of tied ranks is whole; `shifts` are in the order of their size.
fn doubled_ranks(shifts: &[f64]) -> Vec<u64> {
    let mut ranks = Vec::with_capacity(shifts.len());
    let mut begin = 0;
    while begin < shifts.len() {
        let size = shifts[begin].abs();
        let end = begin + shifts[begin..].iter().take_while(|shift| shift.abs() == size).count();
        // Ranks begin + 1 to end: twice their average is the sum of the first and the last.
        ranks.extend((begin..end).map(|_| (begin + 1 + end) as u64));
        begin = end;
    }
    ranks
}

/// Counts the sign patterns with a sum of at most `smaller`, among all of them.
fn exact(ranks: &[u64], smaller: u64) -> f64 {
    let most: u64 = ranks.iter().sum();
    // The share of patterns for each sum; shares rather than counts, which 60 pairs would still hold in 64 bits but
    // their sums not in a double without rounding either.
    let mut shares = vec![0.0; most as usize + 1];
    shares[0] = 1.0;
    let mut reached = 0;
    for rank in ranks.iter().map(|rank| *rank as usize) {
        reached += rank;
        for sum in (0..=reached).rev() {
            let without = shares[sum];
            let with = if sum >= rank { shares[sum - rank] } else { 0.0 };
            shares[sum] = 0.5 * (without + with);
        }
    }
    (2.0 * shares[..=smaller as usize].iter().sum::<f64>()).min(1.0)
}

/// By the normal distribution with the mean and variance of the given ranks.
fn approximate(ranks: &[u64], smaller: u64) -> f64 {
    let mean = ranks.iter().sum::<u64>() as f64 / 2.0;
    let variance = ranks.iter().map(|rank| (*rank * *rank) as f64).sum::<f64>() / 4.0;
    // The normal distribution's two tails together: erfc(|z| / sqrt 2).
    libm::erfc((mean - smaller as f64) / variance.sqrt() / std::f64::consts::SQRT_2).min(1.0)
}

#[cfg(test)]
mod golden;

#[cfg(test)]
mod tests {
    use super::golden::{GOLDEN, GOLDEN_OF_MANY};
    use super::*;
    use proptest::prelude::*;

    /// Every sign pattern tried, without a table.
    fn by_enumeration(ranks: &[u64], smaller: u64) -> f64 {
        let patterns = 1_u32 << ranks.len();
        let sum = |pattern: u32| -> u64 {
            ranks.iter().enumerate().filter(|(index, _)| pattern >> index & 1 == 1).map(|(_, rank)| *rank).sum()
        };
        let few = (0..patterns).filter(|pattern| sum(*pattern) <= smaller).count();
        (2.0 * few as f64 / f64::from(patterns)).min(1.0)
    }

    #[test]
    fn equals_an_independent_implementation() {
        for (ratios, expected) in GOLDEN {
            let found = probability(ratios).expect("pairs that differ");
            assert!((found - expected).abs() < 1e-12, "{ratios:?}: {found} for {expected}");
        }
        let many: Vec<f64> = (1..=80).map(|number| (f64::from(number * 37 % 81) / 400.0 - 0.0853).exp()).collect();
        let found = probability(&many).expect("pairs that differ");
        assert!((found - GOLDEN_OF_MANY).abs() < 1e-9, "{found}");
    }

    #[test]
    fn nothing_that_differs_has_no_probability() {
        assert_eq!(probability(&[]), None);
        assert_eq!(probability(&[1.0, 1.0]), None);
        assert_eq!(probability(&[1.0, 1.1]), Some(1.0));
        assert_eq!([0.05, 0.0125, 0.05 / 24.0].map(fewest_pairs), [6, 8, 10]);
    }

    proptest! {
        #[test]
        fn counting_equals_trying_all(sizes in prop::collection::vec((1..6_i32, any::<bool>()), 1..13)) {
            // Small whole sizes: many ties.
            let ratios: Vec<f64> = sizes.iter().map(|(size, up)| 1.25_f64.powi(if *up { *size } else { -size })).collect();
            let mut shifts: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
            shifts.sort_unstable_by(|one, other| one.abs().total_cmp(&other.abs()));
            let ranks = doubled_ranks(&shifts);
            let above: u64 = shifts.iter().zip(&ranks).filter(|(shift, _)| **shift > 0.0).map(|(_, rank)| rank).sum();
            let smaller = above.min(ranks.iter().sum::<u64>() - above);
            let found = probability(&ratios).expect("all differ");
            prop_assert!((found - by_enumeration(&ranks, smaller)).abs() < 1e-12);
        }

        #[test]
        fn exchanging_the_subjects_changes_nothing(ratios in prop::collection::vec(0.5..2.0_f64, 1..90)) {
            let back: Vec<f64> = ratios.iter().map(|ratio| 1.0 / ratio).collect();
            let (forth, back) = (probability(&ratios), probability(&back));
            prop_assert!((forth.unwrap_or(2.0) - back.unwrap_or(2.0)).abs() < 1e-9, "{forth:?} {back:?}");
        }

        #[test]
        fn the_approximation_joins_the_exact_distribution(seed: u64) {
            let mut random = fastrand::Rng::with_seed(seed);
            let ranks: Vec<u64> = (1..=EXACT_PAIRS as u64).map(|rank| 2 * rank).collect();
            let above: u64 = ranks.iter().filter(|_| random.bool()).sum();
            let smaller = above.min(ranks.iter().sum::<u64>() - above);
            prop_assert!((exact(&ranks, smaller) - approximate(&ranks, smaller)).abs() < 0.012);
        }
    }
}
