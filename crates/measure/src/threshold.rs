//! Thresholds of a run: objectives of shares of the requests, and limits of figures of the whole.

use crate::duration_text::parse_duration;
use crate::objective::{Objective, ObjectiveError};
use std::fmt;
use std::str::FromStr;

/// The highest rate that a threshold may ask for, a second.
const RATE_MAX: f64 = 1e9;
/// The longest time that a threshold may allow, nanoseconds: below 10^15, as for an objective.
const TIME_MAX_NS: u128 = 1_000_000_000_000_000;

/// Which of a request's times is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Time {
    /// From the intended time to the last byte of the response.
    Latency,
    /// From just before the request was written to the first byte of its response (`ttfb`).
    FirstByte,
    /// From the intended time to the end of the first event of a streamed answer (`first-event`).
    FirstEvent,
    /// Between two neighbouring events of a streamed answer (`between`).
    Between,
}

impl Time {
    /// Those that have a word, and this; the latency has none.
    const NAMED: [(&'static str, Self); 3] =
        [("ttfb", Self::FirstByte), ("first-event", Self::FirstEvent), ("between", Self::Between)];

    /// Whether it is one of streamed answers only.
    #[must_use]
    pub fn is_of_streams(self) -> bool {
        matches!(self, Self::FirstEvent | Self::Between)
    }
}

/// What a run has to hold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Threshold {
    /// This share of the requests (0 to 1, without the ends) must be answered within a time: `p99<50ms`, `ttfb p99<20ms`.
    Percentile {
        /// Which time.
        time: Time,
        /// The share.
        share: f64,
        /// The time, nanoseconds.
        limit_ns: u64,
    },
    /// Every request must be answered within a time: `max<1s`.
    Max {
        /// Which time.
        time: Time,
        /// The time, nanoseconds.
        limit_ns: u64,
    },
    /// The mean of the times of successes lies below a limit: `mean<20ms`.
    Mean {
        /// Which time.
        time: Time,
        /// The limit, nanoseconds.
        limit_ns: u64,
    },
    /// At most this share of the requests (0 to 1, without the ends) may fail: `errors<1%`.
    Errors {
        /// The share.
        share: f64,
    },
    /// More successes come than so many a second: `rate>500/s`.
    Rate {
        /// The rate.
        per_s: f64,
    },
}

/// Why a text is no threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThresholdError {
    /// It has no `<` or `>`.
    NoComparison,
    /// What stands before the sign is no figure of a run.
    Subject,
    /// The sign is the wrong one for this figure.
    Sign {
        /// The figure.
        of: &'static str,
        /// The sign that belongs there.
        wanted: char,
    },
    /// What stands behind `rate>` is no rate.
    Rate,
    /// It is wrong as an objective is.
    Objective(ObjectiveError),
}

impl fmt::Display for ThresholdError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoComparison => formatter.write_str(
                "write 'p99<50ms', 'mean<20ms', 'max<1s', 'ttfb p95<20ms', 'errors<1%' or 'rate>500/s', \
                 with 'GET /path: ' before it for some of the requests only",
            ),
            Self::Subject => formatter.write_str(
                "before the sign stands a percentile such as p99, mean, max, errors or rate; ttfb and one of the first \
                 three for the time to the first byte, first-event and between likewise for streamed answers",
            ),
            Self::Sign { of, wanted } => {
                write!(formatter, "{of} goes with {wanted}: an objective says what is right, not what is wrong")
            }
            Self::Rate => formatter.write_str("the limit of a rate is a number a second, above 0: rate>500/s"),
            Self::Objective(error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for ThresholdError {}

impl Threshold {
    /// Whether it is of a time that only streamed answers have.
    #[must_use]
    pub fn is_of_streams(self) -> bool {
        match self {
            Self::Percentile { time, .. } | Self::Max { time, .. } | Self::Mean { time, .. } => time.is_of_streams(),
            Self::Errors { .. } | Self::Rate { .. } => false,
        }
    }
}

impl FromStr for Threshold {
    type Err = ThresholdError;

    fn from_str(text: &str) -> Result<Self, ThresholdError> {
        let at = text.find(['<', '>']).ok_or(ThresholdError::NoComparison)?;
        let sign = text[at..].chars().next().unwrap_or('<');
        let (subject, limit) = (text[..at].trim(), text[at + 1..].trim());
        let of_sign = |of, wanted| if sign == wanted { Ok(()) } else { Err(ThresholdError::Sign { of, wanted }) };
        if subject == "rate" {
            of_sign("rate", '>')?;
            let number = limit.strip_suffix("/s").unwrap_or("").trim().parse::<f64>().ok();
            let per_s = number.filter(|rate| *rate > 0.0 && *rate <= RATE_MAX).ok_or(ThresholdError::Rate)?;
            return Ok(Self::Rate { per_s });
        }
        if subject == "errors" {
            of_sign("errors", '<')?;
        } else {
            of_sign("a time", '<')?;
        }
        let named = Time::NAMED.iter().find_map(|(name, time)| Some((*time, subject.strip_prefix(name)?)));
        let (time, figure) = match named {
            Some((time, figure)) if figure.starts_with([' ', '\t']) => (time, figure.trim_start()),
            Some(_) => return Err(ThresholdError::Subject),
            None => (Time::Latency, subject),
        };
        match figure {
            "mean" => Ok(Self::Mean { time, limit_ns: limit_of(limit)? }),
            "max" => Ok(Self::Max { time, limit_ns: limit_of(limit)? }),
            "errors" if time != Time::Latency => Err(ThresholdError::Subject),
            figure => match format!("{figure}<{limit}").parse().map_err(ThresholdError::of)? {
                Objective::Latency { share, limit_ns } => Ok(Self::Percentile { time, share, limit_ns }),
                Objective::Errors { share } => Ok(Self::Errors { share }),
            },
        }
    }
}

impl ThresholdError {
    /// What an objective's error says of a threshold, which has more figures.
    fn of(error: ObjectiveError) -> Self {
        match error {
            ObjectiveError::NoComparison => Self::NoComparison,
            ObjectiveError::Subject => Self::Subject,
            other => Self::Objective(other),
        }
    }
}

impl fmt::Display for Time {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::NAMED.iter().find(|(_, time)| time == self) {
            Some((name, _)) => write!(formatter, "{name} "),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Threshold {
    /// As it is written.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Percentile { time, share, limit_ns } => {
                write!(formatter, "{time}p{}<{}", decimal(share * 100.0), time_text(*limit_ns))
            }
            Self::Max { time, limit_ns } => write!(formatter, "{time}max<{}", time_text(*limit_ns)),
            Self::Mean { time, limit_ns } => write!(formatter, "{time}mean<{}", time_text(*limit_ns)),
            Self::Errors { share } => write!(formatter, "errors<{}%", decimal(share * 100.0)),
            Self::Rate { per_s } => write!(formatter, "rate>{}/s", decimal(*per_s)),
        }
    }
}

