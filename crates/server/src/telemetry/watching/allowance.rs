//! How much a loop may do for watchers until the admin thread has looked at its queue again.
//!
//! Fifty watchers with fifty filters would otherwise have each request compared fifty times, and a filter that fits all
//! requests would have each of them taken down.

use std::sync::atomic::{AtomicU32, Ordering};

/// Comparisons of a request with a filter between two looks: about a millisecond of a loop's time.
pub(super) const LOOKS_MAX: u32 = 20_000;
/// Requests that are taken down between two looks.
pub(super) const REQUESTS_MAX: u32 = 256;

/// What is left of it. A loop takes, the admin thread fills up.
#[derive(Debug)]
pub(super) struct Allowance {
    looks: AtomicU32,
    requests: AtomicU32,
}

impl Default for Allowance {
    fn default() -> Self {
        Self { looks: AtomicU32::new(LOOKS_MAX), requests: AtomicU32::new(REQUESTS_MAX) }
    }
}

impl Allowance {
    /// Takes so many comparisons; false if that is more than is left.
    pub(super) fn take_looks(&self, looks: u32) -> bool {
        take(&self.looks, looks)
    }

    /// Takes a request.
    pub(super) fn take_request(&self) -> bool {
        take(&self.requests, 1)
    }

    pub(super) fn fill_up(&self) {
        self.looks.store(LOOKS_MAX, Ordering::Relaxed);
        self.requests.store(REQUESTS_MAX, Ordering::Relaxed);
    }
}

fn take(of: &AtomicU32, count: u32) -> bool {
    // Only one loop takes; where it is filled up meanwhile, that is lost once.
    let left = of.load(Ordering::Relaxed);
    let has_enough = count <= left;
    if has_enough {
        of.store(left - count, Ordering::Relaxed);
    }
    has_enough
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_taken_than_there_is_until_it_is_filled_up() {
        let allowance = Allowance::default();
        assert_eq!((0..2 * REQUESTS_MAX).filter(|_| allowance.take_request()).count(), REQUESTS_MAX as usize);
        assert!(allowance.take_looks(LOOKS_MAX) && !allowance.take_looks(1));
        allowance.fill_up();
        assert!(allowance.take_request() && allowance.take_looks(1));
    }
}
