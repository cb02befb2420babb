//! A clock that moves when the test says so.

use std::sync::atomic::{AtomicU64, Ordering};

/// Nanoseconds since an origin of its own; shared by reference.
#[derive(Debug, Default)]
pub struct SimulatedClock {
    now_ns: AtomicU64,
}

impl SimulatedClock {
    /// A clock that stands at the given time.
    pub fn at(now_ns: u64) -> Self {
        Self { now_ns: AtomicU64::new(now_ns) }
    }

    /// The time.
    pub fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::Relaxed)
    }

    /// Moves it on and returns the new time.
    pub fn advance(&self, by_ns: u64) -> u64 {
        self.now_ns.fetch_add(by_ns, Ordering::Relaxed) + by_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_only_when_told() {
        let clock = SimulatedClock::at(5);
        assert_eq!(clock.now_ns(), 5);
        assert_eq!(clock.advance(7), 12);
        assert_eq!(clock.now_ns(), 12);
    }
}
