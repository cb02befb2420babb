//! Random numbers of the distributions that workloads are described by.

/// Numbers 1 to n with the weights 1/k^exponent, drawn without a table (Hörmann and Derflinger 1996, "Rejection-inversion
/// to generate variates from monotone discrete distributions").
#[derive(Debug, Clone, Copy)]
pub(super) struct Zipf {
    count: f64,
    exponent: f64,
    /// The integral of the hat from 1/2 and to the last number, and from where on nothing is rejected.
    first: f64,
    last: f64,
    sure: f64,
}

impl Zipf {
    /// `count` at least 1, `exponent` above 0.
    pub(super) fn new(count: u32, exponent: f64) -> Self {
        let mut zipf = Self { count: f64::from(count), exponent, first: 0.0, last: 0.0, sure: 0.0 };
        zipf.first = zipf.integral(1.5) - 1.0;
        zipf.last = zipf.integral(zipf.count + 0.5);
        zipf.sure = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    /// A number from 1 on.
    #[inline]
    pub(super) fn draw(&self, random: &mut fastrand::Rng) -> u32 {
        loop {
            let at = self.last + random.f64() * (self.first - self.last);
            let x = self.inverse(at);
            let number = (x + 0.5).floor().clamp(1.0, self.count);
            if number - x <= self.sure || at >= self.integral(number + 0.5) - self.weight(number) {
                return number as u32;
            }
        }
    }

    fn weight(&self, x: f64) -> f64 {
        x.powf(-self.exponent)
    }

    /// The integral of the weight from 1 to `x`.
    fn integral(&self, x: f64) -> f64 {
        let (logarithm, power) = (x.ln(), 1.0 - self.exponent);
        if (power * logarithm).abs() > 1e-8 { (power * logarithm).exp_m1() / power } else { logarithm }
    }

    fn inverse(&self, integral: f64) -> f64 {
        let power = 1.0 - self.exponent;
        // Rounding may lead below -1, where there is nothing.
        let scaled = (integral * power).max(-1.0);
        if scaled.abs() > 1e-8 { (scaled.ln_1p() / power).exp() } else { integral.exp() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn zipf_holds() {
        for (seed, exponent) in [(1, 1.0), (2, 0.7), (3, 1.6)] {
            let (count, draws) = (50u32, 200_000);
            let zipf = Zipf::new(count, exponent);
            let mut random = fastrand::Rng::with_seed(seed);
            let mut seen = vec![0u32; count as usize];
            for _ in 0..draws {
                seen[zipf.draw(&mut random) as usize - 1] += 1;
            }
            let weights: Vec<f64> = (1..=count).map(|k| f64::from(k).powf(-exponent)).collect();
            let scale = f64::from(draws) / weights.iter().sum::<f64>();
            let terms = seen
                .iter()
                .zip(&weights)
                .map(|(seen, weight)| (f64::from(*seen) - weight * scale).powi(2) / (weight * scale));
            // The critical value of chi-square at 0.01 for 49 degrees of freedom.
            assert!(terms.sum::<f64>() < 74.92, "exponent {exponent}");
        }
    }

    proptest! {
        #[test]
        fn zipf_stays_in_its_range(count in 1u32..2_000_000, exponent in 0.01..10.0f64, seed in any::<u64>()) {
            let zipf = Zipf::new(count, exponent);
            let mut random = fastrand::Rng::with_seed(seed);
            for _ in 0..100 {
                prop_assert!((1..=count).contains(&zipf.draw(&mut random)));
            }
        }
    }
}
