//! How a server's loops are told to end.

use std::sync::atomic::{AtomicBool, Ordering};

/// What the server's thread tells its loops.
#[derive(Debug, Default)]
pub(crate) struct Stopping {
    is_asked: AtomicBool,
    keeps_tunnels: AtomicBool,
}

impl Stopping {
    /// Has the loops end what is under way; with `keeps_tunnels` another server follows, and tunnels have longer.
    pub(super) fn begin(&self, keeps_tunnels: bool) {
        self.keeps_tunnels.store(keeps_tunnels, Ordering::Release);
        self.is_asked.store(true, Ordering::Release);
    }

    /// Tunnels have no longer than responses from now on.
    pub(super) fn end_tunnels(&self) {
        self.keeps_tunnels.store(false, Ordering::Release);
    }

    pub(super) fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::Acquire)
    }

    pub(super) fn keeps_tunnels(&self) -> bool {
        self.keeps_tunnels.load(Ordering::Acquire)
    }
}
