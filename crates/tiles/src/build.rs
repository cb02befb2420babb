//! One pass over a run: level 0, the levels above it, and what a view wants to know of the whole.

use crate::follow::{Doing, Follow, Sink};
use crate::locks::{LockFollow, LockLine};
use crate::place::Places;
use crate::requests::{Class, Slow, Slowest};
use crate::tile::{BUCKETS, FINER, Filling, Tile};
use crate::{OpenError, files};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use weir_timeline::{Bounds, Joiner, Remarks, Response, Unjoinable};
use weir_trace::{Entry, RunReader, Source};
use weir_wire::client::ClientRequest;
use weir_wire::{Kind, text_from_slots};

/// Level 0 has at most so many buckets, in so many tiles.
const MOST_BUCKETS: u64 = 1 << 18;
/// Buckets of level 0 are at least so wide, nanoseconds.
const LEAST_BUCKET_NS: u64 = 1 << 12;
/// Tasks that are listed.
const MOST_TASKS: usize = 1 << 16;
/// Levels above 0: so many that the highest has one tile.
const MOST_LEVELS: usize = 8;
/// Records between two looks at whether to go on.
const LOOK: u64 = 1 << 16;

/// What is known of the whole run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Whole {
    /// The recorded host, its kernel and its CPUs, in a line.
    pub(crate) host: String,
    /// The first event, CLOCK_MONOTONIC nanoseconds; all other times count from it.
    pub(crate) origin_ns: u64,
    /// The real time of it, nanoseconds since 1970; 0 where it is not known.
    pub(crate) realtime_ns: u64,
    /// From the first event to the last.
    pub(crate) duration_ns: u64,
    /// Width of a bucket of level 0.
    pub(crate) bucket_ns: u64,
    /// Tiles of each level from 0 up.
    pub(crate) tiles: Vec<u64>,
    pub(crate) cpus: Vec<u32>,
    pub(crate) tasks: Vec<TaskLine>,
    /// Locks that were waited for: those with a known holder first, then by the time that was waited.
    pub(crate) locks: Vec<LockLine>,
    /// Waits for locks that are not told one by one.
    pub(crate) waits_left_out: u64,
    /// Requests that were answered.
    pub(crate) requests: u64,
    pub(crate) longest_ns: u64,
    /// The slowest, slowest first.
    pub(crate) slowest: Vec<Slow>,
    pub(crate) classes: BTreeMap<String, Class>,
    /// What the server told of itself, in the order of time.
    pub(crate) remarks: Vec<RemarkLine>,
    pub(crate) remarks_left_out: u64,
    pub(crate) events: u64,
    pub(crate) lost: u64,
    /// Tasks or events that found no room.
    pub(crate) left_out: u64,
    /// What could not be read, in words.
    pub(crate) damage: Vec<String>,
}

/// Something that the server told, such as a decision of its rules.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RemarkLine {
    /// From the origin.
    pub(crate) at_ns: u64,
    pub(crate) sort: String,
    pub(crate) text: String,
}

/// A task of the run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct TaskLine {
    pub(crate) pid: u32,
    pub(crate) tgid: u32,
    pub(crate) name: String,
    /// It belongs to the traced server.
    pub(crate) traced: bool,
    pub(crate) run_ns: u64,
    pub(crate) ready_ns: u64,
    /// When it was first and last seen to do anything, from the origin.
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
}

/// What is filled while a run is read.
struct Building {
    filling: Filling,
    tasks: FxHashMap<u32, TaskLine>,
    origin_ns: u64,
    left_out: u64,
}

impl Building {
    /// Takes a response that only the server's sockets told of.
    fn response(&mut self, response: &Response<'_>) {
        if response.unjoinable != Some(Unjoinable::Edge) {
            self.filling.request(response.request.done_ns, response.time_ns());
        }
    }

    fn line(&mut self, pid: u32) -> Option<&mut TaskLine> {
        if self.tasks.len() >= MOST_TASKS && !self.tasks.contains_key(&pid) {
            self.left_out += 1;
            return None;
        }
        Some(self.tasks.entry(pid).or_insert_with(|| TaskLine { pid, first_ns: u64::MAX, ..TaskLine::default() }))
    }
}

impl Sink for Building {
    fn cpu(&mut self, cpu: u32, pid: u32, from_ns: u64, to_ns: u64) {
        self.filling.cpu(cpu, pid, from_ns, to_ns);
    }

