//! Tiles in which single events are told.

use crate::follow::{Doing, Sink};
use crate::locks::Waited;
use serde::Serialize;
use std::collections::BTreeMap;
use weir_wire::client::{ClientRequest, Outcome};

/// Stretches and events that one tile tells exactly; with more it is told in buckets.
const MOST: usize = 24_000;

/// A tile of single events. Times are nanoseconds from the tile's begin; what reaches beyond it is cut.
#[derive(Debug, Default, Serialize)]
pub struct ExactTile {
    level: i32,
    index: u64,
    exact: bool,
    /// For each CPU its number, then (from, to, task) each.
    cpus: Vec<Vec<u64>>,
    /// For each task its number, then (from, to, code of its state, who ended it by a wake-up) each.
    tasks: Vec<Vec<u64>>,
    /// For each lock its number, then (from, to, who waited, who held it when the wait began or 0) each.
    locks: Vec<Vec<u64>>,
    /// (time, task, verb, socket) each; verbs: 1 received, 2 sent.
    touches: Vec<u64>,
    /// (from, to, status, index of its name, lane, connection) each. The times may lie outside of the tile, so they are
    /// signed.
    requests: Vec<i64>,
    /// Names of requests.
    names: Vec<String>,
}

/// Collects an exact tile as long as there is room.
#[derive(Debug)]
pub(crate) struct Collecting {
    from_ns: u64,
    end_ns: u64,
    events: usize,
    cpus: BTreeMap<u32, Vec<u64>>,
    tasks: BTreeMap<u32, Vec<u64>>,
    locks: BTreeMap<u32, Vec<u64>>,
    touches: Vec<u64>,
    requests: Vec<i64>,
    names: Vec<String>,
}

impl Collecting {
    pub(crate) fn new(from_ns: u64, end_ns: u64) -> Self {
        Self {
            from_ns,
            end_ns,
            events: 0,
            cpus: BTreeMap::new(),
            tasks: BTreeMap::new(),
            locks: BTreeMap::new(),
            touches: Vec::new(),
            requests: Vec::new(),
            names: Vec::new(),
        }
    }

    /// A task took from a socket (1) or gave to one (2).
    pub(crate) fn touch(&mut self, at_ns: u64, pid: u32, verb: u64, socket: u32) {
        if (self.from_ns..self.end_ns).contains(&at_ns) && self.counts() {
            self.touches.extend([at_ns - self.from_ns, u64::from(pid), verb, u64::from(socket)]);
        }
    }

    /// A wait for a lock, whose times count from an origin.
    pub(crate) fn wait(&mut self, one: &Waited, origin_ns: u64) {
        if let Some((from, to)) = self.cut(origin_ns + one.from_ns, origin_ns + one.to_ns) {
            self.locks.entry(one.lock).or_default().extend([from, to, u64::from(one.pid), u64::from(one.holder)]);
        }
    }

    /// A request that overlaps the tile.
    pub(crate) fn request(&mut self, request: &ClientRequest, lane: u32, name: &str) {
        let overlaps = request.intended_ns < self.end_ns && request.done_ns >= self.from_ns;
        if !overlaps || !self.counts() {
            return;
        }
        let index = self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        let relative = |ns: u64| ns.wrapping_sub(self.from_ns) as i64;
        let status = if request.outcome == Outcome::Done { i64::from(request.status) } else { 0 };
        let times = [relative(request.intended_ns), relative(request.done_ns)];
        self.requests.extend(times.into_iter().chain([
            status,
            index as i64,
            i64::from(lane),
            request.connection as i64,
        ]));
    }

    /// The tile, unless there was too much to tell.
    pub(crate) fn finish(self, level: i32, index: u64) -> Option<ExactTile> {
        let lanes = |lanes: BTreeMap<u32, Vec<u64>>| -> Vec<Vec<u64>> {
            let with_number = |(number, mut flat): (u32, Vec<u64>)| {
                flat.insert(0, u64::from(number));
                flat
            };
            lanes.into_iter().map(with_number).collect()
        };
        (self.events <= MOST).then(|| ExactTile {
            level,
            index,
            exact: true,
            cpus: lanes(self.cpus),
            tasks: lanes(self.tasks),
            locks: lanes(self.locks),
            touches: self.touches,
            requests: self.requests,
            names: self.names,
        })
    }

    fn counts(&mut self) -> bool {
        self.events += 1;
        self.events <= MOST
    }

    fn cut(&mut self, from_ns: u64, to_ns: u64) -> Option<(u64, u64)> {
        let (from, to) = (from_ns.clamp(self.from_ns, self.end_ns), to_ns.clamp(self.from_ns, self.end_ns));
        (to > from && self.counts()).then(|| (from - self.from_ns, to - self.from_ns))
    }
}

impl Sink for Collecting {
    fn cpu(&mut self, cpu: u32, pid: u32, from_ns: u64, to_ns: u64) {
        if let Some((from, to)) = self.cut(from_ns, to_ns) {
            self.cpus.entry(cpu).or_default().extend([from, to, u64::from(pid)]);
        }
    }

    fn task(&mut self, pid: u32, doing: Doing, from_ns: u64, to_ns: u64, waker: u32) {
        if let Some((from, to)) = self.cut(from_ns, to_ns) {
            // A wake-up behind the tile's end is none of its events.
            let waker = if to_ns <= self.end_ns { waker } else { 0 };
            self.tasks.entry(pid).or_default().extend([from, to, u64::from(doing.code()), u64::from(waker)]);
        }
    }
}
