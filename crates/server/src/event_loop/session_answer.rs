//! The answer of one of several loops to a thread that waits for it, and may leave.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What a thread waits for. An answer that is given after the thread has left comes back to the giver, so that nothing
/// is lost between the two.
#[derive(Debug)]
pub(super) struct Answer<T>(Arc<Place<T>>);

#[derive(Debug)]
struct Place<T> {
    slot: Mutex<Slot<T>>,
    told: Condvar,
}

#[derive(Debug)]
enum Slot<T> {
    /// So many loops have not said anything yet.
    Awaited(usize),
    Given(T),
    /// It was taken, or is not waited for any more.
    Left,
}

impl<T> Clone for Answer<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Answer<T> {
    /// One that so many loops are asked for.
    pub(super) fn of(loops: usize) -> Self {
        Self(Arc::new(Place { slot: Mutex::new(Slot::Awaited(loops)), told: Condvar::new() }))
    }

    fn slot(&self) -> MutexGuard<'_, Slot<T>> {
        // A thread that panicked with the lock held left a whole value.
        self.0.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the answer; it comes back if there is one, or if it is not waited for any more.
    pub(super) fn give(&self, answer: T) -> Option<T> {
        let mut slot = self.slot();
        if !matches!(*slot, Slot::Awaited(_)) {
            return Some(answer);
        }
        *slot = Slot::Given(answer);
        self.0.told.notify_all();
        None
    }

    /// A loop has nothing to say; if it is the last one this is the answer.
    pub(super) fn pass(&self, last: T) {
        let mut slot = self.slot();
        match &mut *slot {
            Slot::Awaited(loops) if *loops > 1 => *loops -= 1,
            Slot::Awaited(_) => {
                *slot = Slot::Given(last);
                self.0.told.notify_all();
            }
            Slot::Given(_) | Slot::Left => {}
        }
    }

    /// Whether it is not waited for any more.
    pub(super) fn is_left(&self) -> bool {
        matches!(*self.slot(), Slot::Left)
    }

    /// Waits for the answer, at most so long; nothing is given later.
    pub(super) fn wait(&self, most: Duration) -> Option<T> {
        let deadline = Instant::now() + most;
        let mut slot = self.slot();
        while matches!(*slot, Slot::Awaited(_)) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            slot = self.0.told.wait_timeout(slot, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        match std::mem::replace(&mut *slot, Slot::Left) {
            Slot::Given(answer) => Some(answer),
            Slot::Awaited(_) | Slot::Left => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_answer_counts_or_the_last_that_passes() {
        let answer = Answer::of(3);
        answer.pass(0);
        assert_eq!((answer.give(7), answer.give(8)), (None, Some(8)));
        answer.pass(9);
        assert_eq!(answer.wait(Duration::ZERO), Some(7));
        let answer = Answer::of(2);
        answer.pass(1);
        answer.pass(2);
        assert_eq!(answer.wait(Duration::ZERO), Some(2));
    }

    #[test]
    fn what_comes_too_late_goes_back() {
        let answer = Answer::of(1);
        assert_eq!(answer.wait(Duration::from_millis(1)), None);
        assert!(answer.is_left());
        assert_eq!(answer.give(5), Some(5));
    }

    #[test]
    fn a_thread_that_waits_is_told() {
        let answer = Answer::of(1);
        let other = answer.clone();
        let waiting = std::thread::spawn(move || other.wait(Duration::from_secs(20)));
        assert_eq!(answer.give("given"), None);
        assert_eq!(waiting.join().expect("no panic"), Some("given"));
    }
}
