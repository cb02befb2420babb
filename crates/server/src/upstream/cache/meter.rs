//! Bytes of something, with a bound that holds at each moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts bytes of all holders.
#[derive(Debug)]
pub(crate) struct Meter {
    used: AtomicU64,
    max: u64,
}

impl Meter {
    pub(crate) fn new(max: u64) -> Arc<Self> {
        Arc::new(Self { used: AtomicU64::new(0), max })
    }

    /// Bytes that are held now.
    #[cfg(test)]
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    fn add(&self, bytes: u64) -> bool {
        let more = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.max);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }
}

/// Bytes that are counted as long as this lives.
#[derive(Debug)]
pub(crate) struct Hold {
    meter: Arc<Meter>,
    bytes: u64,
}

impl Hold {
    /// Holds nothing yet.
    pub(crate) fn new(meter: &Arc<Meter>) -> Self {
        Self { meter: Arc::clone(meter), bytes: 0 }
    }

    /// Holds more; returns false, and holds what it held, if that would exceed the bound.
    #[must_use]
    pub(crate) fn grow(&mut self, bytes: u64) -> bool {
        let is_there = self.meter.add(bytes);
        self.bytes += if is_there { bytes } else { 0 };
        is_there
    }

    /// Holds at most so many.
    pub(crate) fn shrink_to(&mut self, bytes: u64) {
        let over = self.bytes.saturating_sub(bytes);
        self.bytes -= over;
        self.meter.used.fetch_sub(over, Ordering::Relaxed);
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}
