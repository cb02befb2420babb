//! Why a run could not be written as Parquet.

use std::path::PathBuf;
use thiserror::Error;
use weir_query::QueryError;

/// Why a run could not be written as Parquet.
#[derive(Debug, Error)]
pub(crate) enum LakeError {
    /// The tables do not answer.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// A file cannot be written.
    #[error("{path}: cannot be written: {why}; name another folder, or make room")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The data set has a run of this name.
    #[error("{0}: the data set has this run already, and nothing is overwritten; --name gives it another name")]
    There(PathBuf),
    /// A table that is not there.
    #[error("--table {name}: there is no such table; the tables are {tables}")]
    NoTable {
        /// What was asked for.
        name: String,
        /// All tables.
        tables: String,
    },
}
