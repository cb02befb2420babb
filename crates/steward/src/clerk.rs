//! The clerk: keeps the recording, the environment database, and hands alerts on, for a server that can do neither.

use crate::errands::Errand;
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weir_store::{Batch, Limits, Outcome, Record, Series, Store};

/// Bytes of a line from the pipe; a longer one is none of ours.
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

/// Where things are kept.
#[derive(Debug, Clone)]
pub struct Places {
    /// The recording that `weir replay` reads.
    pub recording: Option<PathBuf>,
    /// Bytes of a file of it; then another one is begun.
    pub recording_bytes_max: u64,
    /// Files of it that are kept beside the one that is written.
    pub recording_keep: u32,
    /// The environment database.
    pub database: Option<PathBuf>,
    /// Its bounds.
    pub limits: Limits,
}

/// Does what is asked over `from` until it is closed. `alert` hands on, `tell` says what has gone wrong, once for each
/// kind of failure.
pub fn run(from: impl Read, places: &Places, mut alert: impl FnMut(Value), mut tell: impl FnMut(&str)) {
    let mut from = std::io::BufReader::new(from);
    let mut recording = places.recording.as_deref().map(|path| Recording::new(path, places));
    let mut database = places.database.as_deref().and_then(|path| match Database::open(path, places.limits) {
        Ok(database) => Some(database),
        Err(error) => {
            tell(&format!("the environment database: {error}"));
            None
        }
    });
    let (mut line, mut has_failed) = (Vec::new(), false);
    loop {
        line.clear();
        match (&mut from).take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches('\n');
        let Some(errand) = text.bytes().next().and_then(Errand::of) else { continue };
        let text = &text[1..];
        let kept = match errand {
            Errand::Header => recording.as_mut().map_or(Ok(()), |recording| recording.header(text)),
            Errand::Line => recording.as_mut().map_or(Ok(()), |recording| recording.line(text)),
            Errand::Flush => recording.as_mut().map_or(Ok(()), Recording::flush),
            Errand::Look | Errand::Decision => {
                if let Some(database) = &mut database {
                    database.put(errand, text);
                }
                Ok(())
            }
            Errand::Alert => {
                serde_json::from_str(text).map(&mut alert).unwrap_or_default();
                Ok(())
            }
        };
        if let Err(error) = kept {
            let path = places.recording.as_deref().unwrap_or(Path::new("")).display();
            tell(&format!("the recording {path}: {error}; it ends here"));
            recording = None;
        }
        match database.as_mut().map(|database| database.write(false)) {
            Some(Err(error)) if !std::mem::replace(&mut has_failed, true) => {
                tell(&format!("the environment database: {error}; it is tried again each second"));
            }
            Some(Ok(())) => has_failed = false,
            _ => {}
        }
    }
    if let Some(Err(error)) = recording.as_mut().map(Recording::flush) {
        tell(&format!("the recording: {error}"));
    }
    if let Some(Err(error)) = database.as_mut().map(|database| database.write(true)) {
        tell(&format!("the environment database: {error}"));
    }
}

/// A recording within bounds: `FILE` becomes `FILE.1`, that `FILE.2`, and so on.
struct Recording<'p> {
    path: &'p Path,
    places: &'p Places,
    header: String,
    file: Option<BufWriter<File>>,
    bytes: u64,
}

impl<'p> Recording<'p> {
    fn new(path: &'p Path, places: &'p Places) -> Self {
        Self { path, places, header: String::new(), file: None, bytes: 0 }
    }

    /// What was recorded before is another recording.
    fn header(&mut self, header: &str) -> std::io::Result<()> {
        header.clone_into(&mut self.header);
        self.turn()
    }

    fn line(&mut self, line: &str) -> std::io::Result<()> {
        if self.bytes > self.places.recording_bytes_max {
            self.turn()?;
        }
        self.put(line)
    }

