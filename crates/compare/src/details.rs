//! The second table: what each subject used and how it served, for people who want more than the verdict.
use std::fmt::Write;

use crate::facts::{SubjectFacts, subject_facts};
use crate::metric::Metric;
use crate::outcome::Outcome;

/// A row: what it is, and its value for each subject.
pub(crate) type Row = (&'static str, Vec<String>);

/// The table of a case as text, its lines ended: CPU time in the kernel and outside, context switches, bytes, shares of the
/// clients, errors, parts of a response.
#[must_use]
pub fn terminal_details(outcome: &Outcome) -> String {
    let mut text = String::new();
    let mut line = |arguments: std::fmt::Arguments<'_>| {
        // Writing to a string cannot fail.
        let _infallible = writeln!(text, "{arguments}");
    };
    for (index, case) in outcome.plan.cases.iter().enumerate() {
        let facts = subject_facts(outcome, index);
        let rows = rows(&facts);
        let names = facts.iter().map(|facts| facts.name.as_str());
        let cells = rows.iter().flat_map(|(_, values)| values.iter().map(String::as_str));
        let width = names.clone().chain(cells).map(|cell| cell.chars().count()).max().unwrap_or(0);
        let first = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        let name = if outcome.plan.cases.len() > 1 { format!("{}: details", case.name) } else { "details".to_owned() };
        line(format_args!("\n{name}"));
        line(format_args!("  {:first$}{}", "", names.map(|name| format!("  {name:>width$}")).collect::<String>()));
        for (name, values) in &rows {
            let values: String = values.iter().map(|value| format!("  {value:>width$}")).collect();
            line(format_args!("  {name:<first$}{values}"));
        }
    }
    if let Some(why) = &outcome.unobserved {
        line(format_args!("\nparts of a response: not observed, or not all: {why}"));
    }
    text
}

/// The rows that at least one subject has a value for.
pub(crate) fn rows(facts: &[SubjectFacts]) -> Vec<Row> {
    let (time, bytes) = (|ns| Metric::P50Ns.with_unit(ns), |bytes| Metric::MemoryBytes.with_unit(bytes));
    let mut rows: Vec<(&'static str, Vec<Option<String>>)> = Vec::new();
    let mut row = |name, value: &dyn Fn(&SubjectFacts) -> Option<String>| {
        rows.push((name, facts.iter().map(value).collect()));
    };
    row("CPU in its own code, a request", &|facts| facts.user_ns_per_request.map(time));
    row("CPU in the kernel, a request", &|facts| facts.system_ns_per_request.map(time));
    row("context switches, a request", &|facts| facts.switches_per_request.map(number));
    row("of these forced", &|facts| facts.involuntary_switches_per_request.map(number));
    row("bytes, a request", &|facts| facts.bytes_per_request.map(bytes));
    row("bytes, a second", &|facts| facts.bytes_per_s.map(bytes));
    row("largest memory", &|facts| facts.peak_memory_bytes.map(|peak| bytes(peak as f64)));
    let shares = facts.iter().any(|facts| facts.fairness.is_some_and(|fairness| fairness.clients > 1.0));
    if shares {
        row("bytes of the least served client", &|facts| facts.fairness.map(|found| bytes(found.least_bytes)));
        row("bytes of the best served client", &|facts| facts.fairness.map(|found| bytes(found.most_bytes)));
        row("requests of the least served client", &|facts| facts.fairness.map(|found| number(found.least_requests)));
        row("requests of the best served client", &|facts| facts.fairness.map(|found| number(found.most_requests)));
        row("fairness (Jain), 1 is even", &|facts| facts.fairness.map(|found| format!("{:.3}", found.jain_requests)));
    }
    row("errors", &|facts| errors(facts));
    let known = facts.iter().filter_map(|facts| facts.parts.as_ref());
    if known.clone().next().is_some() {
        row("observed response", &|facts| facts.parts.as_ref().map(|parts| time(parts.response_ns)));
        for part in weir_measure::part::Part::ALL {
            if known.clone().any(|parts| parts.parts.iter().any(|found| found.part == part.name())) {
                row(part.words(), &|facts| {
                    let parts = &facts.parts.as_ref()?.parts;
                    let found = parts.iter().find(|found| found.part == part.name());
                    Some(time(found.map_or(0.0, |found| found.mean_ns)))
                });
            }
        }
    }
    rows.into_iter()
        .filter(|(_, values)| values.iter().any(Option::is_some))
        .map(|(name, values)| (name, values.into_iter().map(|value| value.unwrap_or_else(|| "-".to_owned())).collect()))
        .collect()
}

/// `3 timeout, 12 of status 404`; `None` without any.
pub(crate) fn errors(facts: &SubjectFacts) -> Option<String> {
    let failures = facts.failures.iter().map(|(kind, count)| format!("{count} {kind}"));
    let statuses = facts.statuses.iter().filter(|(status, _)| !status.starts_with('2'));
    let all: Vec<String> =
        failures.chain(statuses.map(|(status, count)| format!("{count} of status {status}"))).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// A count for one request, in three digits.
fn number(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.3}"),
    }
}
