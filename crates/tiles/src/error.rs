//! Why a run could not be shown in tiles, or has no such tile.

use std::io;
use std::path::PathBuf;
use thiserror::Error;
use weir_trace::{OpenRunError, ReadError};

/// Why the tiles of a run could not be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The run directory is not one.
    #[error(transparent)]
    Run(#[from] OpenRunError),
    /// A segment could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// There are segments, but no events in them.
    #[error("{0}: holds no events yet; `weir record --run DIR` writes them")]
    Empty(PathBuf),
    /// The levels of detail could not be written.
    #[error("{path}: cannot be written: {source}; the levels of detail need room, about 1 % of the run's bytes")]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The caller wanted no more.
    #[error("ended before the whole run was read")]
    Stopped,
}

/// Why there is no such tile.
#[derive(Debug, Error)]
pub enum TileError {
    /// The run does not reach there, or there is no such level.
    #[error("the run has no tile {index} of level {level}")]
    Missing {
        /// The level.
        level: i32,
        /// The tile's number in it.
        index: u64,
    },
    /// A segment could not be read any more.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A kept tile could not be read.
    #[error("{path}: cannot be read: {source}; remove the folder, and it is made anew")]
    Kept {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}
