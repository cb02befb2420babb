//! The course of a run: response times, their parts and errors by slices of time.

use crate::durations::Durations;
use crate::part::{Part, PartTimes};
use std::collections::BTreeMap;

/// Slices that are kept; beyond, each two neighbours are put together.
const MOST_SLICES: u64 = 240;
/// The width of a slice at first, nanoseconds.
const FIRST_SLICE_NS: u64 = 10_000_000;
/// Slices of a report, and responses that one has on average where there are enough: fewer would show chance.
const SHOWN: u64 = 120;
const LEAST_SHOWN: u64 = 10;
const LEAST_EACH: u64 = 20;

/// What ended within a slice of time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Slice {
    /// Its begin, nanoseconds.
    pub at_ns: u64,
    /// Response times.
    pub times: Durations,
    /// Sums of the responses' parts.
    pub parts: PartTimes,
    /// Requests that failed, and answers that were errors.
    pub errors: u64,
}

/// Sums by slice of time. However long a run is, at most 240 slices are kept.
#[derive(Debug, Clone)]
pub struct CourseFold {
    slice_ns: u64,
    slices: BTreeMap<u64, Slice>,
}

impl Default for CourseFold {
    fn default() -> Self {
        Self { slice_ns: FIRST_SLICE_NS, slices: BTreeMap::new() }
    }
}

impl CourseFold {
    /// Takes a response that ended at a time, with its parts.
    pub fn push(&mut self, at_ns: u64, response_ns: u64, parts: impl Iterator<Item = (Part, u64)>) {
        let slice = self.at(at_ns);
        slice.times.push(response_ns);
        parts.for_each(|(part, ns)| slice.parts[part as usize] += ns);
    }

    /// An error at a time.
    pub fn error(&mut self, at_ns: u64) {
        self.at(at_ns).errors += 1;
    }

    fn at(&mut self, at_ns: u64) -> &mut Slice {
        let key = |fold: &Self| at_ns / fold.slice_ns;
        loop {
            let (first, last) = self.ends().unwrap_or((key(self), key(self)));
            if last.max(key(self)) - first.min(key(self)) < MOST_SLICES {
                break;
            }
            self.coarsen();
        }
        let slice_ns = self.slice_ns;
        let key = key(self);
        self.slices.entry(key).or_insert_with(|| Slice { at_ns: key * slice_ns, ..Slice::default() })
    }

    fn ends(&self) -> Option<(u64, u64)> {
        Some((*self.slices.first_key_value()?.0, *self.slices.last_key_value()?.0))
    }

    fn coarsen(&mut self) {
        self.slice_ns *= 2;
        for (key, slice) in std::mem::take(&mut self.slices) {
            let at_ns = key / 2 * self.slice_ns;
            let sum = self.slices.entry(key / 2).or_insert_with(|| Slice { at_ns, ..Slice::default() });
            sum.times.merge(&slice.times);
            sum.parts.iter_mut().zip(slice.parts).for_each(|(sum, ns)| *sum += ns);
            sum.errors += slice.errors;
        }
    }

    /// The width of a slice, nanoseconds, and the slices from the first to the last that holds something, without gaps.
    ///
    /// There are at most 120, and of a run of few responses fewer, so that a slice holds enough of them.
    #[must_use]
    pub fn slices(&self) -> (u64, Vec<Slice>) {
        let mut fold = self.clone();
        let responses: u64 = fold.slices.values().map(|slice| slice.times.count()).sum();
        let most = (responses / LEAST_EACH).clamp(LEAST_SHOWN, SHOWN);
        while fold.ends().is_some_and(|(first, last)| last - first >= most) {
            fold.coarsen();
        }
        let Some((first, last)) = fold.ends() else { return (fold.slice_ns, Vec::new()) };
        let slice_ns = fold.slice_ns;
        let empty = |key: u64| Slice { at_ns: key * slice_ns, ..Slice::default() };
        (slice_ns, (first..=last).map(|key| fold.slices.remove(&key).unwrap_or_else(|| empty(key))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_change_in_the_middle_shows_where_it_was() {
        let mut fold = CourseFold::default();
        for number in 0..10_000u64 {
            let slow = if (4_000..6_000).contains(&number) { 900_000 } else { 0 };
            let at_ns = 5_000_000_000 + number * 1_000_000;
            fold.push(at_ns, 100_000 + slow, [(Part::Run, 100_000), (Part::WaitLock, slow)].into_iter());
        }
        fold.error(5_000_000_000);
        let (slice_ns, slices) = fold.slices();
        assert!(slices.len() <= SHOWN as usize && slices.len() > SHOWN as usize / 3, "{}", slices.len());
        let at = |s: u64| &slices[((s * 1_000_000_000 - slices[0].at_ns) / slice_ns) as usize];
        assert!(at(6).times.quantile_ns(0.99) < 110_000 && at(10).times.quantile_ns(0.5) > 900_000);
        assert_eq!((at(6).parts[Part::WaitLock as usize], slices[0].errors), (0, 1));
        assert_eq!(at(10).parts[Part::WaitLock as usize], at(10).times.count() * 900_000);
    }

    #[test]
    fn few_responses_make_few_slices_and_gaps_are_told() {
        let mut fold = CourseFold::default();
        assert_eq!(fold.slices().1, []);
        fold.push(1_000_000_000, 5, std::iter::empty());
        fold.push(61_000_000_000, 5, std::iter::empty());
        let (slice_ns, slices) = fold.slices();
        assert!((3..=LEAST_SHOWN as usize).contains(&slices.len()), "{}", slices.len());
        assert_eq!(slices.iter().map(|slice| slice.times.count()).sum::<u64>(), 2);
        assert_eq!(slices[1].at_ns - slices[0].at_ns, slice_ns);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_the_room_is_bounded(
            all in prop::collection::vec((any::<u64>(), 0..1_000_000_000_u64), 1..200),
        ) {
            let mut fold = CourseFold::default();
            for (at_ns, ns) in &all {
                fold.push(*at_ns, *ns, [(Part::Run, *ns)].into_iter());
                prop_assert!(fold.slices.len() <= MOST_SLICES as usize);
            }
            let (_, slices) = fold.slices();
            prop_assert!(slices.len() <= SHOWN as usize);
            prop_assert_eq!(slices.iter().map(|slice| slice.times.count()).sum::<u64>(), all.len() as u64);
            let run: u64 = slices.iter().map(|slice| slice.parts[Part::Run as usize]).sum();
            prop_assert_eq!(run, all.iter().map(|(_, ns)| ns).sum::<u64>());
        }
    }
}
