//! What came of some of the requests, counted apart from the others.

use crate::carried::{Carried, CarriedError, Reader, carried};
use crate::counts::durations::Durations;
use crate::counts::histogram::{Histogram, histogram};
use crate::requests::Scope;
use std::time::Duration;

/// What came of the requests of a scope; durations are in nanoseconds.
#[derive(Debug, Clone)]
pub struct ScopeReport {
    /// The scope, as it was written.
    pub scope: String,
    /// Whole responses with a status that is expected, which failed no check.
    pub successes: u64,
    /// Other whole responses.
    pub unexpected: u64,
    /// Requests that failed.
    pub failures: u64,
    /// Requests whose users did not wait for the whole response.
    pub stopped: u64,
    /// Arrivals that found the generator's queue full.
    pub dropped: u64,
    /// Requests that were queued or under way when the run ended for good.
    pub abandoned: u64,
    /// Successes within the run's duration, a second.
    pub successes_per_s: f64,
    /// From the intended time to the last byte of the response, of successes.
    pub latency: Histogram,
    /// From just before the request was written to the first byte of its response, of successes.
    pub first_byte: Histogram,
}

/// What one loop counts of all scopes; loops' tallies add up.
#[derive(Debug, Clone, Default)]
pub(crate) struct ScopeTally(Vec<Counted>);

#[derive(Debug, Clone)]
struct Counted {
    unexpected: u64,
    in_time: u64,
    failures: u64,
    stopped: u64,
    dropped: u64,
    abandoned: u64,
    latency: Histogram,
    first_byte: Histogram,
}

/// Why a request has no whole response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unanswered {
    Failed,
    Stopped,
    Dropped,
    Abandoned,
}

impl ScopeTally {
    /// For so many scopes; each takes half a megabyte.
    pub(crate) fn new(scopes: usize) -> Self {
        Self((0..scopes).map(|_| Counted::new()).collect())
    }

    /// A whole response came to a request of the scopes whose bits are set.
    pub(crate) fn answered(&mut self, scopes: u64, is_success: bool, in_time: bool, durations: Durations) {
        for counted in self.of(scopes) {
            if is_success {
                counted.in_time += u64::from(in_time);
                counted.latency.saturating_record(durations.latency_ns);
                counted.first_byte.saturating_record(durations.first_byte_ns);
            } else {
                counted.unexpected += 1;
            }
        }
    }

    /// A request of the scopes whose bits are set has no whole response.
    pub(crate) fn unanswered(&mut self, scopes: u64, why: Unanswered) {
        for counted in self.of(scopes) {
            match why {
                Unanswered::Failed => counted.failures += 1,
                Unanswered::Stopped => counted.stopped += 1,
                Unanswered::Dropped => counted.dropped += 1,
                Unanswered::Abandoned => counted.abandoned += 1,
            }
        }
    }

    fn of(&mut self, scopes: u64) -> impl Iterator<Item = &mut Counted> {
        self.0.iter_mut().enumerate().filter(move |(place, _)| scopes >> place & 1 == 1).map(|(_, counted)| counted)
    }

    /// Adds another loop's tally.
    pub(crate) fn merge(&mut self, other: &Self) {
        if self.0.is_empty() {
            *self = Self::new(other.0.len());
        }
        for (counted, more) in self.0.iter_mut().zip(&other.0) {
            counted.unexpected += more.unexpected;
            counted.in_time += more.in_time;
            counted.failures += more.failures;
            counted.stopped += more.stopped;
            counted.dropped += more.dropped;
            counted.abandoned += more.abandoned;
            // All have the same bounds, so adding cannot fail.
            counted.latency.add(&more.latency).expect("histograms of the same bounds");
            counted.first_byte.add(&more.first_byte).expect("histograms of the same bounds");
        }
    }

    /// What came of these scopes, in their order, within so long a run.
    pub(crate) fn report(&self, scopes: &[Scope], duration: Duration) -> Vec<ScopeReport> {
        let told = |(scope, counted): (&Scope, &Counted)| ScopeReport {
            scope: scope.to_string(),
            successes: counted.latency.len(),
            unexpected: counted.unexpected,
            failures: counted.failures,
            stopped: counted.stopped,
            dropped: counted.dropped,
            abandoned: counted.abandoned,
            successes_per_s: counted.in_time as f64 / duration.as_secs_f64(),
            latency: counted.latency.clone(),
            first_byte: counted.first_byte.clone(),
        };
        scopes.iter().zip(&self.0).map(told).collect()
    }
}

impl Counted {
    fn new() -> Self {
        Self {
            unexpected: 0,
            in_time: 0,
            failures: 0,
            stopped: 0,
            dropped: 0,
            abandoned: 0,
            latency: histogram(),
            first_byte: histogram(),
        }
    }
}

carried!(Counted { unexpected, in_time, failures, stopped, dropped, abandoned, latency, first_byte });

impl Carried for ScopeTally {
    fn put(&self, to: &mut Vec<u8>) {
        self.0.put(to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CarriedError> {
        Ok(Self(Vec::take(from)?))
    }
}
