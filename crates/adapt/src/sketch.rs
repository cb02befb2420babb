//! The most asked of very many, in bounded memory: space-saving (Metwally, Agrawal and El Abbadi 2005).

use rustc_hash::FxHashMap;
use serde::Serialize;
use std::collections::BTreeSet;

/// Counts the most frequent texts of a stream. No count is too low, and none is too high by more than its error, which
/// is at most the sum of all counts divided by the number of places.
#[derive(Debug, Clone)]
pub struct Sketch {
    places: usize,
    held: Vec<Frequent>,
    numbers: FxHashMap<Box<str>, u32>,
    /// By count, so that the least is found at once.
    order: BTreeSet<(u64, u32)>,
    sum: u64,
}

/// A text and how often it came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Frequent {
    /// The text.
    pub text: Box<str>,
    /// How often it came: at most this often, and at least this less the error.
    pub count: u64,
    /// The count that it took over from the text that it displaced.
    pub error: u64,
}

impl Sketch {
    /// With so many places, at least one.
    pub fn new(places: usize) -> Self {
        let (held, numbers, order) = (Vec::new(), FxHashMap::default(), BTreeSet::new());
        Self { places: places.max(1), held, numbers, order, sum: 0 }
    }

    /// The text came so many times.
    pub fn push(&mut self, text: &str, times: u64) {
        self.sum = self.sum.saturating_add(times);
        let number = match self.numbers.get(text) {
            Some(number) => *number,
            None if self.held.len() < self.places => {
                let number = self.held.len() as u32;
                self.held.push(Frequent { text: text.into(), count: 0, error: 0 });
                self.order.insert((0, number));
                self.numbers.insert(text.into(), number);
                number
            }
            None => {
                // There is at least one place, and all are taken.
                let Some(&(least, number)) = self.order.first() else { return };
                let place = &mut self.held[number as usize];
                self.numbers.remove(&place.text);
                (place.text, place.error) = (text.into(), least);
                self.numbers.insert(text.into(), number);
                number
            }
        };
        let place = &mut self.held[number as usize];
        self.order.remove(&(place.count, number));
        place.count = place.count.saturating_add(times);
        self.order.insert((place.count, number));
    }

    /// The past counts half from now on.
    pub fn halve(&mut self) {
        self.sum /= 2;
        for place in &mut self.held {
            // Rounded up, so that the least is no less than an error.
            (place.count, place.error) = (place.count.div_ceil(2), place.error.div_ceil(2));
        }
        self.order = self.held.iter().enumerate().map(|(number, place)| (place.count, number as u32)).collect();
    }

    /// The most frequent, the first one first.
    pub fn most(&self, count: usize) -> Vec<Frequent> {
        self.order.iter().rev().take(count).map(|&(_, number)| self.held[number as usize].clone()).collect()
    }

    /// How many times texts came, of all.
    pub fn count(&self) -> u64 {
        self.sum
    }

    /// The largest error that a count can have.
    pub fn error_max(&self) -> u64 {
        self.sum / self.places as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_are_found_and_no_count_is_too_low_or_too_high_by_more_than_said() {
        let mut sketch = Sketch::new(64);
        let mut true_counts: FxHashMap<String, u64> = FxHashMap::default();
        let mut seed = 7_u64;
        for _ in 0..50_000 {
            seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            // Some 5,000 texts, of which the first come often.
            let uniform = (seed >> 40) as f64 / (1_u64 << 24) as f64;
            let text = format!("/{}", (5000.0_f64.powf(uniform)) as u64);
            sketch.push(&text, 1);
            *true_counts.entry(text).or_default() += 1;
        }
        assert_eq!((sketch.held.len(), sketch.numbers.len(), sketch.order.len()), (64, 64, 64));
        let bound = sketch.error_max();
        assert_eq!(bound, 50_000 / 64);
        for Frequent { text, count, error } in sketch.most(64) {
            let came = true_counts[&*text];
            assert!(came <= count && count - error <= came && error <= bound, "{text}: {came} as {count} less {error}");
        }
        // Each text that came more often than the bound is there.
        let held: Vec<_> = sketch.most(64).into_iter().map(|one| one.text.to_string()).collect();
        assert!(true_counts.iter().filter(|(_, came)| **came > bound).all(|(text, _)| held.contains(text)));
        let first = sketch.most(1)[0].count;
        sketch.halve();
        assert_eq!(sketch.most(1)[0].count, first.div_ceil(2));
    }
}
