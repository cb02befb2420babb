//! Choices that can be repeated.

use std::time::{SystemTime, UNIX_EPOCH};

/// The variable that repeats a failed run.
pub const SEED_VARIABLE: &str = "WEIR_SEED";

/// A source of choices; while a test panics it prints the seed that repeats them.
#[derive(Debug)]
pub struct Choice {
    seed: u64,
    state: u64,
}

impl Choice {
    /// Takes the seed from `WEIR_SEED`, else from the time.
    pub fn from_environment() -> Self {
        let given = std::env::var(SEED_VARIABLE).ok().and_then(|text| text.parse().ok());
        let time = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_nanos() as u64);
        Self::from_seed(given.unwrap_or_else(time))
    }

    /// Always the same choices for the same seed.
    pub fn from_seed(seed: u64) -> Self {
        Self { seed, state: seed }
    }

    /// The seed that it started from.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The next 64 bits (SplitMix64: every seed is a good one).
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`; 0 where that is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        // The high half of the product: without a division, the bias is below 2^-32 for what
        // tests choose from.
        ((u128::from(self.next_u64()) * u128::from(end)) >> 64) as u64
    }

    /// One of the items.
    ///
    /// # Panics
    /// When there is none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }
}

impl Drop for Choice {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("to repeat: {SEED_VARIABLE}={}", self.seed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_choices() {
        let draw = |seed| {
            let mut choice = Choice::from_seed(seed);
            (0..50).map(|_| choice.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert!(draw(7).iter().all(|number| *number < 1000));
    }

    #[test]
    fn every_item_is_picked() {
        let mut choice = Choice::from_seed(1);
        let mut seen = [false; 3];
        for _ in 0..100 {
            seen[*choice.pick(&[0, 1, 2])] = true;
        }
        assert_eq!(seen, [true; 3]);
    }
}
