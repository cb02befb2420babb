//! The loads that run now below the console's directories, and those that ended while it was open.

use crate::now::{FILE_BYTES_MAX, HEAD_BYTES_MAX, Head, NOW_FILE, Now, NowError, Told, parse, parse_head};
use crate::refusal::Refusal;
use crate::runs::{Place, is_whole, places};
use serde::Serialize;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Error, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weir_trace::Running;

/// How long what was found below the directories holds, at least.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Looking takes at most one part of so many of the time, however many folders there are.
const LOOK_SHARE: u32 = 20;
/// A load that wrote nothing for so long is silent.
const SILENT_AFTER_MS: u64 = 3_000;
/// A load of which it cannot be told whether it runs is listed for so long after it last wrote.
const NOT_KNOWN_MS: u64 = 10_000;

/// Whether a load runs, by what it says and by its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    Running,
    Ending,
    Ended,
    Interrupted,
    Failed,
    /// It never said that it ended, and its process is gone.
    Lost,
    /// It says that it runs; whether it does cannot be told from here.
    NotKnown,
}

impl State {
    fn of(head: &Head) -> Self {
        match (head.state, head.state.is_under_way().then(|| head.process.running())) {
            (_, Some(Running::No)) => Self::Lost,
            (_, Some(Running::NotKnown)) => Self::NotKnown,
            (Told::Running, _) => Self::Running,
            (Told::Ending, _) => Self::Ending,
            (Told::Ended, _) => Self::Ended,
            (Told::Interrupted, _) => Self::Interrupted,
            (Told::Failed, _) => Self::Failed,
        }
    }

    fn is_under_way(self) -> bool {
        matches!(self, Self::Running | Self::Ending)
    }
}

/// Finds the loads.
#[derive(Debug)]
pub(crate) struct Loads {
    directories: Vec<PathBuf>,
    begin_unix_ms: u64,
    found: Mutex<Option<Found>>,
}

/// What was found below the directories.
#[derive(Debug)]
struct Found {
    at: Instant,
    took: Duration,
    runs: Arc<Vec<Place>>,
    is_cut: bool,
}

impl Loads {
    pub(crate) fn new(directories: Vec<PathBuf>) -> Self {
        Self { directories, begin_unix_ms: unix_ms(), found: Mutex::default() }
    }

    /// Loads that run now, and those that ended since the console began, the latest first.
    pub(crate) fn told(&self) -> Value {
        let (runs, is_cut) = self.runs();
        let now_ms = unix_ms();
        let mut loads: Vec<(u64, Value)> = Vec::new();
        let mut unreadable = Vec::new();
        for place in runs.iter() {
            match head_of(&place.directory) {
                Ok(Some(head)) => {
                    let state = State::of(&head);
                    let is_shown = match state {
                        state if state.is_under_way() => true,
                        State::NotKnown => head.told_unix_ms.saturating_add(NOT_KNOWN_MS) >= now_ms,
                        _ => head.told_unix_ms >= self.begin_unix_ms,
                    };
                    if is_shown {
                        loads.push((head.begin_unix_ms, described(place, &head, state, now_ms)));
                    }
                }
                Ok(None) => {}
                Err(error) => unreadable.push(json!({ "run": place.run, "error": words(&error) })),
            }
        }
        loads.sort_by_key(|(begin, _)| std::cmp::Reverse(*begin));
        let loads: Vec<Value> = loads.into_iter().map(|(_, load)| load).collect();
        json!({ "loads": loads, "unreadable": unreadable, "is_cut": is_cut })
    }

    /// One load, with its intervals.
    pub(crate) fn load(&self, run: &str) -> Result<Value, Refusal> {
        let place = self.place(run).ok_or_else(|| Refusal::NoRun(run.chars().take(200).collect()))?;
        let refused = |error: &NowError| Refusal::NoLoad(words(error));
        let Now { head, points } = match whole_of(&place.directory).map_err(|error| refused(&error))? {
            Some(now) => now,
            None => return Err(Refusal::NoLoad(format!("the run {run:?} has no {NOW_FILE}: no load tells there"))),
        };
        let mut told = described(&place, &head, State::of(&head), unix_ms());
        told["points"] = json!(points);
        told["latest"] = latest_of(&place.directory);
        Ok(told)
    }