/// A time with its unit.
fn limit_of(text: &str) -> Result<u64, ThresholdError> {
    let wrong = ThresholdError::Objective(ObjectiveError::Time);
    // A bare number would be seconds elsewhere, which few mean of a response.
    if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return Err(wrong);
    }
    let limit_ns = parse_duration(text).map_err(|_| wrong)?.as_nanos();
    if (1..TIME_MAX_NS).contains(&limit_ns) { Ok(limit_ns as u64) } else { Err(wrong) }
}

/// A time in the largest unit that leaves it whole; below a millisecond in microseconds.
#[must_use]
pub fn time_text(time_ns: u64) -> String {
    match time_ns {
        time_ns if time_ns.is_multiple_of(1_000_000_000) => format!("{}s", time_ns / 1_000_000_000),
        time_ns if time_ns.is_multiple_of(1_000_000) => format!("{}ms", time_ns / 1_000_000),
        time_ns => format!("{}us", decimal(time_ns as f64 / 1e3)),
    }
}

/// A number with at most six digits behind its point, and without zeros at its end.
#[must_use]
pub fn decimal(number: f64) -> String {
    // Shares come from decimals; digits beyond the sixth are of the conversion.
    let text = format!("{number:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn thresholds_read_as_they_are_written() {
        for text in [
            "p99<50ms",
            "p99.9<1s",
            "p50<800us",
            "errors<0.1%",
            "mean<20ms",
            "max<1s",
            "rate>500/s",
            "rate>0.5/s",
            "ttfb p95<20ms",
            "ttfb mean<5ms",
            "ttfb max<100ms",
            "p99.99<1500ms",
        ] {
            let read: Threshold = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(read.to_string(), text);
        }
        assert_eq!(" mean < 20ms ".parse(), Ok(Threshold::Mean { time: Time::Latency, limit_ns: 20_000_000 }));
        assert_eq!("rate > 500 /s".parse(), Ok(Threshold::Rate { per_s: 500.0 }));
    }

    #[test]
    fn what_is_no_threshold_is_told_with_a_remedy() {
        for (text, words) in [
            ("p99", "'mean<20ms'"),
            ("median<5ms", "a percentile such as p99, mean"),
            ("ttfb<5ms", "ttfb and one of the first"),
            ("ttfb errors<1%", "ttfb and one"),
            ("ttfbp99<1s", "ttfb and one"),
            ("p99>50ms", "a time goes with <"),
            ("errors>1%", "errors goes with <"),
            ("rate<500/s", "rate goes with >"),
            ("rate>500", "rate>500/s"),
            ("rate>0/s", "above 0"),
            ("rate>inf/s", "above 0"),
            ("rate>nan/s", "above 0"),
            ("mean<20", "with its unit"),
            ("max<0s", "with its unit"),
            ("p100<1s", "a percentile such as p99"),
            ("errors<100%", "below 100"),
        ] {
            let told = text.parse::<Threshold>().expect_err(text).to_string();
            assert!(told.contains(words), "{text}: {told}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(ttfb )?(p[0-9.]{1,5}|mean|max|errors|rate|\\PC{0,4})[<>] ?[0-9.]{0,6}(ms|s|us|%|/s)?") {
            if let Ok(read) = text.parse::<Threshold>() {
                // What is shown has six digits: it is read again as itself, or as what is shown.
                if let Ok(again) = read.to_string().parse::<Threshold>() {
                    prop_assert_eq!(again.to_string(), read.to_string());
                }
            }
        }
    }
}
