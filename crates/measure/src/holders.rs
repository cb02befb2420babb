//! Whose request kept others waiting: a bounded fold that lays waits for a task beside the requests that the task was at.
//!
//! A wait names the task that had the lock, or that was at other requests. The request of that task may end long after the
//! wait, so a wait is kept until enough later responses have come. Where several requests would fit equally well, none is
//! told.

use crate::part::Part;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Steps of responses that are kept; beyond, the oldest responses go.
const MOST_STEPS: usize = 1 << 16;
/// Waits that are kept until the responses around them have come.
const MOST_HOLDS: usize = 1 << 12;
/// Responses of a task that a wait is laid beside, and that are looked through for these.
const MOST_BESIDE: usize = 64;
const MOST_LOOKED: usize = 4096;
/// Tasks that one response is found by.
const MOST_TASKS: usize = 32;

/// A step of a response, as the fold takes it; the steps of a response follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// Its begin, nanoseconds.
    pub from_ns: u64,
    /// Its end.
    pub to_ns: u64,
    /// What it was.
    pub part: Part,
    /// Whose time it was, 0 for none that is known.
    pub task: u32,
    /// The task that waited for that one, 0 for none.
    pub waiter: u32,
}

/// A wait for what a task had, or for the task itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold {
    /// Its begin, nanoseconds.
    pub from_ns: u64,
    /// Its end.
    pub to_ns: u64,
    /// The part of the waiting response.
    pub part: Part,
    /// The task.
    pub holder: u32,
}

/// What a holder's request was doing while it kept others waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeldBy {
    /// The part of the waiting responses.
    pub part: Part,
    /// The class of the holder's request.
    pub class: u32,
    /// The part in which the holder's request was.
    pub did: Part,
}

/// How near a task was to a request: a smaller one tells more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Nearness {
    /// It ran for it.
    Runs,
    /// It waited for it, or for one that did.
    Works,
    /// The request had been with it, and came back: what a transaction of a database has in hand meanwhile stays.
    Between,
}

#[derive(Debug)]
struct Kept {
    number: u64,
    class: u32,
    stretches: Vec<Stretch>,
    /// The tasks that it is found by, each with its first dealing.
    tasks: Vec<(u32, u64)>,
}

/// The responses by which a task is found: by the task's first dealing with each, and its number, the last dealing.
#[derive(Debug, Default)]
struct Places {
    until_ns: BTreeMap<(u64, u64), u64>,
    /// The longest that any of them took: none that began earlier than that before a time reaches it.
    longest_ns: u64,
}

impl Places {
    fn add(&mut self, from_ns: u64, number: u64, to_ns: u64) {
        let until_ns = self.until_ns.entry((from_ns, number)).or_insert(to_ns);
        *until_ns = to_ns.max(*until_ns);
        self.longest_ns = self.longest_ns.max(until_ns.saturating_sub(from_ns));
    }

    /// The responses that a wait overlaps, but for its own: what of the wait, and their number, the newest first.
    fn beside(&self, hold: Hold, of: u64) -> impl Iterator<Item = (u64, u64, u64)> {
        let earliest_ns = hold.from_ns.saturating_sub(self.longest_ns);
        let near = self.until_ns.range((earliest_ns, 0)..(hold.to_ns, 0)).rev().take(MOST_LOOKED);
        let beside = near.filter(move |((_, number), to_ns)| *number != of && **to_ns > hold.from_ns);
        beside.map(move |((from_ns, number), to_ns)| (hold.from_ns.max(*from_ns), hold.to_ns.min(*to_ns), *number))
    }
}

/// A wait that is kept.
#[derive(Debug)]
struct Held {
    /// The response that waited.
    of: u64,
    /// The steps that had come by then.
    at: u64,
    hold: Hold,
}

/// The fold.
#[derive(Debug, Default)]
pub struct HoldersFold {
    kept: VecDeque<Kept>,
    steps: usize,
    next: u64,
    places: HashMap<u32, Places>,
    holds: VecDeque<Held>,
    /// Steps of all responses so far.
    pushed: u64,
    told: BTreeMap<HeldBy, u64>,
}

