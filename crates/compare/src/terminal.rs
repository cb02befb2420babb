//! The report for people: one screen of text for two subjects and a case.
use std::fmt::Write;

use weir_measure::comparison::{Estimate, Verdict};

use crate::false_verdicts::FALSE_VERDICTS;
use crate::metric::{Measured, Metric};
use crate::outcome::Outcome;
use crate::plan::Plan;
use crate::quantity::counted;
use crate::reasons::reasons;
use crate::verdict::{Judgement, verdicts};
use crate::warning::{error_warnings, generator_shares, other_warnings};

/// The report, its lines ended. `command` repeats the experiment; `colours` are for terminals.
#[must_use]
pub fn terminal_report(outcome: &Outcome, command: &str, colours: bool) -> String {
    let mut text = String::new();
    let plan = &outcome.plan;
    let judgements = verdicts(outcome);
    for warning in error_warnings(outcome) {
        write_warning(&mut text, &warning, colours);
    }
    write_subjects(&mut text, plan);
    for (index, case) in plan.cases.iter().enumerate() {
        // A single load needs no name.
        let name = if plan.cases.len() > 1 { format!("{}: ", case.name) } else { String::new() };
        let baseline = plan.subject_name(case.baseline());
        let (blocks, repeated) = (outcome.blocks_of(index).count(), outcome.repeated(index, false).len());
        line(
            &mut text,
            format_args!(
                "\n{name}{}, {baseline} twice in {repeated} of them, {} s a slice after {} s of warm-up, {}",
                counted(blocks, "block"),
                plan.repetitions.block_s,
                plan.repetitions.warm_up_s,
                counted(case.connections as usize, "connection")
            ),
        );
        for subject in case.subjects().skip(1) {
            let of_subject: Vec<&Judgement> =
                judgements.iter().filter(|found| (found.case, found.subject) == (index, subject)).collect();
            write_judged(&mut text, plan, &of_subject, colours);
            for why in why(outcome, &of_subject) {
                line(&mut text, format_args!("  {:<16} {why}", "why"));
            }
        }
        let shares = generator_shares(outcome, index).into_iter();
        let shares: Vec<String> =
            shares.map(|(name, share)| format!("{:.0} % of its CPU with {name}", share * 100.0)).collect();
        if !shares.is_empty() {
            line(&mut text, format_args!("  {:<16} took {}", "load generator", shares.join(", ")));
        }
    }
    let restarted = if outcome.restarted { "; servers started for each slice" } else { "" };
    line(&mut text, format_args!("\nCPU time by {}{restarted}; seed {}", outcome.accounting.describe(), plan.seed));
    line(&mut text, format_args!("again: {command}"));
    for warning in other_warnings(outcome, &judgements) {
        write_warning(&mut text, &warning, colours);
    }
    text
}

fn write_warning(text: &mut String, warning: &str, colours: bool) {
    let (on, off) = if colours { ("\x1b[33m", "\x1b[0m") } else { ("", "") };
    line(text, format_args!("{on}warning:{off} {warning}"));
}

/// Why a subject is better or worse, as far as that is known: sentences, none where there is no such verdict.
pub(crate) fn why(outcome: &Outcome, of_subject: &[&Judgement]) -> Vec<String> {
    let Some(first) = of_subject.first() else { return Vec::new() };
    let decided = |metrics: &[Metric]| {
        let is_decided = |verdict| matches!(verdict, Verdict::Better | Verdict::Worse);
        of_subject.iter().any(|judgement| is_decided(judgement.verdict) && metrics.contains(&judgement.metric))
    };
    let of_response = decided(&[Metric::RatePerS, Metric::P50Ns, Metric::P99Ns]);
    let of_cpu = decided(&[Metric::CpuNsPerRequest]);
    if !of_response && !of_cpu {
        return Vec::new();
    }
    let all = reasons(outcome, first.case);
    let Some(found) = all.into_iter().find(|found| found.subject == first.subject) else { return Vec::new() };
    let response = found.of_response().filter(|_| of_response);
    let cpu = found.of_cpu().filter(|_| of_cpu);
    response.into_iter().chain(cpu).collect()
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _infallible = writeln!(text, "{arguments}");
}

