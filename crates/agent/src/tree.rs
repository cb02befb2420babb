//! The transactions of a trace as a tree, and where the time of each one went.

use crate::transaction::{Transaction, TransactionId};
use std::collections::{HashMap, HashSet};

/// The parts of a transaction's time; together they are its duration, to the nanosecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Parts {
    /// From its arrival to its start.
    pub queued_ns: u64,
    /// While at least one of its children ran.
    pub children_ns: u64,
    /// Blocked, as the application told, while none of its children ran.
    pub blocked_ns: u64,
    /// The rest: what it did by itself.
    pub own_ns: u64,
}

/// A transaction in its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Line<'a> {
    /// The transaction.
    pub transaction: &'a Transaction,
    /// How many stand above it, up to the first of its tree.
    pub depth: usize,
    /// Whether it is the last of its parent's children.
    pub last: bool,
    /// Its parent is named but not among those that are known.
    pub stray: bool,
    /// When it began, counted from the first one of its tree, nanoseconds; negative where clocks of two hosts differ.
    pub offset_ns: i64,
    /// Where its time went.
    pub parts: Parts,
}

/// Puts transactions into the order of a tree: each is followed by its children by their begin, those by theirs.
///
/// A transaction with an unknown parent begins a tree of its own. So does one of a ring of parents, which only damaged
/// or forged correlators make. Each comes once.
#[must_use]
pub fn lines(transactions: &[Transaction]) -> Vec<Line<'_>> {
    let known: HashSet<TransactionId> = transactions.iter().map(|transaction| transaction.id).collect();
    let mut children: HashMap<TransactionId, Vec<&Transaction>> = HashMap::new();
    let mut firsts = Vec::new();
    for transaction in transactions {
        match transaction.parent.filter(|parent| known.contains(parent) && *parent != transaction.id) {
            Some(parent) => children.entry(parent).or_default().push(transaction),
            None => firsts.push(transaction),
        }
    }
    let by_begin = |transactions: &mut Vec<&Transaction>| transactions.sort_by_key(|one| (one.start_unix_ns, one.id));
    by_begin(&mut firsts);
    children.values_mut().for_each(by_begin);

    let mut walk = Walk { children, seen: HashSet::new(), lines: Vec::with_capacity(transactions.len()) };
    for first in firsts {
        walk.tree(first);
    }
    for transaction in transactions {
        // Only what stands in a ring of parents has not been seen by now.
        walk.tree(transaction);
    }
    walk.lines
}

struct Walk<'a> {
    children: HashMap<TransactionId, Vec<&'a Transaction>>,
    seen: HashSet<TransactionId>,
    lines: Vec<Line<'a>>,
}

impl<'a> Walk<'a> {
    /// Adds a transaction with all below it, with a stack of its own: how deep a trace is, others decide.
    fn tree(&mut self, first: &'a Transaction) {
        let mut next = vec![(first, 0, true)];
        while let Some((transaction, depth, last)) = next.pop() {
            if !self.seen.insert(transaction.id) {
                continue;
            }
            let none = Vec::new();
            let children = self.children.get(&transaction.id).unwrap_or(&none);
            // What comes first is taken from the stack's end.
            for (place, child) in children.iter().rev().enumerate() {
                next.push((*child, depth + 1, place == 0));
            }
            self.lines.push(Line {
                transaction,
                depth,
                last,
                stray: depth == 0 && transaction.parent.is_some(),
                offset_ns: (begin_at(first, transaction) - i128::from(first.start_ns)) as i64,
                parts: parts(transaction, children),
            });
        }
    }
}

/// When one began by the clock of another one's host: CLOCK_MONOTONIC within a host, the real time between two.
fn begin_at(clock: &Transaction, other: &Transaction) -> i128 {
    if clock.host == other.host {
        return i128::from(other.start_ns);
    }
    i128::from(clock.start_ns) + i128::from(other.start_unix_ns) - i128::from(clock.start_unix_ns)
}

/// Where a transaction's time went. Children have it before a blocked stretch, which mostly is the wait for them.
fn parts(transaction: &Transaction, children: &[&Transaction]) -> Parts {
    let duration_ns = transaction.duration_ns;
    // All stretches count from the transaction's begin, and are cut at its ends.
    let stretch = |from: i128, to: i128| {
        let cut = |at: i128| (at - i128::from(transaction.start_ns)).clamp(0, i128::from(duration_ns)) as u64;
        (cut(from), cut(to).max(cut(from)))
    };
    let queued_ns = transaction.queued_ns.min(duration_ns);
    let mut stretches = vec![(0, queued_ns)];
    stretches.extend(children.iter().map(|child| {
        let begin = begin_at(transaction, child);
        stretch(begin, begin + i128::from(child.duration_ns))
    }));
    let with_children = covered_ns(&mut stretches);
    let mut blocked: Vec<(u64, u64)> = transaction
        .details
        .blocked
        .iter()
        .map(|blocked| stretch(i128::from(blocked.from_ns), i128::from(blocked.to_ns)))
        .collect();
    stretches.extend(&blocked);
    let with_blocked = covered_ns(&mut stretches);
    // Of very many waits only the first ones are told one by one; the rest is known by its length alone.
    let untold = transaction.blocked_ns.saturating_sub(covered_ns(&mut blocked)).min(duration_ns - with_blocked);
    Parts {
        queued_ns,
        children_ns: with_children - queued_ns,
        blocked_ns: with_blocked - with_children + untold,
        own_ns: duration_ns - with_blocked - untold,
    }
}

