//! What advice says: the shape of its JSON.

use super::configuration::{Configuration, Found, Place};
use serde::{Serialize, Serializer};
use std::path::PathBuf;
use weir_measure::queueing::Saving;

/// All that was found out.
#[derive(Debug, Serialize)]
pub struct Advice {
    /// weir's version.
    pub(crate) version: String,
    /// What was loaded or recorded.
    pub(crate) subject: String,
    /// The run directory.
    pub(crate) run: String,
    /// The mean response, nanoseconds.
    pub(crate) response_ns: f64,
    /// The mean of the slowest 1 %, nanoseconds.
    pub(crate) slow_response_ns: f64,
    /// The servers that were looked at, those in front first.
    pub(crate) servers: Vec<Looked>,
    /// What to change, the largest expected effect first.
    pub findings: Vec<Finding>,
    /// Large parts of the response that no setting of these servers changes, with the reason.
    pub(crate) beyond_settings: Vec<String>,
    /// Why there is no finding; null where there are some.
    pub(crate) none_because: Option<String>,
    /// What could not be looked at.
    pub(crate) problems: Vec<String>,
    /// What a trial of a finding showed, if one was asked for.
    pub trial: Option<serde_json::Value>,
}

/// A server that was looked at.
#[derive(Debug, Serialize)]
pub(crate) struct Looked {
    /// What it is.
    pub(crate) kind: &'static str,
    /// Its first process; null where only its command is known.
    pub(crate) pid: Option<u32>,
    /// The files of its configuration.
    pub(crate) files: Vec<PathBuf>,
}

/// Something to change.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// From 1, for `--try`.
    pub number: usize,
    /// The rule that found it.
    pub(crate) rule: &'static str,
    /// In a few words.
    pub(crate) title: String,
    /// The figures of the explanation that speak for it.
    pub(crate) evidence: Vec<Evidence>,
    /// What the configuration and the running system say.
    pub(crate) facts: Vec<String>,
    /// What to set; the first is the one that matters, the others go with it. Empty where it is no server's setting.
    pub(crate) settings: Vec<Setting>,
    /// What to run where it is not a line in a file.
    pub(crate) commands: Vec<String>,
    /// Why this value.
    pub(crate) reasoning: String,
    /// What to expect.
    pub(crate) effect: Effect,
    /// What a queueing model of the run says of it.
    pub predicted: Option<Predicted>,
    /// What could speak against it.
    pub(crate) against: Vec<String>,
    /// Whether `--try` can prove it.
    pub(crate) can_try: bool,
    /// Why it cannot; null where it can.
    pub(crate) cannot_try_because: Option<String>,
}

/// What a queueing model of the run says of a finding.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Predicted {
    /// Of the mean response, nanoseconds.
    Response {
        /// As it was recorded.
        now_ns: f64,
        /// With the change.
        then_ns: f64,
        /// Its interval.
        low_ns: f64,
        /// The upper end of that.
        high_ns: f64,
    },
    /// It says nothing, for this reason.
    NoneBecause(String),
}

/// A part of the response that speaks for a finding.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Evidence {
    /// The part.
    pub(crate) part: &'static str,
    /// As much of its mean as is meant, nanoseconds.
    pub(crate) mean_ns: f64,
    /// The share of the mean response, 0 to 1.
    pub(crate) share: f64,
    /// The whole part among the slowest 1 %, nanoseconds.
    pub(crate) slow_ns: f64,
    /// Who is blamed for the part, with the share of it, largest first.
    pub(crate) who: Vec<(String, f64)>,
    /// In words with figures.
    pub(crate) text: String,
}

/// A setting of a server.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Setting {
    /// Index of the server in the list.
    pub(crate) server: usize,
    /// Its name.
    pub(crate) name: String,
    /// The sections that it stands in, or belongs in.
    pub(crate) scope: Vec<String>,
    /// The file that says it, or in which to say it; null where none is known.
    pub(crate) file: Option<PathBuf>,
    /// The line, from 1; null where it is not said yet.
    pub(crate) line: Option<usize>,
    /// Its value now; where it is not said, the server's default.
    pub(crate) now: String,
    /// The value to set.
    pub(crate) proposed: String,
    /// The line as it should be.
    pub(crate) text: String,
    /// Where it stands, for the copy of a trial.
    #[serde(skip)]
    pub(crate) place: Option<Place>,
}

impl Setting {
    /// A change of what a configuration says.
    pub(crate) fn of(server: usize, configuration: &Configuration, found: &Found<'_>, proposed: &str) -> Self {
        let directive = found.directive;
        Self {
            server,
            name: directive.name.clone(),
            scope: found.scope(),
            file: Some(configuration.file(directive.place).to_owned()),
            line: Some(directive.place.line),
            now: directive.raw.clone(),
            proposed: proposed.to_owned(),
            text: configuration.syntax.line(&directive.name, proposed),
            place: Some(directive.place),
        }
    }

    /// An addition to a configuration that does not say it yet.
    pub(crate) fn added(
        server: usize,
        configuration: &Configuration,
        name: &str,
        scope: &[String],
        default: &str,
        proposed: &str,
    ) -> Self {
        // Beside the section that it belongs in, else in the main file.
        let section = scope.last().and_then(|last| {
            let name = last.split_whitespace().next().unwrap_or(last);
            configuration.all(name).into_iter().find(|found| {
                let mut path = found.scope();
                path.push(format!("{} {}", found.directive.name, found.directive.raw).trim().to_owned());
                path == scope
            })
        });
        let file = section.map(|found| configuration.file(found.directive.place).to_owned());
        Self {
            server,
            name: name.to_owned(),
            scope: scope.to_vec(),
            file: file.or_else(|| configuration.files.first().cloned()),
            line: None,
            now: default.to_owned(),
            proposed: proposed.to_owned(),
            text: configuration.syntax.line(name, proposed),
            place: None,
        }
    }
}

/// What to expect of a change, of the mean response.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Effect {
    /// Saved of each response on average, nanoseconds: an estimate.
    #[serde(serialize_with = "saving")]
    pub(crate) saved_ns: Saving,
    /// The same as shares of the mean response.
    #[serde(serialize_with = "saving")]
    pub(crate) share: Saving,
    /// How it was reckoned.
    pub(crate) basis: String,
}

impl Effect {
    /// An estimate for a mean response.
    pub(crate) fn of(saved_ns: Saving, response_ns: f64, basis: impl Into<String>) -> Self {
        let saved_ns = saved_ns.at_most(response_ns);
        let whole = response_ns.max(1.0);
        let share = Saving::of(saved_ns.low_ns / whole, saved_ns.likely_ns / whole, saved_ns.high_ns / whole);
        Self { saved_ns, share, basis: basis.into() }
    }
}

// Serde hands references to these.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn saving<S: Serializer>(saving: &Saving, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Fields {
        low: f64,
        likely: f64,
        high: f64,
    }
    Fields { low: saving.low_ns, likely: saving.likely_ns, high: saving.high_ns }.serialize(serializer)
}
