//! Many comparisons at once: the more questions are asked, the likelier one of them is answered by chance.
//!
//! Source: Holm, *A Simple Sequentially Rejective Multiple Test Procedure* (Scandinavian Journal of Statistics 6, 1979).

/// Probabilities corrected by Holm's procedure, in the order in which they came: claiming all those of at most `level`
/// makes one false claim or more with a probability of at most `level`, even if the comparisons depend on each other.
///
/// `None` stands for a comparison that gave no probability; it is one of the family all the same, as it was asked.
///
/// ```
/// use weir_measure::family::holm;
/// assert_eq!(holm(&[Some(0.01), Some(0.04), Some(0.03)]), [Some(0.03), Some(0.06), Some(0.06)]);
/// ```
#[must_use]
pub fn holm(probabilities: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|one, other| value(probabilities[*one]).total_cmp(&value(probabilities[*other])));
    let mut corrected = vec![None; probabilities.len()];
    let mut least = 0.0_f64;
    for (rank, index) in order.into_iter().enumerate() {
        if let Some(probability) = probabilities[index] {
            least = least.max(probability * (probabilities.len() - rank) as f64).min(1.0);
            corrected[index] = Some(least);
        }
    }
    corrected
}

/// What was not told counts as what chance gives always.
fn value(probability: Option<f64>) -> f64 {
    probability.unwrap_or(f64::INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equals_an_independent_implementation() {
        // R 4.3: p.adjust(c(0.0021, 0.41, 0.013, 0.013, 0.8, 0.0005), "holm"), as by hand: sorted 0.0005*6, 0.0021*5,
        // 0.013*4, 0.013*3 (kept at 0.052), 0.41*2, 0.8*1 (kept at 0.82).
        let given = [0.0021, 0.41, 0.013, 0.013, 0.8, 0.0005].map(Some);
        let expected = [0.0105, 0.82, 0.052, 0.052, 0.82, 0.003];
        for (found, expected) in holm(&given).into_iter().zip(expected) {
            assert!((found.expect("each has one") - expected).abs() < 1e-12, "{found:?} for {expected}");
        }
        assert_eq!(holm(&[None, Some(0.02)]), [None, Some(0.04)]);
        assert_eq!(holm(&[]), []);
    }

    proptest! {
        #[test]
        fn keeps_the_order_and_only_raises(probabilities in prop::collection::vec(0.0..=1.0_f64, 1..40)) {
            let corrected = holm(&probabilities.iter().copied().map(Some).collect::<Vec<_>>());
            for (one, found) in probabilities.iter().zip(&corrected) {
                let found = found.expect("each has one");
                prop_assert!(*one <= found && found <= 1.0);
                for (other, further) in probabilities.iter().zip(&corrected) {
                    prop_assert!(one > other || found <= further.expect("each has one"));
                }
            }
        }
    }
}
