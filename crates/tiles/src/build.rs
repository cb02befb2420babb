//! One pass over a run: level 0, the levels above it, and what a view wants to know of the whole.

use crate::follow::{Doing, Follow, Sink};
use crate::locks::{LockFollow, LockLine};
use crate::place::Places;
use crate::requests::{Class, Slow, Slowest};
use crate::tile::{BUCKETS, FINER, Filling, Tile};
use crate::{OpenError, files};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;
use weir_timeline::{Bounds, Joiner, Remark, Remarks, Response, Unjoinable};
use weir_trace::{Damage, Entry, RunReader, Source, Sourced};
use weir_wire::client::ClientRequest;
use weir_wire::quic::Quic;
use weir_wire::{Kind, Record, Slot, text_from_slots};

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

impl RemarkLine {
    fn of(remark: Remark, origin_ns: u64) -> Self {
        Self { at_ns: remark.at_ns.saturating_sub(origin_ns), sort: remark.sort, text: remark.text }
    }
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

/// One pass over the records of a run.
struct Pass<'a> {
    origin_ns: u64,
    end_ns: u64,
    bucket_ns: u64,
    /// Where no client has told of its requests, the server's sockets do.
    served: bool,
    building: Building,
    joiner: Joiner,
    follow: Follow,
    locks: LockFollow,
    slowest: Slowest,
    remarks: Remarks,
    levels: Levels<'a>,
    /// Tiles of level 0 that are written.
    written: u64,
    events: u64,
}

impl<'a> Pass<'a> {
    fn new((origin_ns, end_ns): (u64, u64), served: bool, directory: &'a Path) -> Self {
        let duration_ns = (end_ns - origin_ns).saturating_add(1);
        let bucket_ns = level_0_bucket_ns(duration_ns);
        let filling = Filling::new(origin_ns, bucket_ns);
        let bounds = Bounds::default();
        Self {
            origin_ns,
            end_ns,
            bucket_ns,
            served,
            building: Building { filling, tasks: FxHashMap::default(), origin_ns, left_out: 0 },
            joiner: if served { Joiner::of_server(bounds, &[]) } else { Joiner::new(bounds) },
            follow: Follow::default(),
            locks: LockFollow::new(origin_ns),
            slowest: Slowest::default(),
            remarks: Remarks::default(),
            levels: Levels { directory, waiting: Vec::new() },
            written: 0,
            events: 0,
        }
    }

    /// Takes the next record.
    fn take(&mut self, sourced: &Sourced<'_>) -> Result<(), OpenError> {
        let record = &sourced.record;
        self.complete_tiles(record.time_ns)?;
        let request = ClientRequest::read(record, sourced.payload);
        if let Some(request) = &request {
            self.building.filling.request(request.done_ns, request.done_ns.saturating_sub(request.intended_ns));
        }
        let of_probe = [Kind::ProbeHit as u16, Kind::ProbeText as u16].contains(&record.kind);
        let of_quic = Quic::read(record).is_some_and(Quic::is_named);
        let told = (of_probe || of_quic).then_some(record.b as u32);
        let name = request.map(|request| request.name).or(told).and_then(|name| sourced.name(name));
        self.remarks.push(record, name.map(|name| &**name));
        let Self { joiner, slowest, building, served, origin_ns, .. } = self;
        joiner.push(record, sourced.payload, name, &mut |joiner, response| {
            slowest.push(joiner, response, *origin_ns);
            if *served {
                building.response(response);
            }
        });
        if sourced.source == Source::Kernel {
            self.take_kernels(record, sourced.payload);
        }
        self.events += 1;
        Ok(())
    }

    /// Writes the tiles of level 0 that end before a time.
    fn complete_tiles(&mut self, at_ns: u64) -> Result<(), OpenError> {
        while at_ns >= self.building.filling.end_ns() {
            let next_ns = self.building.filling.end_ns();
            self.follow.flush(next_ns, &mut self.building);
            self.locks.flush(next_ns, &mut self.building.filling);
            let full = std::mem::replace(&mut self.building.filling, Filling::new(next_ns, self.bucket_ns));
            self.written += 1;
            self.levels.push(0, full.finish())?;
            let states: Vec<(u32, u32)> = self.follow.states().map(|(pid, doing)| (pid, doing.code())).collect();
            let json = serde_json::to_vec(&states).unwrap_or_default();
            files::write(&self.levels.directory.join(files::states_file(self.written)), &json)?;
        }
        Ok(())
    }

