//! The time chart of any objects (Fig. 5 of Horikawa 2000): who was busy when, who waited, and who asked whom.

use crate::build::{level_0_bucket_ns, tile_ns};
use crate::lane::LaneBuilder;
use crate::place::Places;
use crate::tile::{BUCKETS, flat};
use crate::{OpenError, TileError};
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::cmp::Reverse;
use std::path::Path;
use weir_objects::{Framework, ObjectId, Occurrence, Pattern, Table};
use weir_trace::{RunReader, Sourced};
use weir_wire::Kind;
use weir_wire::client::ClientRequest;

/// Interactions that are kept one by one, 40 bytes each; further ones are counted only.
const MOST_KEPT: usize = 1 << 21;
/// Objects that have a line; interactions with further ones are counted only.
const MOST_LINES: usize = 1 << 16;
/// Objects that are listed to choose from: those that did most.
const MOST_LISTED: usize = 4096;
/// Lines that one tile may be asked for.
pub const MOST_CHOSEN: usize = 64;
/// Interactions that one tile tells one by one; with more it is told in buckets.
const MOST_TOLD: usize = 8000;
/// Records between two looks at whether to go on.
const LOOK: u64 = 1 << 16;
/// Stands for a time that is not known, and for a line that an object does not have.
const NONE: u64 = u64::MAX;
const NO_LINE: u32 = u32::MAX;

/// What an object is at, by its number in tiles; of several at a time the highest is told.
mod state {
    /// Asked for, and not taken up yet.
    pub(super) const ASKED: u32 = 1;
    /// At work, or used.
    pub(super) const BUSY: u32 = 2;
    /// It asks, and pauses until it hears of the outcome.
    pub(super) const PAUSES: u32 = 1;
    /// It asks for a CPU.
    pub(super) const READY: u32 = 2;
    /// It has a CPU.
    pub(super) const RUNS: u32 = 3;
}

/// What is known of an object.
#[derive(Debug, Clone, Serialize)]
struct Line {
    /// Its number, by which tiles name it.
    line: u32,
    class: String,
    name: String,
    /// Its number as a task; none of what is no task.
    pid: Option<u64>,
    /// Interactions in which it was asked, and in which it asked, by their places.
    asked_in: Vec<u16>,
    asks_in: Vec<u16>,
    /// How often it was taken up and how often it asked.
    accepts: u64,
    asks: u64,
    busy_ns: u64,
    waited_for_ns: u64,
    /// From the origin.
    first_ns: u64,
    last_ns: u64,
    #[serde(skip)]
    id: ObjectId,
}

/// An interaction of the table.
#[derive(Debug, Serialize)]
struct Told {
    name: String,
    pattern: &'static str,
    /// The requester pauses until the outcome, and hears of it.
    answers: bool,
}

/// What there is to choose from.
#[derive(Debug, Serialize)]
struct Choice<'a> {
    interactions: &'a [Told],
    objects: Vec<&'a Line>,
    /// Those that are shown first.
    chosen: Vec<u32>,
    /// Interactions that are kept, and those that found no room.
    kept: usize,
    left_out: u64,
    /// Objects that are not listed.
    not_listed: usize,
}

/// A tile of the chosen objects.
#[derive(Debug, Serialize)]
struct Tile {
    level: i32,
    index: u64,
    exact: bool,
    bucket_ns: u64,
    /// For each line a lane of what it is at as an object, and one of what it is at as a requester, in buckets.
    busy: Vec<Vec<u64>>,
    asks: Vec<Vec<u64>>,
    /// (interaction, requester, object, request, accept, finish) each; times count from the origin, -1 stands for none.
    happened: Vec<i64>,
}

/// An interaction as it is kept; times count from the origin.
#[derive(Debug, Clone, Copy)]
struct Happened {
    interaction: u16,
    requester: u32,
    object: u32,
    requested_ns: u64,
    accepted_ns: u64,
    finished_ns: u64,
}

impl Happened {
    fn times(&self) -> impl Iterator<Item = u64> {
        [self.requested_ns, self.accepted_ns, self.finished_ns].into_iter().filter(|ns| *ns != NONE)
    }

    fn first_ns(&self) -> u64 {
        self.times().min().unwrap_or(0)
    }

    fn last_ns(&self) -> u64 {
        self.times().max().unwrap_or(0)
    }
}

/// The objects of a run, and what happened between them.
#[derive(Debug)]
pub struct ObjectChart {
    interactions: Vec<Told>,
    patterns: Vec<Pattern>,
    lines: Vec<Line>,
    /// In the order of their first events.
    happened: Vec<Happened>,
    /// By lines: which of these it takes part in, each with the last time of it and of all before it.
    of_lines: Vec<Vec<(u32, u64)>>,
    left_out: u64,
    bucket_ns: u64,
    duration_ns: u64,
}

