//! A few examples out of many: the slowest, and some near the median.

/// Keeps examples of something that has a size, bounded.
#[derive(Debug, Clone)]
pub struct Examples<T> {
    most: usize,
    slowest: Vec<(u64, T)>,
    sample: Vec<(u64, T)>,
    seen: u64,
    chance: fastrand::Rng,
}

/// A sample this many times as large as what is asked for has members near the median.
const SAMPLE_FACTOR: usize = 32;

impl<T: Clone> Examples<T> {
    /// Keeps `most` of the slowest, and a sample to find as many typical ones in.
    #[must_use]
    pub fn new(most: usize, seed: u64) -> Self {
        let chance = fastrand::Rng::with_seed(seed);
        Self { most, slowest: Vec::new(), sample: Vec::new(), seen: 0, chance }
    }

    /// Takes one; `make` is only called if it is kept.
    pub fn push(&mut self, size: u64, make: impl Fn() -> T) {
        self.seen += 1;
        if self.slowest.len() < self.most || self.slowest.last().is_some_and(|(least, _)| size > *least) {
            let at = self.slowest.partition_point(|(other, _)| *other >= size);
            self.slowest.insert(at, (size, make()));
            self.slowest.truncate(self.most);
        }
        // Reservoir sampling (Vitter 1985, algorithm R): each one seen so far has the same chance to be kept.
        let room = self.most * SAMPLE_FACTOR;
        if self.sample.len() < room {
            self.sample.push((size, make()));
        } else {
            let place = self.chance.u64(..self.seen) as usize;
            if place < room {
                self.sample[place] = (size, make());
            }
        }
    }

    /// The slowest, slowest first.
    pub fn slowest(&self) -> impl Iterator<Item = &T> {
        self.slowest.iter().map(|(_, example)| example)
    }

    /// Those of the sample that are nearest to a size.
    #[must_use]
    pub fn near(&self, size: u64) -> Vec<T> {
        let mut by_distance: Vec<&(u64, T)> = self.sample.iter().collect();
        by_distance.sort_by_key(|(other, _)| other.abs_diff(size));
        by_distance.into_iter().take(self.most).map(|(_, example)| example.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_are_the_same_in_any_order_and_only_what_is_kept_is_made() {
        let sizes: Vec<u64> = (0..5_000u64).map(|step| step * 7919 % 5_003).collect();
        let made = std::cell::Cell::new(0u32);
        let kept = |sizes: &mut dyn Iterator<Item = u64>| {
            let mut examples = Examples::new(4, 7);
            for size in sizes {
                examples.push(size, || {
                    made.set(made.get() + 1);
                    size
                });
            }
            examples.slowest().copied().collect::<Vec<_>>()
        };
        let forwards = kept(&mut sizes.iter().copied());
        assert_eq!(forwards, kept(&mut sizes.iter().rev().copied()));
        let mut sorted = sizes.clone();
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        assert_eq!(forwards, sorted[..4]);
        assert!(made.get() < 4_000, "{} were made of 10,000", made.get());
    }

    #[test]
    fn the_sample_is_even() {
        // Of each tenth about a tenth is sampled: chi-square with 9 degrees of freedom stays below its 99.9 % point.
        let mut examples = Examples::new(30, 3);
        (0..100_000u64).for_each(|size| examples.push(size, || size));
        let mut tenths = [0f64; 10];
        examples.sample.iter().for_each(|(size, _)| tenths[(size / 10_000) as usize] += 1.0);
        let expected = examples.sample.len() as f64 / 10.0;
        let chi_square: f64 = tenths.iter().map(|count| (count - expected).powi(2) / expected).sum();
        assert!(chi_square < 27.9, "{chi_square}: {tenths:?}");
    }

    #[test]
    fn the_slowest_and_the_typical_are_found() {
        let mut examples = Examples::new(3, 1);
        for size in 0..10_000u64 {
            let size = size * 7919 % 10_007;
            examples.push(size, || size);
        }
        let slowest: Vec<u64> = examples.slowest().copied().collect();
        assert!(slowest.windows(2).all(|pair| pair[0] >= pair[1]) && slowest[2] >= 10_000, "{slowest:?}");
        assert!(examples.near(5000).iter().all(|size| size.abs_diff(5000) < 1000));
    }
}
