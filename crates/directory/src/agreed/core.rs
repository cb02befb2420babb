//! What all operations share: reads that fall back on what is known, changes, and records in JSON.

use super::memory::Memory;
use crate::engine::{Commit, Engine, Entry, Span, Transaction};
use crate::error::DirectoryError;
use crate::known::Known;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::{Duration, Instant, SystemTime};

/// Tries of a change that others cut across.
pub(super) const TRIES: u32 = 16;
/// The shortest and the longest time to live.
const TTL: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(86_400));

/// A directory over an engine.
#[derive(Debug)]
pub(crate) struct Agreed<E> {
    pub(super) engine: E,
    pub(super) memory: Memory,
}

impl<E: Engine> Agreed<E> {
    pub(crate) fn new(engine: E) -> Self {
        Self { engine, memory: Memory::default() }
    }

    /// Reads a span; where the engine is away, what it answered last.
    pub(super) fn known(&self, span: Span<'_>) -> Result<Known<Vec<Entry>>, DirectoryError> {
        let remembered = || self.memory.recall(span).map(|(value, since)| Known::Stale { value, since });
        if self.memory.rests()
            && let Some(known) = remembered()
        {
            return Ok(known);
        }
        match self.fresh(span) {
            Ok(entries) => Ok(Known::Fresh(entries)),
            Err(error) if error.is_away() => remembered().ok_or(error),
            Err(error) => Err(error),
        }
    }

    /// Reads a key; where the engine is away, what it answered last.
    pub(super) fn known_one(&self, key: &str) -> Result<Known<Option<Entry>>, DirectoryError> {
        self.known(Span::Key(key))?.try_map(|mut entries| Ok(entries.pop()))
    }

    /// Reads a span from the engine.
    pub(super) fn fresh(&self, span: Span<'_>) -> Result<Vec<Entry>, DirectoryError> {
        let asked = Instant::now();
        let read = self.noted(|| self.engine.read(span))?;
        self.memory.learn(span, &read, asked);
        Ok(read)
    }

    /// Reads a key from the engine.
    pub(super) fn fresh_one(&self, key: &str) -> Result<Option<Entry>, DirectoryError> {
        Ok(self.fresh(Span::Key(key))?.pop())
    }

    pub(super) fn commit(&self, transaction: &Transaction) -> Result<Commit, DirectoryError> {
        self.noted(|| self.engine.commit(transaction))
    }

    /// What is told where a change may have been carried out before others changed the same.
    pub(super) fn unsure(&self) -> DirectoryError {
        let why = "the answer to a first try was lost, and others have changed the same since".to_owned();
        DirectoryError::Unsure { engine: self.engine.name(), why }
    }

    pub(super) fn grant(&self, ttl: Duration) -> Result<u64, DirectoryError> {
        check_ttl(ttl)?;
        self.noted(|| self.engine.grant(ttl))
    }

    pub(super) fn renew_lease(&self, lease: u64) -> Result<bool, DirectoryError> {
        self.noted(|| self.engine.renew(lease))
    }

    /// Ends a lease that is of no use any more; where that fails, it ends by itself.
    pub(super) fn drop_lease(&self, lease: u64) {
        if let Err(error) = self.engine.revoke(lease) {
            tracing::debug!(%error, "a lease is left to end by itself");
        }
    }

    /// Asks the engine, and notes whether it answered.
    fn noted<T>(&self, ask: impl FnOnce() -> Result<T, DirectoryError>) -> Result<T, DirectoryError> {
        let begun = Instant::now();
        let result = ask();
        match &result {
            Err(error) if error.is_away() => self.memory.note_away(begun.elapsed()),
            _ => self.memory.note_there(),
        }
        result
    }
}

/// Refuses a time to live that cannot be used.
pub(super) fn check_ttl(ttl: Duration) -> Result<(), DirectoryError> {
    if ttl < TTL.0 || ttl > TTL.1 {
        return Err(DirectoryError::TimeToLive { ms: ttl.as_millis() });
    }
    Ok(())
}

/// The record in an entry.
pub(super) fn record<T: DeserializeOwned>(entry: &Entry) -> Result<T, DirectoryError> {
    serde_json::from_slice(&entry.value)
        .map_err(|error| DirectoryError::Damaged { what: format!("the entry {}", entry.key), why: error.to_string() })
}

/// The record in an entry that may be absent.
pub(super) fn record_of<T: DeserializeOwned>(entry: Option<&Entry>) -> Result<Option<T>, DirectoryError> {
    entry.map(record).transpose()
}

/// The last change of an entry, 0 where it is absent.
pub(super) fn revision(entry: Option<&Entry>) -> u64 {
    entry.map_or(0, |entry| entry.revision)
}

/// A record as it is stored. All records have keys that are texts, and no numbers that JSON does not know.
pub(super) fn text<T: Serialize>(record: &T) -> Vec<u8> {
    serde_json::to_vec(record).unwrap_or_default()
}

/// What distinguishes one change from all others.
pub(super) fn nonce() -> String {
    format!("{:032x}", fastrand::u128(..))
}

pub(super) fn now_unix_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
