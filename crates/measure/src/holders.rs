//! Whose request kept others waiting: a bounded fold that lays waits for a task beside the requests that the task was at.
//!
//! What was waited for may have a number (a lock's, with its holder), by which it is told apart.
//!
//! A wait names the task that had the lock, or that was at other requests. The request of that task may end long after the
//! wait, so a wait is kept until enough later responses have come. Where several requests would fit equally well, none is
//! told.
//!
//! A busy server has a wait for its queue in every response, and beside each are all that were in the queue. The first 4,096
//! waits for a thing are all laid beside responses; of those that come later one in 32 is, by chance, and what they tell
//! stands for the others in proportion to their time.

use crate::part::Part;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, VecDeque};

/// Steps of responses that are kept; beyond, the oldest responses go.
const MOST_STEPS: usize = 1 << 16;
/// Waits that are kept until the responses around them have come.
const MOST_HOLDS: usize = 1 << 12;
/// Responses of a task that a wait is laid beside, and that are looked through for these.
const MOST_BESIDE: usize = 64;
const MOST_LOOKED: usize = 4096;
/// Waits for one thing that are all laid beside responses, and the share of later ones: one in 2 to the power of this.
const ALL_OF_FIRST: u64 = 1 << 12;
const LATER_BITS: u32 = 5;
/// Tasks that one response is found by.
const MOST_TASKS: usize = 32;
/// Things waited for that are told apart; what comes after counts as none that has a number.
const MOST_THINGS: usize = 1024;

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
    /// The number of what was waited for, 0 where it has none.
    pub thing: u32,
    /// The task.
    pub holder: u32,
}

impl Hold {
    /// Whether another one goes on with the same wait.
    fn goes_on_in(&self, next: &Self) -> bool {
        (self.holder, self.part, self.thing, self.to_ns) == (next.holder, next.part, next.thing, next.from_ns)
    }
}

/// What a holder's request was doing while it kept others waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeldBy {
    /// The part of the waiting responses.
    pub part: Part,
    /// The number of what they waited for, 0 where it has none.
    pub thing: u32,
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

#[derive(Debug, Default)]
struct Kept {
    number: u64,
    class: u32,
    stretches: Vec<Stretch>,
    /// The tasks that it is found by.
    tasks: Vec<(u32, Place)>,
}

/// When a task was at a response: from its first dealing with it to its last.
#[derive(Debug, Clone, Copy)]
struct Place {
    from_ns: u64,
    to_ns: u64,
    /// The response's number.
    number: u64,
}

/// The extent of neighbouring places.
#[derive(Debug, Clone, Copy)]
struct Extent {
    from_ns: u64,
    to_ns: u64,
    /// The end of these and of all before them.
    all_to_ns: u64,
}

/// The responses by which a task is found, in the order in which they came.
#[derive(Debug, Default)]
struct Places {
    all: VecDeque<Place>,
    /// Of each [`Self::BLOCK`] of them: what lies wholly outside a wait is passed over at once.
    extents: VecDeque<Extent>,
    /// How many have gone.
    gone: usize,
}

impl Places {
    /// Places that share an extent.
    const BLOCK: usize = 32;

    fn add(&mut self, place: Place) {
        let Place { from_ns, to_ns, .. } = place;
        let all_to_ns = self.extents.back().map_or(to_ns, |last| last.all_to_ns.max(to_ns));
        match self.extents.back_mut() {
            Some(last) if !(self.gone + self.all.len()).is_multiple_of(Self::BLOCK) => {
                *last = Extent { from_ns: last.from_ns.min(from_ns), to_ns: last.to_ns.max(to_ns), all_to_ns };
            }
            _ => self.extents.push_back(Extent { from_ns, to_ns, all_to_ns }),
        }
        self.all.push_back(place);
    }

    /// Forgets the first response if it is this one.
    fn forget(&mut self, number: u64) {
        if self.all.front().is_some_and(|first| first.number == number) {
            self.all.pop_front();
            self.gone += 1;
            if self.gone.is_multiple_of(Self::BLOCK) {
                self.extents.pop_front();
            }
        }
    }

