//! A directory that holds the runs of several hosts and is none itself: a file in it names theirs.

use crate::run::MANIFEST;
use std::path::{Path, PathBuf};

/// Names the directory of each run, a line each.
const LIST: &str = "hosts";

/// Where a directory has its list of runs, whether or not it has one.
#[must_use]
pub fn list_of(directory: &Path) -> PathBuf {
    directory.join(LIST)
}

/// Whether a directory holds the runs of several hosts; a run that has a file of that name is a run.
#[must_use]
pub fn holds_several(directory: &Path) -> bool {
    list_of(directory).is_file() && !directory.join(MANIFEST).exists()
}
