//! Wake-ups that were for nothing: semi-busy-waiting (Horikawa 2000, section 3.2.4, Fig. 7).
//!
//! A process that waits for work is woken, finds that another one has taken it, and goes back to sleep.
//! Counted for each task: it was woken from a wait for descriptors and waits in the same call on the same descriptor
//! again, without having dealt with a socket in between.

use rustc_hash::FxHashMap;

/// Where a task waits: the system call and its first argument.
pub type Place = (u16, u16);

#[derive(Debug, Clone, Copy, Default)]
struct Task {
    /// Where it waited when it was woken last.
    woken_at: Option<Place>,
    waits_at: Option<Place>,
    touched: bool,
    /// Whether it has a CPU, as far as that is known.
    runs: Option<bool>,
    /// When it went back to sleep for nothing the last time, 0 for never.
    futile_ns: u64,
}

/// Counts of wake-ups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Wake-ups from a wait for descriptors.
    pub wakeups: u64,
    /// Those for nothing.
    pub futile: u64,
    /// Events that must be missing: switches of these tasks, or lost ones of whomever. Without any, and unless a task was
    /// woken and slept again entirely unseen, the other counts are exact.
    pub unseen: u64,
}

/// The fold; tasks beyond its bound are not followed.
#[derive(Debug, Clone)]
pub struct WakeupFold {
    most: usize,
    tasks: FxHashMap<u32, Task>,
    counts: Counts,
}

