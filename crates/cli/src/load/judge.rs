//! Whether a run met an objective, and which responses are successes.

use std::process::ExitCode;
use weir_load::{LoadReport, Options, Point, Statuses};
use weir_measure::objective::{Judged, Objective};

/// Exit status of a run that missed its objective.
const MISSED: u8 = 3;

/// The options by which a load is judged.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct JudgeArgs {
    /// The objective that the run is judged by, or that --find-max searches by: 'p99<50ms', 'errors<1%'; errors, statuses
    /// that are no success and dropped arrivals miss every objective [default of --find-max: p99<50ms]
    #[arg(long, value_name = "OBJECTIVE", conflicts_with = "make_fileset", help_heading = "Load")]
    slo: Option<Objective>,
    /// Statuses that are a success: 200-299,404 or 2xx,404 [default: 200-399]
    #[arg(long, value_name = "STATUSES", conflicts_with = "make_fileset", help_heading = "Load")]
    ok: Option<Statuses>,
}

impl JudgeArgs {
    /// Sets the statuses that are a success in the options of a load.
    pub(super) fn apply(&self, options: &mut Options) {
        options.expected = self.expected();
    }

    /// Which statuses are a success.
    pub(super) fn expected(&self) -> Statuses {
        self.ok.clone().unwrap_or_default()
    }

    /// The objective, if one was given.
    pub(super) fn objective(&self) -> Option<Objective> {
        self.slo
    }

    /// What the objective says of a run, if one was given.
    pub(super) fn verdict(&self, report: &LoadReport) -> Option<Verdict> {
        self.slo.map(|objective| Verdict { objective, judged: of_run(report, objective) })
    }
}

/// What an objective says of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Verdict {
    pub(super) objective: Objective,
    pub(super) judged: Judged,
}

impl Verdict {
    /// Whether the objective was met; without any request it was not.
    pub(super) fn is_met(&self) -> bool {
        self.judged.is_met(self.objective) == Some(true)
    }

    /// The objective as it is written.
    pub(super) fn name(&self) -> String {
        objective_text(self.objective)
    }

    /// The verdict in words.
    pub(super) fn words(&self) -> String {
        format!(
            "{} {}: {:.2} % of {} requests missed it, {} % may",
            self.name(),
            if self.is_met() { "met" } else { "missed" },
            self.judged.bad_share() * 100.0,
            weir_report::count(self.judged.requests),
            decimal(self.objective.allowed() * 100.0)
        )
    }
}

/// The exit status of a run.
pub(super) fn exit_code(report: &LoadReport, verdict: Option<&Verdict>) -> ExitCode {
    match verdict {
        _ if report.successes == 0 => ExitCode::FAILURE,
        Some(verdict) if !verdict.is_met() => ExitCode::from(MISSED),
        _ => ExitCode::SUCCESS,
    }
}

/// How many requests of a run count, and how many of them missed the objective.
fn of_run(report: &LoadReport, objective: Objective) -> Judged {
    let stopped = of_stopped(report.stopped, objective);
    // Requests that the user cut by ending the run are not counted.
    let other = report.ended() - report.successes + stopped;
    let slow = too_slow(&report.latency, objective);
    Judged { requests: report.successes + other, bad: slow + other, unknown: 0 }
}

/// The same of a stretch of a run; arrivals that it dropped have missed the objective.
pub(super) fn of_point(point: &Point, objective: Objective) -> Judged {
    let counts = &point.counts;
    let other = counts.unexpected + counts.failures() + counts.dropped + of_stopped(counts.stopped(), objective);
    let slow = too_slow(&point.latency.histogram(), objective);
    Judged { requests: counts.successes() + other, bad: slow + other, unknown: 0 }
}

/// Users who gave up got no response in time, but a response that takes too long is no error.
fn of_stopped(stopped: u64, objective: Objective) -> u64 {
    match objective {
        Objective::Latency { .. } => stopped,
        Objective::Errors { .. } => 0,
    }
}

/// How many successes took longer than the objective allows.
fn too_slow(latency: &weir_load::Histogram, objective: Objective) -> u64 {
    match objective {
        Objective::Latency { limit_ns, .. } => latency.len() - latency.count_between(0, limit_ns).min(latency.len()),
        Objective::Errors { .. } => 0,
    }
}

/// An objective in its own syntax.
pub(super) fn objective_text(objective: Objective) -> String {
    match objective {
        Objective::Latency { share, limit_ns } => {
            let limit = match limit_ns {
                limit if limit % 1_000_000_000 == 0 => format!("{}s", limit / 1_000_000_000),
                limit if limit % 1_000_000 == 0 => format!("{}ms", limit / 1_000_000),
                limit => format!("{}us", decimal(limit as f64 / 1e3)),
            };
            format!("p{}<{limit}", decimal(share * 100.0))
        }
        Objective::Errors { share } => format!("errors<{}%", decimal(share * 100.0)),
    }
}

/// A number without the zeros behind it.
fn decimal(number: f64) -> String {
    // Shares come from decimals; digits beyond the sixth are of the conversion.
    let text = format!("{number:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_objective_reads_as_it_is_written() {
        for text in ["p99<50ms", "p99.9<1s", "p50<800us", "p99.99<1500ms", "errors<1%", "errors<0.1%"] {
            let read: Objective = text.parse().expect(text);
            assert_eq!(objective_text(read), text);
        }
    }
}
