//! The engine over one connection, which threads share.

use super::faults::{fault, name};
use super::{schema, tables, watching};
use crate::engine::{Commit, Engine, Entry, Health, Span, Transaction};
use crate::error::DirectoryError;
use crate::watch::Feed;
use rusqlite::{Connection, TransactionBehavior};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A directory in a file.
#[derive(Debug)]
pub(crate) struct Sqlite {
    path: PathBuf,
    patience: Duration,
    connection: Mutex<Connection>,
}

impl Sqlite {
    pub(crate) fn open(path: &Path, patience: Duration) -> Result<Self, DirectoryError> {
        let connection = Mutex::new(schema::open(path, patience)?);
        Ok(Self { path: path.to_owned(), patience, connection })
    }

    /// Does something within a transaction; ended leases are taken away first.
    fn within<T>(
        &self,
        behavior: TransactionBehavior,
        act: impl Fn(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, DirectoryError> {
        // A panic within a transaction has rolled it back.
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let attempt = |connection: &mut Connection, behavior| {
            let transaction = connection.transaction_with_behavior(behavior)?;
            let ended = tables::ended(&transaction)?;
            if !ended.is_empty() && matches!(behavior, TransactionBehavior::Deferred) {
                // Reading and then writing would fail where another process writes between.
                return Ok(None);
            }
            for lease in ended {
                tables::revoke(&transaction, lease)?;
            }
            let done = act(&transaction)?;
            transaction.commit()?;
            Ok(Some(done))
        };
        let done = match attempt(&mut connection, behavior) {
            Ok(None) => attempt(&mut connection, TransactionBehavior::Immediate),
            other => other,
        };
        match done {
            Ok(Some(done)) => Ok(done),
            // Not reached: a transaction for writing takes the ended leases away itself.
            Ok(None) => Err(fault(&self.path, &rusqlite::Error::InvalidQuery)),
            Err(error) => Err(fault(&self.path, &error)),
        }
    }

    fn write<T>(&self, act: impl Fn(&Connection) -> rusqlite::Result<T>) -> Result<T, DirectoryError> {
        self.within(TransactionBehavior::Immediate, act)
    }
}

impl Engine for Sqlite {
    fn name(&self) -> String {
        name(&self.path)
    }

    fn read(&self, span: Span<'_>) -> Result<Vec<Entry>, DirectoryError> {
        self.within(TransactionBehavior::Deferred, |connection| tables::read(connection, span))
    }

    fn commit(&self, transaction: &Transaction) -> Result<Commit, DirectoryError> {
        self.write(|connection| tables::commit(connection, transaction))
    }

    fn grant(&self, ttl: Duration) -> Result<u64, DirectoryError> {
        let ttl_ms = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX / 2);
        self.write(|connection| tables::grant(connection, ttl_ms))
    }

    fn renew(&self, lease: u64) -> Result<bool, DirectoryError> {
        self.write(|connection| tables::renew(connection, lease))
    }

    fn revoke(&self, lease: u64) -> Result<(), DirectoryError> {
        self.write(|connection| tables::revoke(connection, lease))
    }

    fn follow(&self, prefix: &str, feed: Feed) -> Result<(), DirectoryError> {
        watching::follow(&self.path, self.patience, prefix, feed)
    }

    fn health(&self) -> Result<Health, DirectoryError> {
        let (revision, _) = self.within(TransactionBehavior::Deferred, tables::revisions)?;
        Ok(Health { can_agree: true, leader: None, members: 1, revision })
    }
}