    fn task(&mut self, pid: u32, doing: Doing, from_ns: u64, to_ns: u64, waker: u32) {
        self.filling.task(pid, doing, from_ns, to_ns, waker);
        let origin_ns = self.origin_ns;
        let Some(line) = self.line(pid) else { return };
        match doing {
            Doing::Running(_) => line.run_ns += to_ns - from_ns,
            Doing::Ready => line.ready_ns += to_ns - from_ns,
            Doing::Blocked(_) | Doing::Unknown => return,
        }
        line.first_ns = line.first_ns.min(from_ns.saturating_sub(origin_ns));
        line.last_ns = line.last_ns.max(to_ns.saturating_sub(origin_ns));
    }
}

/// Level 0 and above, written as they become complete.
struct Levels<'a> {
    directory: &'a Path,
    /// For each level the tiles that wait for their fellows, and how many were written.
    waiting: Vec<(Vec<Tile>, u64)>,
}

impl Levels<'_> {
    fn push(&mut self, level: usize, tile: Tile) -> Result<(), OpenError> {
        if self.waiting.len() <= level {
            self.waiting.push((Vec::new(), 0));
        }
        let (waiting, written) = &mut self.waiting[level];
        files::write(
            &self.directory.join(files::tile_file(level as i32, *written)),
            &tile.json(level as i32, *written),
        )?;
        *written += 1;
        waiting.push(tile);
        if waiting.len() == FINER as usize && level < MOST_LEVELS { self.join(level) } else { Ok(()) }
    }

    fn join(&mut self, level: usize) -> Result<(), OpenError> {
        let tiles = std::mem::take(&mut self.waiting[level].0);
        let joined = Tile::joined([0, 1, 2, 3].map(|index| tiles.get(index)));
        self.push(level + 1, joined)
    }

    /// Completes the levels; how many tiles each has.
    fn finish(mut self) -> Result<Vec<u64>, OpenError> {
        let mut level = 0;
        while level < self.waiting.len() {
            if self.waiting[level].1 > 1 && !self.waiting[level].0.is_empty() {
                self.join(level)?;
            }
            level += 1;
        }
        Ok(self.waiting.into_iter().map(|(_, written)| written).collect())
    }
}

