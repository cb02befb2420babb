//! Where a run goes that was given no directory.

use std::path::{Path, PathBuf};
use weir_trace::RunReader;

/// A directory that is not there yet: the next number in `weir-runs`.
pub fn next() -> PathBuf {
    let parent = PathBuf::from("weir-runs");
    (1u32..).map(|number| parent.join(format!("{number:04}"))).find(|path| !path.exists()).unwrap_or(parent)
}

/// The last run in `weir-runs`: the one that was written to last.
pub fn last() -> Option<PathBuf> {
    let entries = std::fs::read_dir("weir-runs").ok()?.flatten();
    let manifests = entries.filter_map(|entry| {
        let written = entry.path().join("manifest.jsonl").metadata().ok()?.modified().ok()?;
        Some((written, entry.path()))
    });
    manifests.max().map(|(_, path)| path)
}

/// Whether a directory holds a run already.
pub fn is_taken(directory: &Path) -> bool {
    RunReader::open(directory).is_ok()
}
