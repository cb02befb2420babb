//! What can go wrong, one enum for each operation.

use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why a segment could not be read on.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The file does not begin with a block of ours.
    #[error("{path}: not a weir segment (it begins with {found:?}); a run's segments lie in its folder `segments` and end in .seg", found = String::from_utf8_lossy(.begins))]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Its first bytes.
        begins: Vec<u8>,
    },
    /// The file was written by a later weir, whose records this one would misread.
    #[error("{path}: written with schema {major}.{minor}, this weir reads up to {own}.x; use a newer weir", own = weir_wire::schema::VERSION.0)]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its major.
        major: u16,
        /// Its minor.
        minor: u16,
    },
    /// The system refused to read.
    #[error("{path}: cannot be read: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Why a run directory could not be opened.
#[derive(Debug, Error)]
pub enum OpenRunError {
    /// No such directory.
    #[error("{0}: no such run directory; `weir record --run DIR` or `weir load --run DIR` makes one")]
    Missing(PathBuf),
    /// A directory, but without a manifest or segments.
    #[error("{0}: not a run directory (no segments in it); `weir record --run DIR` makes one")]
    NotARun(PathBuf),
    /// The manifest has a line that is not ours.
    #[error("{path}:{line}: not a manifest entry ({reason}); remove the line to read what else there is")]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What the parser said.
        reason: String,
    },
    /// The system refused.
    #[error("{path}: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Why a run could not be written.
#[derive(Debug, Error)]
pub enum WriteError {
    /// The system refused; a full disk among other reasons. What was written before stays readable.
    #[error(
        "{path}: cannot be written: {source}; --run DIR names another place, and what was recorded before stays readable"
    )]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The directory holds something else.
    #[error("{0}: is not empty and not a run directory; name a new one")]
    NotEmpty(PathBuf),
}

/// Why a run could not be put into another.
#[derive(Debug, Error)]
pub enum TakeInError {
    /// The other run cannot be read.
    #[error(transparent)]
    Open(#[from] OpenRunError),
    /// A segment of the same name is in this run: both were written by processes of one number.
    #[error("{path}: is there already, of another process with the same number; name a new directory")]
    Taken {
        /// The segment's place.
        path: PathBuf,
    },
    /// A segment cannot be moved.
    #[error("{path}: cannot be moved there: {source}")]
    Move {
        /// The segment's place.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// This run cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}
