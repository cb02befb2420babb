//! What SQLite's errors mean for the directory.

use crate::error::DirectoryError;
use rusqlite::{Error, ErrorCode};
use std::path::Path;

/// The error of an operation on the file.
pub(super) fn fault(path: &Path, error: &Error) -> DirectoryError {
    let engine = name(path);
    let why = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => DirectoryError::Full { engine, why },
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => DirectoryError::Damaged { what: engine, why },
        Some(ErrorCode::PermissionDenied | ErrorCode::ReadOnly) => {
            DirectoryError::File { path: path.to_owned(), why: format!("{why}; it must be writable for this user") }
        }
        // Busy for longer than our patience, or the disk fails: nothing was changed, as SQLite takes it back.
        _ => DirectoryError::Away { engine, why },
    }
}

pub(super) fn name(path: &Path) -> String {
    format!("SQLite ({})", path.display())
}
