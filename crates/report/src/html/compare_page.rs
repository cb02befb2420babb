//! The page of an experiment: the verdicts in words, then what they rest on, case by case.

use super::budget::{Section, within};
use super::compare_pieces::{by_subject, change, word};
use super::escape::escaped;
use super::evidence::key_figure;
use super::page::{HATCH, LOGO, colours};
use super::{compare_curves, compare_history, compare_ratios};
use crate::compared::{Compared, ComparedCase, ComparedResult};
use crate::units::count;
use weir_measure::comparison::Verdict;

const STYLE: &str = concat!(include_str!("style.css"), include_str!("plot.css"), include_str!("compare.css"));
const SCRIPT: &str = include_str!("plot.js");

/// Stripes for the noise floor, so that it is not taken for a finding.
const STRIPES: &str = "<svg class=\"unseen\" aria-hidden=\"true\" width=\"0\" height=\"0\"><defs>\
    <pattern id=\"stripes\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
    <rect width=\"2\" height=\"7\" class=\"stripe\"/></pattern></defs></svg>\n";

/// The whole document.
pub(super) fn page(compared: &Compared) -> String {
    let subject = escaped(&compared.subject);
    let section = |name, rank, markup| Section { name, rank, markup };
    let mut sections = Vec::new();
    for (index, case) in compared.cases.iter().enumerate() {
        sections.extend([
            section("Verdicts", 0, verdicts(case, index)),
            section("Tables", 1, compare_ratios::table(case, index)),
            section("Ratios block by block", 4, compare_ratios::plots(case, index)),
            section("Percentiles", 3, compare_curves::curves(case, index)),
            section("Parts", 2, compare_curves::parts(case, index)),
            section("What each did and used", 2, compare_curves::facts(case, index)),
        ]);
    }
    sections.extend([
        section("Earlier results", 1, compare_history::section(compared)),
        section("What it rests on", 0, evidence(compared)),
    ]);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n\
         <title>{subject} - weir</title>\n<style>\n{STYLE}{}</style>\n</head>\n<body>\n{HATCH}{STRIPES}\
         <header><p class=\"subject\">{LOGO}<span class=\"name\">{subject}</span></p><h1>{}</h1>\n{}{}{}</header>\n\
         <main>\n{}</main>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        colours(),
        escaped(&compared.answer),
        figures(compared),
        shifted(compared),
        warnings(compared),
        within(sections, "weir compare --json"),
    )
}

fn figures(compared: &Compared) -> String {
    let all: Vec<&ComparedResult> = compared.cases.iter().flat_map(|case| &case.results).collect();
    let figures: String = match compared.cases.as_slice() {
        [case] if by_subject(case).len() == 1 => all
            .iter()
            .map(|result| {
                let ratio = result.ratio.map_or_else(|| "-".to_owned(), |ratio| change(ratio.point));
                key_figure(&escaped(&result.metric), &ratio, word(result.verdict).0)
            })
            .collect(),
        _ => {
            let of = |verdict| all.iter().filter(|result| result.verdict == verdict).count() as u64;
            let verdicts = [Verdict::Better, Verdict::Worse, Verdict::TheSame, Verdict::CannotTell];
            let comparisons = key_figure("comparisons", &count(all.len() as u64), "");
            comparisons + &verdicts.map(|verdict| key_figure(word(verdict).0, &count(of(verdict)), "")).concat()
        }
    };
    format!("<dl class=\"figures\">{figures}</dl>\n")
}

/// What has shifted for the worse, before anything else is read.
fn shifted(compared: &Compared) -> String {
    let worse = compared.history.iter().filter(|series| series.is_worse == Some(true));
    let told =
        worse.map(|series| format!("<p class=\"failures\">{}: {}</p>", escaped(&series.name), escaped(&series.words)));
    told.collect()
}

fn warnings(compared: &Compared) -> String {
    if compared.warnings.is_empty() {
        return String::new();
    }
    let items: String = compared.warnings.iter().map(|warning| format!("<li>{}</li>", escaped(warning))).collect();
    format!(
        "<aside class=\"warnings\" aria-label=\"Warnings\"><h2>Before trusting the figures</h2><ul>{items}</ul></aside>\n"
    )
}

fn verdicts(case: &ComparedCase, index: usize) -> String {
    let several = by_subject(case).len() > 1;
    let lists: String = by_subject(case)
        .into_iter()
        .map(|results| {
            let items: String = results
                .iter()
                .map(|result| {
                    let class = word(result.verdict).1;
                    let (metric, words) = (escaped(&result.metric), escaped(&result.words));
                    format!("<li class=\"{class}\"><b>{metric}</b><span>{words}</span></li>")
                })
                .collect();
            let head = match (several, results.first()) {
                (true, Some(first)) => {
                    format!("<h3>{} against {}</h3>", escaped(&first.subject), escaped(&case.baseline))
                }
                _ => String::new(),
            };
            let of_subject = results.first().map_or("", |first| first.subject.as_str());
            let whys = case.why.iter().filter(|(subject, _)| subject == of_subject).flat_map(|(_, whys)| whys);
            let whys: String = whys.map(|why| format!("<p class=\"note\">Why: {}.</p>", escaped(why))).collect();
            format!("<div class=\"card figure\">{head}<ul class=\"verdicts\">{items}</ul>{whys}</div>")
        })
        .collect();
    let title = if case.name.is_empty() { "The verdicts" } else { &case.name };
    format!(
        "<section aria-labelledby=\"case-{index}-h\"><h2 id=\"case-{index}-h\">{}</h2><p class=\"note manner\">{}</p>{lists}</section>\n",
        escaped(title),
        escaped(&case.manner)
    )
}

fn evidence(compared: &Compared) -> String {
    let row = |name: &str, text: &str| format!("<div><dt>{}</dt><dd>{text}</dd></div>", escaped(name));
    let texts = compared.evidence.iter().map(|(name, text)| row(name, &escaped(text)));
    let commands =
        compared.commands.iter().map(|(name, command)| row(name, &format!("<code>{}</code>", escaped(command))));
    format!(
        "<section aria-labelledby=\"evidence-h\"><h2 id=\"evidence-h\">What this rests on</h2><dl class=\"card evidence\">{}</dl></section>\n",
        texts.chain(commands).collect::<String>()
    )
}
