//! Objectives of a run, of all its requests or of some.

use std::fmt;
use std::str::FromStr;
use weir_load::{Histogram, LoadReport, Scope, ScopeError, ScopeReport};
use weir_measure::objective::{Judged, Objective};
use weir_measure::threshold::{Threshold, ThresholdError, Time, decimal, time_text};
use weir_report::{count, nanoseconds};
use weir_wire::client::Outcome;

/// What could stand behind the requests of an objective.
const EXAMPLE: &str = "p95<200ms";

/// An objective: a threshold, of all requests or of those of a scope.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Slo {
    pub(super) scope: Option<Scope>,
    pub(super) threshold: Threshold,
}

/// Why a text is no objective.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SloError {
    #[error(transparent)]
    Scope(#[from] ScopeError),
    #[error(transparent)]
    Threshold(#[from] ThresholdError),
}

impl FromStr for Slo {
    type Err = SloError;

    fn from_str(text: &str) -> Result<Self, SloError> {
        let (scope, threshold) = Scope::split(text, EXAMPLE)?;
        Ok(Self { scope, threshold: threshold.parse()? })
    }
}

impl fmt::Display for Slo {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.scope {
            Some(scope) => write!(formatter, "{scope}: {}", self.threshold),
            None => self.threshold.fmt(formatter),
        }
    }
}

impl Slo {
    /// Whether it is of a time that only streamed answers have.
    pub(super) fn is_of_streams(&self) -> bool {
        self.threshold.is_of_streams()
    }

    /// As what a search for the highest rate needs: an objective of shares, of all requests.
    pub(super) fn searched(&self) -> Option<Objective> {
        match (&self.scope, self.threshold) {
            (None, Threshold::Percentile { time: Time::Latency, share, limit_ns }) => {
                Some(Objective::Latency { share, limit_ns })
            }
            (None, Threshold::Errors { share }) => Some(Objective::Errors { share }),
            _ => None,
        }
    }
}

/// What a run, or some of its requests, came to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Figures<'r> {
    pub(super) latency: &'r Histogram,
    pub(super) first_byte: &'r Histogram,
    /// From the intended time to the first event or message, and between two of them.
    pub(super) events: Option<[&'r Histogram; 2]>,
    /// Requests whose answer's next event did not come in time.
    pub(super) stalled: u64,
    pub(super) successes: u64,
    /// Requests that are none; those that a user cut by ending the run are not counted.
    pub(super) others: u64,
    /// Those whose users waited no longer: they got no response in time, but that is no error.
    pub(super) stopped: u64,
    pub(super) successes_per_s: f64,
}

impl<'r> Figures<'r> {
    pub(super) fn of_run(report: &'r LoadReport) -> Self {
        Self {
            latency: &report.latency,
            first_byte: &report.first_byte,
            events: report
                .streams
                .as_ref()
                .map(|streams| [&streams.first_event, &streams.between])
                .or_else(|| report.grpc.as_ref().map(|grpc| [&grpc.first_message, &grpc.between])),
            stalled: stalled(report),
            successes: report.successes,
            others: report.ended() - report.successes,
            stopped: report.stopped,
            successes_per_s: report.successes_per_s,
        }
    }

    pub(super) fn of_scope(scope: &'r ScopeReport, interrupted: bool) -> Self {
        let cut = if interrupted { 0 } else { scope.abandoned };
        Self {
            latency: &scope.latency,
            first_byte: &scope.first_byte,
            // Objectives of some requests name none of these times.
            events: None,
            stalled: 0,
            successes: scope.successes,
            others: scope.unexpected + scope.failures + scope.dropped + cut,
            stopped: scope.stopped,
            successes_per_s: scope.successes_per_s,
        }
    }

