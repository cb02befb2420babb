//! Who took part in responses, and who waited for whom: the waiting graph as a bounded fold.

use crate::part::Part;
use std::collections::BTreeMap;

/// What a participant had of responses, nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Share {
    /// It had a CPU.
    pub run_ns: u64,
    /// It waited.
    pub wait_ns: u64,
}

/// How often and how long one participant waited for another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wait {
    /// Waits.
    pub count: u64,
    /// Their sum, nanoseconds.
    pub ns: u64,
}

/// Sums over responses by participant, and by pairs of them. A participant is a label's number.
#[derive(Debug, Clone)]
pub struct ParticipantsFold {
    most: usize,
    shares: BTreeMap<u32, Share>,
    waits: BTreeMap<(u32, u32, Part), Wait>,
}

impl ParticipantsFold {
    /// An empty fold that keeps at most so many participants, and eight times as many pairs; what comes after is
    /// participant 0.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { most, shares: BTreeMap::new(), waits: BTreeMap::new() }
    }

    /// A participant had a stretch of a response.
    pub fn had(&mut self, who: u32, part: Part, ns: u64) {
        let known = self.shares.contains_key(&who) || self.shares.len() < self.most;
        let share = self.shares.entry(if known { who } else { 0 }).or_default();
        if part == Part::Run {
            share.run_ns += ns;
        } else {
            share.wait_ns += ns;
        }
    }

    /// One waited for another; `fresh` if this is not the same wait as the one told before.
    pub fn waited(&mut self, from: u32, to: u32, part: Part, ns: u64, fresh: bool) {
        self.add((from, to, part), Wait { count: u64::from(fresh), ns });
    }

    fn add(&mut self, key: (u32, u32, Part), more: Wait) {
        let known = self.waits.contains_key(&key) || self.waits.len() < 8 * self.most;
        let wait = self.waits.entry(if known { key } else { (0, 0, key.2) }).or_default();
        wait.count += more.count;
        wait.ns += more.ns;
    }

    /// Adds another fold: the result is that of one fold over the responses of both, as long as the bounds hold.
    pub fn merge(&mut self, other: &Self) {
        for (who, share) in &other.shares {
            let known = self.shares.contains_key(who) || self.shares.len() < self.most;
            let sum = self.shares.entry(if known { *who } else { 0 }).or_default();
            sum.run_ns += share.run_ns;
            sum.wait_ns += share.wait_ns;
        }
        other.waits.iter().for_each(|(key, wait)| self.add(*key, *wait));
    }

    /// What each participant had, the largest first.
    #[must_use]
    pub fn shares(&self) -> Vec<(u32, Share)> {
        let mut shares: Vec<(u32, Share)> = self.shares.iter().map(|(who, share)| (*who, *share)).collect();
        shares.sort_by_key(|(_, share)| std::cmp::Reverse(share.run_ns + share.wait_ns));
        shares
    }

    /// Who waited for whom, in which part, the longest first.
    #[must_use]
    pub fn waits(&self) -> Vec<((u32, u32, Part), Wait)> {
        let mut waits: Vec<((u32, u32, Part), Wait)> = self.waits.iter().map(|(key, wait)| (*key, *wait)).collect();
        waits.sort_by_key(|(_, wait)| std::cmp::Reverse(wait.ns));
        waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// For any input the sums are kept, the size is bounded, and two folds merge to the fold of both.
        #[test]
        fn sums_are_kept_and_merge(told in proptest::collection::vec((0u32..40, 0u32..40, 0usize..Part::COUNT, 0u64..1000), 0..200), cut in 0usize..200) {
            let (mut whole, mut left, mut right) = (ParticipantsFold::new(50), ParticipantsFold::new(50), ParticipantsFold::new(50));
            for (index, (from, to, part, ns)) in told.iter().enumerate() {
                let part = Part::ALL[*part];
                for fold in [&mut whole, if index < cut { &mut left } else { &mut right }] {
                    fold.had(*from, part, *ns);
                    fold.waited(*from, *to, part, *ns, true);
                }
            }
            left.merge(&right);
            prop_assert_eq!(left.shares(), whole.shares());
            prop_assert_eq!(left.waits(), whole.waits());
            let sum: u64 = whole.waits().iter().map(|(_, wait)| wait.ns).sum();
            prop_assert_eq!(sum, told.iter().map(|one| one.3).sum::<u64>());
        }
    }

    #[test]
    fn beyond_the_bound_participants_are_not_told_apart() {
        let mut fold = ParticipantsFold::new(4);
        for who in 1..100 {
            fold.had(who, Part::Run, 10);
            fold.waited(who, who + 1, Part::WaitLock, 5, true);
        }
        assert!(fold.shares().len() <= 5 && fold.waits().len() <= 33);
        assert_eq!(fold.shares().iter().map(|(_, share)| share.run_ns).sum::<u64>(), 990);
        assert_eq!(fold.waits().iter().map(|(_, wait)| wait.count).sum::<u64>(), 99);
    }
}
