//! An earlier run, and whether this one is worse.

use super::finding::{Finding, Kind, Outcome};
use super::heading::Heading;
use super::json;
use super::usage::Usage;
use anyhow::{Context, anyhow};
use serde_json::Value;
use std::path::{Path, PathBuf};
use weir_load::LoadReport;
use weir_measure::comparison::{
    BLOCKS_FOR_A_VERDICT, Bootstrap, ComparisonError, Estimate, Interval, Verdict, median, verdict,
};
use weir_measure::regression::{FailOn, Figure, Held};
use weir_terminal::text_file;

/// The report that a run keeps beside its events.
pub(super) const REPORT_FILE: &str = "load.json";
/// The largest report that is read, in bytes.
const REPORT_BYTES_MAX: u64 = 64 << 20;
/// Resamples for an interval: enough for two digits of its ends.
const RESAMPLES: usize = 2000;
/// The smallest difference of interest where no limit says one.
const SMALLEST_EFFECT: f64 = 0.05;
/// Successes a second that a slice without any counts for.
const LEAST_RATE: f64 = 1e-6;
/// What is told where no limit says what is of interest.
const TOLD: [Figure; 3] = [Figure::P50, Figure::P99, Figure::Rate];
/// The most earlier runs.
const RUNS_MAX: usize = 64;

/// The options of comparing with an earlier run.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct BaselineArgs {
    /// Compare with an earlier run of the same load: its run directory (of --run) or its --json report; may be repeated,
    /// as only several say what differs from run to run
    #[arg(long, value_name = "DIR|FILE", help_heading = "Gate")]
    baseline: Vec<PathBuf>,
    /// Fail if a figure is surely worse than the baseline's by so much: 'p99 worse than 10%'; p50, p90, p99, p99.9, mean
    /// and rate; may be repeated. What the noise does not allow to say is told, and does not fail
    #[arg(long, value_name = "LIMIT", requires = "baseline", help_heading = "Gate")]
    fail_on: Vec<FailOn>,
}

/// Earlier runs, and what they are compared by.
#[derive(Debug, Clone, Default)]
pub(super) struct Baseline {
    runs: Vec<Earlier>,
    limits: Vec<FailOn>,
}

/// An earlier run.
#[derive(Debug, Clone)]
struct Earlier {
    name: String,
    slices: Slices,
}

/// What each slice of a run says.
#[derive(Debug, Clone, PartialEq)]
struct Slices {
    interval_s: f64,
    points: Vec<Value>,
}

impl BaselineArgs {
    /// Reads the earlier runs, which must have been made like the one that is about to begin.
    pub(super) fn read(&self, heading: &Heading) -> Result<Baseline, Usage> {
        if self.baseline.len() > RUNS_MAX {
            return Err(anyhow!("--baseline: at most {RUNS_MAX} earlier runs are read").into());
        }
        let read = |path: &PathBuf| {
            earlier(path, heading).with_context(|| format!("--baseline {}", path.display())).map_err(Usage)
        };
        Ok(Baseline {
            runs: self.baseline.iter().map(read).collect::<Result<_, Usage>>()?,
            limits: self.fail_on.clone(),
        })
    }
}

fn earlier(path: &Path, heading: &Heading) -> anyhow::Result<Earlier> {
    let file = if path.is_dir() { path.join(REPORT_FILE) } else { path.to_owned() };
    let text = text_file::read(&file, REPORT_BYTES_MAX).with_context(|| match path.is_dir() {
        true => format!("{REPORT_FILE} cannot be read in it; weir load --run writes it, older runs have none"),
        false => "cannot be read".to_owned(),
    })?;
    let report: Value = serde_json::from_str(&text).context("it is no JSON; give the output of weir load --json")?;
    let made = [
        ("connections", Value::from(heading.connections)),
        ("http_version", Value::from(if heading.streams.is_some() { 2 } else { 1 })),
        ("streams", heading.streams.into()),
        ("rate_wanted_per_s", heading.rate_wanted_per_s.into()),
    ];
    for (name, now) in made {
        let then = report.get(name).ok_or_else(|| anyhow!("it has no {name}; give the output of weir load --json"))?;
        if *then != now {
            anyhow::bail!("it was made otherwise: {name} was {then} and is {now} now; make both runs alike");
        }
    }
    let slices =
        Slices::of(&report["series"]).context("it has no series of slices; give the output of weir load --json")?;
    Ok(Earlier { name: path.display().to_string(), slices })
}

impl Slices {
    fn of(series: &Value) -> Option<Self> {
        let points = series["points"].as_array()?;
        let interval_s = series["interval_s"].as_f64()?;
        // What is left at a run's end is no whole slice.
        let is_whole = |point: &&Value| point["length_s"].as_f64().is_some_and(|length_s| length_s > 0.5 * interval_s);
        Some(Self { interval_s, points: points.iter().filter(is_whole).cloned().collect() })
    }

