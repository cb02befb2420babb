//! Which figures of a history have shifted for good.
use serde::Serialize;
use weir_measure::comparison::Direction;
use weir_measure::shift::{Detector, Shift};

use super::kept::{Figure, History, KeptResult, metric_named};
use crate::metric::Metric;

/// What a history says of each figure of its latest result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trends {
    /// Results that belong together.
    pub results: usize,
    /// How many there have to be until a shift can be found.
    pub fewest: usize,
    /// Results of other plans or machines in the folder.
    pub others: usize,
    /// What is in the folder and could not be read, with the reason.
    pub damaged: Vec<String>,
    /// Whether something has shifted for the worse since the last result that was accepted.
    pub is_worse: bool,
    /// Each figure.
    pub figures: Vec<Trend>,
}

/// A figure over the results of a history.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trend {
    /// The name of the case.
    pub case: String,
    /// The name of the subject.
    pub subject: String,
    /// The name of the baseline, if it is the ratio to it.
    pub against: Option<String>,
    /// What it is.
    pub metric: Metric,
    /// Whether the level now is worse than the one before it; `None` without a shift.
    pub is_worse: Option<bool>,
    /// Whether the user has accepted a result of the level now.
    pub is_accepted: bool,
    /// In words; empty without a shift.
    pub words: String,
    /// Each result that has it.
    pub points: Vec<TrendPoint>,
}

/// A result in a [`Trend`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrendPoint {
    /// When it ended, in seconds since 1970.
    pub at_s: u64,
    /// Its label.
    pub label: String,
    /// The median.
    pub value: f64,
    /// The median of its level: of all results between two shifts.
    pub level: f64,
    /// Whether a level begins with it.
    pub begins: bool,
}

impl History {
    /// The trends of the figures that `now` has, one of the results; shifts of less than `smallest` (0.02 is 2 %) do not
    /// interest.
    #[must_use]
    pub fn trends(&self, now: &KeptResult, smallest: f64) -> Trends {
        let known: Vec<(&Figure, Metric)> =
            now.figures.iter().filter_map(|figure| Some((figure, metric_named(&figure.metric)?))).collect();
        let detector = Detector::new(known.len(), smallest);
        let figures: Vec<Trend> =
            known.into_iter().map(|(figure, metric)| self.trend(figure, metric, &detector)).collect();
        let unread = (self.unread > 0).then(|| format!("{} older files were not read", self.unread));
        // Both may quote a file of another person, and a terminal would obey its control characters.
        let harmless = |text: String| text.replace(char::is_control, "?");
        let damaged = self.damaged.iter().map(|(path, why)| harmless(format!("{}: {why}", path.display())));
        Trends {
            results: self.results.len(),
            fewest: detector.fewest(),
            others: self.others,
            damaged: damaged.chain(unread).collect(),
            is_worse: figures.iter().any(|trend| trend.is_worse == Some(true) && !trend.is_accepted),
            figures,
        }
    }

    fn trend(&self, figure: &Figure, metric: Metric, detector: &Detector) -> Trend {
        let is_it = |other: &&Figure| {
            (&other.case, &other.subject, &other.against, &other.metric)
                == (&figure.case, &figure.subject, &figure.against, &figure.metric)
        };
        let found: Vec<(&KeptResult, f64)> =
            self.results.iter().filter_map(|result| Some((result, result.figures.iter().find(is_it)?.value))).collect();
        let values: Vec<f64> = found.iter().map(|(_, value)| *value).collect();
        let shifts = detector.shifts(&values);
        let level = |index: usize| -> Option<f64> {
            let shift = shifts.iter().rev().find(|shift| shift.since <= index);
            let first =
                || shifts.first().map_or_else(|| weir_measure::comparison::median(&values), |shift| Some(shift.before));
            shift.map(|shift| shift.after).or_else(first)
        };
        let points = found.iter().enumerate().map(|(index, (result, value))| TrendPoint {
            at_s: result.at_s,
            label: result.label.clone(),
            value: *value,
            level: level(index).unwrap_or(*value),
            begins: shifts.iter().any(|shift| shift.since == index),
        });
        let points = points.collect();
        let last = shifts.last();
        let is_worse =
            last.map(|shift| (shift.after > shift.before) == (metric.direction() == Direction::LowerIsBetter));
        let is_accepted = last.is_some_and(|shift| found[shift.since..].iter().any(|(result, _)| result.accepted));
        let words = last.map_or_else(String::new, |shift| {
            let is_worse = is_worse.unwrap_or(false);
            in_words(shift, &found, figure, metric, is_worse) + if is_accepted { "; accepted" } else { "" }
        });
        Trend {
            case: figure.case.clone(),
            subject: figure.subject.clone(),
            against: figure.against.clone(),
            metric,
            is_worse,
            is_accepted,
            words,
            points,
        }
    }
}