    /// The responses that a wait overlaps, but for its own: what of the wait, and their number, the newest first.
    fn beside(&self, hold: Hold, of: u64) -> impl Iterator<Item = (u64, u64, u64)> {
        let overlaps = move |from_ns: u64, to_ns: u64| from_ns < hold.to_ns && to_ns > hold.from_ns;
        let blocks = self.extents.iter().enumerate().rev().take_while(move |(_, one)| one.all_to_ns > hold.from_ns);
        let blocks = blocks.filter(move |(_, one)| overlaps(one.from_ns, one.to_ns));
        let within = blocks.take(MOST_LOOKED / Self::BLOCK).flat_map(move |(block, _)| {
            let begun = self.gone % Self::BLOCK;
            let first = (block * Self::BLOCK).saturating_sub(begun);
            let end = ((block + 1) * Self::BLOCK - begun).min(self.all.len());
            self.all.range(first.min(end)..end).rev()
        });
        let beside = within.filter(move |place| place.number != of && overlaps(place.from_ns, place.to_ns));
        beside.map(move |place| (hold.from_ns.max(place.from_ns), hold.to_ns.min(place.to_ns), place.number))
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

/// How much there was of waits for a thing, in a part.
#[derive(Debug, Default, Clone, Copy)]
struct Amount {
    waits: u64,
    whole_ns: u64,
    /// Of it in waits that are laid beside responses.
    looked_ns: u64,
}

/// The fold.
#[derive(Debug, Default)]
pub struct HoldersFold {
    kept: VecDeque<Kept>,
    steps: usize,
    next: u64,
    places: FxHashMap<u32, Places>,
    /// One that went, for its room.
    spare: Option<Kept>,
    holds: VecDeque<Held>,
    /// Steps of all responses so far.
    pushed: u64,
    told: BTreeMap<HeldBy, u64>,
    /// How long each thing with a number was waited for.
    things: BTreeMap<u32, u64>,
    /// By the part and the number of the thing.
    amounts: BTreeMap<(Part, u32), Amount>,
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
            let hold = Hold { thing: self.thing(hold), ..hold };
            if !self.looks_at(hold, number) {
                continue;
            }
            match self.holds.back_mut() {
                // One wait in pieces.
                Some(Held { of, hold: last, .. }) if *of == number && last.goes_on_in(&hold) => last.to_ns = hold.to_ns,
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

    /// How long which requests kept others waiting, and what they did meanwhile, nanoseconds over all responses; never more
    /// for a thing than it was waited for.
    #[must_use]
    pub fn told(&self) -> BTreeMap<HeldBy, u64> {
        let of_all = |(by, ns): (&HeldBy, &u64)| {
            let Amount { whole_ns, looked_ns, .. } =
                self.amounts.get(&(by.part, by.thing)).copied().unwrap_or_default();
            let ns = u128::from(*ns) * u128::from(whole_ns) / u128::from(looked_ns.max(1));
            (*by, u64::try_from(ns).unwrap_or(u64::MAX))
        };
        self.told.iter().map(of_all).collect()
    }

    /// How long each thing that has a number was waited for, nanoseconds over all responses.
    #[must_use]
    pub fn things(&self) -> &BTreeMap<u32, u64> {
        &self.things
    }

    /// The number by which what was waited for is told apart; it counts the wait.
    fn thing(&mut self, hold: Hold) -> u32 {
        let has_room = self.things.contains_key(&hold.thing) || self.things.len() < MOST_THINGS;
        let thing = if has_room { hold.thing } else { 0 };
        if thing != 0 {
            *self.things.entry(thing).or_default() += hold.to_ns - hold.from_ns;
        }
        thing
    }

    /// Whether a wait of a response is laid beside others; it counts it.
    fn looks_at(&mut self, hold: Hold, of: u64) -> bool {
        let amount = self.amounts.entry((hold.part, hold.thing)).or_default();
        let ns = hold.to_ns - hold.from_ns;
        amount.waits += 1;
        amount.whole_ns += ns;
        // A response is chosen as a whole, as its wait may come in pieces; by a hash of its number, so that no rhythm counts.
        let is_chosen = of.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - LATER_BITS) == 0;
        let looks = amount.waits <= ALL_OF_FIRST || is_chosen;
        amount.looked_ns += if looks { ns } else { 0 };
        looks
    }

    fn keep(&mut self, number: u64, class: u32, stretches: &[Stretch]) {
        // The room of the one that went last is used again.
        let mut kept = self.spare.take().unwrap_or_default();
        kept.tasks.clear();
        for stretch in stretches.iter().filter(|stretch| stretch.is_with_its_task()) {
            let Stretch { from_ns, to_ns, .. } = *stretch;
            for task in [stretch.task, stretch.waiter].into_iter().filter(|task| *task != 0) {
                let has_room = kept.tasks.len() < MOST_TASKS;
                match kept.tasks.iter_mut().find(|(known, _)| *known == task) {
                    Some((_, place)) => place.to_ns = place.to_ns.max(to_ns),
                    None if has_room => kept.tasks.push((task, Place { from_ns, to_ns, number })),
                    None => {}
                }
            }
        }
        for (task, place) in &kept.tasks {
            self.places.entry(*task).or_default().add(*place);
        }
        kept.stretches.clear();
        kept.stretches.extend_from_slice(stretches);
        self.steps += stretches.len().max(1);
        self.pushed += stretches.len().max(1) as u64;
        self.kept.push_back(Kept { number, class, ..kept });
    }

    fn forget_first(&mut self) {
        let Some(first) = self.kept.pop_front() else { return };
        self.steps -= first.stretches.len().max(1);
        for (task, _) in &first.tasks {
            if let Some(places) = self.places.get_mut(task) {
                places.forget(first.number);
                if places.all.is_empty() {
                    self.places.remove(task);
                }
            }
        }
        self.spare = Some(first);
    }

    fn settle_first(&mut self) {
        let Some(Held { of, hold, .. }) = self.holds.pop_front() else { return };
        let Some(places) = self.places.get(&hold.holder) else { return };
        let first = self.kept.front().map_or(0, |first| first.number);
        let beside = places.beside(hold, of).take(MOST_BESIDE).filter_map(|(from_ns, to_ns, number)| {
            let kept = self.kept.get(usize::try_from(number.checked_sub(first)?).ok()?)?;
            Some(fits(kept, (from_ns, to_ns), hold.holder))
        });
        // A CPU is kept by the request that its task runs for alone.
        let keeps = |fit: &Fit| hold.part != Part::WaitCpu || fit.nearness == Nearness::Runs;
        let fits: Vec<Fit> = beside.flatten().filter(keeps).collect();
        for (class, did, ns) in divided(fits) {
            *self.told.entry(HeldBy { part: hold.part, thing: hold.thing, class, did }).or_default() += ns;
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
fn divided(mut fits: Vec<Fit>) -> Vec<(u32, Part, u64)> {
    fits.sort_unstable_by_key(|fit| fit.from_ns);
    let mut edges: Vec<u64> = fits.iter().flat_map(|fit| [fit.from_ns, fit.to_ns]).collect();
    edges.sort_unstable();
    edges.dedup();
    let (mut told, mut to_come, mut here) = (Vec::new(), fits.into_iter().peekable(), Vec::<Fit>::new());
    for pair in edges.windows(2) {
        let (from_ns, to_ns) = (pair[0], pair[1]);
        here.extend(std::iter::from_fn(|| to_come.next_if(|fit| fit.from_ns <= from_ns)));
        here.retain(|fit| fit.to_ns >= to_ns);
        let Some(nearest) = here.iter().min_by_key(|fit| fit.nearness) else { continue };
        if here.iter().all(|fit| fit.nearness > nearest.nearness || fit.number == nearest.number) {
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
        Hold { from_ns, to_ns, part, thing: 0, holder }
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

    /// Task 7 runs for one request and has another one under way, which sleeps: the CPU is kept by the first alone.
    #[test]
    fn a_cpu_is_kept_by_the_request_that_its_task_runs_for() {
        let mut fold = HoldersFold::new();
        fold.push(1, &[stretch(0, 40, Part::WaitTimer, 7, 0), stretch(40, 60, Part::Run, 7, 0)], []);
        fold.push(2, &[stretch(0, 60, Part::WaitCpu, 8, 0)], [hold(20, 60, Part::WaitCpu, 7)]);
        fold.finish();
        assert_eq!(told(&fold), [(Part::WaitCpu, 1, Part::Run, 20)]);
    }

    /// Two locks of one holder are told apart, and each wait counts whole, known or not.
    #[test]
    fn what_is_waited_for_is_told_apart_by_its_number() {
        let mut fold = HoldersFold::new();
        fold.push(1, &[stretch(0, 40, Part::Run, 7, 0)], []);
        for (thing, to_ns) in [(5, 30), (6, 50)] {
            let wait = Hold { thing, ..hold(20, to_ns, Part::WaitLock, 7) };
            fold.push(2, &[stretch(20, to_ns, Part::WaitLock, 8, 0)], [wait]);
        }
        fold.finish();
        let known: Vec<(u32, u64)> = fold.told().iter().map(|(by, ns)| (by.thing, *ns)).collect();
        assert_eq!((known, fold.things().clone()), (vec![(5, 10), (6, 20)], [(5, 10), (6, 30)].into()));
    }

    #[test]
    fn things_beyond_the_bound_have_no_number() {
        let mut fold = HoldersFold::new();
        for thing in 1..3 * MOST_THINGS as u32 {
            let wait = Hold { thing, ..hold(20, 30, Part::WaitLock, 7) };
            fold.push(2, &[stretch(20, 30, Part::WaitLock, 8, 0)], [wait]);
        }
        assert!(fold.things().len() <= MOST_THINGS, "{}", fold.things().len());
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
        let places: usize = fold.places.values().map(|places| places.all.len()).sum();
        assert_eq!(places, fold.kept.len());
    }

    /// Tasks 1 to 3 keep others for requests of their own classes, three, two and one time of six.
    #[test]
    fn of_many_waits_a_part_stands_for_all() {
        let mut fold = HoldersFold::new();
        let mut exact = BTreeMap::<u32, u64>::new();
        let mut random = fastrand::Rng::with_seed(7);
        let mut looked = 0;
        for number in 0..200_000 {
            let (from_ns, ns) = (number * 1_000, random.u64(1..900));
            let holder = [1, 1, 1, 2, 2, 3][random.usize(..6)];
            fold.push(10 + holder, &[stretch(from_ns, from_ns + 950, Part::Run, holder, 0)], []);
            let waiting = [stretch(from_ns, from_ns + ns, Part::WorkerQueue, 0, 0)];
            fold.push(4, &waiting, [hold(from_ns, from_ns + ns, Part::WorkerQueue, holder)]);
            *exact.entry(10 + holder).or_default() += ns;
            looked = looked.max(fold.holds.len());
        }
        fold.finish();
        assert!(looked <= MOST_HOLDS);
        let whole: u64 = exact.values().sum();
        let told = told(&fold);
        assert!(told.iter().map(|one| one.3).sum::<u64>() <= whole, "{told:?}");
        for (part, class, did, ns) in told {
            assert_eq!((part, did), (Part::WorkerQueue, Part::Run));
            let share = |ns: u64| ns as f64 / whole as f64;
            assert!((share(ns) - share(exact[&class])).abs() < 0.01, "class {class}: {ns} of {exact:?}");
        }
    }

    proptest! {
        /// What a wait overlaps is found by extents as by a look at all.
        #[test]
        fn all_that_a_wait_overlaps_are_found(
            times in proptest::collection::vec((0u64..40, 1u64..60), 0..200),
            gone in 0u64..150,
            (from_ns, length) in (0u64..2_000, 1u64..200),
        ) {
            // One after the other, as responses come.
            let in_turn = |(number, (more, length)): (u64, (u64, u64))| (10 * number + more, length);
            let times: Vec<(u64, u64)> = (0..).zip(times).map(in_turn).collect();
            let mut places = Places::default();
            for (number, (from_ns, length)) in (0..).zip(&times) {
                places.add(Place { from_ns: *from_ns, to_ns: from_ns + length, number });
            }
            (0..gone).for_each(|number| places.forget(number));
            let (own, wait) = (77, hold(from_ns, from_ns + length, Part::WaitLock, 7));
            let found: Vec<_> = places.beside(wait, own).map(|(.., number)| number).collect();
            let overlaps = |(number, (from_ns, length)): (u64, &(u64, u64))| {
                let is_there = number >= gone && number != own;
                (is_there && *from_ns < wait.to_ns && from_ns + length > wait.from_ns).then_some(number)
            };
            let mut all: Vec<u64> = (0..).zip(&times).filter_map(overlaps).collect();
            all.reverse();
            prop_assert_eq!(found, all);
        }

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