    /// The times of a kind; `None` where the run does not look at these.
    fn times(&self, time: Time) -> Option<&'r Histogram> {
        match time {
            Time::Latency => Some(self.latency),
            Time::FirstByte => Some(self.first_byte),
            Time::FirstEvent => self.events.map(|[first, _]| first),
            Time::Between => self.events.map(|[_, between]| between),
        }
    }

    /// How many requests count, and how many of them missed a limit of each one's time.
    fn within(&self, time: Time, times: &Histogram, limit_ns: u64) -> Judged {
        // Of times between events each counts, and the one in which an answer stalled.
        if time == Time::Between {
            let bad = too_slow(times, limit_ns) + self.stalled;
            return Judged { requests: times.len() + self.stalled, bad, unknown: 0 };
        }
        let eventless = if time == Time::FirstEvent { self.successes.saturating_sub(times.len()) } else { 0 };
        let others = self.others + self.stopped + eventless;
        let successes = self.successes - eventless;
        Judged { requests: successes + others, bad: too_slow(times, limit_ns) + others, unknown: 0 }
    }

    /// What a threshold says of them.
    pub(super) fn judge(&self, threshold: Threshold) -> Judgement {
        match threshold {
            Threshold::Percentile { time, share, limit_ns } => {
                let Some(times) = self.times(time) else { return Judgement::nothing() };
                let value = value_at(times, share);
                let figure = format!("{time}p{}", decimal(share * 100.0));
                let words = value.map(|value| format!("{figure}{} was {value}", of_what(time)));
                of_share(self.within(time, times, limit_ns), 1.0 - share, time, words)
            }
            Threshold::Max { time, limit_ns } => {
                let Some(times) = self.times(time) else { return Judgement::nothing() };
                let words = value_at(times, 1.0).map(|value| match time {
                    Time::Between => format!("the longest was {value}"),
                    _ => format!("the slowest success took {value}"),
                });
                of_share(self.within(time, times, limit_ns), 0.0, time, words)
            }
            Threshold::Errors { share } => {
                let judged = Judged { requests: self.successes + self.others, bad: self.others, unknown: 0 };
                of_share(judged, share, Time::Latency, None)
            }
            Threshold::Mean { time, limit_ns } => self.judge_mean(time, limit_ns),
            Threshold::Rate { per_s } => Judgement {
                is_met: Some(self.successes_per_s > per_s),
                words: format!("{} successes a second", decimal((self.successes_per_s * 10.0).round() / 10.0)),
                shares: None,
            },
        }
    }

    fn judge_mean(&self, time: Time, limit_ns: u64) -> Judgement {
        let Some(times) = self.times(time).filter(|times| !times.is_empty()) else { return Judgement::nothing() };
        let others = match self.others + self.stopped {
            0 => String::new(),
            others => format!("; {} requests without success are not in it", count(others)),
        };
        let mean = nanoseconds(times.mean());
        let what = if time == Time::Between { "times between events" } else { "successes" };
        let words = format!("it was {} over {} {what}{others}", mean.trim(), count(times.len()));
        Judgement { is_met: Some(times.mean() < limit_ns as f64), words, shares: None }
    }
}

/// What the values of a time are of.
fn of_what(time: Time) -> &'static str {
    if time == Time::Between { "" } else { " of successes" }
}

/// How many requests failed since the next event did not come in time.
fn stalled(report: &LoadReport) -> u64 {
    report.errors.iter().filter(|(outcome, _)| *outcome == Outcome::Stalled).map(|(_, count)| count).sum()
}

/// What a threshold says.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Judgement {
    /// `None` where there was no request.
    pub(super) is_met: Option<bool>,
    pub(super) words: String,
    /// Requests that count and missed it, and the share that may, where it is of shares.
    pub(super) shares: Option<(Judged, f64)>,
}

impl Judgement {
    pub(super) fn nothing() -> Self {
        Self { is_met: None, words: "there was no request to judge it by".to_owned(), shares: None }
    }
}

