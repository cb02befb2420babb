//! Reports of an experiment that has ended: printed, written into files, kept in a history.
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::json;
use weir_compare::{Conclusion, Ending, History, KeptResult, PageContext, Trends};

use super::options::{Options, Shape};

/// The reports that were asked for.
#[derive(Debug)]
pub(super) struct Reports {
    shape: Shape,
    history: Option<Kept>,
}

/// The history that was asked for.
#[derive(Debug)]
struct Kept {
    folder: PathBuf,
    label: Option<String>,
    accepted: bool,
}

/// A result beside its history.
struct LookedBack {
    /// The result that is to be kept; `None` where it is there already.
    result: Option<KeptResult>,
    /// What the history says with it.
    trends: Trends,
    /// Why nothing should rest on the history: most of it could not be read.
    damaged: Option<anyhow::Error>,
}

impl Reports {
    /// What the options ask for.
    pub(super) fn asked(options: &Options) -> anyhow::Result<Self> {
        let history = options.history.clone().map(|folder| {
            // An earlier result does not belong to the present commit.
            let label = options.label.clone().or_else(|| if options.results_of.is_some() { None } else { commit() });
            Kept { folder, label, accepted: options.accept_shift }
        });
        if let Some(kept) = history.as_ref().filter(|kept| kept.folder.exists() && !kept.folder.is_dir()) {
            anyhow::bail!("--history {} is no folder", kept.folder.display());
        }
        Ok(Self { shape: options.shape.clone(), history })
    }

    /// Prints the report and writes what else was asked for; `folder` is the one of the experiment's own results. A
    /// report that cannot be written does not prevent the others.
    pub(super) fn tell(&self, conclusion: &Conclusion, folder: Option<&Path>) -> anyhow::Result<Option<Trends>> {
        let mut failures: Vec<anyhow::Error> = Vec::new();
        let (result, trends) = match self.looked_back(conclusion) {
            Ok(Some(LookedBack { result, trends, damaged })) => {
                failures.extend(damaged);
                (result, Some(trends))
            }
            Ok(None) => (None, None),
            Err(error) => {
                failures.push(error);
                (None, None)
            }
        };
        self.print(conclusion, trends.as_ref())?;
        let mut attempt = |done: anyhow::Result<()>| failures.extend(done.err());
        if let Some(folder) = folder {
            attempt(conclusion.keep(folder).context("keeping the end of the experiment"));
        }
        if let (Some(kept), Some(result)) = (&self.history, &result) {
            let written = result.keep(&kept.folder).map(|_path| ());
            attempt(written.with_context(|| not_kept(folder, &kept.folder)));
        }
        if let Some(file) = &self.shape.junit {
            attempt(write(file, &weir_compare::junit_report(&conclusion.outcome, trends.as_ref())));
        }
        if let Some(file) = &self.shape.html {
            let Conclusion { at_s, host, command, outcome } = conclusion;
            let context = PageContext { command, host, at_s: *at_s, trends: trends.as_ref() };
            attempt(write(file, &weir_compare::html_report(outcome, &context)));
        }
        let told: Vec<String> = failures.iter().map(weir_terminal::output::causes).collect();
        anyhow::ensure!(told.is_empty(), "{}", told.join("; "));
        Ok(trends)
    }

    /// The result beside the history; nothing where none was asked for, or where the experiment did not come to its end.
    fn looked_back(&self, conclusion: &Conclusion) -> anyhow::Result<Option<LookedBack>> {
        let Some(kept) = &self.history else { return Ok(None) };
        let outcome = &conclusion.outcome;
        if !matches!(outcome.ending, Ending::Done | Ending::Budget) {
            eprintln!("weir compare: the result is not put into the history, as the experiment was not completed");
            return Ok(None);
        }
        let judgements = weir_compare::verdicts(outcome);
        let label = kept.label.as_deref().unwrap_or_default();
        let result =
            KeptResult::of(outcome, &judgements, &conclusion.host, conclusion.at_s, label).accepted(kept.accepted);
        let mut history = History::read(&kept.folder, &result).context("reading the history")?;
        let (damaged, read) = (history.damaged.len(), history.results.len() + history.others);
        let damaged = (damaged > read).then(|| {
            let folder = kept.folder.display();
            anyhow::anyhow!("most of the history could not be read: {damaged} of {} files of {folder}", damaged + read)
        });
        let is_new = history.add(result.clone());
        let trends = history.trends(&result, outcome.plan.smallest_effect);
        Ok(Some(LookedBack { result: is_new.then_some(result), trends, damaged }))
    }

    fn print(&self, conclusion: &Conclusion, trends: Option<&Trends>) -> anyhow::Result<()> {
        let Conclusion { host, command, outcome, .. } = conclusion;
        let text = if self.shape.json {
            let mut report = weir_compare::json_report(outcome, command)?;
            report["machine"] = json!(host);
            report["history"] = json!(trends);
            format!("{report:#}\n")
        } else if self.shape.markdown {
            weir_compare::markdown_report(outcome, command) + &trends.map_or_else(String::new, Trends::markdown)
        } else {
            let details = if self.shape.details { weir_compare::terminal_details(outcome) } else { String::new() };
            weir_compare::terminal_report(outcome, command, weir_terminal::output::colours())
                + &details
                + &trends.map_or_else(String::new, Trends::text)
        };
        Ok(weir_terminal::output::print(&text)?)
    }
}

fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(file, text).with_context(|| format!("writing the report {}", file.display()))
}

/// What to do about a result that the history did not take.
fn not_kept(results: Option<&Path>, history: &Path) -> String {
    let later = results.map_or_else(String::new, |results| {
        format!(" (later: weir compare --results-of {} --history {})", results.display(), history.display())
    });
    format!("putting the result into the history{later}")
}

/// The commit of the folder that we are in, if git knows one, and whether files differ from it.
fn commit() -> Option<String> {
    let arguments = ["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"];
    let told = std::process::Command::new("git").args(arguments).stdin(std::process::Stdio::null()).output().ok()?;
    let text = String::from_utf8(told.stdout).ok()?;
    (told.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}
