//! Service-level objectives: what share of the requests must be fast or successful, and how fast the rest is used up.
//!
//! Burn rate after "The Site Reliability Workbook" (Beyer et al., 2018), chapter 5: the share of bad requests over the
//! share that the objective allows; at 1 the allowance is used up exactly.

use crate::duration_text::parse_duration;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::str::FromStr;

/// Responses whose fate is known but not yet whether the recording watched them for long enough.
const MOST_PENDING: usize = 1 << 20;

/// What is asked of a server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Objective {
    /// This share of the requests (0 to 1, without the ends) must be answered within a time.
    Latency {
        /// The share.
        share: f64,
        /// The time, nanoseconds.
        limit_ns: u64,
    },
    /// At most this share of the requests (0 to 1, without the ends) may fail.
    Errors {
        /// The share.
        share: f64,
    },
}

/// Why a text is no objective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectiveError {
    /// It has no `<`.
    NoComparison,
    /// What stands before the `<` is neither `pNN` nor `errors`.
    Subject,
    /// What stands behind it is no time with a unit.
    Time,
    /// What stands behind it is no percentage between 0 and 100.
    Percentage,
}

impl std::fmt::Display for ObjectiveError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::NoComparison => "an objective is 'p99<200ms' or 'errors<1%'",
            Self::Subject => "an objective begins with a percentile such as p99 or p99.9, or with errors",
            Self::Time => "a percentile's limit is a time with its unit: 800us, 200ms, 1.5s",
            Self::Percentage => "the limit of errors is a percentage above 0 and below 100: 1%, 0.1%",
        })
    }
}

impl std::error::Error for ObjectiveError {}

impl FromStr for Objective {
    type Err = ObjectiveError;

    fn from_str(text: &str) -> Result<Self, ObjectiveError> {
        let (subject, limit) = text.split_once('<').ok_or(ObjectiveError::NoComparison)?;
        let (subject, limit) = (subject.trim(), limit.trim());
        if subject == "errors" {
            let percent = limit.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
            let share = percent.map(|percent| percent / 100.0).filter(|share| *share > 0.0 && *share < 1.0);
            return Ok(Self::Errors { share: share.ok_or(ObjectiveError::Percentage)? });
        }
        let percentile = subject.strip_prefix('p').and_then(|number| number.parse::<f64>().ok());
        let share = percentile.map(|percentile| percentile / 100.0).filter(|share| *share > 0.0 && *share < 1.0);
        let share = share.ok_or(ObjectiveError::Subject)?;
        // A bare number would be seconds elsewhere, which few mean of a response.
        if limit.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
            return Err(ObjectiveError::Time);
        }
        let limit = parse_duration(limit).map_err(|_| ObjectiveError::Time)?;
        let limit_ns = limit.as_nanos();
        if !(1..1_000_000_000_000_000).contains(&limit_ns) {
            return Err(ObjectiveError::Time);
        }
        Ok(Self::Latency { share, limit_ns: limit_ns as u64 })
    }
}

impl Objective {
    /// The share of requests that may be bad.
    #[must_use]
    pub fn allowed(self) -> f64 {
        match self {
            Self::Latency { share, .. } => 1.0 - share,
            Self::Errors { share } => share,
        }
    }
}

/// Requests of which it is known whether they met an objective.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Judged {
    /// All of them.
    pub requests: u64,
    /// Those that did not.
    pub bad: u64,
    /// Requests that were not watched for long enough to tell, and are in neither.
    pub unknown: u64,
}

impl Judged {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            bad: self.bad + other.bad,
            unknown: self.unknown + other.unknown,
        }
    }

    /// The share of bad requests, 0 where none is known.
    #[must_use]
    pub fn bad_share(self) -> f64 {
        self.bad as f64 / self.requests.max(1) as f64
    }

    /// How many times as fast as allowed the allowance of bad requests is used up.
    #[must_use]
    pub fn burn_rate(self, objective: Objective) -> f64 {
        self.bad_share() / objective.allowed()
    }

    /// Whether the objective is met. Without any request it is neither met nor missed: `None`.
    #[must_use]
    pub fn is_met(self, objective: Objective) -> Option<bool> {
        self.is_within(objective.allowed())
    }

    /// Whether at most this share, 0 to 1, of the requests is bad. Without any request it is not known: `None`.
    #[must_use]
    pub fn is_within(self, allowed: f64) -> Option<bool> {
        // A share given as a decimal is not exact in binary: a billionth is forgiven.
        (self.requests > 0).then(|| self.bad_share() <= allowed + 1e-9)
    }
}

/// Judges requests by an objective.
///
/// Where a recording ends, slow requests are cut and fast ones are not: to take those that are whole would be to
/// flatter. A request therefore counts only if the recording went on for as long after its begin as it may take.
#[derive(Debug, Clone)]
pub struct ObjectiveFold {
    objective: Objective,
    judged: Judged,
    /// Begins of requests that were answered in time, whose limit has not yet passed.
    pending: BinaryHeap<Reverse<u64>>,
}

impl ObjectiveFold {
    /// An empty fold.
    #[must_use]
    pub fn new(objective: Objective) -> Self {
        Self { objective, judged: Judged::default(), pending: BinaryHeap::new() }
    }