fn in_words(shift: &Shift, found: &[(&KeptResult, f64)], figure: &Figure, metric: Metric, is_worse: bool) -> String {
    let results = found.len() - shift.since;
    let change = (shift.after / shift.before - 1.0) * 100.0;
    let value = |value: f64| shown(figure.against.is_some(), metric, value);
    format!(
        "{} by {:.1} % since {} ({results} results): {} before, {} since",
        if is_worse { "worse" } else { "better" },
        change.abs(),
        found[shift.since].0.name(),
        value(shift.before),
        value(shift.after)
    )
}

/// A value as people read it.
fn shown(is_ratio: bool, metric: Metric, value: f64) -> String {
    if is_ratio { format!("{value:.3}") } else { metric.with_unit(value) }
}

impl Trend {
    /// Which figure of what: `CPU per request, B over A`; with the case where there are several.
    #[must_use]
    pub fn name(&self, of_case: bool) -> String {
        let case = if of_case { format!("{}: ", self.case) } else { String::new() };
        match &self.against {
            Some(baseline) => format!("{case}{}, {} over {baseline}", self.metric.name(), self.subject),
            None => format!("{case}{} of {}", self.metric.name(), self.subject),
        }
    }

    /// A value of it with its unit, a ratio without one.
    #[must_use]
    pub fn shown(&self, value: f64) -> String {
        shown(self.against.is_some(), self.metric, value)
    }
}

impl Trends {
    /// What they say, as Markdown to follow a report.
    #[must_use]
    pub fn markdown(&self) -> String {
        let items: String =
            self.words().iter().map(|words| format!("- {}\n", weir_report::github::cell(words))).collect();
        format!("\n## Since earlier results\n\n{items}")
    }

    /// What they say, for a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let words = self.words();
        let lines = words.iter().enumerate().map(|(index, words)| match index {
            0 => format!("\nhistory: {words}\n"),
            _ => format!("  {words}\n"),
        });
        lines.collect()
    }

    /// What they say, a sentence a line; the first tells how many results there are.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let of_case = self.figures.iter().any(|trend| trend.case != self.figures[0].case);
        let others = match self.others {
            0 => String::new(),
            others => format!("; {others} of other plans or machines are not among them"),
        };
        let results = if self.results == 1 { "1 result".to_owned() } else { format!("{} results", self.results) };
        let head = if self.results < self.fewest {
            format!("{results}{others}; a shift can be found from {} on", self.fewest)
        } else {
            format!("{results}{others}")
        };
        let mut words = vec![head];
        let shifted = || self.figures.iter().filter(|trend| trend.is_worse.is_some());
        words.extend(shifted().map(|trend| format!("{}: {}", trend.name(of_case), trend.words)));
        let steady = self.figures.len() - shifted().count();
        if self.results >= self.fewest {
            words.push(match (shifted().count(), steady) {
                (0, figures) => format!("none of {figures} figures has shifted for good"),
                (_, 0) => "every figure has shifted".to_owned(),
                (_, figures) => format!("{figures} other figures have not shifted"),
            });
        }
        words.extend(self.damaged.iter().map(|damaged| format!("passed over: {damaged}")));
        words
    }
}
