//! Figures of classes and users: of a pass, of some seconds, of a batch. Each is the sum of those before.

use crate::keeper::{Fold, OTHER_USERS};
use crate::keyed::Keyed;
use crate::protocol::Outcomes;
use crate::transaction::Status;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use weir_measure::durations::Durations;
use weir_measure::part::PartTimes;

/// Figures of one sort that are kept apart; users beyond count together.
pub const MOST_CELLS: usize = 2048;
/// How long an interval is.
pub const INTERVAL_NS: u64 = 5_000_000_000;
/// Intervals that are looked back on: a minute, and the one that runs.
const INTERVALS: usize = 12;

/// What figures are kept for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Whose {
    /// Minutes since 1970.
    pub minute: u64,
    /// The class's number.
    pub class: u32,
    /// The user.
    pub user: Option<Arc<str>>,
}

/// Figures of one class, user and time.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    /// How many ended how.
    pub outcomes: Outcomes,
    /// How long they took.
    pub durations: Durations,
    /// Of that, blocked, nanoseconds.
    pub blocked_ns: u64,
    /// Of that, from arrival to begin, nanoseconds.
    pub queued_ns: u64,
    /// What their threads did and waited for, of those of which it was measured, nanoseconds.
    pub parts: Option<Box<PartTimes>>,
}

impl Cell {
    /// Takes a finished one that stands for so many.
    pub fn push(&mut self, status: Status, duration_ns: u64, blocked_ns: u64, queued_ns: u64, one_in: u32) {
        let times = u64::from(one_in.max(1));
        self.outcomes.add(status, times);
        self.durations.push_many(duration_ns, times);
        self.blocked_ns = self.blocked_ns.saturating_add(blocked_ns.saturating_mul(times));
        self.queued_ns = self.queued_ns.saturating_add(queued_ns.saturating_mul(times));
    }

    /// Adds what the thread of one did and waited for, which stands for so many.
    pub fn add_parts(&mut self, parts: &PartTimes, one_in: u32) {
        for (sum, ns) in self.parts.get_or_insert_default().iter_mut().zip(parts) {
            *sum = sum.saturating_add(ns.saturating_mul(u64::from(one_in.max(1))));
        }
    }

    /// Whether nothing was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.outcomes.all() == 0
    }

    /// Counts anew, and keeps the room.
    fn clear(&mut self) {
        let Self { outcomes, durations, blocked_ns, queued_ns, parts } = self;
        durations.clear();
        (*outcomes, *blocked_ns, *queued_ns, *parts) = (Outcomes::default(), 0, 0, None);
    }

    /// Adds another's.
    pub fn merge(&mut self, other: &Self) {
        self.outcomes.merge(&other.outcomes);
        self.durations.merge(&other.durations);
        self.blocked_ns = self.blocked_ns.saturating_add(other.blocked_ns);
        self.queued_ns = self.queued_ns.saturating_add(other.queued_ns);
        if let Some(parts) = &other.parts {
            self.add_parts(parts, 1);
        }
    }
}

/// Figures of many.
#[derive(Debug, Clone, Default)]
pub struct Cells {
    cells: HashMap<Whose, Cell, Keyed>,
    /// Some are there only for their room.
    has_empty: bool,
}

impl Cells {
    /// The place of some figures; beyond the bound that of all users of the class together, `true` = it is that.
    pub fn of(&mut self, whose: Whose) -> (&mut Cell, bool) {
        if self.has_empty && self.cells.len() >= MOST_CELLS {
            self.cells.retain(|_, cell| !cell.is_empty());
            self.has_empty = false;
        }
        let full = self.cells.len() >= MOST_CELLS && whose.user.is_some() && !self.cells.contains_key(&whose);
        let whose = if full { Whose { user: Some(OTHER_USERS.into()), ..whose } } else { whose };
        (self.cells.entry(whose).or_default(), full)
    }

    /// Adds another's.
    pub fn merge(&mut self, other: &Self) {
        for (whose, cell) in other.each() {
            self.of(whose.clone()).0.merge(cell);
        }
    }

    /// Each with whose it is.
    pub fn each(&self) -> impl Iterator<Item = (&Whose, &Cell)> {
        self.cells.iter().filter(|(_, cell)| !cell.is_empty())
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.each().next().is_none()
    }

    /// Begins anew, and keeps the room of those that had something to count this time.
    pub fn clear(&mut self) {
        self.cells.retain(|_, cell| {
            let was_used = !cell.is_empty();
            cell.clear();
            was_used
        });
        self.has_empty = !self.cells.is_empty();
    }

