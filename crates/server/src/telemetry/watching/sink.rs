//! Where a loop gives what it has seen: a bounded queue, which the admin thread empties.

use super::allowance::Allowance;
use super::seen::Seen;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, TryLockError};

/// Bytes of requests that wait to be taken.
const BYTES_MAX: usize = 1 << 20;

/// The queue of a loop.
#[derive(Debug, Default)]
pub(super) struct Sink {
    waiting: Mutex<Waiting>,
    pub(super) allowance: Allowance,
    /// Requests that a watcher may have wanted and that were not taken down, as there was no allowance or no room.
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct Waiting {
    seen: Vec<Seen>,
    bytes: usize,
}

impl Sink {
    /// Gives a request, or drops it where there is no room. The loop does not wait for the admin thread.
    pub(super) fn give(&self, seen: Seen) {
        let mut waiting = match self.waiting.try_lock() {
            Ok(waiting) => waiting,
            // A thread that panicked with the lock held left whole entries.
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return self.drop_one(),
        };
        let bytes = seen.bytes();
        if waiting.bytes + bytes > BYTES_MAX {
            drop(waiting);
            return self.drop_one();
        }
        waiting.bytes += bytes;
        waiting.seen.push(seen);
    }

    pub(super) fn drop_one(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes what waits, and gives the loop another allowance.
    pub(super) fn take(&self) -> Vec<Seen> {
        let waiting = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        self.allowance.fill_up();
        waiting.seen
    }

    /// How many were dropped since this was asked last.
    pub(super) fn take_dropped(&self) -> u64 {
        self.dropped.swap(0, Ordering::Relaxed)
    }
}