/// A chart while the run is read.
struct Reading {
    framework: Framework,
    told: Vec<Occurrence>,
    lines: Vec<Line>,
    numbers: FxHashMap<ObjectId, u32>,
    happened: Vec<Happened>,
    left_out: u64,
    origin_ns: u64,
}

impl Reading {
    fn push(&mut self, sourced: &Sourced<'_>) {
        self.framework.push(&sourced.record, sourced.payload, text_of(sourced));
        self.tell();
    }

    fn tell(&mut self) {
        let mut told = std::mem::take(&mut self.told);
        self.framework.take_occurrences(&mut told);
        told.iter().for_each(|one| self.keep(one));
        self.told = told;
    }

    fn keep(&mut self, one: &Occurrence) {
        let (requester, object) = (self.line(one.requester), self.line(one.object));
        if self.happened.len() >= MOST_KEPT || object == NO_LINE && requester == NO_LINE {
            self.left_out += 1;
            return;
        }
        let origin_ns = self.origin_ns;
        let at = |ns: Option<u64>| ns.map_or(NONE, |ns| ns.saturating_sub(origin_ns));
        let happened = Happened {
            interaction: one.interaction,
            requester,
            object,
            requested_ns: at(one.requested_ns),
            accepted_ns: at(one.accepted_ns),
            finished_ns: at(one.finished_ns),
        };
        for (line, is_object) in [(requester, false), (object, true)] {
            let Some(line) = self.lines.get_mut(line as usize) else { continue };
            line.first_ns = line.first_ns.min(happened.first_ns());
            line.last_ns = line.last_ns.max(happened.last_ns());
            let within = if is_object { &mut line.asked_in } else { &mut line.asks_in };
            if !within.contains(&one.interaction) {
                within.push(one.interaction);
            }
            if is_object {
                line.accepts += u64::from(one.accepted_ns.is_some());
                line.busy_ns += one.used_ns().unwrap_or(0);
                line.waited_for_ns += one.waited_ns().unwrap_or(0);
            } else {
                line.asks += 1;
            }
        }
        self.happened.push(happened);
    }

    fn line(&mut self, id: ObjectId) -> u32 {
        if let Some(line) = self.numbers.get(&id) {
            return *line;
        }
        if self.lines.len() >= MOST_LINES {
            return NO_LINE;
        }
        let line = self.lines.len() as u32;
        self.numbers.insert(id, line);
        self.lines.push(Line {
            line,
            class: String::new(),
            name: String::new(),
            pid: id.number().filter(|_| id.is_task()),
            asked_in: Vec::new(),
            asks_in: Vec::new(),
            accepts: 0,
            asks: 0,
            busy_ns: 0,
            waited_for_ns: 0,
            first_ns: NONE,
            last_ns: 0,
            id,
        });
        line
    }
}

/// The text of the dictionary that a record refers to.
fn text_of<'a>(sourced: &'a Sourced<'_>) -> Option<&'a str> {
    let named = |id: u32| sourced.name(id).map(|text| &**text);
    if let Some(request) = ClientRequest::read(&sourced.record, sourced.payload) {
        return named(request.name);
    }
    let kinds = [Kind::ProbeHit, Kind::ProbeText, Kind::Asked];
    kinds.iter().any(|kind| *kind as u16 == sourced.record.kind).then(|| named(sourced.record.b as u32)).flatten()
}

