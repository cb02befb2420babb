//! What waits to be sent to one agent: bounded, filled without waiting.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Transactions that wait to be sent to one agent, and their bytes.
const MOST_WAITING: usize = 4096;
const MOST_WAITING_BYTES: usize = 8 << 20;

#[derive(Debug, Default)]
struct Waiting {
    frames: VecDeque<Arc<[u8]>>,
    bytes: usize,
    ending: bool,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    news: Condvar,
}

impl Queue {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // Nothing that is done under the lock leaves it half done.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_ending(&self) -> bool {
        self.waiting().ending
    }

    pub(super) fn push(&self, frame: Arc<[u8]>) -> bool {
        let mut waiting = self.waiting();
        if waiting.frames.len() >= MOST_WAITING || waiting.bytes + frame.len() > MOST_WAITING_BYTES {
            return false;
        }
        waiting.bytes += frame.len();
        waiting.frames.push_back(frame);
        self.news.notify_one();
        true
    }

    /// The next frame; `None` after so long without one, or when all is over.
    pub(super) fn next(&self, patience: Duration) -> Option<Arc<[u8]>> {
        let until = Instant::now() + patience;
        let mut waiting = self.waiting();
        loop {
            if let Some(frame) = waiting.frames.pop_front() {
                waiting.bytes -= frame.len();
                return Some(frame);
            }
            let left = until.saturating_duration_since(Instant::now());
            if waiting.ending || left.is_zero() {
                return None;
            }
            waiting = self.news.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits, but not beyond the end.
    pub(super) fn pause(&self, pause: Duration) {
        let until = Instant::now() + pause;
        let mut waiting = self.waiting();
        while !waiting.ending {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            waiting = self.news.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Nothing more will come.
    pub(super) fn end(&self) {
        self.waiting().ending = true;
        self.news.notify_all();
    }

    /// Takes all that waits: how many they were.
    pub(super) fn clear(&self) -> u64 {
        let mut waiting = self.waiting();
        waiting.bytes = 0;
        waiting.frames.drain(..).count() as u64
    }
}