impl WakeupFold {
    /// An empty fold that follows at most so many tasks.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { most, tasks: FxHashMap::default(), counts: Counts::default() }
    }

    /// A task is there, and waits for descriptors at a place, or is at something else. Since when is not known.
    pub fn found(&mut self, pid: u32, place: Option<Place>) {
        if let Some(task) = self.followed(pid) {
            let runs = place.map(|_| false);
            *task = Task { waits_at: place, runs, ..Task::default() };
        }
    }

    /// Whether a task is followed.
    #[must_use]
    pub fn follows(&self, pid: u32) -> bool {
        self.tasks.contains_key(&pid)
    }

    /// A task gets a CPU: if it waited, it has been woken. Returns whether that was from a wait for descriptors.
    pub fn runs(&mut self, pid: u32) -> bool {
        let Some(task) = self.tasks.get_mut(&pid) else { return false };
        self.counts.unseen += u64::from(task.runs == Some(true));
        task.runs = Some(true);
        let Some(place) = task.waits_at.take() else { return false };
        (task.woken_at, task.touched) = (Some(place), false);
        self.counts.wakeups += 1;
        true
    }

    /// A task dealt with a socket.
    pub fn touched(&mut self, pid: u32) {
        if let Some(task) = self.tasks.get_mut(&pid) {
            task.touched = true;
        }
    }

    /// A task loses its CPU and could run on.
    pub fn is_preempted(&mut self, pid: u32) {
        if self.tasks.contains_key(&pid) {
            self.leaves(pid);
        }
    }

    /// A task waits: for descriptors at a place, or for something else. Returns whether its wake-up before was futile.
    pub fn waits(&mut self, pid: u32, place: Option<Place>, at_ns: u64) -> bool {
        if place.is_none() && !self.tasks.contains_key(&pid) || self.followed(pid).is_none() {
            return false;
        }
        self.leaves(pid);
        let Some(task) = self.tasks.get_mut(&pid) else { return false };
        let futile = place.is_some() && task.woken_at == place && !task.touched;
        task.woken_at = task.woken_at.filter(|_| place.is_none());
        task.waits_at = place;
        if futile {
            task.futile_ns = at_ns;
        }
        self.counts.futile += u64::from(futile);
        futile
    }

    /// A task is not on its CPU any more.
    fn leaves(&mut self, pid: u32) {
        let Some(task) = self.tasks.get_mut(&pid) else { return };
        if task.runs.replace(false) == Some(false) {
            self.counts.unseen += 1;
            // It was woken and ran, and what it did meanwhile is not known: that is not called futile.
            if let Some(place) = task.waits_at.take() {
                (task.woken_at, task.touched) = (Some(place), true);
                self.counts.wakeups += 1;
            }
        }
    }

    /// A task, followed from now on if there is room.
    fn followed(&mut self, pid: u32) -> Option<&mut Task> {
        if self.tasks.len() >= self.most && !self.tasks.contains_key(&pid) {
            return None;
        }
        Some(self.tasks.entry(pid).or_default())
    }

    /// Events are missing that may have been of any task: so many are known to be.
    pub fn misses(&mut self, events: u64) {
        self.counts.unseen += events;
    }

    /// Events stop from now on, so that what the tasks do must be found anew.
    pub fn pause(&mut self) {
        self.tasks.clear();
    }

    /// A task turns out to have accepted a connection that was made at a time, before its first byte came: if it went
    /// back to sleep meanwhile, that was not for nothing.
    pub fn accepted_early(&mut self, pid: u32, since_ns: u64) {
        if let Some(task) = self.tasks.get_mut(&pid).filter(|task| task.futile_ns > since_ns) {
            task.futile_ns = 0;
            self.counts.futile -= 1;
        }
    }

    /// A task has ended.
    pub fn ended(&mut self, pid: u32) {
        self.tasks.remove(&pid);
    }

    /// The counts so far.
    #[must_use]
    pub fn snapshot(&self) -> Counts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTENING: Place = (232, 5);

    type Event = Box<dyn Fn(&mut WakeupFold)>;

    /// Fig. 7 of the paper: all are woken, one serves, the others go back to sleep.
    #[test]
    fn a_herd_counts_all_but_the_one_that_serves() {
        let mut fold = WakeupFold::new(100);
        // One half is seen to go to sleep, the other sleeps when the recording begins.
        (0..25).for_each(|pid| assert!(!fold.waits(pid, Some(LISTENING), 9)));
        (25..50).for_each(|pid| fold.found(pid, Some(LISTENING)));
        for round in 0..50 {
            (0..50).for_each(|pid| assert!(fold.runs(pid)));
            fold.touched(round);
            (0..50).for_each(|pid| assert_eq!(fold.waits(pid, Some(LISTENING), 9), pid != round));
        }
        assert_eq!(fold.snapshot(), Counts { wakeups: 2500, futile: 2450, unseen: 0 });
    }

    #[test]
    fn a_wait_elsewhere_is_work() {
        let mut fold = WakeupFold::new(100);
        fold.waits(1, Some(LISTENING), 9);
        fold.runs(1);
        assert!(!fold.waits(1, Some((7, 9)), 9), "it has accepted, and waits for the request");
        fold.runs(1);
        assert!(!fold.waits(1, Some(LISTENING), 9));
        // A lock in between does not make it less futile, nor does losing the CPU.
        fold.runs(1);
        assert!(!fold.waits(1, None, 9));
        assert!(!fold.runs(1));
        fold.is_preempted(1);
        assert!(!fold.runs(1));
        assert!(fold.waits(1, Some(LISTENING), 9));
        fold.accepted_early(1, 9);
        assert_eq!(fold.snapshot().futile, 1, "the connection was made later");
        fold.accepted_early(1, 5);
        fold.accepted_early(1, 5);
        assert_eq!(fold.snapshot().futile, 0);
    }

    /// Any events may be missing of a true story: the counts are off by at most what is said to be unseen.
    #[test]
    fn what_is_missing_bounds_the_error() {
        for seed in 0..500 {
            let mut chance = fastrand::Rng::with_seed(seed);
            let (mut whole, mut part) = (WakeupFold::new(100), WakeupFold::new(100));
            let mut lost = 0;
            for fold in [&mut whole, &mut part] {
                (0..3).for_each(|pid| fold.found(pid, Some(LISTENING)));
            }
            // What follows each loss is told, as virtual machines lose short stretches now and then.
            let mut whole_again = 0;
            for _ in 0..200 {
                let pid = chance.u32(..3);
                let busy = chance.u32(..4) == 0;
                let events: [Event; 3] = [
                    Box::new(move |fold| _ = fold.runs(pid)),
                    Box::new(move |fold| {
                        if busy {
                            fold.touched(pid);
                        }
                    }),
                    Box::new(move |fold| _ = fold.waits(pid, Some(LISTENING), 9)),
                ];
                let skipped = (whole_again <= 0 && chance.u32(..20) == 0).then(|| [0, 2][chance.usize(..2)]);
                whole_again = if skipped.is_some() { 6 } else { whole_again - 1 };
                for (index, event) in events.iter().enumerate() {
                    event(&mut whole);
                    if skipped == Some(index) {
                        lost += 1;
                    } else {
                        event(&mut part);
                    }
                }
            }
            let (whole, part) = (whole.snapshot(), part.snapshot());
            assert_eq!(whole.unseen, 0);
            // Single losses, each within what is told: of these each is noticed when its task is met next, so three may
            // not have been yet, and each makes an error of one at most.
            assert!(part.unseen <= lost && lost <= part.unseen + 3, "seed {seed}: {part:?}, {lost} lost");
            assert!(whole.futile.abs_diff(part.futile) <= lost, "seed {seed}: {whole:?} {part:?}");
            assert!(whole.wakeups.abs_diff(part.wakeups) <= lost, "seed {seed}: {whole:?} {part:?}");
        }
    }

    #[test]
    fn after_a_pause_nothing_is_known() {
        let mut fold = WakeupFold::new(100);
        fold.waits(1, Some(LISTENING), 9);
        fold.pause();
        assert!(!fold.runs(1) && !fold.follows(1));
        fold.found(1, None);
        assert!(fold.follows(1) && !fold.runs(1));
        assert!(!fold.waits(1, Some(LISTENING), 9));
        assert!(fold.runs(1));
        assert_eq!(fold.snapshot(), Counts { wakeups: 1, futile: 0, unseen: 0 });
    }

    #[test]
    fn tasks_are_bounded() {
        let mut fold = WakeupFold::new(3);
        assert!((0..10).all(|pid| !fold.waits(pid, Some(LISTENING), 9)));
        fold.found(11, Some(LISTENING));
        assert_eq!((0..12).filter(|pid| fold.runs(*pid)).count(), 3);
        fold.ended(0);
        assert!(!fold.runs(0));
    }
}
