//! What a check says, and what its files say.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

/// What weir is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Job {
    /// Recording a server and explaining its requests: record, explain, advise, top
    Explain,
    /// Making load: load, compare, scenario, k6
    Load,
    /// Serving the web: serve
    Serve,
    /// Transactions of applications: agent, arm
    Arm,
    /// Several machines that serve one site: cluster, keeper
    Cluster,
}

impl Job {
    /// All of them.
    pub(super) const ALL: [Self; 5] = [Self::Explain, Self::Load, Self::Serve, Self::Arm, Self::Cluster];

    /// Its name as an argument.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Explain => "explain",
            Self::Load => "load",
            Self::Serve => "serve",
            Self::Arm => "arm",
            Self::Cluster => "cluster",
        }
    }
}

/// How it stands with something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    /// It limits nothing.
    Ok,
    /// This machine does not tell.
    Unknown,
    /// The job can be done, but not all of it, or its figures are worse.
    Limited,
    /// The job cannot be done.
    Missing,
}

impl State {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Unknown => "unknown",
            Self::Limited => "limited",
            Self::Missing => "missing",
        }
    }
}

/// A check and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(super) struct Check {
    /// Its name, which docs/reference/doctor.md lists.
    pub(super) check: &'static str,
    /// What it matters for.
    pub(super) jobs: &'static [Job],
    pub(super) state: State,
    /// What was read.
    pub(super) found: String,
    /// What that means.
    pub(super) means: String,
    /// What to do about it; `None` where nothing is to be done.
    pub(super) remedy: Option<String>,
}

/// What a check is to say.
#[derive(Debug, Clone, Copy)]
pub(super) struct Subject(pub(super) &'static str, pub(super) &'static [Job]);

impl Subject {
    fn check(self, state: State, found: String, means: String, remedy: Option<String>) -> Check {
        Check { check: self.0, jobs: self.1, state, found, means, remedy }
    }

    pub(super) fn ok(self, found: impl Into<String>, means: impl Into<String>) -> Check {
        self.check(State::Ok, found.into(), means.into(), None)
    }

    pub(super) fn limited(
        self,
        found: impl Into<String>,
        means: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Check {
        self.check(State::Limited, found.into(), means.into(), Some(remedy.into()))
    }

    pub(super) fn missing(
        self,
        found: impl Into<String>,
        means: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Check {
        self.check(State::Missing, found.into(), means.into(), Some(remedy.into()))
    }

    /// It cannot be looked at, and why.
    pub(super) fn unknown(self, why: impl std::fmt::Display, means: impl Into<String>) -> Check {
        self.check(State::Unknown, format!("cannot be looked at: {why}"), means.into(), None)
    }
}

/// Why a file of the kernel's says nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unread {
    /// This kernel or machine has no such file.
    #[error("this machine has no {0}")]
    Absent(String),
    /// It is there, and may not be read, or not now.
    #[error("{0}: {1}")]
    Closed(String, std::io::Error),
    /// It holds something else than was expected.
    #[error("{0} holds {1:?}")]
    Strange(String, String),
}

/// The files of the kernel, below a directory that is `/` but for tests.
#[derive(Debug, Clone)]
pub(super) struct Files {
    root: PathBuf,
}

impl Default for Files {
    fn default() -> Self {
        Self { root: PathBuf::from("/") }
    }
}

impl Files {
    #[cfg(test)]
    pub(super) fn below(root: &std::path::Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// The text of a file, such as `proc/sys/net/core/somaxconn`, without the end of its last line.
    pub(super) fn text(&self, path: &str) -> Result<String, Unread> {
        match fs::read(self.root.join(path)) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned()),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                Err(Unread::Absent(format!("/{path}")))
            }
            Err(error) => Err(Unread::Closed(format!("/{path}"), error)),
        }
    }

    /// The number that a file holds.
    pub(super) fn number(&self, path: &str) -> Result<i64, Unread> {
        let text = self.text(path)?;
        text.trim().parse().map_err(|_| Unread::Strange(format!("/{path}"), text.chars().take(80).collect()))
    }

    /// The word in brackets of a file that lists choices, such as `always [madvise] never`.
    pub(super) fn chosen(&self, path: &str) -> Result<String, Unread> {
        let text = self.text(path)?;
        let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(word, _)| word.to_owned());
        chosen.ok_or_else(|| Unread::Strange(format!("/{path}"), text.chars().take(80).collect()))
    }

    /// The names in a directory, none where it is not there.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let listing = fs::read_dir(self.root.join(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> = listing.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Files of a kernel that never was.
    pub(crate) fn files(of: &[(&str, &str)]) -> (tempfile::TempDir, Files) {
        let folder = tempfile::tempdir().expect("a temporary directory");
        for (path, text) in of {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        }
        let files = Files::below(folder.path());
        (folder, files)
    }

    #[test]
    fn what_is_not_there_or_not_as_expected_is_told() {
        let (_folder, files) = files(&[("a", "12\n"), ("b", "x [y] z"), ("c", "none")]);
        assert_eq!(files.number("a").ok(), Some(12));
        assert_eq!(files.chosen("b").ok().as_deref(), Some("y"));
        assert_eq!(files.chosen("c").expect_err("no brackets").to_string(), "/c holds \"none\"");
        assert_eq!(files.number("d").expect_err("no file").to_string(), "this machine has no /d");
    }
}
