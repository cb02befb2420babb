//! The end of an experiment in its folder: everything that its reports need, for reports at any later time.
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::host::Host;
use crate::outcome::Outcome;
use crate::results::ResultsError;

const CONCLUSION: &str = "outcome.json";

/// An outcome with when and where it was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Conclusion {
    /// When it ended, in seconds since 1970.
    pub at_s: u64,
    /// On what it ran.
    pub host: Host,
    /// Repeats the experiment.
    pub command: String,
    /// What was measured.
    pub outcome: Outcome,
}

impl Conclusion {
    /// What has just been measured on this machine.
    #[must_use]
    pub fn of(outcome: Outcome, command: String) -> Self {
        // A clock before 1970 is wrong; the result is right all the same.
        let at_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Self { at_s, host: Host::this(), command, outcome }
    }

    /// Writes it into the folder of the experiment, in place of an earlier end; what is there is whole at any time.
    ///
    /// # Errors
    /// The system's; an earlier end is still there then.
    pub fn keep(&self, folder: &Path) -> Result<(), ResultsError> {
        let (path, beside) = (path(folder), folder.join(format!(".{CONCLUSION}.{}", std::process::id())));
        let text = serde_json::to_string(self).map_err(io::Error::from);
        let written = text
            .and_then(|text| fs::write(&beside, text + "\n"))
            .and_then(|()| fs::File::open(&beside)?.sync_all())
            .and_then(|()| fs::rename(&beside, &path));
        written.map_err(|source| {
            let _gone = fs::remove_file(&beside);
            ResultsError::Io { path, source }
        })
    }

    /// Takes away an earlier end of an experiment that goes on.
    ///
    /// # Errors
    /// The system's.
    pub fn forget(folder: &Path) -> Result<(), ResultsError> {
        match fs::remove_file(path(folder)) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(ResultsError::Io { path: path(folder), source })
            }
            _ => Ok(()),
        }
    }

    /// Reads the end of an experiment in its folder.
    ///
    /// # Errors
    /// [`ResultsError::NoEnd`] where it has not come to one, [`ResultsError::Content`] for what no experiment wrote, and
    /// the system's refusals.
    pub fn read(folder: &Path) -> Result<Self, ResultsError> {
        let path = path(folder);
        let text = fs::read_to_string(&path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => ResultsError::NoEnd(folder.to_owned()),
            _ => ResultsError::Io { path: path.clone(), source },
        })?;
        let content = |line, message| ResultsError::Content { path: path.clone(), line, message };
        let conclusion: Self = serde_json::from_str(&text).map_err(|error| content(error.line(), error.to_string()))?;
        let plan = &conclusion.outcome.plan;
        plan.check().map_err(|error| content(1, error.to_string()))?;
        match conclusion.outcome.blocks.iter().find(|block| block.case >= plan.cases.len()) {
            Some(block) => Err(content(1, format!("there is no case {}", block.case))),
            None => Ok(conclusion),
        }
    }
}

fn path(folder: &Path) -> PathBuf {
    folder.join(CONCLUSION)
}