fn write_subjects(text: &mut String, plan: &Plan) {
    let cpus = |set: Option<&crate::cpus::CpuSet>| set.map_or("any CPU".to_owned(), |set| format!("CPU {set}"));
    let load_cpu = cpus(plan.pinning.load.as_ref());
    let url = |subject: usize| {
        let first = plan.cases.iter().find_map(|case| case.targets.get(subject)?.as_ref());
        first.map_or_else(String::new, |target| format!(" at {}", target.url()))
    };
    let width = plan.subjects.iter().map(|subject| subject.name.chars().count()).max().unwrap_or(0).max(6);
    let share_server = plan.subjects.len() > 1 && plan.servers.len() == 1;
    for (index, subject) in plan.subjects.iter().enumerate() {
        let server = plan.servers.get(subject.server);
        let what = match (plan.measured, server) {
            (Measured::Generator, _) => format!("{} ({load_cpu})", subject.load),
            (Measured::Server, Some(server)) if !share_server => {
                format!("{} ({}){}", server.command, cpus(plan.cpus_of(server)), url(index))
            }
            _ => String::new(),
        };
        let beside = subject.beside.as_ref().map(ToString::to_string);
        let beside = beside.or_else(|| what.is_empty().then(|| "nothing".to_owned()));
        let beside = beside.map(|command| format!("beside it: {command}"));
        let parts: Vec<String> = [Some(what).filter(|what| !what.is_empty()), beside].into_iter().flatten().collect();
        line(text, format_args!("{:<width$}  {}", subject.name, parts.join("; ")));
    }
    if let (true, Some(server)) = (share_server, plan.servers.first()) {
        let cpu = cpus(plan.cpus_of(server));
        line(text, format_args!("{:<width$}  {} ({cpu}){}", "server", server.command, url(0)));
    }
    match plan.measured {
        Measured::Generator => line(text, format_args!("The generators are compared: CPU time is theirs.")),
        Measured::Server => {
            let mut loads: Vec<String> = plan.subjects.iter().map(|subject| subject.load.to_string()).collect();
            loads.dedup();
            line(text, format_args!("{:<width$}  {} ({load_cpu})", "load", loads.join("; ")));
        }
    }
}

/// The table of a subject against its baseline, and the verdicts in words.
fn write_judged(text: &mut String, plan: &Plan, judgements: &[&Judgement], colours: bool) {
    let Some(first) = judgements.first() else { return };
    let (baseline, subject) = (plan.subject_name(plan.cases[first.case].baseline()), plan.subject_name(first.subject));
    let width = baseline.chars().count().max(subject.chars().count()).max(11);
    line(
        text,
        format_args!(
            "\n  {:<16} {baseline:>width$} {subject:>width$} {:>7}   {:<16}  {}",
            "median of", "ratio", "95 % interval", "noise floor"
        ),
    );
    for judgement in judgements {
        let value =
            |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| judgement.metric.with_unit(value));
        let interval = |estimate: Option<Estimate>| {
            estimate.map_or_else(
                || "-".to_owned(),
                |estimate| format!("{:.3} to {:.3}", estimate.interval.low, estimate.interval.high),
            )
        };
        let ratio = judgement.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{:.3}", ratio.point));
        line(
            text,
            format_args!(
                "  {:<16} {:>width$} {:>width$} {ratio:>7}   {:<16}  {}",
                judgement.metric.name(),
                value(judgement.baseline_median),
                value(judgement.median),
                interval(judgement.ratio),
                interval(judgement.noise)
            ),
        );
    }
    text.push('\n');
    for judgement in judgements {
        let words = in_words(judgement, &subject, &baseline, plan.smallest_effect);
        let (on, off) = colour(judgement.verdict, colours);
        line(text, format_args!("  {:<16} {on}{words}{off}", judgement.metric.name()));
    }
    if let Some(smallest) = judgements.first().and_then(|judgement| judgement.smallest_found) {
        let (metric, percent) = (first.metric.name(), smallest * 100.0);
        line(
            text,
            format_args!("  In {metric} a difference of {percent:.1} % would be found about eight times of ten."),
        );
    }
}

