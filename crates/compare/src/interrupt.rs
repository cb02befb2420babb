//! The wish to stop, from outside.
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Shared between a running experiment and the code that may stop it, such as a signal handler.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    requests: Arc<AtomicUsize>,
}

impl Interrupt {
    /// Asks to stop: the first time after the slice that is being measured, from the second time
    /// on at once. Only adds to an atomic number, so a signal handler may call it.
    pub fn request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether to stop after the current slice.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.requests.load(Ordering::Relaxed) >= 1
    }

    /// Whether to stop at once.
    #[must_use]
    pub fn is_urgent(&self) -> bool {
        self.requests.load(Ordering::Relaxed) >= 2
    }
}
