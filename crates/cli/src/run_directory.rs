//! Where a run goes that was given no directory.

use std::path::PathBuf;

/// A directory that is not there yet: the next number in `weir-runs`.
pub(crate) fn next() -> PathBuf {
    let parent = PathBuf::from("weir-runs");
    (1u32..).map(|number| parent.join(format!("{number:04}"))).find(|path| !path.exists()).unwrap_or(parent)
}
