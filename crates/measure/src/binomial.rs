//! The binomial distribution's upper tail: whether one of two sides has more of something than chance explains.

/// The probability of at least `successes` in `trials` that succeed with probability `chance` each.
///
/// Used as the conditional test for two counts: given how many errors two sides have together, those of one side are
/// binomial with its share of the requests (Przyborowski and Wilenski 1940, *Homogeneity of Results in Testing Samples
/// from Poisson Series*). `chance` outside of 0 to 1 is taken as the nearer end.
#[must_use]
pub fn upper_tail(successes: u64, trials: u64, chance: f64) -> f64 {
    let chance = if chance.is_nan() { 0.0 } else { chance.clamp(0.0, 1.0) };
    match (successes, chance) {
        (0, _) => return 1.0,
        (successes, _) if successes > trials => return 0.0,
        (_, 0.0) => return 0.0,
        (_, 1.0) => return 1.0,
        _ => {}
    }
    let (k, n) = (successes as f64, trials as f64);
    let log_choose = libm::lgamma(n + 1.0) - libm::lgamma(k + 1.0) - libm::lgamma(n - k + 1.0);
    let first = (log_choose + k * chance.ln() + (n - k) * (-chance).ln_1p()).exp();
    let odds = chance / (1.0 - chance);
    // From the mean on, terms fall; below it the other tail is summed downwards, whose terms fall, too.
    if k >= n * chance {
        let mut term = first;
        let mut sum = 0.0;
        let mut at = k;
        while at <= n && term > sum * 1e-17 {
            sum += term;
            term *= (n - at) / (at + 1.0) * odds;
            at += 1.0;
        }
        sum.min(1.0)
    } else {
        let mut term = first;
        let mut sum = 0.0;
        let mut at = k;
        while at >= 1.0 && (term > sum * 1e-17 || sum == 0.0) {
            term *= at / (n - at + 1.0) / odds;
            sum += term;
            at -= 1.0;
            if term == 0.0 {
                break;
            }
        }
        (1.0 - sum).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tails_are_those_of_arithmetic() {
        // Five heads of five: 1/32; at least four: 6/32; at least one: 31/32.
        for (successes, trials, chance, expected) in [
            (5, 5, 0.5, 1.0 / 32.0),
            (4, 5, 0.5, 6.0 / 32.0),
            (1, 5, 0.5, 31.0 / 32.0),
            (0, 5, 0.5, 1.0),
            (6, 5, 0.5, 0.0),
            (1, 1, 0.25, 0.25),
            (3, 3, 1.0, 1.0),
            (1, 3, 0.0, 0.0),
        ] {
            let found = upper_tail(successes, trials, chance);
            assert!((found - expected).abs() < 1e-12, "{successes} of {trials} by {chance}: {found}");
        }
        // Half of two millions: one half and half of the middle term.
        let found = upper_tail(1_000_000, 2_000_000, 0.5);
        assert!((found - 0.500_282).abs() < 1e-5, "{found}");
    }

    proptest! {
        #[test]
        fn equals_the_sum_of_all_terms(trials in 1_u64..40, place in 0.0_f64..1.0, chance in 0.01_f64..0.99) {
            let successes = (trials as f64 * place) as u64;
            let choose = |k: u64| (0..k).fold(1.0, |product, i| product * (trials - i) as f64 / (i + 1) as f64);
            let term = |k: u64| choose(k) * chance.powi(k as i32) * (1.0 - chance).powi((trials - k) as i32);
            let expected: f64 = (successes..=trials).map(term).sum();
            prop_assert!((upper_tail(successes, trials, chance) - expected).abs() < 1e-9);
        }
    }
}
