//! What a search for the highest rate finds.

use std::time::Duration;
use weir_load::Statuses;
use weir_measure::capacity::Highest;
use weir_measure::objective::Objective;
use weir_report::LoadedRate;

/// How long things take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// The whole search, at most.
    pub(super) total: Duration,
    /// Arrivals of a trial.
    pub(super) trial: Duration,
    /// How long requests in flight at a trial's end may take.
    pub(super) drain: Duration,
    /// Rest between two trials.
    pub(super) settle: Duration,
}

/// What a search found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) url: String,
    pub(super) objective: Objective,
    /// The objective as it was given.
    pub(super) slo: String,
    /// Which statuses are a success.
    pub(super) expected: Statuses,
    pub(super) highest: Highest,
    pub(super) knee_per_s: Option<f64>,
    pub(super) rates: Vec<LoadedRate>,
    pub(super) generator_limited: bool,
    /// Trials that were made again because the generator shaped them.
    pub(super) again: u32,
    pub(super) trials: usize,
    pub(super) times: Times,
    pub(super) duration: Duration,
    pub(super) requests: u64,
    pub(super) connections: u32,
    /// Why it ended before it was over, in words.
    pub(super) ended: Option<&'static str>,
    pub(super) warnings: Vec<String>,
}

/// What a search can say of the server.
#[derive(Debug, Clone, Copy)]
pub(super) enum Answer {
    /// The highest rate, and its 95 % interval.
    Found { rate_per_s: f64, low_per_s: f64, high_per_s: f64 },
    /// This rate was held; where the server itself ends, the generator could not find out.
    AtLeast(f64),
    /// Even the highest rate that was tried was held.
    Above(f64),
    /// Even the lowest rate that was tried was missed.
    Below(f64),
    /// Nothing.
    Unknown,
}

impl Found {
    /// What the trials say, less what the generator may have made of it.
    pub(super) fn answer(&self) -> Answer {
        match self.highest {
            Highest::Found { low_per_s, .. } if self.generator_limited => Answer::AtLeast(low_per_s),
            Highest::Below(_) if self.generator_limited => Answer::Unknown,
            Highest::Found { rate_per_s, low_per_s, high_per_s } => Answer::Found { rate_per_s, low_per_s, high_per_s },
            Highest::Above(rate) => Answer::Above(rate),
            Highest::Below(rate) => Answer::Below(rate),
            Highest::Unknown => Answer::Unknown,
        }
    }
}