/// At most this share of the requests may have missed something; `beside` says what else is of interest.
fn of_share(judged: Judged, allowed: f64, time: Time, beside: Option<String>) -> Judgement {
    let is_met = judged.is_within(allowed);
    if is_met.is_none() {
        return Judgement { shares: Some((judged, allowed)), ..Judgement::nothing() };
    }
    let mut words = format!(
        "{:.2} % of {} {} missed it, {} % may",
        judged.bad_share() * 100.0,
        count(judged.requests),
        if time == Time::Between { "times between events" } else { "requests" },
        decimal(allowed * 100.0)
    );
    if let Some(beside) = beside {
        words.push_str(&format!("; {beside}"));
    }
    Judgement { is_met, words, shares: Some((judged, allowed)) }
}

/// How many took longer than a limit allows.
pub(super) fn too_slow(times: &Histogram, limit_ns: u64) -> u64 {
    times.len() - times.count_between(0, limit_ns).min(times.len())
}

fn value_at(times: &Histogram, share: f64) -> Option<String> {
    let value = times.value_at_quantile(share).min(times.max());
    (!times.is_empty()).then(|| nanoseconds(value as f64).trim().to_owned())
}

/// An objective of shares in its own syntax.
pub(super) fn objective_text(objective: Objective) -> String {
    match objective {
        Objective::Latency { share, limit_ns } => format!("p{}<{}", decimal(share * 100.0), time_text(limit_ns)),
        Objective::Errors { share } => format!("errors<{}%", decimal(share * 100.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(values: impl Iterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("good bounds");
        values.for_each(|value| histogram.record(value).expect("within the bounds"));
        histogram
    }

    fn is_met(figures: &Figures<'_>, text: &str) -> Option<bool> {
        figures.judge(text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))).is_met
    }

    #[test]
    fn an_objective_reads_as_it_is_written() {
        for text in
            ["p99<50ms", "GET /cart: p95<200ms", "/a*: errors<1%", "POST http://h:81/x: ttfb max<1s", "rate>5/s"]
        {
            let read: Slo = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(read.to_string(), text);
        }
        for (text, searched) in [("p99<50ms", true), ("errors<1%", true), ("mean<1s", false), ("/: p99<50ms", false)] {
            let read: Slo = text.parse().expect(text);
            assert_eq!(read.searched().is_some(), searched, "{text}");
            if let Some(objective) = read.searched() {
                assert_eq!(objective_text(objective), text);
            }
        }
    }

    #[test]
    fn requests_without_success_miss_what_is_of_each_request() {
        const MS: u64 = 1_000_000;
        // 98 successes of 1 to 98 ms, 2 failures.
        let latency = histogram((1..=98).map(|ms| ms * MS));
        let first_byte = histogram((1..=98).map(|_| MS));
        let figures = Figures {
            latency: &latency,
            first_byte: &first_byte,
            events: None,
            stalled: 0,
            successes: 98,
            others: 2,
            stopped: 0,
            successes_per_s: 49.0,
        };
        for (text, met) in [
            ("p90<91ms", true),
            ("p90<80ms", false),
            ("p98<99ms", true),
            ("p99<99ms", false),
            ("ttfb p98<2ms", true),
            ("ttfb p99<2ms", false),
            ("max<1s", false),
            ("errors<2%", true),
            ("errors<1%", false),
            ("mean<50ms", true),
            ("mean<49ms", false),
            ("rate>48/s", true),
            ("rate>49/s", false),
        ] {
            assert_eq!(is_met(&figures, text), Some(met), "{text}");
        }
        assert_eq!(is_met(&Figures { others: 0, ..figures }, "max<1s"), Some(true));
        // A user who gave up is no error, and had no response in time.
        let stopped = Figures { others: 0, stopped: 2, ..figures };
        assert_eq!([is_met(&stopped, "errors<1%"), is_met(&stopped, "p99<99ms")], [Some(true), Some(false)]);
        let empty = histogram(std::iter::empty());
        let nothing = Figures { latency: &empty, first_byte: &empty, successes: 0, others: 0, ..figures };
        assert_eq!([is_met(&nothing, "p99<1s"), is_met(&nothing, "mean<1s")], [None, None]);
        let words = figures.judge("p99<99ms".parse().expect("a threshold")).words;
        assert!(words.starts_with("2.00 % of 100 requests missed it, 1 % may; p99 of successes was "), "{words}");
    }
}
