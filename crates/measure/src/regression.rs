//! Whether a run is worse than an earlier one, and by how much it may be.

use crate::comparison::{BLOCKS_FOR_A_VERDICT, Direction, Estimate, Verdict, verdict};
use std::fmt;
use std::str::FromStr;

/// The largest part by which a figure may be allowed to be worse, in percent.
const PERCENT_MAX: f64 = 10_000.0;

/// A figure of a run that each of its slices has, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// The median latency of successes.
    P50,
    /// The latency that 90 % of the successes do not exceed.
    P90,
    /// The latency that 99 % of the successes do not exceed.
    P99,
    /// The latency that 99.9 % of the successes do not exceed.
    P99_9,
    /// The mean latency of successes.
    Mean,
    /// Successes a second.
    Rate,
}

/// What an earlier run must not be outdone in for the worse: `p99 worse than 10%`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FailOn {
    /// The figure.
    pub figure: Figure,
    /// By how much it may be worse, as a fraction: 0.1 is 10 %.
    pub by: f64,
}

/// Why a text is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailOnError {
    /// It has not the form.
    Form,
    /// What comes first is no figure that slices have.
    Figure,
    /// What comes last is no percentage.
    Percentage,
}

impl fmt::Display for FailOnError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Form => "write 'p99 worse than 10%'",
            Self::Figure => {
                "an earlier run is compared by p50, p90, p99, p99.9, mean or rate; of errors say how many there may be: \
                 --slo 'errors<1%'"
            }
            Self::Percentage => "how much worse is a percentage above 0: 'p99 worse than 10%'",
        })
    }
}

impl std::error::Error for FailOnError {}

impl Figure {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::P50, Self::P90, Self::P99, Self::P99_9, Self::Mean, Self::Rate];

    /// Its name, as it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P99 => "p99",
            Self::P99_9 => "p99.9",
            Self::Mean => "mean",
            Self::Rate => "rate",
        }
    }

    /// Which way is good.
    #[must_use]
    pub fn direction(self) -> Direction {
        match self {
            Self::Rate => Direction::HigherIsBetter,
            _ => Direction::LowerIsBetter,
        }
    }
}

impl FromStr for FailOn {
    type Err = FailOnError;

    fn from_str(text: &str) -> Result<Self, FailOnError> {
        let (figure, rest) = text.trim().split_once(char::is_whitespace).ok_or(FailOnError::Form)?;
        let figure = Figure::ALL.into_iter().find(|one| one.name() == figure).ok_or(FailOnError::Figure)?;
        let mut words = rest.split_whitespace();
        if (words.next(), words.next()) != (Some("worse"), Some("than")) {
            return Err(FailOnError::Form);
        }
        let percent: String = words.collect();
        let percent = percent.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
        let percent = percent.filter(|percent| *percent > 0.0 && *percent <= PERCENT_MAX);
        Ok(Self { figure, by: percent.ok_or(FailOnError::Percentage)? / 100.0 })
    }
}

impl fmt::Display for FailOn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} worse than {}%", self.figure.name(), crate::threshold::decimal(self.by * 100.0))
    }
}

/// What can be said of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// The figure is no more worse than it may be.
    Held,
    /// It is worse, and by more than it may.
    Worse,
    /// The noise does not allow to say.
    CannotTell,
}

impl FailOn {
    /// Judges the ratio of the later run's figure to the earlier one's, `noise` being that of earlier runs among each
    /// other, where there are several.
    ///
    /// Worse is what [`verdict`] calls so; held is also what may be better by any amount, so that only the end of the
    /// interval counts that is worse.
    #[must_use]
    pub fn judge(self, effect: &Estimate, noise: Option<&Estimate>) -> Held {
        let direction = self.figure.direction();
        match verdict(effect, noise, self.by, direction) {
            Verdict::Worse => Held::Worse,
            Verdict::Better | Verdict::TheSame => Held::Held,
            Verdict::CannotTell => {
                let worst = match direction {
                    Direction::LowerIsBetter => effect.interval.high,
                    Direction::HigherIsBetter => effect.interval.reciprocal().high,
                };
                let is_quiet = noise.is_none_or(|noise| noise.interval.reach() <= 1.0 + self.by);
                let is_held = effect.blocks >= BLOCKS_FOR_A_VERDICT && worst <= 1.0 + self.by && is_quiet;
                if is_held { Held::Held } else { Held::CannotTell }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::Interval;
    use proptest::prelude::*;

    fn fail_on(text: &str) -> FailOn {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn estimate(point: f64, low: f64, high: f64) -> Estimate {
        Estimate { point, interval: Interval { low, high }, blocks: 20 }
    }

    #[test]
    fn limits_are_read_as_they_are_written() {
        for text in ["p99 worse than 10%", "p99.9 worse than 0.5%", "rate worse than 5%", "mean worse than 200%"] {
            assert_eq!(fail_on(text).to_string(), text);
        }
        assert_eq!(fail_on("  p50   worse than 10 % "), FailOn { figure: Figure::P50, by: 0.1 });
        for (text, error) in [
            ("", FailOnError::Form),
            ("p99", FailOnError::Form),
            ("p99 better than 10%", FailOnError::Form),
            ("errors worse than 1%", FailOnError::Figure),
            ("p95 worse than 1%", FailOnError::Figure),
            ("p99 worse than", FailOnError::Percentage),
            ("p99 worse than 10", FailOnError::Percentage),
            ("p99 worse than 0%", FailOnError::Percentage),
            ("p99 worse than nan%", FailOnError::Percentage),
        ] {
            assert_eq!(text.parse::<FailOn>(), Err(error), "{text}");
        }
    }

    #[test]
    fn only_what_is_surely_worse_fails() {
        let (p99, rate) = (fail_on("p99 worse than 10%"), fail_on("rate worse than 10%"));
        for (effect, of_p99, of_rate) in [
            (estimate(1.3, 1.2, 1.4), Held::Worse, Held::Held),
            (estimate(0.7, 0.6, 0.8), Held::Held, Held::Worse),
            (estimate(1.0, 0.98, 1.02), Held::Held, Held::Held),
            (estimate(1.05, 0.9, 1.3), Held::CannotTell, Held::CannotTell),
            // Perhaps much better, surely not much worse; for the rate perhaps much worse.
            (estimate(0.9, 0.7, 1.05), Held::Held, Held::CannotTell),
            // Worse, but by less than it may.
            (estimate(1.05, 1.02, 1.08), Held::Held, Held::Held),
        ] {
            assert_eq!((p99.judge(&effect, None), rate.judge(&effect, None)), (of_p99, of_rate), "{effect:?}");
        }
        // Earlier runs that differ as much among each other decide nothing.
        let noise = estimate(1.0, 0.7, 1.5);
        assert_eq!(p99.judge(&estimate(1.3, 1.2, 1.4), Some(&noise)), Held::CannotTell);
        assert_eq!(p99.judge(&estimate(1.7, 1.6, 1.8), Some(&noise)), Held::Worse);
        let few = Estimate { blocks: 4, ..estimate(1.0, 0.99, 1.01) };
        assert_eq!(p99.judge(&few, None), Held::CannotTell);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(p99|mean|rate|\\PC{0,3}) ?(worse|\\PC{0,3}) ?(than)? ?[0-9.]{0,4}%?") {
            if let Ok(read) = text.parse::<FailOn>() && let Ok(again) = read.to_string().parse::<FailOn>() {
                prop_assert_eq!(again.to_string(), read.to_string());
            }
        }
    }
}
