//! The tiles of a run: kept ones from their files, finer ones from the segments.

use crate::build::{Whole, build, tile_ns};
use crate::exact::Collecting;
use crate::files::{WAITS, states_file, tile_file, write};
use crate::follow::{Doing, Follow, Sink};
use crate::locks::{Sweeps, Waited};
use crate::objects::ObjectChart;
use crate::place::Places;
use crate::tile::{Filling, lane_of};
use crate::{OpenError, TileError};
use serde::Deserialize;
use std::collections::VecDeque;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use weir_objects::Table;
use weir_trace::{RunReader, Source};
use weir_wire::Kind;
use weir_wire::client::ClientRequest;
use weir_wire::socket::{END_OF_STREAM, ERROR};

/// Raised when tiles change their meaning: kept ones of before are then made anew.
const VERSION: u32 = 5;
/// Bytes of finer tiles that are kept in memory.
const CACHE_BYTES: usize = 64 << 20;
/// A part file that a process still writes is younger.
const PART_IS_OLD: Duration = Duration::from_secs(86_400);
/// A request is looked for so long after a window in which it may have begun, nanoseconds.
const LONGEST_LOOK_NS: u64 = 10_000_000_000;

/// A tile in memory, by level and number.
type Cached = ((i32, u64), Arc<[u8]>);

/// The tiles of a run.
#[derive(Debug)]
pub struct RunTiles {
    run: PathBuf,
    /// The objects, once they were asked for.
    objects: Option<ObjectChart>,
    /// What events mean for these.
    rules: Table,
    directory: PathBuf,
    whole: Whole,
    whole_json: Vec<u8>,
    places: Places,
    /// Waits for locks, by their begin.
    waits: Vec<Waited>,
    cache: VecDeque<Cached>,
    cached_bytes: usize,
    /// Where tiles go if the run's own directory is not to be written; removed in the end.
    _temporary: Option<TempDir>,
}

impl RunTiles {
    /// Opens the tiles of a run; where they were not kept, or the run has changed, it is read once.
    ///
    /// They are kept in the folder `derived` of the run, or only for now where that cannot be written.
    /// `misses_arrivals` is asked whether a recording on the rung of this name leaves arrivals untold, as the joiner
    /// must know ([`weir_timeline::Joiner::supply_arrivals`]). `go_on` is told from time to time how many records were
    /// read, and ends it by false.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(
        run: &Path,
        misses_arrivals: impl Fn(&str) -> bool,
        go_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Self, OpenError> {
        let reader = RunReader::open(run)?;
        let places = Places::of(&reader)?;
        let name = format!("view-{VERSION}-{:016x}", places.fingerprint());
        let derived = run.join("derived");
        let kept = derived.join(&name);
        let known = fs::read(kept.join(WHOLE)).ok().and_then(|json| Some((serde_json::from_slice(&json).ok()?, json)));
        if let Some((whole, whole_json)) = known {
            return Ok(Self::of((run, kept), whole, whole_json, places, None));
        }
        let _may_be_read_only = fs::create_dir(&derived);
        let temporary =
            tempfile::Builder::new().prefix("view-part-").tempdir_in(&derived).or_else(|_| tempfile::tempdir());
        let temporary = temporary.map_err(|source| OpenError::Write { path: derived.clone(), source })?;
        let untold_arrivals = reader.rung().is_some_and(misses_arrivals);
        let whole = build(&reader, &places, untold_arrivals, temporary.path(), go_on)?;
        let whole_json = serde_json::to_vec(&whole).unwrap_or_default();
        write(&temporary.path().join(WHOLE), &whole_json)?;
        forget_others(&derived, &name);
        if temporary.path().parent() == Some(&derived) && fs::rename(temporary.path(), &kept).is_ok() {
            // What was moved is not there any more to be removed.
            let _moved = temporary.keep();
            return Ok(Self::of((run, kept), whole, whole_json, places, None));
        }
        Ok(Self::of((run, temporary.path().to_owned()), whole, whole_json, places, Some(temporary)))
    }