/// How much time stretches cover together.
fn covered_ns(stretches: &mut [(u64, u64)]) -> u64 {
    stretches.sort_unstable();
    let (mut covered, mut until) = (0, 0);
    for &(from, to) in stretches.iter() {
        covered += to.max(until) - from.max(until);
        until = until.max(to);
    }
    covered
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transaction::{Blocked, Process};
    use proptest::prelude::*;

    fn one(span: u64, parent: Option<u64>, start_ns: u64, duration_ns: u64) -> Transaction {
        let id = |span| TransactionId { trace: [1, 2], span };
        let told = serde_json::json!({
            "id": id(span), "parent": parent.map(id), "host": "here", "process": Process::default(),
            "application": "shop", "name": "pay", "standard": 4, "thread": 0, "start_ns": start_ns,
            "start_unix_ns": 1_000_000 + start_ns, "duration_ns": duration_ns, "status": "good", "one_in": 1,
        });
        serde_json::from_value(told).expect("a transaction as it is told")
    }

    #[test]
    fn each_stands_below_its_parent_by_its_begin() {
        let all = [one(3, Some(1), 50, 10), one(1, None, 0, 100), one(4, Some(3), 55, 1), one(2, Some(1), 10, 20)];
        let lines = lines(&all);
        let told: Vec<_> =
            lines.iter().map(|line| (line.transaction.id.span, line.depth, line.last, line.offset_ns)).collect();
        assert_eq!(told, [(1, 0, true, 0), (2, 1, false, 10), (3, 1, true, 50), (4, 2, true, 55)]);
        assert_eq!(lines[0].parts, Parts { children_ns: 30, own_ns: 70, ..Parts::default() });
    }

    #[test]
    fn whose_parent_is_gone_is_a_stray_and_rings_end() {
        let all = [one(1, Some(9), 5, 1), one(2, Some(3), 0, 1), one(3, Some(2), 0, 1), one(4, Some(4), 0, 1)];
        let lines = lines(&all);
        assert_eq!(lines.len(), 4);
        assert!(lines.iter().find(|line| line.transaction.id.span == 1).is_some_and(|line| line.stray));
    }

    #[test]
    fn children_have_the_time_before_waits_for_them() {
        let mut parent = one(1, None, 1000, 100);
        parent.queued_ns = 10;
        parent.details.blocked =
            vec![Blocked { from_ns: 1020, to_ns: 1060, cause: 1 }, Blocked { from_ns: 1070, to_ns: 1075, cause: 2 }];
        // Three more ones that were not told one by one.
        parent.blocked_ns = 48;
        let mut elsewhere = one(2, Some(1), 7, 20);
        elsewhere.host = "there".into();
        elsewhere.start_unix_ns = parent.start_unix_ns + 30;
        let all = [parent, elsewhere];
        let lines = lines(&all);
        assert_eq!(lines[1].offset_ns, 30);
        assert_eq!(lines[0].parts, Parts { queued_ns: 10, children_ns: 20, blocked_ns: 28, own_ns: 42 });
    }

    proptest! {
        #[test]
        fn parts_add_up_and_each_comes_once(
            told in proptest::collection::vec((0u64..12, 0u64..60, 0u64..60, 0u64..70, 0u64..70, 0u64..70), 1..12),
        ) {
            let mut all = Vec::new();
            for (at, (parent, start, duration, queued, blocked_from, blocked_ns)) in told.into_iter().enumerate() {
                let mut transaction = one(at as u64 + 1, Some(parent).filter(|parent| *parent > 0), start, duration);
                (transaction.queued_ns, transaction.blocked_ns) = (queued, blocked_ns);
                let (from_ns, to_ns) = (blocked_from, blocked_from + blocked_ns / 2);
                transaction.details.blocked.push(Blocked { from_ns, to_ns, cause: 0 });
                all.push(transaction);
            }
            let lines = lines(&all);
            prop_assert_eq!(lines.len(), all.len());
            for line in lines {
                let Parts { queued_ns, children_ns, blocked_ns, own_ns } = line.parts;
                prop_assert_eq!(queued_ns + children_ns + blocked_ns + own_ns, line.transaction.duration_ns);
            }
        }
    }
}