    /// Takes what the kernel says of tasks and locks.
    fn take_kernels(&mut self, record: &Record, payload: &[Slot]) {
        let building = &mut self.building;
        self.follow.push(record, building);
        let (tasks, filling) = (&building.tasks, &mut building.filling);
        self.locks.push(record, payload, |pid| tasks.get(&pid).map_or(0, |line| line.tgid), filling);
        if record.kind == Kind::TaskName as u16 {
            let (pid, tgid) = record.a_halves();
            if let Some(line) = building.line(pid) {
                line.name = text_from_slots(payload);
                line.tgid = tgid;
                line.traced = record.flags & 1 != 0;
            }
        }
    }

    /// Tells of the requests that are still open, and closes what tasks are at; the last tile stays open.
    fn end(&mut self) {
        let Self { joiner, slowest, building, served, origin_ns, .. } = self;
        joiner.finish(&mut |joiner, response| {
            slowest.push(joiner, response, *origin_ns);
            if *served {
                building.response(response);
            }
        });
        self.follow.flush(self.end_ns + 1, &mut self.building);
    }

    /// Writes what is left, and says what is known of the whole.
    fn finish(mut self, reader: &RunReader, damage: &Damage) -> Result<Whole, OpenError> {
        self.end();
        let Self { origin_ns, end_ns, mut building, mut levels, .. } = self;
        let name_of =
            |pid: u32| building.tasks.get(&pid).map_or_else(|| format!("task {pid}"), |line| line.name.clone());
        let (locks, waits, waits_left_out) = self.locks.finish(end_ns + 1, name_of, &mut building.filling);
        files::write(&levels.directory.join(files::WAITS), &serde_json::to_vec(&waits).unwrap_or_default())?;
        let last = building.filling.finish();
        let cpus = last.cpus.keys().copied().collect();
        levels.push(0, last)?;
        let (requests, longest_ns) = (self.slowest.count, self.slowest.longest_ns);
        let (slowest, classes) = self.slowest.finish();
        let mut tasks: Vec<TaskLine> = building.tasks.into_values().filter(|line| line.first_ns != u64::MAX).collect();
        tasks.sort_by_key(|line| (!line.traced, Reverse(line.run_ns), line.pid));
        Ok(Whole {
            host: host(reader),
            origin_ns,
            realtime_ns: realtime_ns(reader, origin_ns),
            duration_ns: (end_ns - origin_ns).saturating_add(1),
            bucket_ns: self.bucket_ns,
            tiles: levels.finish()?,
            cpus,
            tasks,
            locks,
            waits_left_out,
            requests,
            longest_ns,
            slowest,
            classes,
            remarks_left_out: self.remarks.left_out,
            remarks: self.remarks.remarks.into_iter().map(|remark| RemarkLine::of(remark, origin_ns)).collect(),
            events: self.events,
            lost: damage.lost,
            left_out: building.left_out + self.follow.left_out(),
            damage: in_words(damage),
        })
    }
}

/// Reads the whole run and writes its tiles into a directory. `untold_arrivals`: the recording's source of boundaries
/// does not tell of every arrival. `go_on` is told of the records read so far.
pub(crate) fn build(
    reader: &RunReader,
    places: &Places,
    untold_arrivals: bool,
    directory: &Path,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> Result<Whole, OpenError> {
    let span_ns = places.span_ns().ok_or_else(|| OpenError::Empty(reader.directory().to_owned()))?;
    let mut pass = Pass::new(span_ns, !places.hold_clients(), directory);
    if untold_arrivals {
        pass.joiner.supply_arrivals();
    }
    files::write(&directory.join(files::states_file(0)), b"[]")?;
    let mut outcome = Ok(());
    let mut merge = reader.merge();
    merge.each(|sourced| {
        // Outside of the span that the heads of the blocks told, only damage lies.
        if sourced.record.time_ns < span_ns.0 || sourced.record.time_ns > span_ns.1 {
            return true;
        }
        outcome = pass.take(&sourced);
        if outcome.is_ok() && pass.events.is_multiple_of(LOOK) && !go_on(pass.events) {
            outcome = Err(OpenError::Stopped);
        }
        outcome.is_ok()
    });
    outcome?;
    pass.finish(reader, merge.damage())
}

/// What could not be read.
fn in_words(damage: &Damage) -> Vec<String> {
    let mut words = damage.refused.clone();
    if damage.bytes > 0 || damage.cut_segments > 0 {
        words.push(format!(
            "{} segments end in the middle of a block, {} bytes were not readable",
            damage.cut_segments, damage.bytes
        ));
    }
    words
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

/// Width of a bucket of level 0 of a run that takes so long, nanoseconds.
pub(crate) fn level_0_bucket_ns(duration_ns: u64) -> u64 {
    duration_ns.div_ceil(MOST_BUCKETS).next_power_of_two().max(LEAST_BUCKET_NS)
}

/// Buckets of a tile, as nanoseconds.
pub(crate) fn tile_ns(bucket_ns: u64) -> u64 {
    u64::from(BUCKETS).saturating_mul(bucket_ns)
}