    /// As they are kept, with their names; in an order that does not depend on chance.
    #[must_use]
    pub fn folds(&self, name: impl Fn(u32) -> (String, String)) -> Vec<Fold> {
        let mut folds: Vec<Fold> = self
            .each()
            .map(|(whose, cell)| {
                let (application, transaction) = name(whose.class);
                Fold {
                    minute: whose.minute,
                    application,
                    transaction,
                    user: whose.user.as_deref().map(str::to_owned),
                    outcomes: cell.outcomes,
                    durations: cell.durations.clone(),
                    blocked_ns: cell.blocked_ns,
                    queued_ns: cell.queued_ns,
                }
            })
            .collect();
        fn key(fold: &Fold) -> (u64, &str, &str, Option<&str>) {
            (fold.minute, &fold.application, &fold.transaction, fold.user.as_deref())
        }
        folds.sort_by(|one, other| key(one).cmp(&key(other)));
        folds
    }
}

/// The last minute, in intervals.
#[derive(Debug)]
pub struct LastMinute {
    /// Closed intervals, the oldest first: begin, end, figures.
    closed: VecDeque<(u64, u64, Cells)>,
    begun_ns: u64,
    running: Cells,
}

impl LastMinute {
    /// From now on.
    #[must_use]
    pub fn new(now_ns: u64) -> Self {
        Self { closed: VecDeque::new(), begun_ns: now_ns, running: Cells::default() }
    }

    /// Adds the figures of a pass.
    pub fn merge(&mut self, pass: &Cells, now_ns: u64) {
        if now_ns.saturating_sub(self.begun_ns) >= INTERVAL_NS {
            let closed = std::mem::take(&mut self.running);
            self.closed.push_back((self.begun_ns, now_ns, closed));
            self.begun_ns = now_ns;
            if self.closed.len() > INTERVALS {
                self.closed.pop_front();
            }
        }
        self.running.merge(pass);
    }

    /// The figures of the last so many seconds by a key, and how many nanoseconds they are of: whole intervals.
    pub fn sum<K: std::hash::Hash + Eq>(
        &self,
        seconds: u32,
        now_ns: u64,
        key: impl Fn(&Whose) -> K,
    ) -> (HashMap<K, Cell>, u64) {
        let since_ns = now_ns.saturating_sub(u64::from(seconds).saturating_mul(1_000_000_000));
        let recent = self.closed.iter().filter(|interval| interval.1 > since_ns);
        let mut sums: HashMap<K, Cell> = HashMap::new();
        let mut from_ns = self.begun_ns;
        for (begun_ns, _, cells) in recent {
            from_ns = from_ns.min(*begun_ns);
            cells.each().for_each(|(whose, cell)| sums.entry(key(whose)).or_default().merge(cell));
        }
        self.running.each().for_each(|(whose, cell)| sums.entry(key(whose)).or_default().merge(cell));
        (sums, now_ns.saturating_sub(from_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whose(class: u32, user: Option<&str>) -> Whose {
        Whose { minute: 1, class, user: user.map(Arc::from) }
    }

    #[test]
    fn users_beyond_the_bound_count_together_and_none_is_lost() {
        let mut cells = Cells::default();
        let many = MOST_CELLS as u64 * 2;
        let mut beyond = 0;
        for at in 0..many {
            let (cell, others) = cells.of(whose(1, Some(&at.to_string())));
            cell.push(Status::Good, at, 0, 0, 1);
            beyond += u64::from(others);
        }
        let sum: u64 = cells.each().map(|(_, cell)| cell.outcomes.all()).sum();
        let others = cells.each().find(|(whose, _)| whose.user.as_deref() == Some(OTHER_USERS)).expect("others");
        assert_eq!((sum, others.1.outcomes.good, cells.each().count()), (many, beyond, MOST_CELLS + 1));
    }

    #[test]
    fn a_minute_is_looked_back_on_and_no_more() {
        let mut minute = LastMinute::new(0);
        let second = 1_000_000_000;
        for at in 1..=100 {
            let mut pass = Cells::default();
            pass.of(whose(1, None)).0.push(Status::Failed, 10, 4, 2, 3);
            minute.merge(&pass, at * second);
        }
        let (ten, of_ns) = minute.sum(10, 100 * second, |whose| whose.class);
        let seconds = of_ns / second;
        assert!((10..=15).contains(&seconds), "{seconds}");
        // Each second brought one that stands for three.
        let cell = &ten[&1];
        assert!((cell.outcomes.failed as i64 - 3 * seconds as i64).abs() <= 3, "{cell:?} in {seconds} s");
        assert_eq!((cell.blocked_ns, cell.queued_ns), (cell.outcomes.failed * 4, cell.outcomes.failed * 2));
        assert!(minute.sum(1000, 100 * second, |whose| whose.class).1 <= 66 * second);
    }
}
