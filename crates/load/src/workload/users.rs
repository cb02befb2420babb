//! Users whose next step is computed, not listed.

use super::distribution::{pareto, weibull};
use super::{Draw, Mix};

/// Embedded references of a page: least and exponent of a Pareto distribution, cut to a whole number.
pub const EMBEDDED: (f64, f64) = (1.0, 2.43);
/// Scale and shape of the Weibull distribution of OFF times within a page, in seconds.
pub const WITHIN_S: (f64, f64) = (1.46, 0.382);
/// Least and exponent of the Pareto distribution of OFF times between pages, in seconds.
pub const BETWEEN_S: (f64, f64) = (1.0, 1.5);
/// The most embedded references of a page: the distribution has no end, and one in 10^10 pages has more.
const EMBEDDED_MAX: f64 = 10_000.0;

/// The users of one loop.
#[derive(Debug)]
pub(crate) struct Users {
    random: fastrand::Rng,
    files: Draw,
}

impl Users {
    /// The users of loop `lane`.
    pub(crate) fn new(mix: &Mix, lane: u32) -> Self {
        let seed = mix.seed.wrapping_add(u64::from(lane) << 32);
        Self { random: fastrand::Rng::with_seed(!seed), files: Draw::new(mix, lane) }
    }

    /// The file that somebody asks for next.
    pub(crate) fn file(&mut self) -> u32 {
        self.files.next()
    }

    /// How many references a page has beside its own.
    pub(crate) fn embedded(&mut self) -> u32 {
        pareto(EMBEDDED, &mut self.random).min(EMBEDDED_MAX) as u32
    }

    /// The pause between the parts of a page.
    pub(crate) fn within_ns(&mut self) -> u64 {
        (weibull(WITHIN_S, &mut self.random) * 1e9) as u64
    }

    /// The pause between two pages.
    pub(crate) fn between_ns(&mut self) -> u64 {
        (pareto(BETWEEN_S, &mut self.random) * 1e9) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::super::distribution::judge;
    use super::super::{FileSet, Surge};
    use super::*;

    fn users(seed: u64) -> Users {
        let files = FileSet::Surge(Surge::new(100, 1));
        Users::new(&Mix { files, seed, directories_zipf: None }, 0)
    }

    #[test]
    fn pauses_and_pages_are_distributed_as_they_are_told() {
        for seed in 1..=5 {
            let mut users = users(seed);
            let seconds = |ns: u64| ns as f64 / 1e9;
            let within: Vec<f64> = (0..20_000).map(|_| seconds(users.within_ns())).collect();
            judge::assert_follows(within.into_iter(), |time| 1.0 - (-(time / WITHIN_S.0).powf(WITHIN_S.1)).exp());
            let between: Vec<f64> = (0..20_000).map(|_| seconds(users.between_ns())).collect();
            judge::assert_follows(between.into_iter(), |time| 1.0 - (BETWEEN_S.0 / time).powf(BETWEEN_S.1));
            let mut pages = [0u32; 6];
            let count = 100_000;
            for _ in 0..count {
                pages[(users.embedded() as usize).min(6) - 1] += 1;
            }
            let at_least = |least: f64| least.powf(-EMBEDDED.1);
            let chi_square: f64 = (1..=6)
                .map(|number| {
                    let above = if number == 6 { 0.0 } else { at_least(f64::from(number + 1)) };
                    let expected = f64::from(count) * (at_least(f64::from(number)) - above);
                    (f64::from(pages[number as usize - 1]) - expected).powi(2) / expected
                })
                .sum();
            // The critical value of chi-square at 0.01 for 5 degrees of freedom.
            assert!(chi_square < 15.09, "seed {seed}: {chi_square}");
        }
    }
}
