//! Random numbers of the distributions that workloads are described by.

/// Numbers 1 to n with the weights 1/k^exponent, drawn without a table (Hörmann and Derflinger 1996, "Rejection-inversion
/// to generate variates from monotone discrete distributions").
#[derive(Debug, Clone, Copy)]
pub(crate) struct Zipf {
    count: f64,
    exponent: f64,
    /// The integral of the hat from 1/2 and to the last number, and from where on nothing is rejected.
    first: f64,
    last: f64,
    sure: f64,
}

impl Zipf {
    /// `count` at least 1, `exponent` above 0.
    pub(crate) fn new(count: u32, exponent: f64) -> Self {
        let mut zipf = Self { count: f64::from(count), exponent, first: 0.0, last: 0.0, sure: 0.0 };
        zipf.first = zipf.integral(1.5) - 1.0;
        zipf.last = zipf.integral(zipf.count + 0.5);
        zipf.sure = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    /// A number from 1 on.
    #[inline]
    pub(crate) fn draw(&self, random: &mut fastrand::Rng) -> u32 {
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

/// A number whose logarithm is normally distributed, with this mean and deviation.
pub(crate) fn lognormal((mean, deviation): (f64, f64), random: &mut fastrand::Rng) -> f64 {
    // Box and Muller 1958; 1 - u lies in (0, 1], so the logarithm is finite.
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    let normal = radius * (std::f64::consts::TAU * random.f64()).cos();
    (mean + deviation * normal).exp()
}

/// A number of a Pareto distribution with this least value and exponent.
pub(crate) fn pareto((least, exponent): (f64, f64), random: &mut fastrand::Rng) -> f64 {
    least * (1.0 - random.f64()).powf(-1.0 / exponent)
}

/// A number of a Weibull distribution with this scale and shape.
pub(crate) fn weibull((scale, shape): (f64, f64), random: &mut fastrand::Rng) -> f64 {
    scale * (-(1.0 - random.f64()).ln()).powf(1.0 / shape)
}

/// What tests judge samples by.
#[cfg(test)]
pub(crate) mod judge {
    /// The standard normal distribution (Abramowitz and Stegun 1964, 7.1.26: off by 1.5e-7 at most).
    pub(in super::super) fn normal(x: f64) -> f64 {
        let z = x.abs() / std::f64::consts::SQRT_2;
        let t = 1.0 / (1.0 + 0.327_591_1 * z);
        let series = [1.061_405_429, -1.453_152_027, 1.421_413_741, -0.284_496_736, 0.254_829_592];
        let tail = series.iter().fold(0.0, |sum, factor| (sum + factor) * t) * (-z * z).exp();
        if x < 0.0 { tail / 2.0 } else { 1.0 - tail / 2.0 }
    }

    /// Asserts that a sample is one of a distribution (Kolmogorov-Smirnov at 0.01).
    pub(in super::super) fn assert_follows(sample: impl Iterator<Item = f64>, until: impl Fn(f64) -> f64) {
        let mut sample: Vec<f64> = sample.collect();
        sample.sort_unstable_by(f64::total_cmp);
        let count = sample.len() as f64;
        let off = (0..).zip(&sample).map(|(before, value): (u32, _)| {
            let expected = until(*value);
            (expected - f64::from(before) / count).abs().max((f64::from(before + 1) / count - expected).abs())
        });
        let (off, critical) = (off.fold(0.0, f64::max), 1.628 / count.sqrt());
        assert!(off < critical, "{off} of {critical}");
    }

    /// How far a sorted sample of whole numbers is from a distribution at most, looked at behind each number.
    pub(in super::super) fn distance_of_steps(sorted: &[f64], until: impl Fn(f64) -> f64) -> f64 {
        let mut values = sorted.to_vec();
        values.sort_unstable_by(f64::total_cmp);
        let count = values.len();
        let ends = (1..=count).filter(|at| values.get(*at) != Some(&values[at - 1]));
        ends.map(|at| (at as f64 / count as f64 - until(values[at - 1])).abs()).fold(0.0, f64::max)
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
