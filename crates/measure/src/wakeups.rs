//! Wake-ups that were for nothing: semi-busy-waiting (Horikawa 2000, section 3.2.4, Fig. 7).
//!
//! A process that waits for work is woken, finds that another one has taken it, and goes back to sleep.
//! Counted for each task: it was woken from a wait for descriptors and waits in the same call on the same descriptor
//! again, without having dealt with a socket in between.

use std::collections::HashMap;

/// Where a task waits: the system call and its first argument.
pub type Place = (u16, u16);

#[derive(Debug, Clone, Copy, Default)]
struct Task {
    /// Where it waited when it was woken last.
    woken_at: Option<Place>,
    waits_at: Option<Place>,
    touched: bool,
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
}

/// The fold; tasks beyond its bound are not followed.
#[derive(Debug, Clone)]
pub struct WakeupFold {
    most: usize,
    tasks: HashMap<u32, Task>,
    counts: Counts,
}

impl WakeupFold {
    /// An empty fold that follows at most so many tasks.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { most, tasks: HashMap::new(), counts: Counts::default() }
    }

    /// A task was made runnable. Returns whether that was from a wait for descriptors.
    pub fn woken(&mut self, pid: u32) -> bool {
        let Some(task) = self.tasks.get_mut(&pid) else { return false };
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

    /// A task waits: for descriptors at a place, or for something else. Returns whether its wake-up before was futile.
    pub fn waits(&mut self, pid: u32, place: Option<Place>, at_ns: u64) -> bool {
        if !self.tasks.contains_key(&pid) && (place.is_none() || self.tasks.len() >= self.most) {
            return false;
        }
        let task = self.tasks.entry(pid).or_default();
        let futile = place.is_some() && task.woken_at == place && !task.touched;
        task.woken_at = task.woken_at.filter(|_| place.is_none());
        task.waits_at = place;
        if futile {
            task.futile_ns = at_ns;
        }
        self.counts.futile += u64::from(futile);
        futile
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

    /// Fig. 7 of the paper: all are woken, one serves, the others go back to sleep.
    #[test]
    fn a_herd_counts_all_but_the_one_that_serves() {
        let mut fold = WakeupFold::new(100);
        (0..50).for_each(|pid| assert!(!fold.waits(pid, Some(LISTENING)), 9));
        for round in 0..10 {
            (0..50).for_each(|pid| assert!(fold.woken(pid)));
            fold.touched(round);
            (0..50).for_each(|pid| assert_eq!(fold.waits(pid, Some(LISTENING), 9), pid != round));
        }
        assert_eq!(fold.snapshot(), Counts { wakeups: 500, futile: 490 });
    }

    #[test]
    fn a_wait_elsewhere_is_work() {
        let mut fold = WakeupFold::new(100);
        fold.waits(1, Some(LISTENING), 9);
        fold.woken(1);
        assert!(!fold.waits(1, Some((7, 9)), 9), "it has accepted, and waits for the request");
        fold.woken(1);
        assert!(!fold.waits(1, Some(LISTENING)), 9);
        // A lock in between does not make it less futile.
        fold.woken(1);
        assert!(!fold.waits(1, None, 9));
        assert!(!fold.woken(1));
        assert!(fold.waits(1, Some(LISTENING)), 9);
        fold.accepted_early(1, 9);
        assert_eq!(fold.snapshot().futile, 1, "the connection was made later");
        fold.accepted_early(1, 5);
        fold.accepted_early(1, 5);
        assert_eq!(fold.snapshot().futile, 0);
    }

    #[test]
    fn tasks_are_bounded() {
        let mut fold = WakeupFold::new(3);
        (0..10).for_each(|pid| drop(fold.waits(pid, Some(LISTENING)), 9));
        assert_eq!((0..10).filter(|pid| fold.woken(*pid)).count(), 3);
        fold.ended(0);
        assert!(!fold.woken(0));
    }
}
