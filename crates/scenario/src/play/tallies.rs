//! What is counted of steps, groups and tags.

use crate::metrics::{Kind, Sink};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The longest words that are kept, in characters.
const WORDS_MAX: usize = 200;

/// What is counted of the requests of a scope.
#[derive(Debug, Clone)]
pub struct Tally {
    /// Requests that are over.
    pub requests: u64,
    /// Those that failed: no answer, an unexpected status, a check that does not hold, or what was expected.
    pub failed: u64,
    /// From the intended time to the end, of successes, in milliseconds.
    pub latency: Sink,
    /// Until the first byte, of successes, in milliseconds.
    pub first_byte: Sink,
    /// Why the first failed.
    pub first: Option<String>,
}

impl Default for Tally {
    fn default() -> Self {
        let (latency, first_byte) = (Sink::new(Kind::Trend), Sink::new(Kind::Trend));
        Self { requests: 0, failed: 0, latency, first_byte, first: None }
    }
}

/// All of them, shared.
#[derive(Debug, Clone)]
pub struct Tallies(Arc<Mutex<Vec<Tally>>>);

impl Tallies {
    /// For so many scopes.
    #[must_use]
    pub fn new(scopes: usize) -> Self {
        Self(Arc::new(Mutex::new(vec![Tally::default(); scopes])))
    }

    /// The tallies, for as long as the guard lives.
    pub fn lock(&self) -> MutexGuard<'_, Vec<Tally>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request in some of the scopes.
    pub(crate) fn count(&self, scopes: &[usize], (latency_ns, first_byte_ns): (u64, u64), failure: Option<&str>) {
        let mut all = self.lock();
        for scope in scopes {
            let Some(tally) = all.get_mut(*scope) else { continue };
            tally.requests += 1;
            match failure {
                Some(words) => {
                    tally.failed += 1;
                    tally.first.get_or_insert_with(|| words.chars().take(WORDS_MAX).collect());
                }
                None => {
                    tally.latency.add(latency_ns as f64 / 1e6);
                    tally.first_byte.add(first_byte_ns as f64 / 1e6);
                }
            }
        }
    }
}
