//! What can go wrong with a store.

use std::path::{Path, PathBuf};

/// Why a store could not be opened, written or read. Nothing of a write that failed is kept.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no room: neither on the disk nor, by removing what is oldest, within the bound.
    #[error("{}: there is no room for more: the disk is full, or the store's bound is too small for what comes in a \
             minute; make room, or raise the bound", path.display())]
    Full {
        /// The store's file.
        path: PathBuf,
    },
    /// What bears the name is no file, or one with something else in it.
    #[error("{}: this is no database of weir's, and is left as it is; name another file, or move it away", path.display())]
    NotAStore {
        /// What was found.
        path: PathBuf,
    },
    /// The file is a database of another program.
    #[error("{}: this is a database of another program; name another file", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file is no database, or is damaged.
    #[error("{}: the store is damaged: {source}; move it away, and a new one is begun", path.display())]
    Damaged {
        /// The store's file.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// A later version of weir has made it.
    #[error("{}: a later version of weir has written it (schema {found}, this one reads up to {known}); use that \
             version, or move the file away", path.display())]
    Newer {
        /// The store's file.
        path: PathBuf,
        /// The file's version.
        found: i64,
        /// The latest that is known here.
        known: i64,
    },
    /// It is not there, or may not be used.
    #[error("{}: the store cannot be opened ({source}); look whether it is there and whose it is", path.display())]
    NotOpened {
        /// The store's file.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// A directory of its path could not be made, or a damaged store not moved away.
    #[error("{}: {source}", path.display())]
    Directory {
        /// What was to be made or moved.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// Anything else that SQLite says.
    #[error("{}: {source}", path.display())]
    Sqlite {
        /// The store's file.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
}

impl StoreError {
    /// Sorts SQLite's errors by what there is to do about them.
    pub(crate) fn of(path: &Path, source: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode;
        let path = path.to_owned();
        match source.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full { path },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged { path, source },
            Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
                Self::NotOpened { path, source }
            }
            _ => Self::Sqlite { path, source },
        }
    }
}