    fn turn(&mut self) -> std::io::Result<()> {
        self.flush()?;
        self.file = None;
        if self.path.metadata().is_ok_and(|metadata| metadata.len() > 0) {
            let numbered = |number: u32| {
                let mut name = self.path.as_os_str().to_owned();
                name.push(format!(".{number}"));
                PathBuf::from(name)
            };
            let keep = self.places.recording_keep;
            for number in (1..keep).rev() {
                // What is not there yet is no loss.
                let _ = std::fs::rename(numbered(number), numbered(number + 1));
            }
            if keep > 0 {
                std::fs::rename(self.path, numbered(1))?;
            }
        }
        use std::os::unix::fs::OpenOptionsExt;
        let file = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(self.path)?;
        (self.file, self.bytes) = (Some(BufWriter::new(file)), 0);
        let header = self.header.clone();
        self.put(&header)
    }

    fn put(&mut self, line: &str) -> std::io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        self.bytes += line.len() as u64 + 1;
        file.write_all(line.as_bytes())?;
        file.write_all(b"\n")
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.as_mut().map_or(Ok(()), BufWriter::flush)
    }
}

/// The environment database: looks and decisions as records, the latest look as a setting.
struct Database {
    store: Store,
    /// Of no other run: when this one began.
    run: u64,
    number: u64,
    records: Vec<Record>,
    dropped: u64,
    now: Option<String>,
    kept_ms: u64,
    written: Instant,
    retired: Option<Instant>,
}

impl Database {
    fn open(path: &Path, limits: Limits) -> Result<Self, weir_store::StoreError> {
        let (store, _) = Store::open_or_begin_anew(path, limits)?;
        let (run, written) = (unix_ms(), Instant::now());
        let (records, now) = (Vec::new(), None);
        Ok(Self { store, run, number: 0, records, dropped: 0, now, kept_ms: 0, written, retired: None })
    }

    fn put(&mut self, errand: Errand, text: &str) {
        let at_ms = unix_ms();
        let class = if errand == Errand::Look {
            self.now = Some(text.to_owned());
            if at_ms < self.kept_ms + KEEP_LOOK_EVERY_MS {
                return;
            }
            self.kept_ms = at_ms;
            LOOKS
        } else {
            DECISIONS
        };
        if self.records.len() >= RECORDS_MAX {
            self.dropped += 1;
            return;
        }
        self.number += 1;
        let series = Series { source: "adapt".to_owned(), class: class.to_owned(), user: String::new() };
        let (trace, span) = ([self.run, 0], self.number);
        self.records.push(Record {
            at_ms,
            series,
            duration_ns: 0,
            outcome: Outcome::Good,
            trace,
            span,
            body: text.to_owned(),
        });
    }

    fn write(&mut self, is_last: bool) -> Result<(), weir_store::StoreError> {
        if (self.records.is_empty() && self.now.is_none()) || (self.written.elapsed() < WRITE_EVERY && !is_last) {
            return Ok(());
        }
        self.written = Instant::now();
        let now = self.now.clone().map(|now| (NOW.to_owned(), now));
        let dropped = (self.dropped > 0).then(|| ("dropped".to_owned(), self.dropped.to_string()));
        let settings = now.into_iter().chain(dropped).collect();
        let batch = Batch { minutes: Vec::new(), records: std::mem::take(&mut self.records), settings };
        let now_ms = unix_ms();
        if let Err(error) = self.store.write(&batch, now_ms) {
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
            self.store.retire(now_ms)?;
        }
        Ok(())
    }
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_written_is_kept_for_the_next_time() {
        let folder = tempfile::tempdir().expect("a directory");
        let small = Limits { bytes: 1 << 16, ..Limits::default() };
        let mut database = Database::open(&folder.path().join("small.db"), small).expect("opens");
        database.put(Errand::Look, "{}");
        (0..16).for_each(|_| database.put(Errand::Decision, &"d".repeat(1 << 20)));
        database.write(true).expect_err("there is no room");
        assert_eq!((database.records.len(), database.now.as_deref(), database.dropped), (17, Some("{}"), 0));
        let path = folder.path().join("large.db");
        (database.store, _) = Store::open_or_begin_anew(&path, Limits::default()).expect("opens");
        database.write(true).expect("there is room");
        assert!(database.records.is_empty() && database.now.is_none());
    }
}
