//! The rank-sum test of Wilcoxon, Mann and Whitney: do later values lie to one side of earlier ones?
//!
//! It asks only for the order of the values, so its probabilities hold for any distribution, and a value far away
//! counts no more than one just beyond the others.
//!
//! Source: Mann and Whitney, *On a Test of Whether one of Two Random Variables is Stochastically Larger than the Other*
//! (Annals of Mathematical Statistics 18, 1947), whose recurrence counts the exact distribution.

/// The exact distributions of U for samples up to two sizes, counted once.
#[derive(Debug, Clone)]
pub struct RankSums {
    later_most: usize,
    /// For `earlier` and `later` sizes the probabilities that U is at most 0, 1, 2, ...
    cumulative: Vec<Vec<f64>>,
}

impl RankSums {
    /// For up to this many earlier and later values, each at least 1; memory and time grow with the square of the product.
    #[must_use]
    pub fn up_to(earlier_most: usize, later_most: usize) -> Self {
        let index = |earlier: usize, later: usize| earlier * (later_most + 1) + later;
        let mut shares: Vec<Vec<f64>> = vec![vec![1.0]; (earlier_most + 1) * (later_most + 1)];
        for earlier in 1..=earlier_most {
            for later in 1..=later_most {
                let (of_earlier, all) = (earlier as f64, (earlier + later) as f64);
                // The largest of all is an earlier one, which no later one exceeds, or a later one, which exceeds all.
                let mut own = vec![0.0; earlier * later + 1];
                for (u, share) in shares[index(earlier - 1, later)].iter().enumerate() {
                    own[u] += of_earlier / all * share;
                }
                for (u, share) in shares[index(earlier, later - 1)].iter().enumerate() {
                    own[u + earlier] += (1.0 - of_earlier / all) * share;
                }
                shares[index(earlier, later)] = own;
            }
        }
        for own in &mut shares {
            let mut sum = 0.0;
            for share in own {
                sum += *share;
                *share = sum;
            }
        }
        Self { later_most, cumulative: shares }
    }

    /// The two-sided probability that values of one distribution differ in their order as much as these; `None` where a
    /// side has none or more than was counted for.
    ///
    /// A tie counts as half, and is then judged as if there were none, which makes the probability larger, never smaller.
    ///
    /// ```
    /// use weir_measure::mann_whitney::RankSums;
    /// let sums = RankSums::up_to(10, 10);
    /// // Three of six are the largest: 1 of the 20 choices, on either side.
    /// assert_eq!(sums.probability(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]), Some(0.1));
    /// ```
    #[must_use]
    pub fn probability(&self, earlier: &[f64], later: &[f64]) -> Option<f64> {
        if earlier.is_empty() || later.is_empty() || later.len() > self.later_most {
            return None;
        }
        let cumulative = self.cumulative.get(earlier.len() * (self.later_most + 1) + later.len())?;
        let mut doubled = 0;
        for late in later {
            for early in earlier {
                doubled += usize::from(late > early) + usize::from(late >= early);
            }
        }
        let smaller = doubled.min(2 * earlier.len() * later.len() - doubled);
        cumulative.get(smaller.div_ceil(2)).map(|tail| (2.0 * tail).min(1.0))
    }

    /// The smallest probability that any values of these sizes can have; `None` as for [`probability`](Self::probability).
    #[must_use]
    pub fn least(&self, earlier: usize, later: usize) -> Option<f64> {
        if earlier == 0 || later == 0 || later > self.later_most {
            return None;
        }
        self.cumulative.get(earlier * (self.later_most + 1) + later)?.first().map(|tail| (2.0 * tail).min(1.0))
    }
}

#[cfg(test)]
mod golden;

#[cfg(test)]
mod tests {
    use super::golden::GOLDEN;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equals_an_independent_implementation() {
        let sums = RankSums::up_to(60, 16);
        for (earlier, later, expected) in GOLDEN {
            let found = sums.probability(earlier, later).expect("within the sizes");
            assert!((found / expected - 1.0).abs() < 1e-10, "{found} for {expected}");
        }
    }

    /// Every choice of the ranks of the later ones, tried.
    fn by_enumeration(earlier: usize, later: usize, smaller: usize) -> f64 {
        let (mut few, mut all) = (0_u32, 0_u32);
        for choice in (0..1_u32 << (earlier + later)).filter(|choice| choice.count_ones() as usize == later) {
            let below = |place: usize| (0..place).filter(|other| choice >> other & 1 == 0).count();
            let u: usize = (0..earlier + later).filter(|place| choice >> place & 1 == 1).map(below).sum();
            all += 1;
            few += u32::from(u <= smaller);
        }
        (2.0 * f64::from(few) / f64::from(all)).min(1.0)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn counting_equals_trying_all(values in prop::collection::hash_set(-1000..1000_i32, 3..12), cut in 0.1..0.9_f64) {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            let (earlier, later) = values.split_at(((values.len() as f64 * cut) as usize).max(1));
            let above = later.iter().map(|late| earlier.iter().filter(|early| late > early).count()).sum::<usize>();
            let smaller = above.min(earlier.len() * later.len() - above);
            let found = RankSums::up_to(12, 12).probability(earlier, later).expect("within the sizes");
            prop_assert!((found - by_enumeration(earlier.len(), later.len(), smaller)).abs() < 1e-12);
        }

        #[test]
        fn ties_never_make_it_less_likely(values in prop::collection::vec(0..4_i32, 4..20), nudges in prop::collection::vec(0.0..0.5_f64, 20)) {
            let sums = RankSums::up_to(20, 20);
            let tied: Vec<f64> = values.iter().copied().map(f64::from).collect();
            let (earlier, later) = tied.split_at(tied.len() / 2);
            let found = sums.probability(earlier, later).expect("within the sizes");
            // All later ones pushed to one side of their ties, then to the other: the truth lies between.
            let pushed = |by: f64| {
                let later: Vec<f64> = later.iter().zip(&nudges).map(|(value, nudge)| value + by * (0.1 + nudge)).collect();
                sums.probability(earlier, &later).expect("within the sizes")
            };
            prop_assert!(found + 1e-12 >= pushed(1.0).min(pushed(-1.0)));
        }
    }
}