    fn of(
        (run, directory): (&Path, PathBuf),
        whole: Whole,
        whole_json: Vec<u8>,
        places: Places,
        temporary: Option<TempDir>,
    ) -> Self {
        let cache = VecDeque::new();
        // Without the file the lanes of locks are as the coarser tiles tell them.
        let waits = fs::read(directory.join(WAITS)).ok().and_then(|json| serde_json::from_slice(&json).ok());
        let waits = waits.unwrap_or_default();
        Self {
            run: run.to_owned(),
            objects: None,
            rules: Table::ours(),
            directory,
            whole,
            whole_json,
            places,
            waits,
            cache,
            cached_bytes: 0,
            _temporary: temporary,
        }
    }

    /// What is known of the whole run, as JSON: its tasks, classes, slowest requests, and the numbers of its tiles.
    #[must_use]
    pub fn whole_json(&self) -> &[u8] {
        &self.whole_json
    }

    /// Finds the objects by these rules in place of our own.
    #[must_use]
    pub fn with_rules(mut self, rules: Table) -> Self {
        self.rules = rules;
        self.objects = None;
        self
    }

    /// The objects of the run; the first time the run is read once more, and they stay in memory.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn objects(&mut self) -> Result<&ObjectChart, OpenError> {
        let chart = match self.objects.take() {
            Some(chart) => chart,
            None => ObjectChart::open(&self.run, self.rules.clone(), &mut |_| true)?,
        };
        Ok(self.objects.insert(chart))
    }

    /// A tile as JSON: `exact` in it tells whether it holds single events or buckets.
    ///
    /// # Errors
    /// [`TileError`].
    pub fn tile(&mut self, level: i32, index: u64) -> Result<Arc<[u8]>, TileError> {
        if let Some((_, json)) = self.cache.iter().find(|(key, _)| *key == (level, index)) {
            return Ok(Arc::clone(json));
        }
        let json: Arc<[u8]> = match usize::try_from(level) {
            Ok(kept) if self.whole.tiles.get(kept).is_some_and(|tiles| index < *tiles) => {
                let path = self.directory.join(tile_file(level, index));
                fs::read(&path).map_err(|source| TileError::Kept { path, source })?.into()
            }
            Ok(_) => return Err(TileError::Missing { level, index }),
            Err(_) => self.finer(level, index)?.into(),
        };
        self.cached_bytes += json.len();
        self.cache.push_back(((level, index), Arc::clone(&json)));
        while self.cached_bytes > CACHE_BYTES && self.cache.len() > 1 {
            self.cached_bytes -= self.cache.pop_front().map_or(0, |(_, json)| json.len());
        }
        Ok(json)
    }

    /// A tile below level 0, from the segments.
    fn finer(&self, level: i32, index: u64) -> Result<Vec<u8>, TileError> {
        let missing = || TileError::Missing { level, index };
        let whole = &self.whole;
        let shift = level.unsigned_abs().checked_mul(2).ok_or_else(missing)?;
        let bucket_ns = whole.bucket_ns.checked_shr(shift).filter(|ns| *ns > 0).ok_or_else(missing)?;
        let offset_ns =
            index.checked_mul(tile_ns(bucket_ns)).filter(|ns| *ns < whole.duration_ns).ok_or_else(missing)?;
        let (from_ns, to_ns) = (whole.origin_ns + offset_ns, whole.origin_ns + offset_ns + tile_ns(bucket_ns));
        let above = offset_ns / tile_ns(whole.bucket_ns);
        let bucket = (offset_ns - above * tile_ns(whole.bucket_ns)) / whole.bucket_ns;
        let start_ns = whole.origin_ns + above * tile_ns(whole.bucket_ns) + bucket * whole.bucket_ns;
        let mut follow = self.states_at(above, bucket as u16, start_ns)?;
        let mut both = Both { filling: Filling::new(from_ns, bucket_ns), exact: Collecting::new(from_ns, to_ns) };
        let clients_to_ns = to_ns.saturating_add(whole.longest_ns.min(LONGEST_LOOK_NS));
        self.places.window(start_ns, to_ns, clients_to_ns)?.each(|sourced| {
            let record = &sourced.record;
            if record.time_ns < start_ns {
                return true;
            }
            if sourced.source != Source::Kernel {
                if let Some(request) = ClientRequest::read(record, sourced.payload) {
                    both.filling.request(request.done_ns, request.done_ns.saturating_sub(request.intended_ns));
                    let name = sourced.name(request.name).map_or("(unnamed)", |name| name);
                    both.exact.request(&request, record.lane, name);
                }
                return record.time_ns <= clients_to_ns;
            }
            if record.time_ns >= to_ns {
                return true;
            }
            let verb = match Kind::from_code(record.kind) {
                Some(Kind::SocketRecv) => 1,
                Some(Kind::SocketSend) => 2,
                _ => 0,
            };
            if verb > 0
                && record.flags & (ERROR | END_OF_STREAM) == 0
                && let Some(pid) = follow.current(record.lane)
            {
                both.exact.touch(record.time_ns, pid, verb, record.a_halves().0);
            }
            follow.push(record, &mut both);
            true
        });
        follow.flush(to_ns.min(whole.origin_ns + whole.duration_ns), &mut both);
        let (from, to) = (offset_ns, offset_ns + tile_ns(bucket_ns));
        let waits = self.waits.iter().take_while(|one| one.from_ns < to).filter(|one| one.to_ns > from);
        let waits: Vec<Waited> = waits.copied().collect();
        waits.iter().for_each(|one| both.exact.wait(one, whole.origin_ns));
        Sweeps::replay(&waits, whole.origin_ns, to_ns, &mut both.filling);
        // Numbers and names always have a JSON form.
        Ok(match both.exact.finish(level, index) {
            Some(exact) => serde_json::to_vec(&exact).unwrap_or_default(),
            None => both.filling.finish().json(level, index),
        })
    }

    /// What every task did and every CPU had at the begin of a bucket of level 0.
    fn states_at(&self, tile: u64, bucket: u16, at_ns: u64) -> Result<Follow, TileError> {
        #[derive(Deserialize)]
        struct Lanes {
            cpus: Vec<Vec<u64>>,
            tasks: Vec<Vec<u64>>,
        }
        let read = |name: String| {
            let path = self.directory.join(name);
            fs::read(&path).map_err(|source| TileError::Kept { path, source })
        };
        let kept = |path: String, error: serde_json::Error| TileError::Kept {
            path: self.directory.join(path),
            source: std::io::Error::new(ErrorKind::InvalidData, error),
        };
        let states: Vec<(u32, u32)> =
            serde_json::from_slice(&read(states_file(tile))?).map_err(|error| kept(states_file(tile), error))?;
        let lanes: Lanes =
            serde_json::from_slice(&read(tile_file(0, tile))?).map_err(|error| kept(tile_file(0, tile), error))?;
        let mut tasks: rustc_hash::FxHashMap<u32, u32> = states.into_iter().collect();
        for (pid, lane) in lanes.tasks.iter().filter_map(|flat| lane_of(flat)) {
            tasks.insert(pid, lane.at(bucket));
        }
        let cpus = lanes.cpus.iter().filter_map(|flat| lane_of(flat)).map(|(cpu, lane)| (cpu, lane.at(bucket)));
        Ok(Follow::from_states(at_ns, tasks.into_iter().map(|(pid, code)| (pid, Doing::of_code(code))), cpus))
    }
}

