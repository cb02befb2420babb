//! Servers that follow each other at the same sockets: the newest one, and those before it that live on until their
//! tunnels end.
//!
//! Each server has a record in memory that a successor maps as well (`record.rs`), so that nothing has to pass between
//! the two processes while they are confined. The successor reads from it what is still under way there, and writes into
//! it what the former server is to do: keep its tunnels, end, or have its caches forget responses. A successor takes the
//! records of all former servers from its predecessor, so that the newest one knows them all.

mod message;
mod record;

use crate::http::limits::Timeouts;
use crate::telemetry::admin::former::{FormerReading, FormerServers, Told};
use record::{Record, Stage};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub(crate) use record::{Under, is_record};

/// Former servers that may live; the oldest one ends when there would be more.
const FORMER_MAX: usize = 128;
/// How long a purge waits until former servers have carried it out.
const PURGE_PATIENCE: Duration = Duration::from_secs(1);
/// How often that is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How long a former server may take to end beyond the time that it says.
const END_MARGIN: Duration = Duration::from_secs(2);

/// This server among those at its sockets.
#[derive(Debug)]
pub(crate) struct Succession {
    /// None if the system refuses the memory: no successor learns of this server's tunnels then, and it keeps them no
    /// longer than responses.
    own: Option<Record>,
    /// Those before this one, the oldest first.
    former: Mutex<Vec<Record>>,
}

impl Succession {
    /// A server with former ones, whose records these are.
    pub(crate) fn new(records: Vec<OwnedFd>) -> Self {
        let mut former: Vec<Record> = records.into_iter().filter_map(|file| Record::open(file).ok()).collect();
        former.retain(|record| record.pid().is_some());
        former.sort_by_key(Record::since_unix_ms);
        let more = former.len().saturating_sub(FORMER_MAX);
        former[..more].iter().for_each(Record::end);
        let own = Record::create().inspect_err(|error| tracing::warn!(%error, "no record for a successor")).ok();
        Self { own, former: Mutex::new(former) }
    }

    /// How long the server of this process keeps its tunnels once it is followed; none if it does not say.
    pub(crate) fn tunnels_kept(&self, pid: u32) -> Option<Duration> {
        self.former().iter().find(|record| record.pid() == Some(pid)).map(Record::tunnels_kept)
    }

    /// Says how long this server keeps what is under way.
    pub(crate) fn promise(&self, timeouts: &Timeouts) {
        self.own.iter().for_each(|own| own.promise(timeouts.tunnels_kept, timeouts.stop));
    }

    /// Tells the server of this process that it is followed, before it is asked to end.
    pub(crate) fn follow(&self, pid: u32) {
        self.former().iter().filter(|record| record.pid() == Some(pid)).for_each(Record::follow);
    }

    /// Whether another server follows this one, so that it keeps its tunnels.
    pub(crate) fn is_followed(&self) -> bool {
        self.own.as_ref().is_some_and(|own| own.stage() == Stage::Followed)
    }

    /// Whether a successor wants this server to end.
    pub(crate) fn must_end(&self) -> bool {
        self.own.as_ref().is_some_and(|own| own.stage() == Stage::Ending)
    }

    /// Says what is still under way in this server.
    pub(crate) fn note(&self, under: Under) {
        self.own.iter().for_each(|own| own.note(under));
    }

    /// Has former servers open their access logs again, as the file was renamed.
    pub(crate) fn open_logs_again(&self) {
        self.former().iter().for_each(Record::open_log_again);
    }

    /// How often this server was to open its access log again.
    pub(crate) fn log_openings(&self) -> u64 {
        self.own.as_ref().map_or(0, Record::log_openings)
    }

    /// What this server's caches are to forget, by words of a query; none in place of words that were overwritten, where
    /// they are to forget all. Each is to be answered by [`Self::purged`].
    pub(crate) fn next_purge(&self) -> Option<Option<String>> {
        self.own.as_ref()?.next_purge()
    }

    /// The caches have forgotten so many responses.
    pub(crate) fn purged(&self, responses: usize) {
        self.own.iter().for_each(|own| own.purged(responses as u64));
    }

    /// Has all former servers end; how many there are, and how long they may take.
    pub(crate) fn end_former(&self) -> (usize, Duration) {
        let mut former = self.former();
        former.retain(|record| record.pid().is_some());
        former.iter().for_each(Record::end);
        (former.len(), former.iter().map(Record::stop_time).max().unwrap_or_default())
    }

    /// Waits until all former servers are over, at most so long; how many are not.
    pub(crate) fn wait_for_former(&self, at_most: Duration) -> usize {
        let until = Instant::now() + at_most + END_MARGIN;
        loop {
            let left = self.former().iter().filter(|record| record.pid().is_some()).count();
            if left == 0 || Instant::now() >= until {
                return left;
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// What a lock guards is whole at every time, so that a thread that panicked left nothing half done.
    fn former(&self) -> MutexGuard<'_, Vec<Record>> {
        self.former.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FormerServers for Succession {
    fn readings(&self) -> Vec<FormerReading> {
        let mut former = self.former();
        former.retain(|record| record.pid().is_some());
        former.iter().filter_map(Record::reading).collect()
    }

    fn purge(&self, query: &str) -> Told {
        let mut former = self.former();
        former.retain(|record| record.pid().is_some());
        // A server that has no record yet as a former one is the one that serves: it was not followed.
        let told: Vec<(&Record, u64)> =
            former.iter().filter_map(|record| Some((record, record.ask_purge(query)?))).collect();
        let before: u64 = told.iter().map(|(record, _)| record.purged_count()).sum();
        let until = Instant::now() + PURGE_PATIENCE;
        let waits = |(record, number): &&(&Record, u64)| !record.has_purged(*number) && record.pid().is_some();
        while told.iter().any(|one| waits(&one)) && Instant::now() < until {
            std::thread::sleep(LOOK_EVERY);
        }
        let after: u64 = told.iter().map(|(record, _)| record.purged_count()).sum();
        Told {
            servers: told.len(),
            silent: told.iter().filter(waits).count(),
            purged: usize::try_from(after.saturating_sub(before)).unwrap_or(usize::MAX),
        }
    }
}
