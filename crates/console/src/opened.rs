//! A run that is open: what was read of it, and how far reading is.
//!
//! Reading has three steps: the explanation, the tiles, the tables. What a step made is there at once, while the next
//! one goes on. Only [`Opened::begin`] starts work, so that a call by GET changes nothing.

use crate::figures::{self, Explained};
use crate::refusal::{ReadingError, Refusal};
use crate::runs::Listed;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use weir_query::{MISSING_ARRIVALS, Progress, Queries, QueryError};
use weir_tiles::{OpenError, Places, RunTiles};
use weir_trace::RunReader;

/// So long may the answer to a question take once its tables are there.
pub(crate) const MOST_ASKING: Duration = Duration::from_secs(30);

/// What is done for a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub(crate) enum State {
    /// It waits until another run is read.
    Waiting,
    /// It is read.
    Reading {
        /// `answer`, `chart` or `requests`.
        step: &'static str,
        /// Events that this step has read; 0 where it does not tell.
        events: u64,
    },
    /// All is there.
    Open,
    /// It cannot be read.
    Failed {
        /// Why.
        error: String,
    },
}

/// A run and what was read of it.
#[derive(Debug)]
pub(crate) struct Opened {
    name: String,
    directory: PathBuf,
    state: Mutex<State>,
    begin: Instant,
    /// Bytes of its manifest when reading began.
    manifest_bytes: u64,
    answer: OnceLock<Explained>,
    tiles: OnceLock<Mutex<RunTiles>>,
    tables: OnceLock<Mutex<Queries>>,
    first: OnceLock<First>,
    watched: Arc<Watched>,
}

/// When the first request was intended.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct First {
    /// Nanoseconds from the begin of the run.
    #[serde(rename = "first_at_ns")]
    pub(crate) at_ns: i64,
    /// Milliseconds since 1970; none where the run does not tell the time of day.
    #[serde(rename = "first_unix_ms")]
    pub(crate) unix_ms: Option<i64>,
}

/// What a question that is being answered looks at.
#[derive(Debug)]
struct Watched {
    begin: Instant,
    /// Milliseconds from `begin` after which an answer is stopped.
    until_ms: AtomicU64,
    events: AtomicU64,
    stop: Arc<AtomicBool>,
}

impl Watched {
    fn goes_on(&self, progress: Progress) -> bool {
        let in_time = match progress {
            Progress::Reading { events } => {
                self.events.store(events, Ordering::Relaxed);
                true
            }
            Progress::Asking { .. } => {
                self.begin.elapsed().as_millis() <= u128::from(self.until_ms.load(Ordering::Relaxed))
            }
        };
        in_time && !self.stop.load(Ordering::Relaxed)
    }
}

impl Opened {
    /// Begins to read a run, in a thread of its own; one run is read at a time (`turn`).
    pub(crate) fn begin(listed: &Listed, turn: &Arc<Mutex<()>>, stop: &Arc<AtomicBool>) -> Arc<Self> {
        let watched = Watched {
            begin: Instant::now(),
            until_ms: AtomicU64::new(u64::MAX),
            events: AtomicU64::new(0),
            stop: Arc::clone(stop),
        };
        let opened = Arc::new(Self {
            name: listed.run.clone(),
            directory: listed.directory.clone(),
            state: Mutex::new(State::Waiting),
            begin: Instant::now(),
            manifest_bytes: manifest_bytes(&listed.directory),
            answer: OnceLock::new(),
            tiles: OnceLock::new(),
            tables: OnceLock::new(),
            first: OnceLock::new(),
            watched: Arc::new(watched),
        });
        let (reading, turn) = (Arc::clone(&opened), Arc::clone(turn));
        let thread = std::thread::Builder::new().name("weir-console".to_owned()).spawn(move || {
            let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
            let state = match reading.read() {
                Ok(()) => State::Open,
                Err(error) => State::Failed { error: error.to_string() },
            };
            reading.set(state);
        });
        if let Err(error) = thread {
            opened.set(State::Failed { error: format!("cannot start a thread: {error}") });
        }
        opened
    }

    fn read(&self) -> Result<(), ReadingError> {
        let run = self.directory.as_path();
        self.set(State::Reading { step: "answer", events: 0 });
        let fingerprint = fingerprint(run)?;
        let explained = figures::explained(run, &self.name, fingerprint)?;
        let _first = self.answer.set(explained);
        self.set(State::Reading { step: "chart", events: 0 });
        let _first = self.tiles.set(Mutex::new(self.tiles_of(run)?));
        self.set(State::Reading { step: "requests", events: 0 });
        let (tables, first) = self.tables_of(run)?;
        let _first = self.first.set(first);
        let _first = self.tables.set(Mutex::new(tables));
        Ok(())
    }

