//! Why there is no run, and the exit status that says so: k6's own where it has one.

use crate::options::OptionError;
use crate::script::{Told, World};
use std::path::Path;
use weir_scenario::behaviour::{FailedBy, Failure};
use weir_scenario::run::RunError;

/// A wrong command line, a file that is not there, a module that is refused.
pub(crate) const USAGE: u8 = 2;
/// Options that cannot be followed.
const INVALID_CONFIG: u8 = 104;
/// The script threw before the run, or in setup or teardown.
pub(crate) const SCRIPT_EXCEPTION: u8 = 107;
/// Setup, or teardown, took longer than it may.
const SETUP_TIMEOUT: u8 = 100;
const TEARDOWN_TIMEOUT: u8 = 101;
/// The engine below cannot run.
pub(crate) const OTHER: u8 = 1;

/// The exit status of a setup that failed.
pub(crate) fn of_setup(failure: &Failure) -> u8 {
    match failure.by {
        FailedBy::Itself => SCRIPT_EXCEPTION,
        FailedBy::Time => SETUP_TIMEOUT,
    }
}

/// The exit status of a teardown that failed.
pub(crate) fn of_teardown(failure: &Failure) -> u8 {
    match failure.by {
        FailedBy::Itself => SCRIPT_EXCEPTION,
        FailedBy::Time => TEARDOWN_TIMEOUT,
    }
}

/// Why there is no run.
#[derive(Debug, thiserror::Error)]
#[error("{words}")]
pub(crate) struct Wrong {
    words: String,
    pub(crate) status: u8,
}

impl Wrong {
    pub(crate) fn source(words: String) -> Self {
        Self { words, status: USAGE }
    }

    pub(crate) fn unread(path: &Path, wrong: &std::io::Error) -> Self {
        Self::source(format!("file {:?} cannot be read: {wrong}", path.display().to_string()))
    }

    pub(crate) fn unwritten(path: &Path, wrong: &std::io::Error) -> Self {
        Self::system(&format!("file {:?} cannot be written: {wrong}", path.display().to_string()))
    }

    pub(crate) fn system(wrong: &dyn std::fmt::Display) -> Self {
        Self { words: wrong.to_string(), status: OTHER }
    }

    /// The script cannot begin.
    pub(crate) fn begin(world: &World, failure: &Failure, told: &Told) -> Self {
        if let Some((wrong, base, name)) = world.sources.take_wrong() {
            let place = place(world, &base, &name);
            return Self::source(format!("{place}{wrong}"));
        }
        let status = if told.has_thrown || told.cut.is_some() { SCRIPT_EXCEPTION } else { USAGE };
        Self { words: failure.words.to_string(), status }
    }

    /// Its options cannot be followed.
    pub(crate) fn options(world: &World, wrong: &OptionError) -> Self {
        let main = world.main.display().to_string();
        Self { words: format!("{}{wrong}", place(world, &main, wrong.word())), status: INVALID_CONFIG }
    }

    pub(crate) fn run(wrong: &RunError) -> Self {
        let status = match wrong {
            RunError::Unmade(_) => SCRIPT_EXCEPTION,
            RunError::Scenarios { .. } | RunError::Scenario { .. } => INVALID_CONFIG,
            _ => OTHER,
        };
        Self { words: wrong.to_string(), status }
    }
}

/// `FILE:LINE:COLUMN: ` of a word's first place in a file, if it stands there.
fn place(world: &World, file: &str, word: &str) -> String {
    let content = world.sources.file(Path::new(file)).ok();
    let text = content.as_ref().and_then(|content| std::str::from_utf8(content).ok()).unwrap_or_default();
    let found = text.lines().enumerate().find_map(|(line, text)| {
        let at = text.find(word).filter(|_| !word.is_empty() && !text.trim_start().starts_with("//"))?;
        Some((line + 1, text[..at].chars().count() + 1))
    });
    match found {
        Some((line, column)) => format!("{file}:{line}:{column}: "),
        None => format!("{file}: "),
    }
}
