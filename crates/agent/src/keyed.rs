//! A hash for numbers that clients choose: fast, and seeded, so that nobody outside can aim at one bucket.

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

    fn finish(&self) -> u64 {
        self.state
    }
}