impl ObjectChart {
    /// Reads the whole run, once, by these rules. `go_on` is told from time to time how many records were read, and
    /// ends it by false.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(run: &Path, table: Table, go_on: &mut dyn FnMut(u64) -> bool) -> Result<Self, OpenError> {
        let reader = RunReader::open(run)?;
        let places = Places::of(&reader)?;
        let (origin_ns, end_ns) = places.span_ns().ok_or_else(|| OpenError::Empty(run.to_owned()))?;
        let told = |one: &weir_objects::Interaction| Told {
            name: one.name.clone(),
            pattern: one.pattern.word(),
            answers: pauses_to_the_end(one.pattern),
        };
        let interactions = table.interactions().iter().map(told).collect();
        let patterns = table.interactions().iter().map(|one| one.pattern).collect();
        let mut reading = Reading {
            framework: Framework::with_occurrences(table),
            told: Vec::new(),
            lines: Vec::new(),
            numbers: FxHashMap::default(),
            happened: Vec::new(),
            left_out: 0,
            origin_ns,
        };
        let (mut records, mut is_stopped) = (0_u64, false);
        reader.merge().each(|sourced| {
            // Outside of the span that the heads of the blocks told, only damage lies.
            if (origin_ns..=end_ns).contains(&sourced.record.time_ns) {
                reading.push(&sourced);
            }
            records += 1;
            is_stopped = records.is_multiple_of(LOOK) && !go_on(records);
            !is_stopped
        });
        if is_stopped {
            return Err(OpenError::Stopped);
        }
        reading.framework.pause();
        reading.tell();
        let duration_ns = (end_ns - origin_ns).saturating_add(1);
        Ok(Self::of(reading, interactions, patterns, duration_ns))
    }

    fn of(reading: Reading, interactions: Vec<Told>, patterns: Vec<Pattern>, duration_ns: u64) -> Self {
        let Reading { framework, mut lines, mut happened, left_out, .. } = reading;
        for line in &mut lines {
            let (class, name) = framework.object_words(line.id);
            (line.class, line.name) = (class.to_owned(), name);
        }
        happened.sort_by_key(Happened::first_ns);
        let mut of_lines = vec![Vec::<(u32, u64)>::new(); lines.len()];
        for (index, one) in happened.iter().enumerate() {
            for line in [one.object, one.requester] {
                let Some(own) = of_lines.get_mut(line as usize) else { continue };
                let before = own.last().map_or(0, |(_, last_ns)| *last_ns);
                if own.last().is_none_or(|(last, _)| *last != index as u32) {
                    own.push((index as u32, before.max(one.last_ns())));
                }
            }
        }
        let bucket_ns = level_0_bucket_ns(duration_ns);
        Self { interactions, patterns, lines, happened, of_lines, left_out, bucket_ns, duration_ns }
    }

    /// The objects to choose from, and which are shown first, as JSON.
    #[must_use]
    pub fn choice_json(&self) -> Vec<u8> {
        let mut objects: Vec<&Line> = self.lines.iter().collect();
        let weight = |line: &Line| line.busy_ns.max(line.waited_for_ns);
        objects.sort_by_key(|line| Reverse((weight(line), line.accepts, line.asks, Reverse(line.line))));
        let mut chosen = Vec::new();
        let mut of_class: FxHashMap<&str, usize> = FxHashMap::default();
        for line in &objects {
            let so_far = of_class.entry(&line.class).or_default();
            let most = match line.class.as_str() {
                "task" => 6,
                "cpu" => 4,
                _ => 1,
            };
            // Any task has a CPU; those that take part in more tell more.
            let is_telling = line.class != "task" || !line.asked_in.is_empty();
            // What was asked for without a number, and never had, is none of its class in particular.
            let is_telling = is_telling && (line.id.number().is_some() || line.asks > 0 || line.accepts > 0);
            if *so_far < most && is_telling && chosen.len() < MOST_CHOSEN / 2 {
                chosen.push(line.line);
                *so_far += 1;
            }
        }
        let not_listed = objects.len().saturating_sub(MOST_LISTED);
        objects.truncate(MOST_LISTED);
        let (interactions, kept) = (self.interactions.as_slice(), self.happened.len());
        let choice = Choice { interactions, objects, chosen, kept, left_out: self.left_out, not_listed };
        // Numbers and texts always have a JSON form.
        serde_json::to_vec(&choice).unwrap_or_default()
    }

    /// A tile of some objects as JSON, at its place in the levels of [`crate::RunTiles`]: their interactions one by one,
    /// or, where these are many, what each object was at in buckets. Of lines that are not there nothing is told, and of
    /// more than [`MOST_CHOSEN`] the first.
    ///
    /// # Errors
    /// [`TileError::Missing`].
    pub fn tile(&self, level: i32, index: u64, chosen: &[u32]) -> Result<Vec<u8>, TileError> {
        let missing = || TileError::Missing { level, index };
        let shift = level.unsigned_abs().checked_mul(2).filter(|shift| *shift < u64::BITS).ok_or_else(missing)?;
        let bucket_ns = if level < 0 { self.bucket_ns >> shift } else { self.bucket_ns << shift };
        let width_ns = Some(tile_ns(bucket_ns)).filter(|ns| *ns > 0).ok_or_else(missing)?;
        let from_ns = index.checked_mul(width_ns).filter(|ns| *ns < self.duration_ns).ok_or_else(missing)?;
        let window = (from_ns, from_ns.saturating_add(width_ns));
        let mut lines: Vec<u32> = chosen.iter().copied().take(MOST_CHOSEN).collect();
        lines.sort_unstable();
        lines.dedup();
        lines.retain(|line| (*line as usize) < self.lines.len());
        let mut tile =
            Tile { level, index, exact: true, bucket_ns, busy: Vec::new(), asks: Vec::new(), happened: Vec::new() };
        let mut within: Vec<u32> = lines.iter().flat_map(|line| self.within(*line, window)).collect();
        within.sort_unstable();
        within.dedup();
        if within.len() <= MOST_TOLD {
            tile.happened = within.into_iter().flat_map(|one| numbers(&self.happened[one as usize])).collect();
        } else {
            tile.exact = false;
            tile.busy = lines.iter().map(|line| self.lane(*line, window, bucket_ns, Self::as_object)).collect();
            tile.asks = lines.iter().map(|line| self.lane(*line, window, bucket_ns, Self::as_requester)).collect();
        }
        Ok(serde_json::to_vec(&tile).unwrap_or_default())
    }

    /// The interactions of a line that overlap a window.
    fn within(&self, line: u32, (from_ns, to_ns): (u64, u64)) -> impl Iterator<Item = u32> {
        let own = &self.of_lines[line as usize];
        let first = own.partition_point(|(_, last_ns)| *last_ns < from_ns);
        let all = own[first..].iter().map(|(index, _)| *index);
        let begun = all.take_while(move |index| self.happened[*index as usize].first_ns() < to_ns);
        begun.filter(move |index| self.happened[*index as usize].last_ns() >= from_ns)
    }

    /// What an object was at in buckets.
    fn lane(&self, line: u32, window: (u64, u64), bucket_ns: u64, states: States) -> Vec<u64> {
        let mut changes = Vec::new();
        for index in self.within(line, window) {
            let one = &self.happened[index as usize];
            for (state, from_ns, to_ns) in states(self, line, one) {
                let cut = |ns: u64| ns.clamp(window.0, window.1) - window.0;
                let (from, to) = (cut(from_ns), cut(to_ns));
                if to > from {
                    changes.extend([(from, state, 1_i64), (to, state, -1)]);
                }
            }
        }
        changes.sort_unstable_by_key(|(at, ..)| *at);
        let mut lane = LaneBuilder::new(bucket_ns);
        let (mut open, mut since) = ([0_i64; 4], 0);
        for (at, state, by) in changes {
            let highest = (1..open.len()).rev().find(|state| open[*state] > 0).unwrap_or(0);
            lane.add(highest as u32, since, at);
            since = since.max(at);
            open[state as usize] += by;
        }
        lane.add(0, since, u64::from(BUCKETS) * bucket_ns);
        flat(line, &lane.finish())
    }

    /// When it was asked for, and when it was at work.
    fn as_object(&self, line: u32, one: &Happened) -> Vec<(u32, u64, u64)> {
        if one.object != line {
            return Vec::new();
        }
        stretch(state::ASKED, one.requested_ns, one.accepted_ns)
            .into_iter()
            .chain(stretch(state::BUSY, one.accepted_ns, one.finished_ns))
            .collect()
    }

    /// When it asked and paused, and when it had a CPU.
    fn as_requester(&self, line: u32, one: &Happened) -> Vec<(u32, u64, u64)> {
        if one.requester != line {
            return Vec::new();
        }
        let Some(pattern) = self.patterns.get(usize::from(one.interaction)) else { return Vec::new() };
        let all = match pattern {
            Pattern::Cpu => [
                stretch(state::READY, one.requested_ns, one.accepted_ns),
                stretch(state::RUNS, one.accepted_ns, one.finished_ns),
            ],
            Pattern::Contention | Pattern::BusyWait => {
                [stretch(state::PAUSES, one.requested_ns, one.accepted_ns), None]
            }
            pattern if pauses_to_the_end(*pattern) => {
                let from_ns = if one.requested_ns == NONE { one.accepted_ns } else { one.requested_ns };
                [stretch(state::PAUSES, from_ns, one.finished_ns), None]
            }
            _ => [None, None],
        };
        all.into_iter().flatten().collect()
    }
}

/// The states of a line in an interaction, each from a time to a time.
type States = fn(&ObjectChart, u32, &Happened) -> Vec<(u32, u64, u64)>;

fn stretch(state: u32, from_ns: u64, to_ns: u64) -> Option<(u32, u64, u64)> {
    (from_ns != NONE && to_ns != NONE).then_some((state, from_ns, to_ns))
}

/// Whether the requester pauses until the object is done.
fn pauses_to_the_end(pattern: Pattern) -> bool {
    matches!(pattern, Pattern::ClientServer | Pattern::SyncIo)
}

fn numbers(one: &Happened) -> [i64; 6] {
    let time = |ns: u64| if ns == NONE { -1 } else { ns as i64 };
    let line = |line: u32| if line == NO_LINE { -1 } else { i64::from(line) };
    let (requester, object) = (line(one.requester), line(one.object));
    let [requested, accepted, finished] = [one.requested_ns, one.accepted_ns, one.finished_ns].map(time);
    [i64::from(one.interaction), requester, object, requested, accepted, finished]
}
