//! What is read and written within a transaction of SQLite.

use super::clock;
use crate::engine::{Commit, Compare, Entry, Span, Transaction, Write};
use crate::keys;
use crate::watch::Change;
use rusqlite::{Connection, OptionalExtension, Result, params};

/// Changes that are kept for watches; one that is further behind reads anew.
pub(super) const CHANGES_KEPT: u64 = 10_000;

/// The entries of a span.
pub(super) fn read(connection: &Connection, span: Span<'_>) -> Result<Vec<Entry>> {
    let entry = |row: &rusqlite::Row<'_>| {
        Ok(Entry { key: row.get(0)?, value: row.get(1)?, revision: row.get(2)?, lease: row.get(3)? })
    };
    match span {
        Span::Key(key) => {
            let mut statement = connection.prepare("select key, value, revision, lease from entries where key = ?1")?;
            statement.query_map([key], entry)?.collect()
        }
        Span::Prefix(prefix) => {
            let sql = "select key, value, revision, lease from entries where key >= ?1 and key < ?2 order by key";
            let mut statement = connection.prepare(sql)?;
            statement.query_map([prefix, &end(prefix)], entry)?.collect()
        }
    }
}

/// Carries a transaction out, within one that is open for writing.
pub(super) fn commit(connection: &Connection, transaction: &Transaction) -> Result<Commit> {
    for Compare { key, revision } in &transaction.compares {
        if revision_of(connection, key)?.unwrap_or(0) != *revision {
            return Ok(Commit::Refused);
        }
    }
    for write in &transaction.writes {
        if let Write::Keep { key } = write
            && revision_of(connection, key)?.is_none()
        {
            return Ok(Commit::NotKept);
        }
    }
    let revision = next_revision(connection)?;
    for write in &transaction.writes {
        carry_out(connection, write, revision)?;
    }
    forget(connection, revision)?;
    Ok(Commit::Done)
}

fn carry_out(connection: &Connection, write: &Write, revision: u64) -> Result<()> {
    match write {
        Write::Put { key, value, lease } => {
            let sql = "insert into entries (key, value, revision, lease) values (?1, ?2, ?3, ?4) on conflict (key) do \
                       update set value = excluded.value, revision = excluded.revision, lease = excluded.lease";
            connection.execute(sql, params![key, value, revision, lease])?;
            note(connection, revision, key, false)
        }
        Write::Keep { key } => {
            connection.execute("update entries set lease = 0, revision = ?2 where key = ?1", params![key, revision])?;
            note(connection, revision, key, false)
        }
        Write::Delete { key } => delete(connection, revision, std::slice::from_ref(key)),
        Write::DeletePrefix { prefix } => {
            let mut statement = connection.prepare("select key from entries where key >= ?1 and key < ?2")?;
            let keys: Vec<String> =
                statement.query_map([prefix, &end(prefix)], |row| row.get(0))?.collect::<Result<_>>()?;
            delete(connection, revision, &keys)
        }
    }
}

fn delete(connection: &Connection, revision: u64, keys: &[String]) -> Result<()> {
    for key in keys {
        if connection.execute("delete from entries where key = ?1", [key])? > 0 {
            note(connection, revision, key, true)?;
        }
    }
    Ok(())
}

fn note(connection: &Connection, revision: u64, key: &str, is_gone: bool) -> Result<()> {
    let sql = "insert into changes (revision, key, is_gone) values (?1, ?2, ?3)";
    connection.execute(sql, params![revision, key, is_gone]).map(|_| ())
}

/// Keeps the table of changes within its bound.
fn forget(connection: &Connection, revision: u64) -> Result<()> {
    let Some(last) = revision.checked_sub(CHANGES_KEPT).filter(|last| *last > 0) else { return Ok(()) };
    connection.execute("delete from changes where revision <= ?1", [last])?;
    connection.execute("update state set forgotten = ?1", [last]).map(|_| ())
}

fn revision_of(connection: &Connection, key: &str) -> Result<Option<u64>> {
    connection.query_row("select revision from entries where key = ?1", [key], |row| row.get(0)).optional()
}

fn next_revision(connection: &Connection) -> Result<u64> {
    connection.query_row("update state set newest = newest + 1 returning newest", [], |row| row.get(0))
}

/// The number of the newest change, and of the last one that is forgotten.
pub(super) fn revisions(connection: &Connection) -> Result<(u64, u64)> {
    connection.query_row("select newest, forgotten from state", [], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Changes of a prefix behind a revision, the oldest first, at most so many.
pub(super) fn changes(connection: &Connection, prefix: &str, after: u64, most: usize) -> Result<Vec<Change>> {
    let sql = "select key, revision, is_gone from changes where revision > ?1 and key >= ?2 and key < ?3 order by \
               revision, id limit ?4";
    let mut statement = connection.prepare(sql)?;
    let change = |row: &rusqlite::Row<'_>| Ok(Change { key: row.get(0)?, revision: row.get(1)?, is_gone: row.get(2)? });
    statement.query_map(params![after, prefix, end(prefix), most], change)?.collect()
}

/// Enters a lease.
pub(super) fn grant(connection: &Connection, ttl_ms: i64) -> Result<u64> {
    let sql = "insert into leases (boot, until_ms, ttl_ms) values (?1, ?2, ?3) returning id";
    connection.query_row(sql, params![clock::boot(), clock::now_ms() + ttl_ms, ttl_ms], |row| row.get(0))
}

/// Renews a lease that has not ended; whether there was one.
pub(super) fn renew(connection: &Connection, lease: u64) -> Result<bool> {
    let sql = "update leases set until_ms = ?2 + ttl_ms where id = ?1 and boot = ?3 and until_ms > ?2";
    Ok(connection.execute(sql, params![lease, clock::now_ms(), clock::boot()])? > 0)
}

/// Ends a lease with its keys.
pub(super) fn revoke(connection: &Connection, lease: u64) -> Result<()> {
    if connection.execute("delete from leases where id = ?1", [lease])? == 0 {
        return Ok(());
    }
    let mut statement = connection.prepare("select key from entries where lease = ?1 and lease != 0")?;
    let keys: Vec<String> = statement.query_map([lease], |row| row.get(0))?.collect::<Result<_>>()?;
    if !keys.is_empty() {
        let revision = next_revision(connection)?;
        delete(connection, revision, &keys)?;
        forget(connection, revision)?;
    }
    Ok(())
}

/// Leases whose time is over.
pub(super) fn ended(connection: &Connection) -> Result<Vec<u64>> {
    let mut statement = connection.prepare("select id from leases where boot != ?1 or until_ms <= ?2")?;
    statement.query_map(params![clock::boot(), clock::now_ms()], |row| row.get(0))?.collect()
}

/// Keys are ASCII, so the end of their prefix is a text, but for the empty prefix: no key is behind this one.
fn end(prefix: &str) -> String {
    keys::end_of(prefix).and_then(|end| String::from_utf8(end).ok()).unwrap_or_else(|| "\u{10ffff}".to_owned())
}
