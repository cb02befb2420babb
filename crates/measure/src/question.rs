//! What servers ask behind: counts, errors and waits of each kind of question.

use std::collections::BTreeMap;

/// Kinds of questions that are told apart; what comes after is one for each peer.
const MOST: usize = 4096;

/// Sums of a kind of question.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QuestionSums {
    /// How often it was asked.
    pub count: u64,
    /// How often the answer was an error.
    pub failed: u64,
    /// How often no answer was seen.
    pub unanswered: u64,
    /// Waits for the first bytes of the answers, in all, nanoseconds.
    pub sum_ns: u64,
    /// The longest, nanoseconds.
    pub max_ns: u64,
}

impl QuestionSums {
    /// The sums of both.
    pub fn add(&mut self, more: Self) {
        self.count += more.count;
        self.failed += more.failed;
        self.unanswered += more.unanswered;
        self.sum_ns = self.sum_ns.saturating_add(more.sum_ns);
        self.max_ns = self.max_ns.max(more.max_ns);
    }

    /// The mean wait of those that were answered, nanoseconds; 0 without any.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        self.sum_ns as f64 / self.count.saturating_sub(self.unanswered).max(1) as f64
    }
}

/// The fold over questions, by the numbers of whom they were asked and what.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QuestionFold {
    sums: BTreeMap<(u32, u32), QuestionSums>,
}

impl QuestionFold {
    /// Takes a question: whom it was asked, what, its wait in nanoseconds, whether it failed and whether an answer was seen.
    pub fn push(&mut self, peer: u32, question: u32, wait_ns: u64, failed: bool, answered: bool) {
        let wait_ns = if answered { wait_ns } else { 0 };
        let (failed, unanswered) = (u64::from(failed), u64::from(!answered));
        let one = QuestionSums { count: 1, failed, unanswered, sum_ns: wait_ns, max_ns: wait_ns };
        let known = self.sums.contains_key(&(peer, question)) || self.sums.len() < MOST;
        self.sums.entry((peer, if known { question } else { 0 })).or_default().add(one);
    }

    /// All kinds, by whom they were asked and what.
    pub fn kinds(&self) -> impl Iterator<Item = ((u32, u32), QuestionSums)> {
        self.sums.iter().map(|(key, sums)| (*key, *sums))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_answered_has_no_wait_and_the_number_of_kinds_is_bounded() {
        let mut fold = QuestionFold::default();
        fold.push(1, 2, 30, false, true);
        fold.push(1, 2, 10, true, true);
        fold.push(1, 2, 99, false, false);
        let sums = QuestionSums { count: 3, failed: 1, unanswered: 1, sum_ns: 40, max_ns: 30 };
        assert_eq!(fold.kinds().collect::<Vec<_>>(), [((1, 2), sums)]);
        assert_eq!(sums.mean_ns(), 20.0);
        for question in 0..2 * MOST as u32 {
            fold.push(1, question, 1, false, true);
        }
        assert!(fold.kinds().count() <= MOST + 1);
        assert_eq!(fold.kinds().map(|(_, sums)| sums.count).sum::<u64>(), 2 * MOST as u64 + 3);
    }
}
