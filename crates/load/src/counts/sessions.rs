//! What became of sessions.

use crate::carried::carried;
use crate::counts::histogram::Histogram;
use crate::counts::histogram::histogram;
use std::time::Duration;

/// Sessions of more answers are counted with those of so many.
pub(crate) const ANSWERS_MAX: usize = 1024;

/// What became of the sessions of one loop; loops' tallies add up.
#[derive(Debug)]
pub(crate) struct SessionTally {
    pub(crate) completed: u64,
    pub(crate) completed_in_time: u64,
    pub(crate) unexpected: u64,
    pub(crate) failed: u64,
    pub(crate) stopped: u64,
    pub(crate) unfinished: u64,
    pub(crate) connections: u64,
    pub(crate) lifetime: Histogram,
    pub(crate) fail_time: Histogram,
    /// Sessions by the number of their answers.
    pub(crate) answers: Box<[u64; ANSWERS_MAX + 1]>,
}

/// What became of a run's sessions; times are in nanoseconds.
#[derive(Debug, Clone)]
pub struct SessionReport {
    /// Sessions whose requests were all answered, with any status.
    pub completed: u64,
    /// Those of them in which a response had a status that is not expected.
    pub unexpected: u64,
    /// Sessions that ended with a request that failed.
    pub failed: u64,
    /// Sessions whose users clicked stop before all was answered.
    pub stopped: u64,
    /// Sessions that were under way when the run ended.
    pub unfinished: u64,
    /// Connections that all of them opened.
    pub connections: u64,
    /// Sessions completed within the run's duration, a second.
    pub rate_per_s: f64,
    /// From the intended begin to the last byte of the last response, of completed sessions whose statuses were all
    /// expected.
    pub lifetime: Histogram,
    /// From the intended begin to the failure, of failed sessions.
    pub fail_time: Histogram,
    /// Completed, failed and stopped sessions by the number of their answers: (answers, sessions), those that occurred; more
    /// than 1024 count as 1024.
    pub answers: Vec<(u32, u64)>,
}

impl SessionTally {
    pub(crate) fn new() -> Self {
        Self {
            completed: 0,
            completed_in_time: 0,
            unexpected: 0,
            failed: 0,
            stopped: 0,
            unfinished: 0,
            connections: 0,
            lifetime: histogram(),
            fail_time: histogram(),
            answers: Box::new([0; ANSWERS_MAX + 1]),
        }
    }

    /// Adds another loop's tally.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.completed += other.completed;
        self.completed_in_time += other.completed_in_time;
        self.unexpected += other.unexpected;
        self.failed += other.failed;
        self.stopped += other.stopped;
        self.unfinished += other.unfinished;
        self.connections += other.connections;
        // All have the same bounds, so adding cannot fail.
        self.lifetime.add(&other.lifetime).expect("histograms of the same bounds");
        self.fail_time.add(&other.fail_time).expect("histograms of the same bounds");
        for (count, more) in self.answers.iter_mut().zip(other.answers.iter()) {
            *count += more;
        }
    }

    pub(crate) fn report(&self, duration: Duration) -> SessionReport {
        SessionReport {
            completed: self.completed,
            unexpected: self.unexpected,
            failed: self.failed,
            stopped: self.stopped,
            unfinished: self.unfinished,
            connections: self.connections,
            rate_per_s: self.completed_in_time as f64 / duration.as_secs_f64(),
            lifetime: self.lifetime.clone(),
            fail_time: self.fail_time.clone(),
            answers: (0..).zip(self.answers.iter().copied()).filter(|(_, count)| *count > 0).collect(),
        }
    }
}

carried!(SessionTally {
    completed,
    completed_in_time,
    unexpected,
    failed,
    stopped,
    unfinished,
    connections,
    lifetime,
    fail_time,
    answers,
});
