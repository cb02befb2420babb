//! Where the persister keeps things.

use std::path::PathBuf;
use weir_store::Limits;

/// Where things are kept.
#[derive(Debug, Clone)]
pub struct Places {
    /// The recording that `weir replay` reads.
    pub recording: Option<PathBuf>,
    /// Bytes of a file of it; then another one is begun.
    pub recording_bytes_max: u64,
    /// Files of it that are kept beside the one that is written.
    pub recording_keep: u32,
    /// The environment database.
    pub database: Option<PathBuf>,
    /// Its bounds.
    pub limits: Limits,
}
