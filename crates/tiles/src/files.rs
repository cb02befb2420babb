//! The files that tiles are kept in.

use crate::OpenError;
use std::fs;
use std::path::Path;

/// Waits for locks, one by one.
pub(crate) const WAITS: &str = "waits.json";

/// The name of a kept tile's file.
pub(crate) fn tile_file(level: i32, index: u64) -> String {
    format!("tile-{level}-{index}.json")
}

/// The name of the file that tells what each task did at the begin of a tile of level 0.
pub(crate) fn states_file(index: u64) -> String {
    format!("states-{index}.json")
}

pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), OpenError> {
    fs::write(path, bytes).map_err(|source| OpenError::Write { path: path.to_owned(), source })
}
