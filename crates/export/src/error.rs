//! Why a run could not be written in another format.

use std::io;
use std::path::PathBuf;
use thiserror::Error;
use weir_query::QueryError;

/// Why a run could not be written in another format.
#[derive(Debug, Error)]
pub enum ExportError {
    /// The tables do not answer.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The output cannot be written.
    #[error("{path}: cannot be written: {source}; name another place, or make room")]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The folder holds something already.
    #[error("{0}: is not empty, and nothing is overwritten; name a new folder")]
    NotEmpty(PathBuf),
    /// The run holds nothing of the sort.
    #[error("the run holds no {what}; {remedy}")]
    Nothing {
        /// What.
        what: &'static str,
        /// How a recording comes to hold it.
        remedy: &'static str,
    },
}