impl Stretch {
    /// Whether the request was with its task then, and not in front of it.
    fn is_with_its_task(&self) -> bool {
        !matches!(self.part, Part::AcceptQueue | Part::WorkerQueue)
    }
}

impl HoldersFold {
    /// An empty fold.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a response: its class, its steps in their order, and its waits for tasks.
    pub fn push(&mut self, class: u32, stretches: &[Stretch], holds: impl IntoIterator<Item = Hold>) {
        let number = self.next;
        self.next += 1;
        for hold in holds.into_iter().filter(|hold| hold.holder != 0 && hold.from_ns < hold.to_ns) {
            match self.holds.back_mut() {
                // One wait in pieces.
                Some(Held { of, hold: last, .. })
                    if *of == number
                        && (last.holder, last.part, last.to_ns) == (hold.holder, hold.part, hold.from_ns) =>
                {
                    last.to_ns = hold.to_ns;
                }
                _ => self.holds.push_back(Held { of: number, at: self.pushed, hold }),
            }
        }
        self.keep(number, class, stretches);
        // Halfway through what is kept a wait has as many responses before it as after it.
        let is_due = |told: u64| self.pushed - told > (MOST_STEPS / 2) as u64;
        let over = self.holds.len().saturating_sub(MOST_HOLDS);
        let due = self.holds.iter().take_while(|held| is_due(held.at)).count().max(over);
        for _ in 0..due {
            self.settle_first();
        }
        while self.steps > MOST_STEPS {
            self.forget_first();
        }
    }

    /// Settles what still waits for later responses.
    pub fn finish(&mut self) {
        while !self.holds.is_empty() {
            self.settle_first();
        }
    }

    /// How long which requests kept others waiting, and what they did meanwhile, nanoseconds over all responses.
    #[must_use]
    pub fn told(&self) -> &BTreeMap<HeldBy, u64> {
        &self.told
    }

    fn keep(&mut self, number: u64, class: u32, stretches: &[Stretch]) {
        let mut tasks: Vec<(u32, u64)> = Vec::new();
        for stretch in stretches.iter().filter(|stretch| stretch.is_with_its_task()) {
            for task in [stretch.task, stretch.waiter] {
                let known = tasks.iter().find(|(known, _)| *known == task).copied();
                if task == 0 || known.is_none() && tasks.len() >= MOST_TASKS {
                    continue;
                }
                let (_, from_ns) = known.unwrap_or((task, stretch.from_ns));
                if known.is_none() {
                    tasks.push((task, from_ns));
                }
                self.places.entry(task).or_default().add(from_ns, number, stretch.to_ns);
            }
        }
        self.steps += stretches.len().max(1);
        self.pushed += stretches.len().max(1) as u64;
        self.kept.push_back(Kept { number, class, stretches: stretches.to_vec(), tasks });
    }

    fn forget_first(&mut self) {
        let Some(first) = self.kept.pop_front() else { return };
        self.steps -= first.stretches.len().max(1);
        for (task, from_ns) in first.tasks {
            if let Some(places) = self.places.get_mut(&task) {
                places.until_ns.remove(&(from_ns, first.number));
                if places.until_ns.is_empty() {
                    self.places.remove(&task);
                }
            }
        }
    }

    fn settle_first(&mut self) {
        let Some(Held { of, hold, .. }) = self.holds.pop_front() else { return };
        let Some(places) = self.places.get(&hold.holder) else { return };
        let first = self.kept.front().map_or(0, |first| first.number);
        let beside = places.beside(hold, of).take(MOST_BESIDE).filter_map(|(from_ns, to_ns, number)| {
            let kept = self.kept.get(usize::try_from(number.checked_sub(first)?).ok()?)?;
            Some(fits(kept, (from_ns, to_ns), hold.holder))
        });
        let fits: Vec<Fit> = beside.flatten().collect();
        for (class, did, ns) in divided(&fits) {
            *self.told.entry(HeldBy { part: hold.part, class, did }).or_default() += ns;
        }
    }
}

