//! Opening a store and writing to it.

use crate::retention;
use crate::schema;
use crate::{Fold, Minute, Reader, Record, Series, StoreError};
use rusqlite::{Connection, OptionalExtension, Statement, Transaction, TransactionBehavior, params};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weir_measure::durations::Durations;

/// The longest text of a series that is kept, bytes.
const MOST_NAME_BYTES: usize = 1024;

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

/// What is written at once: all of it or nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// Minutes, each merged with what is there already.
    pub minutes: Vec<Minute>,
    /// Records; one of a trace and a span that is there already takes its place.
    pub records: Vec<Record>,
    /// Settings that hold from this batch on, such as its number: name and text.
    pub settings: Vec<(String, String)>,
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

    /// Writes a batch: all of it, or nothing and an error.
    ///
    /// Where the bound on bytes is reached, what is oldest is removed to make room. `now_ms` is the present, in
    /// milliseconds since 1970.
    ///
    /// # Errors
    /// If there is no room, or the file cannot be written. The same batch may be written again later.
    pub fn write(&mut self, batch: &Batch, now_ms: u64) -> Result<Written, StoreError> {
        let mut written = Written::default();
        match self.put(batch) {
            Err(StoreError::Full { .. }) => {
                written = self.retire(now_ms)?;
                self.put(batch)?;
            }
            put => put?,
        }
        if retention::is_due(self)? {
            let more = self.retire(now_ms)?;
            written.minutes_removed += more.minutes_removed;
            written.records_removed += more.records_removed;
        }
        Ok(written)
    }

    /// Removes what is too old, and what is oldest if the store has grown to its bound. To be called now and then, each
    /// minute for example.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn retire(&mut self, now_ms: u64) -> Result<Written, StoreError> {
        retention::retire(self, now_ms)
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

    /// Has these views, and no others of earlier versions of the same names: name and query. They are for people who
    /// ask in SQL.
    ///
    /// # Errors
    /// If the file cannot be written, or a query cannot be understood.
    pub fn set_views(&mut self, views: &[(&str, &str)], now_ms: u64) -> Result<(), StoreError> {
        match self.put_views(views) {
            Err(StoreError::Full { .. }) => {
                self.retire(now_ms)?;
                self.put_views(views)
            }
            put => put,
        }
    }

    fn put_views(&mut self, views: &[(&str, &str)]) -> Result<(), StoreError> {
        let put = (|| {
            let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            for (name, query) in views {
                let made = format!("create view \"{name}\" as {query}");
                let known = transaction
                    .query_row("select sql from sqlite_master where type = 'view' and name = ?1", [name], |row| {
                        row.get::<_, String>(0)
                    })
                    .optional()?;
                // SQLite keeps the text as it was given, but for the first words.
                if known.is_some_and(|known| known.ends_with(query)) {
                    continue;
                }
                transaction.execute_batch(&format!("drop view if exists \"{name}\"; {made}"))?;
            }
            transaction.commit()
        })();
        put.map_err(|error| self.error(error))
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

    fn put(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let mut record_bytes = 0;
        let put = (|| {
            let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let mut putting = Putting::prepare(&transaction)?;
            for minute in &batch.minutes {
                putting.minute(minute)?;
            }
            for record in &batch.records {
                putting.record(record)?;
                record_bytes += record.body.len() as u64;
            }
            drop(putting);
            for (name, value) in &batch.settings {
                transaction.execute(SET, [name, value])?;
            }
            transaction.commit()
        })();
        put.map_err(|error| self.error(error))?;
        self.record_bytes += record_bytes;
        Ok(())
    }
}

const SET: &str = "insert or replace into setting values (?1, ?2)";

/// The statements of a write, each prepared once.
struct Putting<'t> {
    find_series: Statement<'t>,
    add_series: Statement<'t>,
    find_minute: Statement<'t>,
    put_minute: Statement<'t>,
    add_record: Statement<'t>,
}

impl<'t> Putting<'t> {
    fn prepare(transaction: &'t Transaction<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            find_series: transaction.prepare("select id from series where source = ?1 and class = ?2 and user = ?3")?,
            add_series: transaction.prepare("insert into series (source, class, user) values (?1, ?2, ?3)")?,
            find_minute: transaction.prepare(
                "select good, aborted, failed, unknown, unfinished, blocked_ns, queued_ns, durations \
                 from minute where minute = ?1 and series = ?2",
            )?,
            put_minute: transaction
                .prepare("insert or replace into minute values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)")?,
            add_record: transaction.prepare(
                "insert or replace into record \
                 (at_ms, series, duration_ns, outcome, trace_high, trace_low, span, bytes, body) \
                 values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?,
        })
    }

    fn minute(&mut self, minute: &Minute) -> rusqlite::Result<()> {
        let series = self.number_of(&minute.series)?;
        let at = minute.minute as i64;
        let held = self.find_minute.query_row(params![at, series], |row| fold_of(row, 0)).optional()?;
        let mut fold = minute.fold.clone();
        if let Some(held) = held {
            fold.merge(&held);
        }
        let [good, aborted, failed, unknown, unfinished] = fold.outcomes.map(|count| count as i64);
        let (blocked_ns, queued_ns) = (fold.blocked_ns as i64, fold.queued_ns as i64);
        let durations = fold.durations.to_bytes();
        let row = params![at, series, good, aborted, failed, unknown, unfinished, blocked_ns, queued_ns, durations];
        self.put_minute.execute(row)?;
        Ok(())
    }

    fn record(&mut self, record: &Record) -> rusqlite::Result<()> {
        let series = self.number_of(&record.series)?;
        let [high, low, span] = [record.trace[0], record.trace[1], record.span].map(|word| word as i64);
        let (at_ms, duration_ns, outcome) = (record.at_ms as i64, record.duration_ns as i64, record.outcome as i64);
        let bytes = record.body.len() as i64;
        self.add_record.execute(params![at_ms, series, duration_ns, outcome, high, low, span, bytes, record.body])?;
        Ok(())
    }

    /// The number of a series, which it gets at its first event.
    fn number_of(&mut self, series: &Series) -> rusqlite::Result<i64> {
        let names = [&series.source, &series.class, &series.user].map(|name| cut(name));
        match self.find_series.query_row(names, |row| row.get(0)).optional()? {
            Some(number) => Ok(number),
            None => self.add_series.insert(names),
        }
    }
}

/// The eight columns of a fold, from one on.
pub(crate) fn fold_of(row: &rusqlite::Row<'_>, first: usize) -> rusqlite::Result<Fold> {
    let mut outcomes = [0; 5];
    for (at, count) in outcomes.iter_mut().enumerate() {
        *count = row.get::<_, i64>(first + at)? as u64;
    }
    let blob = row.get_ref(first + 7)?.as_blob()?;
    // What cannot be read counts as if it held nothing: one damaged row must not hide all others.
    let durations = Durations::from_bytes(blob).unwrap_or_default();
    let number = |column| row.get::<_, i64>(column).map(|number| number as u64);
    Ok(Fold { outcomes, durations, blocked_ns: number(first + 5)?, queued_ns: number(first + 6)? })
}

fn cut(name: &str) -> &str {
    let most = (0..=MOST_NAME_BYTES.min(name.len())).rev().find(|at| name.is_char_boundary(*at));
    &name[..most.unwrap_or(0)]
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