/// Reads the whole run and writes its tiles into a directory. `untold_arrivals`: the recording's rung does not tell of
/// every arrival. `go_on` is told of the records read so far.
pub(crate) fn build(
    reader: &RunReader,
    places: &Places,
    untold_arrivals: bool,
    directory: &Path,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> Result<Whole, OpenError> {
    let (origin_ns, end_ns) = places.span_ns().ok_or_else(|| OpenError::Empty(reader.directory().to_owned()))?;
    let duration_ns = (end_ns - origin_ns).saturating_add(1);
    let bucket_ns = duration_ns.div_ceil(MOST_BUCKETS).next_power_of_two().max(LEAST_BUCKET_NS);
    let mut levels = Levels { directory, waiting: Vec::new() };
    let mut building =
        Building { filling: Filling::new(origin_ns, bucket_ns), tasks: FxHashMap::default(), origin_ns, left_out: 0 };
    // Where no client has told of its requests, the server's sockets do.
    let served = !places.hold_clients();
    let mut joiner = if served { Joiner::of_server(Bounds::default(), &[]) } else { Joiner::new(Bounds::default()) };
    if untold_arrivals {
        joiner.supply_arrivals();
    }
    let (mut follow, mut slowest) = (Follow::default(), Slowest::default());
    let (mut locks, mut remarks) = (LockFollow::new(origin_ns), Remarks::default());
    let (mut events, mut written, mut outcome) = (0u64, 0u64, Ok(()));
    files::write(&directory.join(files::states_file(0)), b"[]")?;
    let mut merge = reader.merge();
    merge.each(|sourced| {
        let record = &sourced.record;
        // Outside of the span that the heads of the blocks told, only damage lies.
        if record.time_ns < origin_ns || record.time_ns > end_ns {
            return true;
        }
        while record.time_ns >= building.filling.end_ns() {
            let next_ns = building.filling.end_ns();
            follow.flush(next_ns, &mut building);
            locks.flush(next_ns, &mut building.filling);
            let full = std::mem::replace(&mut building.filling, Filling::new(next_ns, bucket_ns));
            written += 1;
            outcome = levels.push(0, full.finish()).and_then(|()| {
                let states: Vec<(u32, u32)> = follow.states().map(|(pid, doing)| (pid, doing.code())).collect();
                let json = serde_json::to_vec(&states).unwrap_or_default();
                files::write(&directory.join(files::states_file(written)), &json)
            });
            if outcome.is_err() {
                return false;
            }
        }
        let request = ClientRequest::read(record, sourced.payload);
        if let Some(request) = &request {
            building.filling.request(request.done_ns, request.done_ns.saturating_sub(request.intended_ns));
        }
        let told = [Kind::ProbeHit as u16, Kind::ProbeText as u16].contains(&record.kind).then_some(record.b as u32);
        let name = request.map(|request| request.name).or(told).and_then(|name| sourced.name(name));
        remarks.push(record, name.map(|name| &**name));
        joiner.push(record, sourced.payload, name, &mut |joiner, response| {
            slowest.push(joiner, response, origin_ns);
            if served {
                building.response(response);
            }
        });
        if sourced.source == Source::Kernel {
            follow.push(record, &mut building);
            let (tasks, filling) = (&building.tasks, &mut building.filling);
            locks.push(record, sourced.payload, |pid| tasks.get(&pid).map_or(0, |line| line.tgid), filling);
            if record.kind == Kind::TaskName as u16 {
                let (pid, tgid) = record.a_halves();
                if let Some(line) = building.line(pid) {
                    line.name = text_from_slots(sourced.payload);
                    line.tgid = tgid;
                    line.traced = record.flags & 1 != 0;
                }
            }
        }
        events += 1;
        if events.is_multiple_of(LOOK) && !go_on(events) {
            outcome = Err(OpenError::Stopped);
        }
        outcome.is_ok()
    });
    outcome?;
    joiner.finish(&mut |joiner, response| {
        slowest.push(joiner, response, origin_ns);
        if served {
            building.response(response);
        }
    });
    follow.flush(end_ns + 1, &mut building);
    let name_of = |pid: u32| building.tasks.get(&pid).map_or_else(|| format!("task {pid}"), |line| line.name.clone());
    let (locks, waits, waits_left_out) = locks.finish(end_ns + 1, name_of, &mut building.filling);
    files::write(&directory.join(files::WAITS), &serde_json::to_vec(&waits).unwrap_or_default())?;
    let last = building.filling.finish();
    let cpus = last.cpus.keys().copied().collect();
    levels.push(0, last)?;
    let damage = merge.damage();
    let mut words = damage.refused.clone();
    if damage.bytes > 0 || damage.cut_segments > 0 {
        words.push(format!(
            "{} segments end in the middle of a block, {} bytes were not readable",
            damage.cut_segments, damage.bytes
        ));
    }
    let (requests, longest_ns) = (slowest.count, slowest.longest_ns);
    let (slowest, classes) = slowest.finish();
    let remark = |one: weir_timeline::Remark| RemarkLine {
        at_ns: one.at_ns.saturating_sub(origin_ns),
        sort: one.sort,
        text: one.text,
    };
    let remarks_left_out = remarks.left_out;
    let mut tasks: Vec<TaskLine> = building.tasks.into_values().filter(|line| line.first_ns != u64::MAX).collect();
    tasks.sort_by_key(|line| (!line.traced, std::cmp::Reverse(line.run_ns), line.pid));
    Ok(Whole {
        host: host(reader),
        origin_ns,
        realtime_ns: realtime_ns(reader, origin_ns),
        duration_ns,
        bucket_ns,
        tiles: levels.finish()?,
        cpus,
        tasks,
        locks,
        waits_left_out,
        requests,
        longest_ns,
        slowest,
        classes,
        remarks: remarks.remarks.into_iter().map(remark).collect(),
        remarks_left_out,
        events,
        lost: damage.lost,
        left_out: building.left_out + follow.left_out(),
        damage: words,
    })
}

fn host(reader: &RunReader) -> String {
    let host = reader.entries.iter().find_map(|entry| match entry {
        Entry::Source { host, .. } => Some(format!("{}, Linux {}, {} CPUs", host.name, host.kernel, host.cpus)),
        _ => None,
    });
    host.unwrap_or_default()
}

fn realtime_ns(reader: &RunReader, at_ns: u64) -> u64 {
    let pair = reader.entries.iter().find_map(|entry| match entry {
        Entry::Source { monotonic_ns, realtime_ns, .. } => Some((*monotonic_ns, *realtime_ns)),
        _ => None,
    });
    pair.map_or(0, |(monotonic_ns, realtime_ns)| realtime_ns.saturating_add(at_ns).saturating_sub(monotonic_ns))
}

/// Buckets of a tile, as nanoseconds.
pub(crate) fn tile_ns(bucket_ns: u64) -> u64 {
    u64::from(BUCKETS).saturating_mul(bucket_ns)
}
