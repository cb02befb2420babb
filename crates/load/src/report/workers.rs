//! What each worker of a run did.

use crate::counts::histogram::Histogram;
use crate::counts::slowest::Slowest;
use crate::report::generator::Generator;
use std::time::Duration;

/// What one worker of a run did.
#[derive(Debug, Clone)]
pub struct WorkerReport {
    /// Its name, as the user gave it; several of one host have a number behind it.
    pub name: String,
    /// How its clock stands to the clock of the host that reports.
    pub clock: Clock,
    /// What became of it.
    pub fate: Fate,
}

/// What became of a worker.
#[derive(Debug, Clone)]
pub enum Fate {
    /// It made its part, which is in the report.
    Reported(Box<WorkerShare>),
    /// It was lost, and nothing of its part is in the report.
    Lost {
        /// Why, in words, with the remedy.
        why: String,
        /// From the start of the run until that was known.
        after: Duration,
        /// Arrivals of the schedule that were its own; `None` in a closed loop.
        arrivals: Option<u64>,
        /// Whole responses that it had told of, which are left out.
        told: u64,
    },
}

/// A worker's part of the report.
#[derive(Debug, Clone)]
pub struct WorkerShare {
    /// Whole responses of any status.
    pub requests: u64,
    /// Those of them that are successes.
    pub successes: u64,
    /// Failed requests.
    pub failures: u64,
    /// Arrivals that found its queue full.
    pub dropped: u64,
    /// From the intended time to the last byte of the response, of successes, in nanoseconds.
    pub latency: Histogram,
    /// How it fared as a generator.
    pub generator: Generator,
    /// How much of its slowest requests' time was its own; `None` where none succeeded.
    pub slowest: Option<Slowest>,
}

/// How a worker's clock stands to the clock of the host that reports; both are CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Clock {
    /// What the worker's clock shows more at the start, in nanoseconds.
    pub offset_ns: i64,
    /// How far the true offset can be from that in the run, in nanoseconds: half of the shortest round trip, and what the
    /// clocks went apart until its end.
    pub error_ns: u64,
}
