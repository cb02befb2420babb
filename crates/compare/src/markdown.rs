//! The report for a page or a comment: Markdown tables.
use std::fmt::Write;

use weir_measure::comparison::Estimate;
use weir_report::github::cell;

use crate::details::rows;
use crate::facts::subject_facts;
use crate::metric::Measured;
use crate::outcome::Outcome;
use crate::quantity::counted;
use crate::terminal::{in_words, why};
use crate::verdict::{Judgement, verdicts};
use crate::warning::{error_warnings, other_warnings};

/// The report as Markdown (GitHub's tables). `command` repeats the experiment.
#[must_use]
pub fn markdown_report(outcome: &Outcome, command: &str) -> String {
    let (plan, judgements) = (&outcome.plan, verdicts(outcome));
    let mut text = String::new();
    let of = match plan.measured {
        Measured::Server => "servers",
        Measured::Generator => "load generators",
    };
    line(&mut text, format_args!("# Comparison of {of}\n"));
    for warning in error_warnings(outcome) {
        line(&mut text, format_args!("> **Warning:** {}\n", cell(&warning)));
    }
    for subject in &plan.subjects {
        let command = match (plan.measured, plan.servers.get(subject.server)) {
            (Measured::Server, Some(server)) => server.command.to_string(),
            _ => subject.load.to_string(),
        };
        let beside = subject
            .beside
            .as_ref()
            .map_or_else(String::new, |beside| format!(", beside it {}", code(&beside.to_string())));
        line(&mut text, format_args!("- **{}**: {}{beside}", cell(&subject.name), code(&command)));
    }
    for (index, case) in plan.cases.iter().enumerate() {
        let (name, baseline) = (cell(&case.name), plan.subject_name(case.baseline()));
        let (blocks, repeated) = (outcome.blocks_of(index).count(), outcome.repeated(index, false).len());
        let (slice_s, warm_up_s) = (plan.repetitions.block_s, plan.repetitions.warm_up_s);
        line(
            &mut text,
            format_args!(
                "\n## {name}\n\n{}; {}, {} twice in {repeated} of them; {slice_s} s a slice after {warm_up_s} s of warm-up.\n",
                counted(case.connections as usize, "connection"),
                counted(blocks, "block"),
                cell(&baseline)
            ),
        );
        line(
            &mut text,
            format_args!(
                "| | subject | {} | subject's | ratio (95 % interval) | noise floor | verdict |",
                cell(&baseline)
            ),
        );
        line(&mut text, format_args!("|---|---|---:|---:|---|---|---|"));
        for judgement in judgements.iter().filter(|judgement| judgement.case == index) {
            line(&mut text, format_args!("{}", row(outcome, judgement, &baseline)));
        }
        for subject in case.subjects().skip(1) {
            let of_subject: Vec<&Judgement> =
                judgements.iter().filter(|found| (found.case, found.subject) == (index, subject)).collect();
            for why in why(outcome, &of_subject) {
                line(&mut text, format_args!("\nWhy: {}.", cell(&why)));
            }
        }
        write_details(&mut text, outcome, index);
    }
    for warning in other_warnings(outcome, &judgements) {
        line(&mut text, format_args!("\n> **Warning:** {}", cell(&warning)));
    }
    line(
        &mut text,
        format_args!("\nCPU time by {}; seed {}. Again: {}", outcome.accounting.describe(), plan.seed, code(command)),
    );
    text
}

/// What each subject used and how it served, folded away.
fn write_details(text: &mut String, outcome: &Outcome, case: usize) {
    let facts = subject_facts(outcome, case);
    let rows = rows(&facts);
    if rows.is_empty() {
        return;
    }
    line(text, format_args!("\n<details><summary>What each used and how it served</summary>\n"));
    let names: String = facts.iter().map(|facts| format!(" {} |", cell(&facts.name))).collect();
    line(text, format_args!("| |{names}"));
    line(text, format_args!("|---|{}", "---:|".repeat(facts.len())));
    for (name, values) in rows {
        let values: String = values.iter().map(|value| format!(" {} |", cell(value))).collect();
        line(text, format_args!("| {name} |{values}"));
    }
    line(text, format_args!("\n</details>"));
}

fn row(outcome: &Outcome, judgement: &Judgement, baseline: &str) -> String {
    let subject = outcome.plan.subject_name(judgement.subject);
    let value = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| judgement.metric.with_unit(value));
    let interval = |estimate: Estimate| format!("{:.3} to {:.3}", estimate.interval.low, estimate.interval.high);
    let ratio =
        judgement.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("**{:.3}** ({})", ratio.point, interval(ratio)));
    let noise = judgement.noise.map_or_else(|| "-".to_owned(), interval);
    let words = in_words(judgement, &subject, baseline, outcome.plan.smallest_effect);
    format!(
        "| {} | {} | {} | {} | {ratio} | {noise} | {} |",
        judgement.metric.name(),
        cell(&subject),
        value(judgement.baseline_median),
        value(judgement.median),
        cell(&words)
    )
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _infallible = writeln!(text, "{arguments}");
}

/// Text in backquotes; more of them where it has some of its own (CommonMark, "Code spans").
fn code(text: &str) -> String {
    let text = text.replace(['\n', '\r'], " ");
    let longest = text.split(|letter| letter != '`').map(str::len).max().unwrap_or(0);
    let (fence, space) = ("`".repeat(longest + 1), if longest > 0 { " " } else { "" });
    format!("{fence}{space}{text}{space}{fence}")
}
