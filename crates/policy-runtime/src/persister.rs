//! The persister: keeps the recording, the environment database, and hands alerts on, for a server that can do neither.

mod job;
mod places;
mod report;

pub(crate) use job::PersisterJob;
pub use places::Places;
pub use report::{Failing, Report};

use crate::recording::Recording;
use crate::started::unix_ms;
use crate::views::VIEWS;
use serde_json::Value;
use std::io::{BufRead, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use weir_store::{Batch, Limits, Outcome, Record, Series, Store};

/// Bytes of a line from the pipe; the controller writes none that is longer.
const LINE_BYTES_MAX: u64 = 4 << 20;
/// From one write to the database to the next.
const WRITE_EVERY: Duration = Duration::from_secs(1);
/// From one look that is kept for good to the next; the latest is always there.
const KEEP_LOOK_EVERY_MS: u64 = 10_000;
/// Records that wait for the database; more are dropped and counted.
const RECORDS_MAX: usize = 16_384;
/// From one clearing of the database to the next.
const RETIRE_EVERY: Duration = Duration::from_secs(60);

/// The setting under which the latest look lies in the database.
pub const NOW: &str = "environment";
/// The class of the records that are looks, and of those that are decisions.
pub const LOOKS: &str = "look";
/// See [`LOOKS`].
pub const DECISIONS: &str = "decision";

/// Where alerts go.
pub trait Alerts {
    /// Takes one; it is delivered later, or lost.
    fn send(&mut self, alert: Value);
    /// How many were lost so far.
    fn lost(&self) -> u64;
    /// Why none can be delivered at the moment.
    fn failing(&self) -> Option<String>;
}

/// Does what the controller asks over `from` until that is closed, and reports changes of its state over `to`, a
/// non-blocking pipe. `tell` says what has gone wrong: once when it begins, once when it is over.
pub fn run(from: impl Read, mut to: impl Write, places: &Places, alerts: &mut dyn Alerts, mut tell: impl FnMut(&str)) {
    let mut from = std::io::BufReader::new(from);
    let mut recording = places.recording.as_deref().map(|path| Recording::new(path, places));
    let mut database = places.database.as_deref().map(|path| Database::new(path, places.limits));
    tracing::info!(recording = ?places.recording, database = ?places.database, "persister begins");
    let (mut line, mut lines_taken, mut reported) = (Vec::new(), 0, Report::default());
    loop {
        line.clear();
        match (&mut from).take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches('\n');
        let Some(job) = text.bytes().next().and_then(PersisterJob::of) else { continue };
        let text = &text[1..];
        let word = match (job, &mut recording, &mut database) {
            (PersisterJob::Header, Some(recording), _) => recording.header(text),
            (PersisterJob::Line, Some(recording), _) => {
                lines_taken += 1;
                recording.line(text, unix_ms())
            }
            (PersisterJob::Flush, Some(recording), _) => recording.flush(),
            (PersisterJob::Look | PersisterJob::Decision, _, Some(database)) => {
                database.put(job, text);
                None
            }
            (PersisterJob::Alert, ..) => {
                serde_json::from_str(text).map(|alert| alerts.send(alert)).unwrap_or_default();
                None
            }
            _ => None,
        };
        word.iter().for_each(|word| tell(word));
        database.as_mut().and_then(|database| database.write(false)).iter().for_each(|word| tell(word));
        if job == PersisterJob::Flush {
            report(&mut to, &mut reported, lines_taken, (&recording, &database), alerts);
        }
    }
    recording.as_mut().and_then(Recording::finish).iter().for_each(|word| tell(word));
    database.iter_mut().for_each(Database::keep_last);
    database.as_mut().and_then(|database| database.write(true)).iter().for_each(|word| tell(word));
    tracing::info!(lines_taken, "persister ends");
}

/// Tells the server how it stands, where that is something new: a pipe takes so little at once or not at all.
fn report(
    to: &mut impl Write,
    reported: &mut Report,
    lines_taken: u64,
    (recording, database): (&Option<Recording<'_>>, &Option<Database>),
    alerts: &dyn Alerts,
) {
    let of_recording = recording.as_ref().and_then(|one| Some(("recording", one.failing.clone()?)));
    let of_database = database.as_ref().and_then(|one| Some(("environment", one.failing.clone()?)));
    let of_webhook = alerts.failing().map(|why| ("webhook", why));
    let failing = [of_recording, of_database, of_webhook];
    let now = Report {
        lines_taken,
        lines_waiting: recording.as_ref().map_or(0, Recording::waiting),
        lines_lost: recording.as_ref().map_or(0, |recording| recording.lost),
        records_lost: database.as_ref().map_or(0, |database| database.dropped),
        alerts_lost: alerts.lost(),
        failing: failing.into_iter().flatten().map(|(what, why)| Failing::new(what, &why)).collect(),
    };
    // Texts and numbers have a form in JSON.
    let line = serde_json::to_string(&now).unwrap_or_default() + "\n";
    if now != *reported && to.write(line.as_bytes()).is_ok() {
        *reported = now;
    }
}

/// The environment database: looks and decisions as records, the latest look as a setting.
struct Database {
    path: PathBuf,
    limits: Limits,
    /// None before it could be opened.
    store: Option<Store>,
    /// Why nothing can be written at the moment.
    failing: Option<String>,
    /// Of no other run: when this one began.
    run: u64,
    number: u64,
    records: Vec<Record>,
    dropped: u64,
    now: Option<String>,
    kept_ms: u64,
    /// The latest look, where it is not kept for good.
    unkept: Option<(u64, String)>,
    written: Instant,
    retired: Option<Instant>,
}

impl Database {
    fn new(path: &Path, limits: Limits) -> Self {
        let (run, written) = (unix_ms(), Instant::now().checked_sub(WRITE_EVERY).unwrap_or_else(Instant::now));
        Self {
            path: path.to_owned(),
            limits,
            store: None,
            failing: None,
            run,
            number: 0,
            records: Vec::new(),
            dropped: 0,
            now: None,
            kept_ms: 0,
            unkept: None,
            written,
            retired: None,
        }
    }

    fn put(&mut self, job: PersisterJob, text: &str) {
        let at_ms = unix_ms();
        let class = if job == PersisterJob::Look {
            self.now = Some(text.to_owned());
            if at_ms < self.kept_ms + KEEP_LOOK_EVERY_MS {
                self.unkept = Some((at_ms, text.to_owned()));
                return;
            }
            (self.kept_ms, self.unkept) = (at_ms, None);
            LOOKS
        } else {
            DECISIONS
        };
        self.record(at_ms, class, text.to_owned());
    }

    /// The last look of a server is kept for good, whenever it comes.
    fn keep_last(&mut self) {
        if let Some((at_ms, text)) = self.unkept.take() {
            self.record(at_ms, LOOKS, text);
        }
    }

    fn record(&mut self, at_ms: u64, class: &str, body: String) {
        if self.records.len() >= RECORDS_MAX {
            self.dropped += 1;
            return;
        }
        self.number += 1;
        let series = Series { source: "adapt".to_owned(), class: class.to_owned(), user: String::new() };
        let (trace, span) = ([self.run, 0], self.number);
        self.records.push(Record { at_ms, series, duration_ns: 0, outcome: Outcome::Good, trace, span, body });
    }

    /// Writes what there is, where it is time to; a word when that begins to fail, and when it does not any more.
    fn write(&mut self, is_last: bool) -> Option<String> {
        if (self.records.is_empty() && self.now.is_none()) || (self.written.elapsed() < WRITE_EVERY && !is_last) {
            return None;
        }
        self.written = Instant::now();
        match self.try_to_write() {
            Ok(aside) => {
                let aside = aside.map(|aside| {
                    format!("the environment database was damaged; it is {} now, and a new one begins", aside.display())
                });
                let over = self.failing.take().map(|_| {
                    let path = self.path.display();
                    format!("the environment database {path} goes on; {} records were lost so far", self.dropped)
                });
                over.or(aside)
            }
            Err(error) => {
                let has_begun = self.failing.replace(error.to_string()).is_none();
                has_begun.then(|| format!("the environment database: {error}; it is tried again each second"))
            }
        }
    }

    /// All of it, or nothing; where a damaged database was moved to, if one was.
    fn try_to_write(&mut self) -> Result<Option<PathBuf>, weir_store::StoreError> {
        let mut aside = None;
        let store = match &mut self.store {
            Some(store) => store,
            none => {
                // Another process may have put something else there meanwhile.
                weir_store::check_store(&self.path)?;
                let (mut store, damaged) = Store::open_or_begin_anew(&self.path, self.limits)?;
                store.set_views(&VIEWS, unix_ms())?;
                aside = damaged;
                none.insert(store)
            }
        };
        let now = self.now.clone().map(|now| (NOW.to_owned(), now));
        let dropped = (self.dropped > 0).then(|| ("dropped".to_owned(), self.dropped.to_string()));
        let settings = now.into_iter().chain(dropped).collect();
        let batch = Batch { minutes: Vec::new(), records: std::mem::take(&mut self.records), settings };
        let now_ms = unix_ms();
        if let Err(error) = store.write(&batch, now_ms) {
            // They are written with those that come until the next time; what is there already by then is replaced.
            self.records = batch.records;
            if matches!(error, weir_store::StoreError::Full { .. }) && self.records.len() >= RECORDS_MAX {
                // So many may be too much for the file for ever.
                self.dropped += self.records.drain(..RECORDS_MAX / 2).len() as u64;
            }
            return Err(error);
        }
        self.now = None;
        if self.retired.is_none_or(|retired| retired.elapsed() >= RETIRE_EVERY) {
            self.retired = Some(Instant::now());
            store.retire(now_ms)?;
        }
        Ok(aside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_written_is_kept_for_the_next_time() {
        let folder = tempfile::tempdir().expect("a directory");
        let small = Limits { bytes: 1 << 16, ..Limits::default() };
        let mut database = Database::new(&folder.path().join("small.db"), small);
        database.put(PersisterJob::Look, "{}");
        (0..16).for_each(|_| database.put(PersisterJob::Decision, &"d".repeat(1 << 20)));
        assert!(database.write(true).is_some_and(|word| word.contains("no room")), "there is none");
        assert_eq!(database.write(true), None, "it was told");
        assert_eq!((database.records.len(), database.now.as_deref(), database.dropped), (17, Some("{}"), 0));
        (database.path, database.limits, database.store) = (folder.path().join("large.db"), Limits::default(), None);
        assert!(database.write(true).is_some_and(|word| word.contains("goes on")), "there is room");
        assert!(database.records.is_empty() && database.now.is_none() && database.failing.is_none());
    }
}
