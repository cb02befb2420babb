//! Changes as they come, in a queue with a bound.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Changes that wait to be taken; when one more comes, all are dropped, and the watch reports [`Notice::Lost`].
pub(crate) const WAITING_MAX: usize = 1024;

/// A key has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The key, without the prefix of the cluster.
    pub key: String,
    /// The number of the change, which grows over the whole directory.
    pub revision: u64,
    /// Whether the key is gone, rather than put.
    pub is_gone: bool,
}

/// What a watch reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A key has changed.
    Changed(Change),
    /// Changes were lost: read everything of interest anew. Later changes are reported again.
    Lost,
}

/// Follows changes; ends when it is dropped.
#[derive(Debug)]
pub struct Watch {
    queue: Arc<Queue>,
}

/// The other end of a [`Watch`], which an engine feeds.
#[derive(Debug, Clone)]
pub(crate) struct Feed {
    queue: Arc<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Notice>,
    is_closed: bool,
    away_since: Option<Instant>,
}

/// A watch and its feed.
pub(crate) fn pair() -> (Watch, Feed) {
    let queue = Arc::new(Queue::default());
    (Watch { queue: Arc::clone(&queue) }, Feed { queue })
}

impl Watch {
    /// The next notice; `None` when none came within the time.
    #[must_use]
    pub fn next(&self, patience: Duration) -> Option<Notice> {
        let state = self.queue.lock();
        let waits = |state: &mut State| state.waiting.is_empty();
        let waited = self.queue.news.wait_timeout_while(state, patience, waits);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.waiting.pop_front()
    }

    /// Since when the engine has been away, so that changes come late.
    #[must_use]
    pub fn away_since(&self) -> Option<Instant> {
        self.queue.lock().away_since
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.queue.lock().is_closed = true;
        self.queue.news.notify_all();
    }
}

impl Feed {
    /// Reports a change.
    pub(crate) fn push(&self, change: Change) {
        let mut state = self.queue.lock();
        if state.waiting.len() >= WAITING_MAX {
            state.waiting.clear();
            state.waiting.push_back(Notice::Lost);
        }
        state.waiting.push_back(Notice::Changed(change));
        self.queue.news.notify_all();
    }

    /// Reports that changes are lost.
    pub(crate) fn lose(&self) {
        let mut state = self.queue.lock();
        state.waiting.clear();
        state.waiting.push_back(Notice::Lost);
        self.queue.news.notify_all();
    }

    /// Says whether the engine answers.
    pub(crate) fn set_away(&self, is_away: bool) {
        let mut state = self.queue.lock();
        state.away_since = is_away.then(|| state.away_since.unwrap_or_else(Instant::now));
    }

    /// Waits, less long where the watch is dropped meanwhile; whether it was dropped.
    pub(crate) fn pause(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut state = self.queue.lock();
        while !state.is_closed {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            (state, _) = self.queue.news.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        }
        state.is_closed
    }

    /// Whether the watch was dropped.
    pub(crate) fn is_closed(&self) -> bool {
        self.queue.lock().is_closed
    }
}

impl Queue {
    /// The state is whole between any two statements, so a panic of another thread does not spoil it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_says_that_it_lost_changes() {
        let (watch, feed) = pair();
        let change = |revision| Change { key: "sites/a".to_owned(), revision, is_gone: false };
        for revision in 0..=WAITING_MAX as u64 {
            feed.push(change(revision));
        }
        let now = Duration::ZERO;
        assert_eq!(watch.next(now), Some(Notice::Lost));
        assert_eq!(watch.next(now), Some(Notice::Changed(change(WAITING_MAX as u64))));
        assert_eq!(watch.next(now), None);
        feed.push(change(1));
        feed.lose();
        assert_eq!((watch.next(now), watch.next(now)), (Some(Notice::Lost), None));
    }

    #[test]
    fn a_dropped_watch_ends_its_feed() {
        let (watch, feed) = pair();
        assert!(!feed.pause(Duration::from_millis(1)));
        let waits = std::thread::spawn(move || feed.pause(Duration::from_secs(60)));
        drop(watch);
        assert!(waits.join().expect("it ends"));
    }
}
