//! What a run found.

use crate::behaviour::Failure;
use hdrhistogram::Histogram;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// The most different reasons that are told apart.
const CAUSES_MAX: usize = 100;
/// The reason of all others.
const OTHER: &str = "other reasons";

/// What a run found, beside its metrics.
#[derive(Debug, Clone)]
pub struct Report {
    /// What became of each scenario, in their order.
    pub scenarios: Vec<ScenarioCounts>,
    /// From the begin of the scenarios to their end.
    pub duration: Duration,
    /// How it ended.
    pub ended: Ended,
    /// Why setup or teardown failed, if one did.
    pub around: Option<Failure>,
    /// Why iterations failed, the most frequent first.
    pub causes: Vec<Cause>,
    /// Why requests had no answer, the most frequent first.
    pub unanswered: Vec<Cause>,
    /// How long behaviours took for themselves, all together, and the longest time at once.
    pub scripts: Duration,
    /// The longest time at once.
    pub longest_script: Duration,
    /// How often behaviours were asked.
    pub script_calls: u64,
    /// Time in behaviours that was taken out of requests' times, together.
    pub taken_out: Duration,
    /// How late iterations of the open loop began.
    pub lateness: Lateness,
    /// Requests that went out again, since their kept connection was closed before it answered.
    pub resent: u64,
    /// Answers that are longer than what is kept of one.
    pub cut_answers: u64,
}

/// What became of a scenario's iterations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScenarioCounts {
    /// Its name.
    pub name: Arc<str>,
    /// Iterations that began.
    pub begun: u64,
    /// Those that went to their end as they should.
    pub finished: u64,
    /// Those that failed.
    pub failed: u64,
    /// Those that the scenario's end cut.
    pub cut: u64,
    /// Those that found no more data, with which their scenario ended.
    pub unfed: u64,
    /// Iterations that found no user.
    pub dropped: u64,
    /// The most users that worked at a time.
    pub users_max: u32,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// As planned.
    Planned,
    /// The user ended it.
    Stopped,
    /// Setup failed: no scenario ran.
    Setup(Failure),
    /// A behaviour asked for its end.
    Aborted(Failure),
    /// A user's behaviour could not be made.
    Unmade(Failure),
}

/// A reason, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// In words.
    pub words: Arc<str>,
    /// How often.
    pub count: u64,
}

/// How late iterations of open loops began, in nanoseconds.
#[derive(Debug, Clone)]
pub struct Lateness {
    /// All of it.
    pub lag: Histogram<u64>,
}

impl Default for Lateness {
    fn default() -> Self {
        // Three digits are within the limits of the library.
        Self { lag: Histogram::new(3).expect("three digits") }
    }
}

impl Lateness {
    pub(crate) fn add(&mut self, lag_ns: u64) {
        // It grows by itself, so there is room for each value.
        self.lag.record(lag_ns).expect("a histogram that grows");
    }
}

/// Reasons and how often each was, bounded.
#[derive(Debug, Default)]
pub(crate) struct Causes(HashMap<Arc<str>, u64>);

impl Causes {
    pub(crate) fn count(&mut self, words: &Arc<str>) {
        if let Some(count) = self.0.get_mut(words) {
            *count += 1;
        } else if self.0.len() < CAUSES_MAX {
            self.0.insert(Arc::clone(words), 1);
        } else {
            *self.0.entry(Arc::from(OTHER)).or_default() += 1;
        }
    }

    /// The most frequent first.
    pub(crate) fn list(&self) -> Vec<Cause> {
        let mut list: Vec<_> =
            self.0.iter().map(|(words, count)| Cause { words: Arc::clone(words), count: *count }).collect();
        list.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.words.cmp(&b.words)));
        list
    }
}
