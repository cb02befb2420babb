//! What the figures rest on, what observing cost, and how to come back to them.

use super::escape::{escaped, part_of, unbroken};
use crate::units::{bytes, count, decimal, figure, nanoseconds, percent, percent_of_all};
use crate::{Explanation, SourceCost};
use std::collections::BTreeMap;

/// Warnings, which come before the figures that they are about.
pub(super) fn warnings(explanation: &Explanation) -> String {
    if explanation.warnings.is_empty() {
        return String::new();
    }
    let items: String = explanation.warnings.iter().map(|warning| format!("<li>{}</li>", escaped(warning))).collect();
    format!(
        "<aside class=\"warnings\" aria-label=\"Warnings\"><h2>Before trusting the figures</h2><ul>{items}</ul></aside>\n"
    )
}

/// The honest end.
pub(super) fn section(explanation: &Explanation) -> String {
    let cost = &explanation.observer_cost;
    let ratio = explanation.sum_of_parts_over_response;
    let joined = if explanation.requests == 0 {
        "nothing: there are no answered requests".to_owned()
    } else {
        format!("{} of the requests with the server's side", percent_of_all(explanation.joined_fraction))
    };
    let unjoinable =
        if explanation.unjoinable.is_empty() { "none".to_owned() } else { listed(&explanation.unjoinable) };
    let noise = explanation.noise_floor.map_or("unknown: the run was too short to tell".to_owned(), |floor| {
        format!("\u{b1}{} of the mean response (half of its 95 % interval)", percent(floor))
    });
    let not_observed = match explanation.not_observed.is_empty() {
        true => "nothing that the design names".to_owned(),
        false => {
            let why = |part: &String| match explanation.not_observed_why.get(part) {
                Some(why) => format!("{part} ({why})"),
                None => part.clone(),
            };
            explanation.not_observed.iter().map(why).collect::<Vec<_>>().join("; ")
        }
    };
    let watched: Vec<String> = cost.sources.iter().map(SourceCost::words).collect();
    let of_run: Vec<String> =
        explanation.run_parts_ns.iter().map(|(part, ns)| format!("{part} {}", nanoseconds(*ns))).collect();
    let objectives: Vec<String> = explanation.objectives.iter().map(crate::terminal::verdict).collect();
    let exchanges =
        if explanation.exchanges.is_empty() { "nothing".to_owned() } else { listed(&explanation.exchanges) };
    let rows: String = [
        ("Response time", explanation.boundary.clone()),
        ("Objectives", if objectives.is_empty() { "none were given".to_owned() } else { objectives.join("; ") }),
        ("Beside the responses", exchanges),
        ("Joined", joined),
        ("Unjoinable", unjoinable),
        (
            "Parts over response",
            format!(
                "{} on average, from {} to {}; 1 where the parts of a response add up to it",
                decimal(ratio.mean, 3),
                decimal(ratio.min, 3),
                decimal(ratio.max, 3)
            ),
        ),
        ("Noise floor", noise),
        (
            "Cost of observing",
            format!(
                "{} events, {} a request, {} lost; {} written; {} of CPU time in the collector, {} of a CPU. \
                 The probes' own time is inside run.",
                count(cost.events),
                figure(cost.events_per_request),
                count(cost.lost),
                bytes(cost.bytes),
                nanoseconds(cost.cpu_seconds * 1e9),
                percent(cost.cpu_share)
            ),
        ),
        ("Optional sources", if watched.is_empty() { "none".to_owned() } else { watched.join("; ") }),
        ("Within run", if of_run.is_empty() { "not divided".to_owned() } else { of_run.join(", ") }),
        ("CPUs of the server", server_cpu(explanation)),
        ("Rung of the ladder of sources", explanation.rung.clone()),
        ("Not observed", not_observed),
        ("Host", explanation.host.clone()),
        ("Run directory", explanation.run.clone()),
        ("Version", format!("weir {}", explanation.version)),
    ]
    .iter()
    .map(|(name, text)| {
        let text = if text.is_empty() { "unknown" } else { text };
        format!("<div><dt>{name}</dt><dd>{}</dd></div>\n", escaped(text))
    })
    .collect();
    format!(
        "<section aria-labelledby=\"evidence-h\"><h2 id=\"evidence-h\">What this rests on</h2>\
         <div class=\"card\"><dl class=\"evidence\">{rows}{}</dl></div></section>\n",
        commands(&explanation.run)
    )
}

fn server_cpu(explanation: &Explanation) -> String {
    let cpu = &explanation.server_cpu;
    if cpu.utilisation <= 0.0 {
        return String::new();
    }
    format!(
        "{} in use on average; for a request {} of CPU time, {} of waiting for it, {} switches to a task of the server",
        decimal(cpu.utilisation, 2),
        nanoseconds(cpu.used_ns_per_request),
        nanoseconds(cpu.waited_ns_per_request),
        figure(cpu.switches_per_request)
    )
}

/// How to come back to the figures of a run.
fn commands(run: &str) -> String {
    if run.is_empty() {
        return String::new();
    }
    let run = escaped(&quoted(run));
    format!(
        "<div><dt>Again, from the same run</dt><dd><code>weir explain {run}</code></dd></div>\
         <div><dt>All figures as JSON</dt><dd><code>weir explain --json {run}</code></dd></div>"
    )
}

/// Failures by kind, as a sentence's end.
pub(super) fn failures(explanation: &Explanation) -> String {
    let mut items: Vec<String> = Vec::new();
    if !explanation.errors.is_empty() {
        items.push(format!("failed: {}", listed(&explanation.errors)));
    }
    if explanation.dropped > 0 {
        items.push(format!("dropped by the generator's full queue: {}", count(explanation.dropped)));
    }
    if explanation.retried > 0 {
        items.push(format!("sent again on a new connection: {}", count(explanation.retried)));
    }
    if items.is_empty() {
        return String::new();
    }
    format!("<p class=\"failures\">{}</p>\n", escaped(&items.join("; ")))
}

/// The share of a count in words; nothing where there is no whole.
pub(super) fn of_all(part: u64, whole: u64) -> String {
    if whole == 0 { String::new() } else { format!("{} of all", part_of(part as f64 / whole as f64)) }
}

fn listed(counts: &BTreeMap<String, u64>) -> String {
    let items: Vec<String> = counts.iter().map(|(name, number)| format!("{} {name}", count(*number))).collect();
    items.join(", ")
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "/._-+:@%".contains(character);
    if !word.is_empty() && !word.starts_with('-') && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// A figure with a name and what it means.
pub(super) fn key_figure(name: &str, figure: &str, aside: &str) -> String {
    format!("<div><dt>{name}</dt><dd>{}<span class=\"aside\">{aside}</span></dd></div>", unbroken(figure))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_a_word_as_one() {
        assert_eq!(quoted("runs/a-1"), "runs/a-1");
        assert_eq!(quoted("it's here"), "'it'\\''s here'");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("-x"), "'-x'");
    }
}
