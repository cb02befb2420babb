//! Follows the changes of the file, which its other users make, by polling.

use super::faults::fault;
use super::{schema, tables};
use crate::error::DirectoryError;
use crate::watch::Feed;
use rusqlite::{Connection, TransactionBehavior};
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Between two polls: `data_version` costs a microsecond, and says whether any other connection has written.
const PAUSE: Duration = Duration::from_millis(25);
/// Every so many polls it takes ended leases away, as their end is no write of any process.
const POLLS_PER_LEASES: u32 = 10;
/// Changes of one poll; the rest comes with the next.
const AT_ONCE: usize = 512;

/// What a watch knows of the file.
struct Follower {
    connection: Connection,
    prefix: String,
    /// The last revision whose changes were fed.
    fed: u64,
    /// What `data_version` said.
    seen: Option<i64>,
}

/// Follows in a thread of its own, until the watch is dropped.
pub(super) fn follow(path: &Path, patience: Duration, prefix: &str, feed: Feed) -> Result<(), DirectoryError> {
    let connection = schema::open(path, patience)?;
    let (fed, _) = tables::revisions(&connection).map_err(|error| fault(path, &error))?;
    let mut follower = Follower { connection, prefix: prefix.to_owned(), fed, seen: None };
    let work = move || {
        let mut polls = 0u32;
        while !feed.pause(PAUSE) {
            polls = polls.wrapping_add(1);
            let polled = follower.poll(&feed, polls.is_multiple_of(POLLS_PER_LEASES));
            feed.set_away(polled.is_err());
            if let Err(error) = polled {
                tracing::debug!(%error, "the directory's file cannot be followed");
            }
        }
    };
    let why = |error: std::io::Error| DirectoryError::File { path: path.to_owned(), why: error.to_string() };
    thread::Builder::new().name("weir-directory".to_owned()).spawn(work).map_err(why)?;
    Ok(())
}

impl Follower {
    fn poll(&mut self, feed: &Feed, takes_leases: bool) -> rusqlite::Result<()> {
        if takes_leases && !tables::ended(&self.connection)?.is_empty() {
            let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            for lease in tables::ended(&transaction)? {
                tables::revoke(&transaction, lease)?;
            }
            transaction.commit()?;
            // Our own write does not change what `data_version` says here.
            self.seen = None;
        }
        let version = self.connection.pragma_query_value(None, "data_version", |row| row.get::<_, i64>(0))?;
        if self.seen == Some(version) {
            return Ok(());
        }
        let transaction = self.connection.transaction()?;
        let (newest, forgotten) = tables::revisions(&transaction)?;
        if self.fed < forgotten {
            feed.lose();
            self.fed = newest;
        }
        let changes = tables::changes(&transaction, &self.prefix, self.fed, AT_ONCE)?;
        drop(transaction);
        if changes.len() == AT_ONCE {
            // Changes of one revision belong together: the last one may go on behind these.
            let last = changes.last().map_or(self.fed, |change| change.revision);
            let whole = changes.iter().filter(|change| change.revision < last).count();
            if whole == 0 {
                feed.lose();
                self.fed = last;
            }
            for change in changes.into_iter().take(whole) {
                self.fed = change.revision;
                feed.push(change);
            }
            return Ok(());
        }
        for change in changes {
            feed.push(change);
        }
        self.fed = newest;
        self.seen = Some(version);
        Ok(())
    }
}
