//! The tables of the file, and how it is opened.

use super::faults::{fault, name};
use crate::error::DirectoryError;
use rusqlite::{Connection, Error, ErrorCode};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// "weid", in the head of the file.
const APPLICATION_ID: i64 = 0x7765_6964;
/// Of the tables below.
const VERSION: i64 = 1;

/// Between two tries to open a file that another process makes.
const PAUSE: Duration = Duration::from_millis(5);

/// Bytes of the log beside the file that are kept when it was emptied.
const LOG_BYTES: u64 = 4 << 20;

/// `newest` is the number of the last change, `forgotten` the last one that `changes` no longer has.
const TABLES: &str = "
create table state (newest integer not null, forgotten integer not null);
insert into state values (0, 0);
create table entries (key text primary key, value blob not null, revision integer not null, lease integer not null)
    without rowid;
create index entries_by_lease on entries (lease) where lease != 0;
create table leases (id integer primary key autoincrement, boot text not null, until_ms integer not null,
    ttl_ms integer not null);
create table changes (id integer primary key, revision integer not null, key text not null, is_gone integer not null);
create index changes_by_revision on changes (revision);
";

/// Opens the file, and makes it where it is missing.
pub(super) fn open(path: &Path, patience: Duration) -> Result<Connection, DirectoryError> {
    let file = |error: std::io::Error| DirectoryError::File {
        path: path.to_owned(),
        why: format!("{error}; its folder must exist and be writable for this user"),
    };
    // SQLite would make it readable for all. A file that is there is not opened: closing it would end the locks of all
    // connections that this process has to it (fcntl(2)), and another process would remove the log that they read.
    match OpenOptions::new().create_new(true).write(true).mode(0o600).open(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(file(error)),
        _ => {}
    }
    let sqlite = |error: Error| fault(path, &error);
    let mut connection = Connection::open(path).map_err(sqlite)?;
    connection.busy_timeout(patience).map_err(sqlite)?;
    let until = Instant::now() + patience;
    // SQLite itself does not wait while another process makes the file, if it is the kind of journal that changes.
    while let Err(error) = connection.execute_batch("pragma journal_mode = wal") {
        if error.sqlite_error_code() != Some(ErrorCode::DatabaseBusy) || Instant::now() >= until {
            return Err(sqlite(error));
        }
        std::thread::sleep(PAUSE);
    }
    // full: what is acknowledged survives the loss of power.
    connection.execute_batch("pragma synchronous = full").map_err(sqlite)?;
    connection.execute_batch(&format!("pragma journal_size_limit = {LOG_BYTES}")).map_err(sqlite)?;
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(sqlite)?;
    let number = |name: &str| transaction.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).map_err(sqlite);
    let tables = "select count(*) from sqlite_schema";
    let tables: i64 = transaction.query_row(tables, [], |row| row.get(0)).map_err(sqlite)?;
    match (number("application_id")?, number("user_version")?, tables) {
        (APPLICATION_ID, VERSION, _) => {}
        // Nothing was ever written.
        (0, 0, 0) => {
            transaction.execute_batch(TABLES).map_err(sqlite)?;
            let marks = format!("pragma application_id = {APPLICATION_ID}; pragma user_version = {VERSION};");
            transaction.execute_batch(&marks).map_err(sqlite)?;
        }
        (APPLICATION_ID, version, _) => {
            let why = format!("it has version {version}, this weir knows {VERSION}");
            return Err(DirectoryError::Damaged { what: name(path), why });
        }
        _ => {
            let why = "it is a database of another program; name another file".to_owned();
            return Err(DirectoryError::Damaged { what: name(path), why });
        }
    }
    transaction.commit().map_err(sqlite)?;
    Ok(connection)
}
