//! The report for people: one screen of text.
use std::fmt::Write;

use weir_measure::comparison::{Estimate, Verdict};

use crate::outcome::Outcome;
use crate::plan::{Plan, Subjects};
use crate::schedule::BlockKind;
use crate::verdict::{Judgement, Metric, verdicts};
use crate::warning::{generator_shares, warnings};

/// The report, its lines ended. `command` repeats the experiment; `colours` are for terminals.
#[must_use]
pub fn terminal_report(outcome: &Outcome, command: &str, colours: bool) -> String {
    let mut text = String::new();
    let plan = &outcome.plan;
    write_subjects(&mut text, plan);
    for (index, case) in plan.cases.iter().enumerate() {
        // A single load needs no name.
        let name = if plan.cases.len() > 1 { format!("{}: ", case.name) } else { String::new() };
        let judgements: Vec<Judgement> = verdicts(outcome).into_iter().filter(|found| found.case == index).collect();
        let (ab, aa) =
            (outcome.blocks_of(index, BlockKind::Ab).count(), outcome.blocks_of(index, BlockKind::Aa).count());
        line(
            &mut text,
            format_args!(
                "\n{name}{ab} blocks of B against A, {aa} of A against itself, {} s a slice after {} s of warm-up, {} connections\n",
                plan.repetitions.block_s, plan.repetitions.warm_up_s, case.connections
            ),
        );
        write_table(&mut text, &judgements);
        for judgement in &judgements {
            let words = in_words(judgement, plan.smallest_effect);
            let (on, off) = colour(judgement.verdict, colours);
            line(&mut text, format_args!("  {:<16} {on}{words}{off}", judgement.metric.name()));
        }
        if let [Some(a), Some(b)] = generator_shares(outcome, index) {
            line(
                &mut text,
                format_args!(
                    "  {:<16} at {:.0} % of its CPU with A, {:.0} % with B",
                    "load generator",
                    a * 100.0,
                    b * 100.0
                ),
            );
        }
    }
    let restarted = if outcome.restarted { "; servers started for each slice" } else { "" };
    line(&mut text, format_args!("\nCPU time by {}{restarted}; seed {}", outcome.accounting.describe(), plan.seed));
    line(&mut text, format_args!("again: {command}"));
    for warning in warnings(outcome) {
        let (on, off) = if colours { ("\x1b[33m", "\x1b[0m") } else { ("", "") };
        line(&mut text, format_args!("{on}warning:{off} {warning}"));
    }
    text
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _infallible = writeln!(text, "{arguments}");
}

fn write_subjects(text: &mut String, plan: &Plan) {
    let cpus =
        |set: &Option<crate::cpus::CpuSet>| set.as_ref().map_or("any CPU".to_owned(), |set| format!("CPU {set}"));
    let (server_cpu, load_cpu) = (cpus(&plan.pinning.server), cpus(&plan.pinning.load));
    // A checked plan has a case.
    let (url_a, url_b) = plan.cases.first().map_or(("", ""), |case| (case.url_a.url(), case.url_b.url()));
    let beside = |command: &Option<crate::command_line::CommandLine>| {
        command.as_ref().map_or_else(|| "nothing".to_owned(), ToString::to_string)
    };
    match &plan.subjects {
        Subjects::Servers { a, b, load, .. } => {
            for (name, server, url) in [("A", a, url_a), ("B", b, url_b)] {
                line(text, format_args!("{name}       {} ({server_cpu}) at {url}", server.command));
                if server.beside.is_some() {
                    line(text, format_args!("        beside it: {}", beside(&server.beside)));
                }
            }
            line(text, format_args!("load    {load} ({load_cpu})"));
        }
        Subjects::SameServer { server, beside_a, beside_b, load, .. } => {
            line(text, format_args!("server  {server} ({server_cpu}) at {url_a}"));
            line(text, format_args!("A       beside it: {}", beside(beside_a)));
            line(text, format_args!("B       beside it: {}", beside(beside_b)));
            line(text, format_args!("load    {load} ({load_cpu})"));
        }
        Subjects::Generators { a, b, server } => {
            line(text, format_args!("A       {a} ({load_cpu})"));
            line(text, format_args!("B       {b} ({load_cpu})"));
            line(text, format_args!("server  {server} ({server_cpu}) at {url_a}"));
            line(text, format_args!("The generators are compared: CPU time is theirs."));
        }
    }
}

fn write_table(text: &mut String, judgements: &[Judgement]) {
    line(
        text,
        format_args!(
            "  {:<16} {:>11} {:>11} {:>7}   {:<16}  {}",
            "", "median of A", "of B", "B/A", "95 % interval", "noise floor (A/A)"
        ),
    );
    for judgement in judgements {
        let value =
            |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| with_unit(judgement.metric, value));
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
                "  {:<16} {:>11} {:>11} {ratio:>7}   {:<16}  {}",
                judgement.metric.name(),
                value(judgement.a_median),
                value(judgement.b_median),
                interval(judgement.ratio),
                interval(judgement.noise)
            ),
        );
    }
    text.push('\n');
}

/// Three to four digits with a unit.
fn with_unit(metric: Metric, value: f64) -> String {
    let units: &[(f64, &str)] = match metric {
        Metric::CpuNsPerRequest => &[(1e9, " s"), (1e6, " ms"), (1e3, " us"), (1.0, " ns")],
        Metric::RatePerS => &[(1e6, "M/s"), (1e3, "k/s"), (1.0, "/s")],
    };
    let (scale, unit) = units.iter().find(|(scale, _)| value >= *scale).unwrap_or(&units[units.len() - 1]);
    let scaled = value / scale;
    let decimals = if scaled < 10.0 {
        2
    } else if scaled < 1000.0 {
        1
    } else {
        0
    };
    format!("{scaled:.decimals$}{unit}")
}

fn in_words(judgement: &Judgement, smallest_effect: f64) -> String {
    let Some(ratio) = judgement.ratio else {
        return "cannot tell: no block has a ratio".to_owned();
    };
    let percent = (ratio.point - 1.0) * 100.0;
    let direction = if percent < 0.0 { "less" } else { "more" };
    let difference = match judgement.metric {
        Metric::CpuNsPerRequest => format!("B takes {:.1} % {direction} CPU for a request", percent.abs()),
        Metric::RatePerS => format!(
            "B answers {:.1} % {} requests a second",
            percent.abs(),
            if percent < 0.0 { "fewer" } else { "more" }
        ),
    };
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
            let noise = judgement.noise.map_or(1.0, |noise| noise.interval.reach());
            let reason = if noise > 1.0 + smallest_effect {
                format!("A differs from itself by up to {:.1} %", (noise - 1.0) * 100.0)
            } else {
                "the blocks do not decide it".to_owned()
            };
            format!("cannot tell: {difference}, but {reason}; take more or longer blocks")
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_carry_units() {
        let cpu = |value| with_unit(Metric::CpuNsPerRequest, value);
        assert_eq!(
            [cpu(812.0), cpu(5_213.0), cpu(29_300.0), cpu(1.2e6), cpu(0.0)],
            ["812.0 ns", "5.21 us", "29.3 us", "1.20 ms", "0.00 ns"]
        );
        let rate = |value| with_unit(Metric::RatePerS, value);
        assert_eq!([rate(977.0), rate(169_234.0), rate(2.5e6)], ["977.0/s", "169.2k/s", "2.50M/s"]);
    }
}
