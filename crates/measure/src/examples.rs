//! A few examples out of many: the slowest, and some near the median.

/// Keeps examples of something that has a size, bounded.
///
/// What is kept follows from what was taken alone, not from its order: two of them merge to what one would be that had
/// taken all.
#[derive(Debug, Clone)]
pub struct Examples<T> {
    most: usize,
    seed: u64,
    /// Slowest first; of equal ones in the order of their keys.
    slowest: Vec<Kept<T>>,
    /// Those with the smallest keys, in the order of their keys.
    sample: Vec<Kept<T>>,
}

#[derive(Debug, Clone)]
struct Kept<T> {
    /// Even over all numbers, by what the example is and the seed.
    key: u64,
    size: u64,
    example: T,
}

/// A sample this many times as large as what is asked for has members near the median.
const SAMPLE_FACTOR: usize = 32;

impl<T: Clone> Examples<T> {
    /// Keeps `most` of the slowest, and a sample to find as many typical ones in.
    #[must_use]
    pub fn new(most: usize, seed: u64) -> Self {
        Self { most, seed, slowest: Vec::new(), sample: Vec::new() }
    }

    /// Takes one, told from all others by its `id`; `make` is only called if it is kept.
    pub fn push(&mut self, size: u64, id: [u64; 3], make: impl Fn() -> T) {
        let key = id.into_iter().fold(self.seed, |key, word| scatter(key ^ word));
        self.keep_slow(size, key, &make);
        self.keep_sampled(size, key, &make);
    }

    /// Adds what another one of the same seed and number has kept.
    pub fn merge(&mut self, other: &Self) {
        // An example among the first of all is among the first of its own part.
        for one in &other.slowest {
            self.keep_slow(one.size, one.key, || one.example.clone());
        }
        for one in &other.sample {
            self.keep_sampled(one.size, one.key, || one.example.clone());
        }
    }

    fn keep_slow(&mut self, size: u64, key: u64, make: impl Fn() -> T) {
        let before = |one: &Kept<T>| one.size > size || one.size == size && one.key <= key;
        if self.slowest.len() < self.most || self.slowest.last().is_some_and(|last| !before(last)) {
            let at = self.slowest.partition_point(before);
            self.slowest.insert(at, Kept { key, size, example: make() });
            self.slowest.truncate(self.most);
        }
    }

    /// Each one has the same chance to be kept, for the smallest of even keys may be anybody's (bottom-k sampling; Cohen
    /// and Kaplan 2007).
    fn keep_sampled(&mut self, size: u64, key: u64, make: impl Fn() -> T) {
        let room = self.most * SAMPLE_FACTOR;
        let before = |one: &Kept<T>| (one.key, one.size) <= (key, size);
        if self.sample.len() < room || self.sample.last().is_some_and(|last| !before(last)) {
            let at = self.sample.partition_point(before);
            self.sample.insert(at, Kept { key, size, example: make() });
            self.sample.truncate(room);
        }
    }

    /// The slowest, slowest first.
    pub fn slowest(&self) -> impl Iterator<Item = &T> {
        self.slowest.iter().map(|one| &one.example)
    }

    /// Those of the sample that are nearest to a size.
    #[must_use]
    pub fn near(&self, size: u64) -> Vec<T> {
        let mut by_distance: Vec<&Kept<T>> = self.sample.iter().collect();
        by_distance.sort_by_key(|one| one.size.abs_diff(size));
        by_distance.into_iter().take(self.most).map(|one| one.example.clone()).collect()
    }
}

/// Numbers that differ in anything become numbers that differ in everything (SplitMix64; Steele, Lea and Flood 2014).
fn scatter(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// All that an observer can see, and the keys.
    fn all(examples: &Examples<u64>) -> [Vec<(u64, u64, u64)>; 2] {
        [&examples.slowest, &examples.sample]
            .map(|kept| kept.iter().map(|one| (one.key, one.size, one.example)).collect())
    }

    proptest! {
        /// Examples are dealt out to parts in any way and any order; merged, the parts equal the one that took all.
        #[test]
        fn merged_parts_are_the_whole(
            sizes in proptest::collection::vec((0usize..4, 0u64..50), 0..400),
            most in 1usize..4,
            seed: u64,
            order in 0usize..24,
        ) {
            let mut whole = Examples::new(most, seed);
            let mut parts = vec![Examples::new(most, seed); 4];
            for (id, (part, size)) in sizes.iter().copied().enumerate() {
                parts[part].push(size, [id as u64, 0, 0], || id as u64);
            }
            for (id, (_, size)) in sizes.iter().copied().enumerate().rev() {
                whole.push(size, [id as u64, 0, 0], || id as u64);
            }
            let mut merged = parts.swap_remove(order % 4);
            while !parts.is_empty() {
                merged.merge(&parts.swap_remove(order % parts.len()));
            }
            prop_assert_eq!(all(&merged), all(&whole));
            prop_assert_eq!(merged.near(25), whole.near(25));
        }
    }

    #[test]
    fn the_slowest_are_the_same_in_any_order_and_only_what_is_kept_is_made() {
        let sizes: Vec<u64> = (0..5_000u64).map(|step| step * 7919 % 5_003).collect();
        let made = std::cell::Cell::new(0u32);
        let kept = |sizes: &mut dyn Iterator<Item = u64>| {
            let mut examples = Examples::new(4, 7);
            for size in sizes {
                examples.push(size, [size, 0, 0], || {
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
        (0..100_000u64).for_each(|size| examples.push(size, [5, 1, size], || size));
        let mut tenths = [0f64; 10];
        examples.sample.iter().for_each(|one| tenths[(one.size / 10_000) as usize] += 1.0);
        let expected = examples.sample.len() as f64 / 10.0;
        let chi_square: f64 = tenths.iter().map(|count| (count - expected).powi(2) / expected).sum();
        assert!(chi_square < 27.9, "{chi_square}: {tenths:?}");
    }

    #[test]
    fn the_slowest_and_the_typical_are_found() {
        let mut examples = Examples::new(3, 1);
        for size in 0..10_000u64 {
            let size = size * 7919 % 10_007;
            examples.push(size, [0, size, 0], || size);
        }
        let slowest: Vec<u64> = examples.slowest().copied().collect();
        assert!(slowest.windows(2).all(|pair| pair[0] >= pair[1]) && slowest[2] >= 10_000, "{slowest:?}");
        assert!(examples.near(5000).iter().all(|size| size.abs_diff(5000) < 1000));
    }
}
