//! The page: answer first, then figures, bars, causes, tables, examples, and what it all rests on.

use super::bars::swatch;
use super::budget::{Section, within};
use super::escape::escaped;
use super::evidence::{self, failures, key_figure, of_all};
use super::headline::headline;
use super::palette::{colour, part_named};
use super::{bars, course, distribution, examples, flame, graph, tables, work};
use crate::Explanation;
use crate::units::{bytes, count, decimal, figure, nanoseconds};
use weir_measure::part::Part;

const STYLE: &str = concat!(include_str!("style.css"), include_str!("charts.css"), include_str!("plot.css"));
const SCRIPT: &str = concat!(
    include_str!("script.js"),
    include_str!("zoom.js"),
    include_str!("flame.js"),
    include_str!("search.js"),
    include_str!("plot.js"),
);
/// Causes that are told at once; more are in the table of parts.
const CAUSES: usize = 5;

/// The whole document.
pub(super) fn page(explanation: &Explanation) -> String {
    let subject = if explanation.subject.is_empty() { "a run" } else { &explanation.subject };
    let (subject, answer) = (escaped(subject), escaped(&headline(explanation)));
    let section = |name, rank, markup| Section { name, rank, markup };
    let sections = vec![
        section("Warnings", 1, evidence::warnings(explanation)),
        section("Bars", 0, bars::section(explanation)),
        section("Causes", 0, causes(explanation)),
        section("Parts", 0, tables::parts(explanation)),
        section("Whose time it is", 0, tables::percentiles(explanation)),
        section("Classes", 2, tables::classes(explanation)),
        section("The course of the run", 2, course::section(explanation)),
        section("Phases", 3, work::phases(explanation)),
        section("Processes", 3, work::processes(explanation)),
        section("The waiting graph", 3, graph::section(explanation)),
        section("Queries", 3, work::queries(explanation)),
        section("Asked behind", 3, work::asked(explanation)),
        section("What stays open", 3, work::long_lived(explanation)),
        section("Decisions", 3, work::decisions(explanation)),
        section("Moves between nodes", 3, work::moves(explanation)),
        section("Hosts", 3, work::hosts(explanation)),
        section("Stacks", 5, flame::section(explanation)),
        section("Wake-ups", 2, work::wakeups(explanation)),
        section("Examples", 4, examples::section(explanation)),
        section("Percentiles", 0, distribution::section(explanation)),
        section("The evidence", 0, evidence::section(explanation)),
    ];
    let sections = within(sections, "weir explain --json");
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n\
         <title>{subject} explained - weir</title>\n<style>\n{STYLE}{}</style>\n</head>\n<body>\n{HATCH}\
         <header><p class=\"subject\">{LOGO}<span class=\"name\">{subject}</span></p><h1>{answer}.</h1>\n{}{}</header>\n\
         <main>\n{sections}</main>\n{KEYS}<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        colours(),
        key_figures(explanation),
        failures(explanation),
    )
}

/// What the keys do; the script opens it, for without it they do nothing.
const KEYS: &str = include_str!("keys.html");

/// A crest, and the water below it.
pub(super) const LOGO: &str = "<svg class=\"logo\" role=\"img\" aria-label=\"weir\" viewBox=\"0 0 24 24\" width=\"24\" height=\"24\">\
    <path d=\"M2 6h8c5 0 4 11 12 11\"/><path d=\"M2 11h6c4 0 4 9 14 9\" opacity=\".45\"/><path d=\"M10 22V10\"/></svg>";

/// Hatching for what is not attributed, so that it is never taken for a finding.
pub(super) const HATCH: &str = "<svg class=\"unseen\" aria-hidden=\"true\" width=\"0\" height=\"0\"><defs>\
    <pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
    <rect width=\"6\" height=\"6\" class=\"hatch-ground\"/><rect width=\"2\" height=\"6\" class=\"hatch-line\"/></pattern></defs></svg>\n";

/// One rule for each part.
pub(super) fn colours() -> String {
    let rule = |part: Part| {
        let (own, text) = (colour(part).hex(), if colour(part).takes_black() { "#000" } else { "#fff" });
        let fill = if part == Part::Unattributed { "url(#hatch)".to_owned() } else { own.clone() };
        format!(
            ".p-{0}{{fill:{fill};--p:{own}}}.p-{0} text{{fill:{text}}}.s.p-{0}{{background-color:{own};color:{text}}}.e-{0}{{--p:{own}}}\n",
            part.name()
        )
    };
    let hatch = format!(".hatch-ground{{fill:{}}}\n", colour(Part::Unattributed).hex());
    Part::ALL.into_iter().map(rule).collect::<String>() + &hatch
}

fn key_figures(explanation: &Explanation) -> String {
    let asked = explanation.requests + explanation.errors.values().sum::<u64>();
    let mut figures = vec![key_figure(
        "Throughput",
        &format!("{}/s", figure(explanation.rate_per_s)),
        &format!("{} requests in {}&nbsp;s", count(explanation.requests), decimal(explanation.duration_s, 1)),
    )];
    if let Some(times) = explanation.response_ns {
        for (name, ns, aside) in [
            ("p50", times.p50, "half are faster"),
            ("p90", times.p90, "90&nbsp;% are faster"),
            ("p99", times.p99, "99&nbsp;% are faster"),
            ("p99.9", times.p99_9, "99.9&nbsp;% are faster"),
            ("max", times.max, "the slowest"),
        ] {
            figures.push(key_figure(name, &nanoseconds(ns as f64), aside));
        }
    }
    figures.push(key_figure(
        "Errors",
        &count(asked - explanation.requests),
        &of_all(asked - explanation.requests, asked),
    ));
    figures.push(key_figure("Received", &bytes(explanation.bytes), "heads and bodies"));
    format!("<dl class=\"figures\">{}</dl>\n", figures.concat())
}

fn causes(explanation: &Explanation) -> String {
    let all: Vec<_> = explanation.causes.iter().map(|cause| (cause.part.as_str(), cause.text.as_str())).collect();
    let slow: Vec<_> = explanation.slow_causes.iter().map(|cause| (cause.part.as_str(), cause.text.as_str())).collect();
    let lists = [
        list("causes", "Largest causes", &all),
        list("slow", "What the slowest 1 % wait for that the others do not", &slow),
    ]
    .concat();
    if lists.is_empty() { lists } else { format!("<div class=\"columns\">{lists}</div>\n") }
}

fn list(id: &str, title: &str, causes: &[(&str, &str)]) -> String {
    if causes.is_empty() {
        return String::new();
    }
    let items: String = causes
        .iter()
        .take(CAUSES)
        .map(|(part, text)| {
            let part = part_named(part).unwrap_or(Part::Unattributed);
            format!("<li data-part=\"{}\">{}<span>{}</span></li>", part.name(), swatch(part), escaped(text))
        })
        .collect();
    format!(
        "<section class=\"card\" aria-labelledby=\"{id}-h\"><h2 id=\"{id}-h\">{}</h2><ol class=\"causes\">{items}</ol></section>",
        escaped(title)
    )
}