/// Fills a tile in buckets and, as long as it has room, one of single events.
struct Both {
    filling: Filling,
    exact: Collecting,
}

impl Sink for Both {
    fn cpu(&mut self, cpu: u32, pid: u32, from_ns: u64, to_ns: u64) {
        self.filling.cpu(cpu, pid, from_ns, to_ns);
        self.exact.cpu(cpu, pid, from_ns, to_ns);
    }

    fn task(&mut self, pid: u32, doing: Doing, from_ns: u64, to_ns: u64, waker: u32) {
        self.filling.task(pid, doing, from_ns, to_ns, waker);
        self.exact.task(pid, doing, from_ns, to_ns, waker);
    }
}

const WHOLE: &str = "whole.json";
/// Removes what was kept of other contents of the run.
fn forget_others(derived: &Path, name: &str) {
    for entry in fs::read_dir(derived).into_iter().flatten().flatten() {
        let other = entry.file_name();
        let other = other.to_string_lossy();
        // A part that was not written to for a day is one whose writer was killed.
        let age = entry.metadata().and_then(|data| data.modified()).ok().and_then(|at| at.elapsed().ok());
        let at_work = other.starts_with("view-part-") && age.is_none_or(|age| age < PART_IS_OLD);
        if other.starts_with("view-") && !at_work && other != name {
            // It is of no use any more, and of no harm where it cannot be removed.
            let _left = fs::remove_dir_all(entry.path());
        }
    }
}