/// A stretch of a wait in which a request was with the holder.
#[derive(Debug, Clone, Copy)]
struct Fit {
    from_ns: u64,
    to_ns: u64,
    nearness: Nearness,
    number: u64,
    class: u32,
    did: Part,
}

/// Where a response was with the holder within a time.
fn fits(kept: &Kept, (from_ns, to_ns): (u64, u64), holder: u32) -> impl Iterator<Item = Fit> {
    let first = kept.stretches.partition_point(|stretch| stretch.to_ns <= from_ns);
    let within = kept.stretches[first..].iter().take_while(move |stretch| stretch.from_ns < to_ns);
    within.filter(|stretch| stretch.is_with_its_task()).map(move |stretch| {
        let nearness = match () {
            () if stretch.task == holder && stretch.part == Part::Run => Nearness::Runs,
            () if stretch.task == holder || stretch.waiter == holder => Nearness::Works,
            () => Nearness::Between,
        };
        let (from_ns, to_ns) = (stretch.from_ns.max(from_ns), stretch.to_ns.min(to_ns));
        Fit { from_ns, to_ns, nearness, number: kept.number, class: kept.class, did: stretch.part }
    })
}

/// Divides a wait among the requests that fit: the nearest one at each time, and none where two are equally near.
fn divided(fits: &[Fit]) -> Vec<(u32, Part, u64)> {
    let mut edges: Vec<u64> = fits.iter().flat_map(|fit| [fit.from_ns, fit.to_ns]).collect();
    edges.sort_unstable();
    edges.dedup();
    let mut told = Vec::new();
    for pair in edges.windows(2) {
        let (from_ns, to_ns) = (pair[0], pair[1]);
        let covers = || fits.iter().filter(|fit| fit.from_ns <= from_ns && fit.to_ns >= to_ns);
        let Some(nearest) = covers().min_by_key(|fit| fit.nearness) else { continue };
        if covers().all(|fit| fit.nearness > nearest.nearness || fit.number == nearest.number) {
            told.push((nearest.class, nearest.did, to_ns - from_ns));
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stretch(from_ns: u64, to_ns: u64, part: Part, task: u32, waiter: u32) -> Stretch {
        Stretch { from_ns, to_ns, part, task, waiter }
    }

    fn hold(from_ns: u64, to_ns: u64, part: Part, holder: u32) -> Hold {
        Hold { from_ns, to_ns, part, holder }
    }

    fn told(fold: &HoldersFold) -> Vec<(Part, u32, Part, u64)> {
        fold.told().iter().map(|(by, ns)| (by.part, by.class, by.did, *ns)).collect()
    }

    /// Task 7 has a lock at 10 to 60 for a request of class 3, which sleeps at 20 to 60 and ends after the one that waits.
    #[test]
    fn a_holder_is_told_by_its_request_before_or_after() {
        let holders = [stretch(0, 20, Part::Run, 7, 0), stretch(20, 60, Part::WaitTimer, 7, 0)];
        let waiting = [stretch(10, 60, Part::WaitLock, 8, 0), stretch(60, 61, Part::Run, 8, 0)];
        for turn in [true, false] {
            let mut fold = HoldersFold::new();
            if turn {
                fold.push(3, &holders, []);
            }
            fold.push(4, &waiting, [hold(10, 30, Part::WaitLock, 7), hold(30, 60, Part::WaitLock, 7)]);
            if !turn {
                fold.push(3, &holders, []);
            }
            fold.finish();
            assert_eq!(told(&fold), [(Part::WaitLock, 3, Part::Run, 10), (Part::WaitLock, 3, Part::WaitTimer, 40)]);
        }
    }

    /// Task 9 is a database's for task 7, whose request sleeps between two statements and keeps a row locked.
    #[test]
    fn what_a_database_has_in_hand_is_its_clients() {
        let holders = [
            stretch(0, 10, Part::Run, 9, 7),
            stretch(10, 50, Part::WaitTimer, 7, 0),
            stretch(50, 55, Part::Run, 9, 7),
            stretch(55, 90, Part::Run, 7, 0),
        ];
        let mut fold = HoldersFold::new();
        fold.push(1, &holders, []);
        fold.push(2, &[stretch(5, 80, Part::WaitLock, 6, 8)], [hold(5, 80, Part::WaitLock, 9)]);
        fold.finish();
        assert_eq!(told(&fold), [(Part::WaitLock, 1, Part::Run, 10), (Part::WaitLock, 1, Part::WaitTimer, 40)]);
    }

    /// Two requests wait for task 7, which is at a third: none of the two keeps the other.
    #[test]
    fn what_waits_for_a_task_keeps_no_other() {
        let mut fold = HoldersFold::new();
        fold.push(1, &[stretch(0, 50, Part::WaitTimer, 7, 0)], []);
        for class in [2, 3] {
            let queue = [stretch(10, 50, Part::AcceptQueue, 7, 0), stretch(50, 60, Part::Run, 7, 0)];
            fold.push(class, &queue, [hold(10, 50, Part::AcceptQueue, 7)]);
        }
        fold.finish();
        assert_eq!(told(&fold), [(Part::AcceptQueue, 1, Part::WaitTimer, 80)]);
    }

    /// Two requests that a loop has under way sleep at once: only of the one that it runs for is it told.
    #[test]
    fn none_is_told_where_two_fit() {
        let mut fold = HoldersFold::new();
        fold.push(1, &[stretch(0, 100, Part::WaitTimer, 7, 0)], []);
        fold.push(2, &[stretch(0, 40, Part::WaitTimer, 7, 0), stretch(40, 60, Part::Run, 7, 0)], []);
        fold.push(3, &[stretch(20, 90, Part::WorkerQueue, 7, 0)], [hold(20, 60, Part::WorkerQueue, 7)]);
        fold.finish();
        assert_eq!(told(&fold), [(Part::WorkerQueue, 2, Part::Run, 20)]);
    }

    #[test]
    fn no_more_is_kept_than_the_bound() {
        let mut fold = HoldersFold::new();
        for at in 0..200_000u64 {
            let own = 1 + (at % 5) as u32;
            fold.push(1, &[stretch(at, at + 1, Part::Run, own, 0)], [hold(at, at + 1, Part::WaitLock, own % 5 + 1)]);
        }
        assert!(fold.steps <= MOST_STEPS && fold.holds.len() <= MOST_HOLDS, "{} {}", fold.steps, fold.holds.len());
        assert_eq!(fold.told().values().sum::<u64>(), 0, "each ran alone");
        let places: usize = fold.places.values().map(|places| places.until_ns.len()).sum();
        assert_eq!(places, fold.kept.len());
    }

    proptest! {
        /// What is told of a wait is never longer than the wait, and none is told of a request that was not there.
        #[test]
        fn no_more_is_told_than_was_waited(
            responses in proptest::collection::vec(
                (0u64..50, proptest::collection::vec((1u64..20, 0usize..Part::COUNT, 0u32..4, 0u32..4), 0..6),
                 proptest::collection::vec((0u64..100, 0u64..40, 0u32..4), 0..3)),
                0..12,
            ),
        ) {
            let (mut fold, mut waited) = (HoldersFold::new(), 0);
            let mut seen = std::collections::BTreeSet::new();
            for (number, (from, steps, waits)) in responses.into_iter().enumerate() {
                let mut at = from;
                let stretches: Vec<Stretch> = steps
                    .into_iter()
                    .map(|(length, part, task, waiter)| {
                        at += length;
                        stretch(at - length, at, Part::ALL[part], task, waiter)
                    })
                    .collect();
                let waits: Vec<Hold> =
                    waits.into_iter().map(|(at, length, task)| hold(at, at + length, Part::WaitLock, task)).collect();
                waited += waits.iter().map(|wait| wait.to_ns - wait.from_ns).sum::<u64>();
                seen.extend(stretches.iter().map(|stretch| (number as u32, stretch.part)));
                fold.push(number as u32, &stretches, waits);
            }
            fold.finish();
            prop_assert!(fold.told().values().sum::<u64>() <= waited);
            prop_assert!(fold.told().keys().all(|by| seen.contains(&(by.class, by.did))));
        }
    }
}
