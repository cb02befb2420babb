//! A store: opened, asked, its settings.

use crate::{Reader, StoreError, schema};
use rusqlite::{Connection, OptionalExtension};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) const SET: &str = "insert or replace into setting values (?1, ?2)";

/// How long and how much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// What is older is removed.
    pub age: Duration,
    /// Bytes of the file; beside it lies a log of some MB. What is oldest is removed to make room.
    pub bytes: u64,
}

impl Default for Limits {
    /// A week, 256 MiB.
    fn default() -> Self {
        Self { age: Duration::from_secs(7 * 24 * 3600), bytes: 256 << 20 }
    }
}

/// What became of a write, or of a clearing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Written {
    /// Minutes that were removed because of their age, or to make room.
    pub minutes_removed: u64,
    /// Records that were removed likewise.
    pub records_removed: u64,
}

/// A store, opened to write. One process writes; any number may read meanwhile.
#[derive(Debug)]
pub struct Store {
    pub(crate) connection: Connection,
    pub(crate) path: PathBuf,
    pub(crate) limits: Limits,
    /// Bytes of the records' texts.
    pub(crate) record_bytes: u64,
}

impl Store {
    /// Opens a store, and makes it and the directories of its path if they are not there (the file for its owner only:
    /// it may tell of users).
    ///
    /// # Errors
    /// If the file is damaged, another program's or a later version's, or may not be written.
    pub fn open(path: &Path, limits: Limits) -> Result<Self, StoreError> {
        if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            fs::create_dir_all(directory)
                .map_err(|source| StoreError::Directory { path: directory.to_owned(), source })?;
        }
        for_owner_only(path).map_err(|source| StoreError::Directory { path: path.to_owned(), source })?;
        let connection = schema::open_to_write(path)?;
        let mut store = Self { connection, path: path.to_owned(), limits, record_bytes: 0 };
        store.bound_file()?;
        store.record_bytes = store.ask("select coalesce(sum(bytes), 0) from record")?;
        Ok(store)
    }

    /// Opens a store; one that is damaged is moved away and a new one begun. The second value is where it was moved to.
    ///
    /// # Errors
    /// As [`Store::open`], or if it cannot be moved.
    pub fn open_or_begin_anew(path: &Path, limits: Limits) -> Result<(Self, Option<PathBuf>), StoreError> {
        match Self::open(path, limits) {
            Err(StoreError::Damaged { .. }) => {
                let aside =
                    move_away(path).map_err(|source| StoreError::Directory { path: path.to_owned(), source })?;
                Ok((Self::open(path, limits)?, Some(aside)))
            }
            opened => Ok((opened?, None)),
        }
    }

    /// Bytes that are in use, of those that the limits allow.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn used_bytes(&self) -> Result<u64, StoreError> {
        let pages = self.ask("pragma page_count")?.saturating_sub(self.ask("pragma freelist_count")?);
        Ok(pages * self.ask("pragma page_size")?)
    }

    /// The text of a setting.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn setting(&self, name: &str) -> Result<Option<String>, StoreError> {
        let asked = self.connection.query_row("select value from setting where name = ?1", [name], |row| row.get(0));
        asked.optional().map_err(|error| self.error(error))
    }

    /// Sets a setting.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), StoreError> {
        let set = self.connection.execute(SET, [name, value]);
        set.map(drop).map_err(|error| self.error(error))
    }

    /// A second connection to the same file, to read.
    ///
    /// # Errors
    /// If the file cannot be opened again.
    pub fn reader(&self) -> Result<Reader, StoreError> {
        Reader::open(&self.path)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn error(&self, error: rusqlite::Error) -> StoreError {
        StoreError::of(&self.path, error)
    }

    /// A number that a query tells.
    pub(crate) fn ask(&self, sql: &str) -> Result<u64, StoreError> {
        let asked = self.connection.query_row(sql, [], |row| row.get(0));
        asked.map(|number: i64| number.max(0) as u64).map_err(|error| self.error(error))
    }

    /// SQLite itself holds the bound, even if the clearing fails.
    fn bound_file(&self) -> Result<(), StoreError> {
        let pages = (self.limits.bytes / self.ask("pragma page_size")?.max(1)).max(64);
        self.ask(&format!("pragma max_page_count = {pages}")).map(|_| ())
    }
}

/// Makes the file, if there is none, such that only its owner reads it; SQLite gives its log the same mode.
fn for_owner_only(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    if path.exists() {
        return Ok(());
    }
    fs::OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path).map(drop)
}

/// Moves a damaged store away, with its log, to the first name that is free.
fn move_away(path: &Path) -> std::io::Result<PathBuf> {
    let with = |end: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    };
    let aside = (1..1000).map(|number| with(&format!(".damaged-{number}"))).find(|aside| !aside.exists());
    let aside = aside.ok_or_else(|| std::io::Error::other("there are a thousand damaged stores beside it"))?;
    fs::rename(path, &aside)?;
    for end in ["-wal", "-shm"] {
        // A log without its file would be taken for that of the new one.
        let _ = fs::remove_file(with(end));
    }
    Ok(aside)
}
