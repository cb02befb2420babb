//! What an engine does: keys with revisions, transactions that compare them, leases, and changes as they come.
//!
//! The operations of the directory are written once over this trait, so that all engines behave alike.

use crate::error::DirectoryError;
use crate::watch::Feed;
use std::time::Duration;

/// A key and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) value: Vec<u8>,
    /// The number of its last change.
    pub(crate) revision: u64,
    /// The lease that it ends with; 0 for none.
    pub(crate) lease: u64,
}

/// Which keys are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Span<'a> {
    /// One.
    Key(&'a str),
    /// All that begin so.
    Prefix(&'a str),
}

/// The condition of a transaction: the last change of a key, 0 where it must be absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Compare {
    pub(crate) key: String,
    pub(crate) revision: u64,
}

/// A change within a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Write {
    /// Puts a value, which ends with a lease where that is not 0.
    Put { key: String, value: Vec<u8>, lease: u64 },
    /// Takes a key, which must be there, away from its lease.
    Keep { key: String },
    /// Deletes a key.
    Delete { key: String },
    /// Deletes all keys that begin so.
    DeletePrefix { prefix: String },
}

/// Changes that are made together, where all conditions hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Transaction {
    pub(crate) compares: Vec<Compare>,
    pub(crate) writes: Vec<Write>,
}

/// What became of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Commit {
    /// It was carried out.
    Done,
    /// A condition does not hold, and nothing was carried out.
    Refused,
    /// A condition does not hold now, but the answer to an earlier try was lost, which may have been carried out: the
    /// caller looks for what it wrote, and must not try again where others may have written over it.
    Unclear,
    /// A key to be kept is not there.
    NotKept,
}

/// How an engine stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Health {
    pub(crate) can_agree: bool,
    pub(crate) leader: Option<String>,
    pub(crate) members: u32,
    pub(crate) revision: u64,
}

/// Where the directory is kept.
pub(crate) trait Engine: Send + Sync + 'static {
    /// What it is called in errors.
    fn name(&self) -> String;
    /// The entries of a span, by key, all as of one moment.
    fn read(&self, span: Span<'_>) -> Result<Vec<Entry>, DirectoryError>;
    /// Carries a transaction out, or nothing of it.
    fn commit(&self, transaction: &Transaction) -> Result<Commit, DirectoryError>;
    /// A lease that ends after this time unless it is renewed.
    fn grant(&self, ttl: Duration) -> Result<u64, DirectoryError>;
    /// Renews a lease; false where it has ended.
    fn renew(&self, lease: u64) -> Result<bool, DirectoryError>;
    /// Ends a lease, and deletes its keys. One that has ended is no error.
    fn revoke(&self, lease: u64) -> Result<(), DirectoryError>;
    /// Feeds all changes of keys with this prefix from now on, until the watch is dropped.
    fn follow(&self, prefix: &str, feed: Feed) -> Result<(), DirectoryError>;
    /// How it stands.
    fn health(&self) -> Result<Health, DirectoryError>;
}

impl Transaction {
    pub(crate) fn expect(mut self, key: &str, revision: u64) -> Self {
        self.compares.push(Compare { key: key.to_owned(), revision });
        self
    }

    pub(crate) fn put(self, key: &str, value: Vec<u8>) -> Self {
        self.put_leased(key, value, 0)
    }

    pub(crate) fn put_leased(mut self, key: &str, value: Vec<u8>, lease: u64) -> Self {
        self.writes.push(Write::Put { key: key.to_owned(), value, lease });
        self
    }

    pub(crate) fn delete(mut self, key: &str) -> Self {
        self.writes.push(Write::Delete { key: key.to_owned() });
        self
    }
}
