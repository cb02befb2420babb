//! A hash for numbers that clients choose: fast, and seeded, so that no client can aim at one bucket.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Makes hashers of one seed.
#[derive(Debug, Clone, Copy)]
pub struct Keyed {
    seed: u64,
}

impl Default for Keyed {
    fn default() -> Self {
        Self { seed: RandomState::new().hash_one(0u8) }
    }
}

impl BuildHasher for Keyed {
    type Hasher = KeyedHasher;

    fn build_hasher(&self) -> KeyedHasher {
        KeyedHasher { state: self.seed }
    }
}

/// Folds the product of what comes and a constant, as wyhash does.
#[derive(Debug, Clone, Copy)]
pub struct KeyedHasher {
    state: u64,
}

impl KeyedHasher {
    fn mix(&mut self, word: u64) {
        let product =
            u128::from(self.state ^ word) * u128::from(0x9e37_79b9_7f4a_7c15_u64 ^ self.state.rotate_left(32));
        self.state = (product as u64) ^ (product >> 64) as u64;
    }
}

impl Hasher for KeyedHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        for word in words {
            self.mix(u64::from_ne_bytes(*word) ^ 8 << 56);
        }
        if !rest.is_empty() {
            let word = rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
            self.mix(word ^ (rest.len() as u64) << 56);
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.mix(u64::from(number));
    }

    fn write_usize(&mut self, number: usize) {
        self.mix(number as u64);
    }

    fn write_isize(&mut self, number: isize) {
        self.mix(number as u64);
    }

    fn write_u64(&mut self, number: u64) {
        self.mix(number);
    }

    fn write_u32(&mut self, number: u32) {
        self.mix(u64::from(number));
    }

    /// The product's lower bits stand on few of those of the seed: with one in eight seeds, say, they leave out seven of
    /// eight values where numbers follow each other. Tables look at these bits, so all others are mixed in.
    fn finish(&self) -> u64 {
        let mixed = (self.state ^ self.state >> 32).wrapping_mul(0x9fb2_1c65_1e98_df25);
        mixed ^ mixed >> 32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Places that so many of them take by chance: 1 - 1/e of all.
    const PLACES: usize = 4_096;
    const BY_CHANCE: f64 = 0.632 * PLACES as f64;

    #[test]
    fn with_any_seed_the_lower_bits_spread_consecutive_numbers() {
        let any = || Keyed::default().seed;
        // Seeds whose multiplier ends in up to 16 zeros, and others.
        let with_zeros = (0..=16).map(|zeros| (0x9e37_79b9_7f4a_7c15_u64 ^ any() << zeros).rotate_left(32));
        for seed in with_zeros.chain((0..500).map(|_| any())) {
            for stride in [1, 2, 8, 1 << 16] {
                let mut is_taken = [false; PLACES];
                for number in 0..PLACES as u64 {
                    is_taken[Keyed { seed }.hash_one(number * stride) as usize % PLACES] = true;
                }
                let taken = is_taken.iter().filter(|taken| **taken).count() as f64;
                assert!(taken > 0.85 * BY_CHANCE, "{taken} of {PLACES} places, seed {seed:#x}, stride {stride}");
            }
        }
    }
}
