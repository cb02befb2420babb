//! When requests are wanted.

use crate::schedule::profile;
use crate::schedule::profile::Profile;
use std::sync::Arc;
use std::time::Duration;

/// How requests arrive.
#[derive(Debug, Clone, PartialEq)]
pub enum Schedule {
    /// Each connection asks again as soon as it has its answer.
    Closed,
    /// An open loop with the same time between any two arrivals.
    Fixed {
        /// Arrivals a second, above 0.
        rate_per_s: f64,
    },
    /// An open loop with exponentially distributed times between arrivals.
    Poisson {
        /// Mean arrivals a second, above 0.
        rate_per_s: f64,
        /// Where the random numbers begin: the same seed gives the same arrivals.
        seed: u64,
    },
    /// An open loop whose rate changes with time.
    Changing {
        /// The rate over time; nothing arrives after its end.
        profile: Arc<Profile>,
        /// Where the random numbers of Poisson arrivals begin; `None` = arrivals when the integral of the rate is a
        /// whole number.
        poisson: Option<u64>,
    },
    /// An open loop of groups of arrivals at the same time.
    Bursts {
        /// Arrivals of a group, at least 1.
        size: u32,
        /// From one group to the next, longer than nothing.
        every: Duration,
    },
    /// An open loop of arrivals at given times, in nanoseconds from the start, in ascending order.
    Recorded(Arc<[u64]>),
}

impl Schedule {
    /// The rate that is wanted, its mean where it changes, if the loop is open.
    #[must_use]
    pub fn rate_per_s(&self) -> Option<f64> {
        match self {
            Self::Closed => None,
            Self::Fixed { rate_per_s } | Self::Poisson { rate_per_s, .. } => Some(*rate_per_s),
            Self::Changing { profile, .. } => Some(profile.arrivals() / profile.duration().as_secs_f64()),
            Self::Bursts { size, every } => Some(f64::from(*size) / every.as_secs_f64()),
            Self::Recorded(times) => {
                let length_ns = times.last().map_or(1, |last| (*last).max(1));
                Some(times.len() as f64 * 1e9 / length_ns as f64)
            }
        }
    }

    /// What is wrong with it, if anything.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        const RATE: &str = "the rate lies above 0 and at most at 100000000 a second";
        let is_rate = |rate: f64| rate > 0.0 && rate <= profile::RATE_MAX;
        match self {
            Self::Recorded(times) if times.is_empty() => Some("there are no arrivals in the recording"),
            Self::Recorded(times) if !times.is_sorted() => Some("the times of recorded arrivals ascend"),
            Self::Closed | Self::Recorded(_) => None,
            Self::Bursts { size: 0, .. } => Some("a burst has at least one arrival"),
            Self::Bursts { every, .. } if every.is_zero() => Some("the time between bursts is longer than nothing"),
            _ => (!self.rate_per_s().is_some_and(is_rate)).then_some(RATE),
        }
    }
}

/// What ends a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopRule {
    /// After so many requests, failed ones included.
    Requests(u64),
    /// After this time; what is under way then is still waited for, one timeout at most.
    Duration(Duration),
    /// After so many requests or after this time: the first of the two ends the run.
    Either {
        /// The requests, failed ones included.
        requests: u64,
        /// The time.
        time: Duration,
    },
}

impl StopRule {
    /// The requests after which the run ends, if it does for them.
    #[must_use]
    pub fn requests(self) -> Option<u64> {
        match self {
            Self::Requests(requests) | Self::Either { requests, .. } => Some(requests),
            Self::Duration(_) => None,
        }
    }

    /// The time after which the run ends, if it does for that.
    #[must_use]
    pub fn time(self) -> Option<Duration> {
        match self {
            Self::Duration(time) | Self::Either { time, .. } => Some(time),
            Self::Requests(_) => None,
        }
    }
}