/// A verdict in words.
pub(crate) fn in_words(judgement: &Judgement, subject: &str, baseline: &str, smallest_effect: f64) -> String {
    if judgement.only_failures {
        return "no verdict: one of both answered nothing but errors".to_owned();
    }
    let Some(ratio) = judgement.ratio else {
        return "cannot tell: no block has a ratio".to_owned();
    };
    if judgement.errors_differ && judgement.verdict == Verdict::CannotTell {
        return format!("no verdict: {subject} and {baseline} differ in errors, so these are figures of unlike work");
    }
    let difference = format!("{subject} {}", judgement.metric.difference(ratio.point));
    let smallest = smallest_effect * 100.0;
    let at_least = if judgement.generator_limited { ", or more: the load generator was the limit" } else { "" };
    match judgement.verdict {
        Verdict::Better => format!("better: {difference}{at_least}"),
        Verdict::Worse => format!("worse: {difference}{at_least}"),
        Verdict::TheSame => format!("the same: {difference}, below the {smallest} % that interests"),
        Verdict::CannotTell if judgement.generator_limited => {
            "cannot tell: the load generator was the limit".to_owned()
        }
        Verdict::CannotTell => {
            let reason = undecided(judgement, &ratio, baseline, smallest_effect);
            format!("cannot tell: {difference}, but {reason}; take more or longer blocks")
        }
    }
}

/// Why there is no verdict: the first condition of [`weir_measure::comparison::verdict`] that does not hold.
fn undecided(judgement: &Judgement, ratio: &Estimate, baseline: &str, smallest_effect: f64) -> String {
    let interesting = 1.0 + smallest_effect;
    let noise = judgement.noise.map_or(1.0, |noise| noise.interval.reach());
    let size = ratio.point.max(1.0 / ratio.point);
    let is_clear = !ratio.interval.contains(1.0);
    let itself = || format!("{baseline} differs from itself by up to {:.1} %", (noise - 1.0) * 100.0);
    if ratio.blocks < judgement.blocks_needed {
        let needed = judgement.blocks_needed;
        let are = if ratio.blocks == 1 { "is" } else { "are" };
        return format!("{} {are} too few for a verdict, which takes {needed}", counted(ratio.blocks, "block"));
    }
    if is_clear && size >= interesting {
        let by_chance = judgement.corrected_probability.is_none_or(|probability| probability > FALSE_VERDICTS);
        return match size > noise {
            false => itself(),
            true if by_chance => "among so many comparisons chance does as much".to_owned(),
            true => "the blocks do not decide it".to_owned(),
        };
    }
    // Too small to interest, or none at all: "the same" would need intervals within the smallest effect.
    if ratio.interval.reach() <= interesting && noise > interesting {
        return itself();
    }
    let (low, high) = (ratio.interval.low, ratio.interval.high);
    format!("the ratio may be anything from {low:.3} to {high:.3}")
}

fn colour(verdict: Verdict, colours: bool) -> (&'static str, &'static str) {
    match verdict {
        _ if !colours => ("", ""),
        Verdict::Better => ("\x1b[32m", "\x1b[0m"),
        Verdict::Worse => ("\x1b[31m", "\x1b[0m"),
        Verdict::TheSame => ("\x1b[1m", "\x1b[0m"),
        Verdict::CannotTell => ("\x1b[33m", "\x1b[0m"),
    }
}
