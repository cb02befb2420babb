//! The folds over phases of servers' work and over queries.

use crate::part::PartTimes;
use std::collections::BTreeMap;

/// Phases, and queries, that are told apart; what comes after is number 0.
const MOST: usize = 2048;

/// Sums of a phase.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PhaseSums {
    /// Passages within responses.
    pub count: u64,
    /// Their time within responses, by parts, nanoseconds.
    pub parts_ns: PartTimes,
    /// Sum over the passages of their begin, since the response's arrival.
    pub begin_ns: u64,
    /// Passages of tasks, whether or not a response waited.
    pub passages: u64,
    /// Their time, by parts.
    pub passages_ns: PartTimes,
}

/// The fold over phases, by their numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PhaseFold {
    sums: BTreeMap<u32, PhaseSums>,
}

impl PhaseFold {
    /// Takes a stretch of a response: `begin_ns` since its arrival where the passage begins, else `None`.
    pub fn push(&mut self, phase: u32, part: usize, ns: u64, begin_ns: Option<u64>) {
        let sums = self.sums(phase);
        if let Some(sum) = sums.parts_ns.get_mut(part) {
            *sum = sum.saturating_add(ns);
        }
        sums.count += u64::from(begin_ns.is_some());
        sums.begin_ns = sums.begin_ns.saturating_add(begin_ns.unwrap_or(0));
    }

    /// Takes a task's passage.
    pub fn pass(&mut self, phase: u32, parts_ns: &PartTimes) {
        let sums = self.sums(phase);
        sums.passages += 1;
        add(&mut sums.passages_ns, parts_ns);
    }

    /// Adds another fold: the result is that of one fold over what both took.
    pub fn merge(&mut self, other: &Self) {
        for (phase, more) in &other.sums {
            let sums = self.sums(*phase);
            sums.count += more.count;
            sums.begin_ns = sums.begin_ns.saturating_add(more.begin_ns);
            sums.passages += more.passages;
            add(&mut sums.parts_ns, &more.parts_ns);
            add(&mut sums.passages_ns, &more.passages_ns);
        }
    }

    /// The sums by phase, in the order in which responses pass them.
    #[must_use]
    pub fn phases(&self) -> Vec<(u32, &PhaseSums)> {
        let mut phases: Vec<_> = self.sums.iter().map(|(phase, sums)| (*phase, sums)).collect();
        let begin = |sums: &PhaseSums| sums.begin_ns.checked_div(sums.count).unwrap_or(u64::MAX);
        phases.sort_by_key(|(phase, sums)| (begin(sums), *phase));
        phases
    }

    fn sums(&mut self, phase: u32) -> &mut PhaseSums {
        let known = self.sums.contains_key(&phase) || self.sums.len() < MOST;
        self.sums.entry(if known { phase } else { 0 }).or_default()
    }
}

fn add(sums: &mut PartTimes, more: &PartTimes) {
    for (sum, more) in sums.iter_mut().zip(more) {
        *sum = sum.saturating_add(*more);
    }
}

/// Sums of a query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QuerySums {
    /// How often it was run.
    pub count: u64,
    /// In all, nanoseconds.
    pub sum_ns: u64,
    /// The longest, nanoseconds.
    pub max_ns: u64,
}

/// The fold over queries, by the numbers of their server and text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryFold {
    sums: BTreeMap<(u32, u32), QuerySums>,
}

impl QueryFold {
    /// Takes a run of a query.
    pub fn push(&mut self, server: u32, text: u32, ns: u64) {
        self.add((server, text), QuerySums { count: 1, sum_ns: ns, max_ns: ns });
    }

    /// Adds another fold.
    pub fn merge(&mut self, other: &Self) {
        other.sums.iter().for_each(|(key, more)| self.add(*key, *more));
    }

    fn add(&mut self, key: (u32, u32), more: QuerySums) {
        let known = self.sums.contains_key(&key) || self.sums.len() < MOST;
        let sums = self.sums.entry(if known { key } else { (key.0, 0) }).or_default();
        sums.count += more.count;
        sums.sum_ns = sums.sum_ns.saturating_add(more.sum_ns);
        sums.max_ns = sums.max_ns.max(more.max_ns);
    }

    /// The queries (server, text) that took most time in all, at most `most`.
    #[must_use]
    pub fn largest(&self, most: usize) -> Vec<((u32, u32), QuerySums)> {
        let mut queries: Vec<_> = self.sums.iter().map(|(key, sums)| (*key, *sums)).collect();
        queries.sort_by_key(|(key, sums)| (std::cmp::Reverse(sums.sum_ns), *key));
        queries.truncate(most);
        queries
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::Part;
    use proptest::prelude::*;

    #[test]
    fn phases_stand_in_the_order_of_their_begin() {
        let mut fold = PhaseFold::default();
        fold.push(1, Part::Run as usize, 10, Some(50));
        fold.push(2, Part::Run as usize, 20, Some(5));
        fold.push(2, Part::WaitCpu as usize, 7, None);
        fold.pass(9, &[3; Part::COUNT]);
        let phases = fold.phases();
        assert_eq!(phases.iter().map(|(phase, _)| *phase).collect::<Vec<_>>(), [2, 1, 9]);
        assert_eq!((phases[0].1.count, phases[0].1.parts_ns.iter().sum::<u64>()), (1, 27));
        assert_eq!((phases[2].1.passages, phases[2].1.count), (1, 0));
    }

    #[test]
    fn the_number_of_either_is_bounded_and_nothing_is_lost() {
        let (mut phases, mut queries) = (PhaseFold::default(), QueryFold::default());
        for number in 1..3 * MOST as u32 {
            phases.push(number, 0, 1, Some(0));
            queries.push(1, number, 2);
        }
        assert!(phases.phases().len() <= MOST + 1);
        assert_eq!(phases.phases().iter().map(|(_, sums)| sums.count).sum::<u64>(), 3 * MOST as u64 - 1);
        let largest = queries.largest(3);
        assert_eq!((largest.len(), largest[0].0), (3, (1, 0)));
        assert_eq!(queries.largest(usize::MAX).iter().map(|(_, sums)| sums.sum_ns).sum::<u64>(), 6 * MOST as u64 - 2);
    }

    proptest! {
        #[test]
        fn two_folds_merge_to_that_of_both(items in proptest::collection::vec((0u32..9, 0usize..Part::COUNT, 0u64..1000, any::<bool>()), 0..60), cut in 0usize..60) {
            let (mut whole, mut parts) = ((PhaseFold::default(), QueryFold::default()), [(PhaseFold::default(), QueryFold::default()), Default::default()]);
            for (index, (key, part, ns, first)) in items.iter().enumerate() {
                for fold in [&mut whole, &mut parts[usize::from(index >= cut)]] {
                    fold.0.push(*key, *part, *ns, first.then_some(*ns));
                    fold.1.push(*key, *part as u32, *ns);
                }
            }
            let [mut first, second] = parts;
            first.0.merge(&second.0);
            first.1.merge(&second.1);
            prop_assert_eq!(first, whole);
        }
    }
}