    /// The objective.
    #[must_use]
    pub fn objective(&self) -> Objective {
        self.objective
    }

    /// Takes a request that was answered, from its begin to its end, nanoseconds.
    pub fn push(&mut self, begin_ns: u64, end_ns: u64, failed: bool) {
        match self.objective {
            Objective::Errors { .. } => self.judge(failed),
            Objective::Latency { limit_ns, .. } => {
                if end_ns.saturating_sub(begin_ns) >= limit_ns {
                    self.judge(true);
                } else if self.pending.len() < MOST_PENDING {
                    self.pending.push(Reverse(begin_ns));
                } else {
                    self.judged.unknown += 1;
                }
            }
        }
        self.settle(end_ns);
    }

    /// Takes a request that the recording's end has cut.
    pub fn push_cut(&mut self, begin_ns: u64, edge_ns: u64) {
        match self.objective {
            Objective::Latency { limit_ns, .. } if edge_ns.saturating_sub(begin_ns) >= limit_ns => self.judge(true),
            _ => self.judged.unknown += 1,
        }
    }

    /// The recording, or a window of it, ends.
    pub fn edge(&mut self, edge_ns: u64) {
        self.settle(edge_ns);
        self.judged.unknown += self.pending.len() as u64;
        self.pending.clear();
    }

    /// What is known so far.
    #[must_use]
    pub fn judged(&self) -> Judged {
        self.judged
    }

    fn judge(&mut self, bad: bool) {
        self.judged.requests += 1;
        self.judged.bad += u64::from(bad);
    }

    /// Requests whose limit has passed by now were watched for long enough.
    fn settle(&mut self, now_ns: u64) {
        let Objective::Latency { limit_ns, .. } = self.objective else { return };
        while self.pending.peek().is_some_and(|Reverse(begin_ns)| begin_ns.saturating_add(limit_ns) <= now_ns) {
            self.pending.pop();
            self.judge(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn objective(text: &str) -> Objective {
        text.parse().expect("an objective")
    }

    #[test]
    fn objectives_are_read_with_their_units() {
        assert_eq!(objective("p99<200ms"), Objective::Latency { share: 0.99, limit_ns: 200_000_000 });
        assert_eq!(objective("p50 < 800us"), Objective::Latency { share: 0.5, limit_ns: 800_000 });
        assert_eq!(objective("errors<1%"), Objective::Errors { share: 0.01 });
        for bad in ["p99", "p99<", "p99<200", "p0<1s", "p100<1s", "q99<1s", "errors<1", "errors<0%", "p99<1e9s", "<1s"]
        {
            assert!(bad.parse::<Objective>().is_err(), "{bad}");
        }
    }

    #[test]
    fn slow_requests_that_the_end_cuts_are_not_forgotten() {
        let mut fold = ObjectiveFold::new(objective("p50<100ms"));
        let ms = 1_000_000;
        // Each 10 ms one of 1 ms and one of 300 ms; watched for 200 ms.
        for begin in (0..200 * ms).step_by(10_000_000) {
            fold.push(begin, begin + ms, false);
        }
        for begin in (0..200 * ms).step_by(10_000_000) {
            fold.push_cut(begin, 200 * ms);
        }
        fold.edge(200 * ms);
        let judged = fold.judged();
        assert_eq!((judged.requests, judged.bad), (22, 11));
        assert_eq!(judged.unknown, 18);
        assert!(judged.is_met(fold.objective()).expect("there are requests"));
        assert!((judged.burn_rate(fold.objective()) - 1.0).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text: String) {
            let _ = text.parse::<Objective>();
        }

        /// Whenever the recording ends: of those that began long enough before, each is judged as it truly was.
        #[test]
        fn the_end_does_not_flatter(lasting in proptest::collection::vec(1u64..400, 1..200), edge in 1u64..500) {
            let objective = objective("p99<100ms");
            let mut fold = ObjectiveFold::new(objective);
            let ms = 1_000_000;
            let mut requests: Vec<(u64, u64)> =
                lasting.iter().enumerate().map(|(at, ms_each)| (at as u64 * 2 * ms, ms_each * ms)).collect();
            let edge = edge * ms;
            requests.retain(|(begin, _)| *begin < edge);
            let known = requests.iter().filter(|(begin, _)| begin + 100 * ms <= edge).count() as u64;
            let bad = requests.iter().filter(|(begin, time)| begin + 100 * ms <= edge && *time >= 100 * ms).count() as u64;
            let mut whole: Vec<_> = requests.iter().filter(|(begin, time)| begin + time <= edge).collect();
            whole.sort_by_key(|(begin, time)| begin + time);
            whole.iter().for_each(|(begin, time)| fold.push(*begin, begin + time, false));
            requests.iter().filter(|(begin, time)| begin + time > edge).for_each(|(begin, _)| fold.push_cut(*begin, edge));
            fold.edge(edge);
            let judged = fold.judged();
            prop_assert_eq!((judged.requests, judged.bad), (known, bad));
            prop_assert_eq!(judged.requests + judged.unknown, requests.len() as u64);
        }
    }
}
