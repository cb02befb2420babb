//! The report for people: the verdict first, then iterations, steps, checks, and whose fault slow requests are.

use super::found::{Found, check_words};
use crate::load;
use std::fmt::Write;
use weir_report::{count, nanoseconds};
use weir_scenario::form::ScopeKind;
use weir_scenario::play::Tally;
use weir_scenario::run::{Ended, Report};

/// The reasons that are listed.
const CAUSES_TOLD: usize = 5;
/// The widest column of names, in characters.
const NAME_MAX: usize = 48;

/// The report.
pub(super) fn text(found: &Found) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let mut line = |text: String| {
        let _ = writeln!(out, "{text}");
    };
    if let Some(words) = found.nothing() {
        line(format!("FAILED: {words}"));
    }
    for words in found.missed() {
        line(format!("MISSED: {words}"));
    }
    ended(&found.report).into_iter().for_each(&mut line);
    iterations(&found.report).into_iter().for_each(&mut line);
    line(String::new());
    steps(found).into_iter().for_each(&mut line);
    if !found.checks.is_empty() || !found.judged.is_empty() {
        line(String::new());
    }
    for judged in &found.judged {
        line(format!("{}  {}: {}", if judged.is_met { "held  " } else { "MISSED" }, judged.text, judged.words));
    }
    for check in &found.checks {
        line(format!("{}  {}: {}", if check.fails == 0 { "held  " } else { "MISSED" }, check.name, check_words(check)));
    }
    line(String::new());
    beside(found).into_iter().for_each(&mut line);
    out
}

fn ended(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    match &report.ended {
        Ended::Stopped => lines.push("The run was ended before its time.".to_owned()),
        Ended::Aborted(failure) => lines.push(format!("A scenario ended the run: {failure}")),
        Ended::Planned | Ended::Setup(_) | Ended::Unmade(_) => {}
    }
    if let (Some(failure), false) = (&report.around, matches!(report.ended, Ended::Setup(_))) {
        lines.push(format!("teardown failed: {failure}"));
    }
    lines
}

fn iterations(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    for scenario in &report.scenarios {
        let mut words = format!(
            "{}: {} iterations finished in {:.1} s, at most {} users at work",
            scenario.name,
            count(scenario.finished),
            report.duration.as_secs_f64(),
            scenario.users_max,
        );
        for (number, what) in [
            (scenario.failed, "failed"),
            (scenario.cut, "cut by the end"),
            (scenario.dropped, "DROPPED, as all users were at work"),
            (scenario.unfed, "not begun, as the data were used up"),
        ] {
            if number > 0 {
                words.push_str(&format!("; {} {what}", count(number)));
            }
        }
        lines.push(words);
    }
    let told = report.causes.iter().take(CAUSES_TOLD);
    lines.extend(told.map(|cause| format!("  {} failed: {}", count(cause.count), cause.words)));
    if report.causes.len() > CAUSES_TOLD {
        lines.push(format!("  and {} other reasons", report.causes.len() - CAUSES_TOLD));
    }
    lines
}

fn steps(found: &Found) -> Vec<String> {
    let mut rows: Vec<(String, &Tally)> = Vec::new();
    rows.extend(found.of_kind(ScopeKind::Step).map(|(scope, tally)| (scope.name.clone(), tally)));
    for kind in [ScopeKind::Group, ScopeKind::Tag] {
        rows.extend(found.of_kind(kind).map(|(scope, tally)| (format!("{} {}", kind.name(), scope.name), tally)));
    }
    rows.push(("all requests".to_owned(), found.all()));
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0).clamp(12, NAME_MAX);
    let mut lines =
        vec![format!("{:width$}  {:>9}  {:>8}  {:>9}  {:>9}  {:>9}", "", "requests", "failed", "p50", "p95", "p99")];
    for (name, tally) in rows {
        let name: String = name.chars().take(width).collect();
        let time = |percent| match tally.latency.trend() {
            Some(trend) if trend.count() > 0 => nanoseconds(trend.percentile(percent) * 1e6).trim().to_owned(),
            _ => "-".to_owned(),
        };
        lines.push(format!(
            "{name:width$}  {:>9}  {:>8}  {:>9}  {:>9}  {:>9}",
            count(tally.requests),
            count(tally.failed),
            time(50.0),
            time(95.0),
            time(99.0),
        ));
        if let Some(words) = tally.first.as_ref().filter(|_| name != "all requests") {
            lines.push(format!("{:width$}    the first failure: {words}", ""));
        }
    }
    lines
}

/// What stands beside the figures: time in scripts, lateness, whose fault.
fn beside(found: &Found) -> Vec<String> {
    let report = &found.report;
    let mut lines = vec![format!(
        "users' own steps took {:.1} ms of the generator ({:.1} us each, at most {:.1} ms at once), apart from latencies",
        report.scripts.as_secs_f64() * 1e3,
        report.scripts.as_secs_f64() * 1e6 / report.script_calls.max(1) as f64,
        report.longest_script.as_secs_f64() * 1e3,
    )];
    if !report.lateness.lag.is_empty() {
        let lag = |share| nanoseconds(report.lateness.lag.value_at_quantile(share) as f64).trim().to_owned();
        lines.push(format!("iterations began late by p50 {}, p99 {}", lag(0.5), lag(0.99)));
    }
    for cause in report.unanswered.iter().take(CAUSES_TOLD) {
        lines.push(format!("{} without an answer: {}", count(cause.count), cause.words));
    }
    if report.resent > 0 {
        lines.push(format!("{} requests went out again, as their kept connection was closed", count(report.resent)));
    }
    if report.cut_answers > 0 {
        lines.push(format!(
            "{} answers are longer than what is looked at, or could not be decoded",
            count(report.cut_answers)
        ));
    }
    lines.extend(load::whose_fault(&found.load).map(|words| format!("whose fault: {words}")));
    lines
}
