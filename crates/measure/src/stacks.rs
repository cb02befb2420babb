//! How often which stack was seen in which part of which class of transactions.

use crate::part::Part;
use std::collections::HashMap;

/// Where a stack was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The transaction class; `None` for samples of no response.
    pub class: Option<u32>,
    /// The part; `None` for tasks that waited for nothing in particular.
    pub part: Option<Part>,
    /// The process's name, by the caller's number.
    pub process: u32,
    /// The stack, by the caller's number; [`Place::OTHER`] for all that had no room.
    pub stack: u32,
}

impl Place {
    /// The stack that stands for all further ones.
    pub const OTHER: u32 = u32::MAX;
}

/// What was seen of a stack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seen {
    /// Samples.
    pub samples: u64,
    /// The time that they stand for, nanoseconds.
    pub ns: u64,
}

/// The fold: counts by place, of at most so many stacks.
#[derive(Debug, Clone)]
pub struct StackFold {
    seen: HashMap<Place, Seen>,
    most: usize,
}

impl StackFold {
    /// An empty fold of at most `most` places beside those of all further stacks.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { seen: HashMap::new(), most }
    }

    /// Takes a sample that stands for `ns` nanoseconds.
    pub fn push(&mut self, place: Place, ns: u64) {
        self.add(place, Seen { samples: 1, ns });
    }

    /// Adds another fold's counts.
    pub fn merge(&mut self, other: &Self) {
        // In an order of their own, as what finds no room depends on it.
        for (place, seen) in other.snapshot() {
            self.add(place, seen);
        }
    }

    /// All counts so far, by place.
    #[must_use]
    pub fn snapshot(&self) -> Vec<(Place, Seen)> {
        let mut all: Vec<_> = self.seen.iter().map(|(place, seen)| (*place, *seen)).collect();
        all.sort_unstable_by_key(|(place, _)| *place);
        all
    }

    fn add(&mut self, place: Place, more: Seen) {
        let has_room = self.seen.len() < self.most || self.seen.contains_key(&place);
        let place = if has_room { place } else { Place { process: Place::OTHER, stack: Place::OTHER, ..place } };
        let seen = self.seen.entry(place).or_default();
        seen.samples = seen.samples.saturating_add(more.samples);
        seen.ns = seen.ns.saturating_add(more.ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nothing_is_lost_and_parts_merge_to_the_whole(
            pushed in proptest::collection::vec((0u32..3, 0u32..6, 1u64..100), 0..100), most in 0usize..30, cut in 0usize..100,
        ) {
            let place = |class, stack| Place { class: Some(class), part: Some(Part::Run), process: 0, stack };
            let (mut whole, mut first, mut second) = (StackFold::new(most), StackFold::new(most), StackFold::new(most));
            for (index, (class, stack, ns)) in pushed.iter().enumerate() {
                whole.push(place(*class, *stack), *ns);
                if index < cut { &mut first } else { &mut second }.push(place(*class, *stack), *ns);
            }
            first.merge(&second);
            let sum = |fold: &StackFold| {
                fold.snapshot().iter().fold((0, 0), |sum, (_, seen)| (sum.0 + seen.samples, sum.1 + seen.ns))
            };
            prop_assert_eq!(sum(&whole), (pushed.len() as u64, pushed.iter().map(|(_, _, ns)| ns).sum::<u64>()));
            prop_assert_eq!(sum(&whole), sum(&first));
            // One for each class takes what has no room.
            prop_assert!(whole.snapshot().len() <= most + 3);
            if most >= 18 {
                prop_assert_eq!(whole.snapshot(), first.snapshot());
            }
        }
    }
}
