//! What a gate tells a build: JUnit's XML, a comment in Markdown, annotations of GitHub.

use super::finding::{Finding, Outcome};
use super::gate::Gate;
use super::heading::Heading;
use super::outputs::{check_file, written};
use super::workers::lost_of;
use std::path::PathBuf;
use weir_load::{LoadError, LoadReport};
use weir_measure::summary::Summary;
use weir_report::github::{Level, annotation, cell};
use weir_report::junit::{State, Test, suite};
use weir_report::{count, nanoseconds};

/// The options for what a build reads.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct GateArgs {
    /// Write what was found as JUnit's XML: a test case for each objective and check
    #[arg(long, value_name = "FILE", help_heading = "Gate")]
    junit: Option<PathBuf>,
    /// Write what was found as Markdown, the verdict first, for a comment of a pull request
    #[arg(long, value_name = "FILE", help_heading = "Gate")]
    markdown: Option<PathBuf>,
    /// Print what was missed, and warnings, as annotations of a GitHub workflow (::error::) on standard error
    #[arg(long, help_heading = "Gate")]
    github: bool,
}

impl GateArgs {
    /// Refuses files that cannot be written, before a long run rather than behind it.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        [("--junit", &self.junit), ("--markdown", &self.markdown)]
            .into_iter()
            .filter_map(|(name, file)| Some((name, file.as_deref()?)))
            .try_for_each(|(name, file)| check_file(name, file))
    }

    /// Writes and prints what is wanted.
    pub(super) fn write(&self, report: &LoadReport, heading: &Heading, gate: &Gate) -> [anyhow::Result<()>; 2] {
        if self.github {
            annotations(report, heading, gate).iter().for_each(|line| eprintln!("{line}"));
        }
        [
            written("--junit", self.junit.as_deref(), || Ok(junit(report, heading, gate))),
            written("--markdown", self.markdown.as_deref(), || Ok(markdown(report, heading, gate))),
        ]
    }

    /// The same of a run that could not be made, so that no file of an earlier run is taken for this one's.
    pub(super) fn not_made(&self, error: &LoadError, url: &str) -> anyhow::Result<()> {
        let words = error.to_string();
        if self.github {
            eprintln!("{}", annotation(Level::Error, &format!("weir load: {url}"), &words));
        }
        let test =
            Test { class: url.to_owned(), name: "a request succeeds".to_owned(), state: State::Error(words.clone()) };
        written("--junit", self.junit.as_deref(), || Ok(suite("weir load", &[test], 0.0, &[])))?;
        let text = format!("### weir load: {}\n\n**Failed:** {}\n", cell(url), cell(&words));
        written("--markdown", self.markdown.as_deref(), || Ok(text))
    }
}

/// Why the run fails before it is judged: nothing succeeded, or a worker was lost.
fn failed_as_a_whole(report: &LoadReport) -> Option<String> {
    let nothing = (report.successes == 0).then(|| format!("no request succeeded of {}", count(report.ended())));
    nothing.or_else(|| lost_of(report))
}

/// A test case for each finding, behind one that something succeeded at all.
fn junit(report: &LoadReport, heading: &Heading, gate: &Gate) -> String {
    let test = |name: String, state| Test { class: heading.url.clone(), name, state };
    let succeeded = match failed_as_a_whole(report) {
        Some(words) => State::Failed(words),
        None => State::Passed(format!("{} of {} requests", count(report.successes), count(report.ended()))),
    };
    let of_finding = |finding: &Finding| {
        let words = finding.words.clone();
        let state = match finding.outcome {
            Outcome::Met => State::Passed(words),
            Outcome::Missed => State::Failed(words),
            Outcome::Untold => State::Skipped(words),
        };
        test(format!("{}: {}", finding.kind.name(), finding.name), state)
    };
    let tests: Vec<Test> = std::iter::once(test("a request succeeds".to_owned(), succeeded))
        .chain(gate.findings.iter().map(of_finding))
        .collect();
    suite("weir load", &tests, report.took.as_secs_f64(), &report.warnings)
}

/// An error for each finding that was missed, a warning for each of the report's; what went well is one notice.
fn annotations(report: &LoadReport, heading: &Heading, gate: &Gate) -> Vec<String> {
    let title = |name: &str| format!("weir load: {name}");
    let mut lines: Vec<String> = failed_as_a_whole(report)
        .into_iter()
        .map(|words| annotation(Level::Error, &title(&heading.url), &words))
        .chain(gate.missed().map(|finding| annotation(Level::Error, &title(&finding.name), &finding.line())))
        .collect();
    if lines.is_empty() {
        let words = format!("{}, {} of {} requests", summary(report), count(report.successes), count(report.ended()));
        lines.push(annotation(Level::Notice, &title(&heading.url), &words));
    }
    lines.extend(report.warnings.iter().map(|warning| annotation(Level::Warning, &title(&heading.url), warning)));
    lines
}

/// What a run came to, in a few words.
fn summary(report: &LoadReport) -> String {
    let times = Summary::of(&report.latency).map_or_else(String::new, |latency| {
        let [p50, p99] = [latency.p50, latency.p99].map(|value| nanoseconds(value as f64).trim().to_owned());
        format!(", p50 {p50}, p99 {p99}")
    });
    format!("{:.1} successes a second{times}", report.successes_per_s)
}

/// The verdict, the table of findings, and what the run came to.
fn markdown(report: &LoadReport, heading: &Heading, gate: &Gate) -> String {
    let verdict = match (failed_as_a_whole(report), gate.reason()) {
        (Some(words), _) => format!("**Failed:** {}", cell(&words)),
        (None, Some(reason)) => format!("**Failed:** {}", cell(&reason)),
        (None, None) => "**Passed.**".to_owned(),
    };
    let mut text = format!("### weir load: {}\n\n{verdict}\n", cell(&heading.url));
    if !gate.findings.is_empty() {
        text.push_str("\n| | | found |\n|---|---|---|\n");
    }
    for finding in &gate.findings {
        let sign = match finding.outcome {
            Outcome::Met => "met",
            Outcome::Missed => "**missed**",
            Outcome::Untold => "cannot be told",
        };
        text.push_str(&format!("| {sign} | {} | {} |\n", cell(&finding.name), cell(&finding.words)));
    }
    text.push_str(&format!(
        "\n{} of {} requests succeeded, {}; {} for {:.2} s.\n",
        count(report.successes),
        count(report.ended()),
        summary(report),
        cell(&heading.manner),
        report.duration.as_secs_f64()
    ));
    for warning in &report.warnings {
        text.push_str(&format!("\n> **Warning:** {}\n", cell(warning)));
    }
    text
}