    /// A figure of each slice that has one. A slice without a success has no latency, and the least rate: the ratio of
    /// medians needs more than nothing.
    fn values(&self, figure: Figure) -> Vec<f64> {
        let value = |point: &Value| match figure {
            Figure::Rate => point["successes_per_s"].as_f64().map(|rate| rate.max(LEAST_RATE)),
            Figure::P99_9 => point["latency_ns"]["p99_9"].as_f64(),
            figure => point["latency_ns"][figure.name()].as_f64(),
        };
        self.points.iter().filter_map(value).filter(|value| *value > 0.0).collect()
    }
}

impl Baseline {
    /// What the earlier runs say of a run.
    pub(super) fn findings(&self, report: &LoadReport) -> Vec<Finding> {
        if self.runs.is_empty() {
            return Vec::new();
        }
        let Some(now) = Slices::of(&json::series(&report.series)) else { return Vec::new() };
        let told = TOLD.into_iter().filter(|_| self.limits.is_empty()).map(|figure| self.told(figure, &now));
        self.limits.iter().map(|limit| self.judged(*limit, &now)).chain(told).collect()
    }

    /// What a limit says.
    fn judged(&self, limit: FailOn, now: &Slices) -> Finding {
        let (outcome, words) = match self.compared(limit.figure, now) {
            Err(reason) => (Outcome::Untold, reason.to_string()),
            Ok(compared) => match limit.judge(&compared.effect, compared.noise.as_ref()) {
                Held::Held => (Outcome::Met, compared.words),
                Held::Worse => (Outcome::Missed, compared.words),
                Held::CannotTell => (Outcome::Untold, compared.words),
            },
        };
        self.finding(limit.to_string(), outcome, words)
    }

    /// What there is to say of a figure without a limit.
    fn told(&self, figure: Figure, now: &Slices) -> Finding {
        let (outcome, words) = match self.compared(figure, now) {
            Err(reason) => (Outcome::Untold, reason.to_string()),
            Ok(compared) => {
                let said = verdict(&compared.effect, compared.noise.as_ref(), SMALLEST_EFFECT, figure.direction());
                match said {
                    Verdict::Better => (Outcome::Met, format!("better: {}", compared.words)),
                    Verdict::Worse => {
                        (Outcome::Met, format!("worse, and no --fail-on says how much: {}", compared.words))
                    }
                    Verdict::TheSame => (Outcome::Met, format!("the same: {}", compared.words)),
                    Verdict::CannotTell => (Outcome::Untold, compared.words),
                }
            }
        };
        self.finding(figure.name().to_owned(), outcome, words)
    }

    fn finding(&self, name: String, outcome: Outcome, words: String) -> Finding {
        let figures = serde_json::json!({ "compared": name, "outcome": outcome.name(), "words": words });
        Finding { kind: Kind::Comparison, name, outcome, words, figures }
    }

    /// The ratio of a figure to that of the earlier runs.
    fn compared(&self, figure: Figure, now: &Slices) -> Result<Compared, Incomparable> {
        if let Some(other) = self.runs.iter().find(|run| run.slices.interval_s != now.interval_s) {
            let (own_s, theirs_s, name) = (now.interval_s, other.slices.interval_s, other.name.clone());
            return Err(Incomparable::Slices { own_s, theirs_s, name });
        }
        let earlier: Vec<Vec<f64>> = self.runs.iter().map(|run| run.slices.values(figure)).collect();
        let (before, values) = (earlier.concat(), now.values(figure));
        let fewest = before.len().min(values.len());
        if fewest < BLOCKS_FOR_A_VERDICT {
            return Err(Incomparable::TooFew { fewest });
        }
        let bootstrap = Bootstrap { resamples: RESAMPLES, ..Bootstrap::with_seed(1) };
        let effect = bootstrap.ratio_of_medians(&before, &values)?;
        let noise = noise(&earlier)?;
        let shown = |values: &[f64]| median(values).map_or_else(String::new, |value| shown(figure, value));
        let beside = match &noise {
            Some(noise) => format!("; earlier runs differ by up to {:.3}", noise.interval.reach()),
            None => "; one earlier run does not say what differs from run to run: give --baseline several".to_owned(),
        };
        let words = format!(
            "{} in the median slice, {} before: {:.3} times ({:.3} to {:.3}, 95 %){beside}",
            shown(&values),
            shown(&before),
            effect.point,
            effect.interval.low,
            effect.interval.high
        );
        Ok(Compared { effect, noise, words })
    }
}

/// Why a figure is not compared.
#[derive(Debug, thiserror::Error)]
enum Incomparable {
    #[error(
        "slices of {own_s} s cannot be compared with those of {theirs_s} s in {name}; give both runs the same \
         --interval and a like -d"
    )]
    Slices { own_s: f64, theirs_s: f64, name: String },
    #[error(
        "{fewest} slices are too few, {} are needed: longer runs (-d) or a shorter --interval",
        BLOCKS_FOR_A_VERDICT
    )]
    TooFew { fewest: usize },
    #[error(transparent)]
    Statistics(#[from] ComparisonError),
}

