//! The file's tables, and how it is opened.

use crate::{Fold, StoreError};
use rusqlite::{Connection, OpenFlags};
use std::io::Read;
use std::path::Path;
use std::time::Duration;
use weir_measure::durations::Durations;

/// The schema that this version writes.
pub(crate) const VERSION: i64 = 1;
/// In the file's head, so that it can be told from other databases: `weir`.
const APPLICATION_ID: i64 = 0x7765_6972;
/// How long another process's write is waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of the log that are kept when it has been written back.
const LOG_BYTES: i64 = 4 << 20;

const TABLES: &str = "
create table setting (name text primary key, value text not null) without rowid;
create table series (
    id integer primary key, source text not null, class text not null, user text not null,
    unique (source, class, user)
);
create table minute (
    minute integer not null, series integer not null,
    good integer not null, aborted integer not null, failed integer not null, unknown integer not null,
    unfinished integer not null, blocked_ns integer not null, queued_ns integer not null, durations blob not null,
    primary key (minute, series)
) without rowid;
create table record (
    id integer primary key, at_ms integer not null, series integer not null, duration_ns integer not null,
    outcome integer not null, trace_high integer not null, trace_low integer not null, span integer not null,
    bytes integer not null, body text not null,
    unique (trace_high, trace_low, span)
);
create index record_at on record (at_ms);
create index record_span on record (span);
";

/// What every file of SQLite begins with.
const MAGIC: &[u8] = b"SQLite format 3\0";
/// Bytes of its head.
const HEAD_BYTES: u64 = 100;
/// Where its head has the mark of the program that it is of.
const MARK_AT: usize = 68;

/// Whether a store can be kept at a path: what is there is one of weir's, damaged or not, or nothing is.
///
/// # Errors
/// If it is something else, or its directory is not there.
pub fn check_store(path: &Path) -> Result<(), StoreError> {
    let failed = |source| StoreError::Directory { path: path.to_owned(), source };
    let found = match std::fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            // Directories of the path are made where they are not there, but not in place of a file.
            return match path.ancestors().skip(1).find(|folder| folder.exists()) {
                Some(file) if !file.is_dir() => Err(StoreError::NotAStore { path: file.to_owned() }),
                _ => Ok(()),
            };
        }
        Err(error) => return Err(failed(error)),
    };
    if !found.is_file() {
        return Err(StoreError::NotAStore { path: path.to_owned() });
    }
    let mut head = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(HEAD_BYTES).read_to_end(&mut head).map_err(failed)?;
    if head.is_empty() {
        return Ok(());
    }
    if !head.starts_with(MAGIC) {
        return Err(StoreError::NotAStore { path: path.to_owned() });
    }
    let mark = head.get(MARK_AT..MARK_AT + 4).and_then(|mark| Some(u32::from_be_bytes(mark.try_into().ok()?)));
    if mark.map(i64::from) == Some(APPLICATION_ID) {
        return Ok(());
    }
    // The mark may still be in the log beside the file. A file without tables is one that another process is making.
    match look(path) {
        Ok((_, Some(found))) => check(path, found),
        _ => Ok(()),
    }
}

/// Opens a store to write, and makes it if there is none.
pub(crate) fn open_to_write(path: &Path) -> Result<Connection, StoreError> {
    let sqlite = |error| StoreError::of(path, error);
    let mut connection = Connection::open(path).map_err(sqlite)?;
    connection.busy_timeout(PATIENCE).map_err(sqlite)?;
    if version(&connection).map_err(sqlite)?.is_none() {
        // Takes effect in a file without tables only.
        connection.execute_batch("pragma auto_vacuum = incremental").map_err(sqlite)?;
    }
    // Written once to a log, and to its place later: a write is whole or not there, whenever the process ends. Whether
    // the very last ones outlive a crash of the machine is not waited for.
    connection.execute_batch("pragma journal_mode = wal; pragma synchronous = normal;").map_err(sqlite)?;
    connection.execute_batch(&format!("pragma journal_size_limit = {LOG_BYTES}")).map_err(sqlite)?;
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(sqlite)?;
    match version(&transaction).map_err(sqlite)? {
        None => {
            let marks = format!("pragma application_id = {APPLICATION_ID}; pragma user_version = {VERSION};");
            transaction.execute_batch(TABLES).and_then(|()| transaction.execute_batch(&marks)).map_err(sqlite)?;
        }
        Some(found) => check(path, found)?,
    }
    transaction.commit().map_err(sqlite)?;
    Ok(connection)
}

/// Opens a store that is there, to read.
pub(crate) fn open_to_read(path: &Path) -> Result<Connection, StoreError> {
    let (connection, found) = look(path)?;
    check(path, found.unwrap_or(0))?;
    Ok(connection)
}

/// Opens a database to read, with its [version].
fn look(path: &Path) -> Result<(Connection, Option<i64>), StoreError> {
    let sqlite = |error| StoreError::of(path, error);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(sqlite)?;
    connection.busy_timeout(PATIENCE).map_err(sqlite)?;
    let found = version(&connection).map_err(sqlite)?;
    Ok((connection, found))
}

/// The file's schema; `None` of a new one, 0 of a database that is none of ours.
fn version(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    if number("application_id")? == APPLICATION_ID {
        return number("user_version").map(Some);
    }
    let tables: i64 = connection.query_row("select count(*) from sqlite_master", [], |row| row.get(0))?;
    Ok((tables > 0).then_some(0))
}

fn check(path: &Path, found: i64) -> Result<(), StoreError> {
    match found {
        VERSION => Ok(()),
        newer if newer > VERSION => Err(StoreError::Newer { path: path.to_owned(), found, known: VERSION }),
        _ => Err(StoreError::Foreign { path: path.to_owned() }),
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
