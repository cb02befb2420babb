//! The live side of a run.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use weir_load::Control;

/// The live side of a run: shared with the code that shows its progress, or ends it.
#[derive(Debug, Default)]
pub struct Handle {
    stop: AtomicBool,
    pub(crate) control: Control,
    pub(crate) users: AtomicU32,
    pub(crate) iterations: AtomicU64,
    pub(crate) interrupted: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) failed: AtomicU64,
}

impl Handle {
    /// Ends the run: nothing more begins, what is under way has a moment, teardown follows.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Ends it at once, without teardown.
    pub fn cut(&self) {
        self.control.stop();
    }

    /// Whether it was asked to end.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Users that work on an iteration.
    #[must_use]
    pub fn users(&self) -> u32 {
        self.users.load(Ordering::Relaxed)
    }

    /// Iterations that are over.
    #[must_use]
    pub fn iterations(&self) -> u64 {
        self.iterations.load(Ordering::Relaxed)
    }

    /// Iterations that were cut.
    #[must_use]
    pub fn interrupted(&self) -> u64 {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Iterations that found no user.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Answered requests, and those that failed.
    #[must_use]
    pub fn requests(&self) -> (u64, u64) {
        (self.requests.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed))
    }
}