    /// Whether a load writes to a run now.
    pub(crate) fn runs_in(directory: &Path) -> bool {
        running_load(directory).is_some()
    }

    fn place(&self, run: &str) -> Option<Place> {
        self.runs().0.iter().find(|place| place.run == run).cloned()
    }

    fn runs(&self) -> (Arc<Vec<Place>>, bool) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = |found: &&mut Found| found.at.elapsed() < LOOK_EVERY.max(found.took * LOOK_SHARE);
        if let Some(found) = found.as_mut().filter(is_fresh) {
            return (Arc::clone(&found.runs), found.is_cut);
        }
        let begin = Instant::now();
        // A directory that went shows as one without runs.
        let places = places(&self.directories).unwrap_or_default();
        let runs = Arc::new(places.runs);
        let told = (Arc::clone(&runs), places.is_cut);
        *found = Some(Found { at: Instant::now(), took: begin.elapsed(), runs, is_cut: places.is_cut });
        told
    }
}

/// Where the time of the latest requests went, as the client's own record tells; null where there is none yet.
fn latest_of(directory: &Path) -> Value {
    // A run whose first block is not written yet has nothing to tell, which is no error.
    let Ok(latest) = weir_explain::latest(directory) else { return Value::Null };
    let Some(means) = latest.phases.means_ns() else { return Value::Null };
    let parts: serde_json::Map<String, Value> =
        means.iter().map(|(name, ns)| ((*name).to_owned(), json!(ns))).collect();
    let response_ns: f64 = means.iter().map(|(_, ns)| ns).sum();
    json!({
        "responses": latest.phases.responses,
        "span_ns": latest.span_ns,
        "response_ns": response_ns,
        "parts_ns": parts,
    })
}

fn described(place: &Place, head: &Head, state: State, now_ms: u64) -> Value {
    let mut told = json!(head);
    told["run"] = place.run.as_str().into();
    told["state"] = json!(state);
    let silent_ms = now_ms.saturating_sub(head.told_unix_ms);
    let is_silent = state.is_under_way() && silent_ms > SILENT_AFTER_MS;
    told["silent_s"] = json!(is_silent.then_some(silent_ms / 1000));
    // Its last events may still be on their way to the disk.
    told["is_recorded"] = (!state.is_under_way() && is_whole(&place.directory)).into();
    told
}

/// The process of a load that tells in a run's directory what it does now, if one runs.
#[must_use]
pub fn running_load(directory: &Path) -> Option<u32> {
    let head = head_of(directory).ok()??;
    State::of(&head).is_under_way().then_some(head.process.pid)
}

/// The first line of a run's file; `None` where there is none.
fn head_of(directory: &Path) -> Result<Option<Head>, NowError> {
    let Some(file) = opened(directory)? else { return Ok(None) };
    let mut line = Vec::new();
    BufReader::new(file.take(HEAD_BYTES_MAX)).read_until(b'\n', &mut line)?;
    parse_head(&line).map(Some)
}

fn whole_of(directory: &Path) -> Result<Option<Now>, NowError> {
    let Some(file) = opened(directory)? else { return Ok(None) };
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(NowError::TooMuch("more bytes"));
    }
    parse(&bytes).map(Some)
}

/// A file, and nothing that a reader would wait for.
fn opened(directory: &Path) -> Result<Option<File>, NowError> {
    let path = directory.join(NOW_FILE);
    match std::fs::symlink_metadata(&path) {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => return Err(Error::other("it is no file").into()),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    match File::open(&path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn words(error: &NowError) -> String {
    format!("{NOW_FILE}: {error}")
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