/// A figure beside that of earlier runs.
#[derive(Debug)]
struct Compared {
    effect: Estimate,
    noise: Option<Estimate>,
    words: String,
}

/// By how much earlier runs differ among each other; `None` where there is one only.
fn noise(earlier: &[Vec<f64>]) -> Result<Option<Estimate>, ComparisonError> {
    let medians: Vec<f64> = earlier.iter().filter_map(|values| median(values)).collect();
    if medians.len() < 2 {
        return Ok(None);
    }
    let (low, high) =
        medians.iter().fold((f64::MAX, 0.0_f64), |(low, high), value| (low.min(*value), high.max(*value)));
    if low <= 0.0 {
        return Err(ComparisonError::NotPositive(low));
    }
    let interval = Interval { low: low / high, high: high / low };
    Ok(Some(Estimate { point: 1.0, interval, blocks: medians.len() }))
}

fn shown(figure: Figure, value: f64) -> String {
    match figure {
        Figure::Rate => format!("{value:.1}/s"),
        _ => weir_report::nanoseconds(value).trim().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Slices whose p99 and rate are these, with a little noise that repeats.
    fn slices(p99_ms: f64, rate: f64, count: usize) -> Slices {
        let point = |number: usize| {
            let noise = 1.0 + 0.01 * (number % 5) as f64;
            json!({ "length_s": 1.0, "successes_per_s": rate * noise, "latency_ns": { "p99": p99_ms * noise * 1e6 } })
        };
        let points: Vec<_> = (0..count).map(point).collect();
        Slices::of(&json!({ "interval_s": 1.0, "points": points })).expect("slices")
    }

    fn baseline(runs: &[Slices], limits: &[&str]) -> Baseline {
        let runs = runs.iter().map(|slices| Earlier { name: "one".to_owned(), slices: slices.clone() }).collect();
        Baseline { runs, limits: limits.iter().map(|limit| limit.parse().expect("a limit")).collect() }
    }

    fn outcome(baseline: &Baseline, now: &Slices) -> Outcome {
        baseline.judged(baseline.limits[0], now).outcome
    }

    #[test]
    fn what_is_surely_worse_is_missed_and_what_cannot_be_told_is_told() {
        let p99 = ["p99 worse than 10%"];
        let one = baseline(&[slices(10.0, 100.0, 20)], &p99);
        for (now, wanted) in [
            (slices(10.0, 100.0, 20), Outcome::Met),
            (slices(10.5, 100.0, 20), Outcome::Met),
            (slices(12.0, 100.0, 20), Outcome::Missed),
            (slices(12.0, 100.0, 4), Outcome::Untold),
            (slices(5.0, 100.0, 20), Outcome::Met),
        ] {
            assert_eq!(outcome(&one, &now), wanted, "{:?}", one.judged(one.limits[0], &now));
        }
        // Earlier runs that differ by a third say that a fifth is nothing.
        let two = baseline(&[slices(10.0, 100.0, 20), slices(13.0, 100.0, 20)], &p99);
        assert_eq!(outcome(&two, &slices(13.0, 100.0, 20)), Outcome::Untold);
        assert_eq!(outcome(&two, &slices(30.0, 100.0, 20)), Outcome::Missed);
        let rate = baseline(&[slices(10.0, 100.0, 20)], &["rate worse than 10%"]);
        assert_eq!(outcome(&rate, &slices(10.0, 80.0, 20)), Outcome::Missed);
        assert_eq!(outcome(&rate, &slices(10.0, 200.0, 20)), Outcome::Met);
        // A slice in which nothing succeeded has a rate like any other.
        let mut stalled = slices(10.0, 100.0, 20);
        stalled.points[..14].iter_mut().for_each(|point| point["successes_per_s"] = json!(0.0));
        assert_eq!(outcome(&rate, &stalled), Outcome::Missed);
        let other = Slices { interval_s: 2.0, ..slices(10.0, 100.0, 20) };
        assert_eq!(outcome(&one, &other), Outcome::Untold);
        let words = one.judged(one.limits[0], &slices(12.0, 100.0, 20)).words;
        assert!(words.starts_with("12.2 ms in the median slice, 10.2 ms before: 1.200 times"), "{words}");
    }

    #[test]
    fn without_a_limit_it_is_told_and_nothing_is_missed() {
        let one = baseline(&[slices(10.0, 100.0, 20)], &[]);
        let finding = one.told(Figure::P99, &slices(20.0, 100.0, 20));
        assert_eq!(finding.outcome, Outcome::Met);
        assert!(finding.words.starts_with("worse, and no --fail-on"), "{}", finding.words);
        assert_eq!(one.told(Figure::P90, &slices(20.0, 100.0, 20)).outcome, Outcome::Untold);
    }
}