    fn tiles_of(&self, run: &Path) -> Result<RunTiles, OpenError> {
        let misses_arrivals = |rung: &str| MISSING_ARRIVALS.contains(&rung);
        RunTiles::open(run, misses_arrivals, &mut |events| {
            self.set(State::Reading { step: "chart", events });
            !self.watched.stop.load(Ordering::Relaxed)
        })
    }

    /// The tables of requests and their parts, made if they were not kept, and when the first request was intended.
    fn tables_of(&self, run: &Path) -> Result<(Queries, First), QueryError> {
        let watched = Arc::clone(&self.watched);
        let mut tables = Queries::open(run, Arc::new(move |progress| watched.goes_on(progress)))?;
        let first = tables.rows("SELECT min(at_ns), (SELECT min(begin_unix_ns) FROM run) FROM requests")?;
        // A question to the parts makes their table, if that of the requests has not.
        tables.rows("SELECT 1 FROM parts LIMIT 1")?;
        let told = |column: usize| first.first()?.get(column)?.parse::<i64>().ok();
        let at_ns = told(0).unwrap_or(0);
        let unix_ms = told(1).map(|begin_ns| begin_ns.saturating_add(at_ns) / 1_000_000);
        let first = First { at_ns, unix_ms };
        Ok((tables, first))
    }

    fn set(&self, state: State) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    /// What is done.
    pub(crate) fn state(&self) -> State {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match state {
            State::Reading { step: "requests", .. } => {
                State::Reading { step: "requests", events: self.watched.events.load(Ordering::Relaxed) }
            }
            state => state,
        }
    }

    /// The state and what is there, as JSON.
    pub(crate) fn told(&self) -> serde_json::Value {
        let mut told = serde_json::to_value(self.state()).unwrap_or_default();
        told["run"] = self.name.as_str().into();
        told["open_ms"] = u64::try_from(self.begin.elapsed().as_millis()).unwrap_or(u64::MAX).into();
        told["has"] = serde_json::json!({
            "answer": self.answer.get().is_some(),
            "chart": self.tiles.get().is_some(),
            "requests": self.tables.get().is_some(),
        });
        told
    }

    /// Whether it is still read.
    pub(crate) fn is_at_work(&self) -> bool {
        matches!(self.state(), State::Waiting | State::Reading { .. })
    }

    /// Whether the run went on after reading began: a source has completed a segment, or ended.
    pub(crate) fn is_outdated(&self) -> bool {
        manifest_bytes(&self.directory) != self.manifest_bytes
    }

    fn missing(&self) -> Refusal {
        match self.state() {
            State::Failed { error } => Refusal::Failed(error),
            _ => Refusal::Reading,
        }
    }

    /// The explanation.
    pub(crate) fn answer(&self) -> Result<&Explained, Refusal> {
        self.answer.get().ok_or_else(|| self.missing())
    }

    /// When the first request was intended.
    pub(crate) fn first(&self) -> Result<First, Refusal> {
        self.first.get().copied().ok_or_else(|| self.missing())
    }

    /// The tiles.
    pub(crate) fn tiles(&self) -> Result<MutexGuard<'_, RunTiles>, Refusal> {
        let tiles = self.tiles.get().ok_or_else(|| self.missing())?;
        // A call that failed has changed nothing that the next one needs.
        Ok(tiles.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Asks the tables; an answer that takes too long is stopped.
    pub(crate) fn ask<T>(&self, ask: impl FnOnce(&mut Queries) -> Result<T, QueryError>) -> Result<T, Refusal> {
        let tables = self.tables.get().ok_or_else(|| self.missing())?;
        let mut tables = tables.lock().unwrap_or_else(PoisonError::into_inner);
        let until = self.watched.begin.elapsed() + MOST_ASKING;
        self.watched.until_ms.store(u64::try_from(until.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
        ask(&mut tables).map_err(|error| match error {
            QueryError::Stopped => Refusal::TooLong { seconds: MOST_ASKING.as_secs() },
            error => Refusal::Question(error),
        })
    }
}

/// What tells the contents of a run from all others.
fn manifest_bytes(run: &Path) -> u64 {
    run.join("manifest.jsonl").metadata().map_or(0, |metadata| metadata.len())
}

fn fingerprint(run: &Path) -> Result<u64, ReadingError> {
    Ok(Places::of(&RunReader::open(run)?)?.fingerprint())
}
