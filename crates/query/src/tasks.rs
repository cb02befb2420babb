//! What tasks did: turns on CPUs, waits, locks, and what they told of their own work.

use crate::cell::{flag, since, text, whole};
use crate::hosts::Hosts;
use crate::names::Names;
use crate::writer::TableWriter;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Result};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use weir_tiles::{Doing, Follow, Holders, LockFollow, Sink};
use weir_timeline::Wait;
use weir_trace::{Source, Sourced};
use weir_wire::probe::{BY_APPLICATION, END, GOES_ON, PHASE, ProbePoint};
use weir_wire::{Kind, Record};

/// Tasks of which times are summed; further ones are in no row of `tasks`.
const MOST_TASKS: usize = 1 << 16;
/// Works that are open at a time; further ones are not told.
const MOST_OPEN: usize = 1 << 16;

/// Fills the tables of [`crate::schema::Group::Tasks`].
pub(crate) struct Tasks<'c> {
    follow: Follow,
    locks: LockFollow,
    works: Works<'c>,
    lock_waits: TableWriter<'c>,
    tasks: TableWriter<'c>,
    turns: Turns<'c>,
    origin_ns: u64,
    end_ns: u64,
}

/// What was followed, as rows.
struct Turns<'c> {
    waits: TableWriter<'c>,
    slices: TableWriter<'c>,
    names: Names,
    hosts: Arc<Hosts>,
    sums: FxHashMap<u32, Sums>,
    origin_ns: u64,
    outcome: Result<()>,
}

#[derive(Debug, Clone, Copy)]
struct Sums {
    run_ns: u64,
    ready_ns: u64,
    blocked_ns: u64,
    first_ns: u64,
    last_ns: u64,
}

/// The lanes of locks are the viewer's.
struct NoLanes;

impl Holders for NoLanes {
    fn held(&mut self, _lock: u32, _holder: u32, _from_ns: u64, _to_ns: u64) {}
}

impl Turns<'_> {
    fn name(&self, pid: u32) -> (ValueRef<'_>, ValueRef<'static>) {
        let name = self.names.of(pid);
        (name.map_or(ValueRef::Null, |name| text(&name.name)), flag(name.is_some_and(|name| name.traced)))
    }

    fn sum(&mut self, pid: u32, doing: Doing, from_ns: u64, to_ns: u64) {
        if self.sums.len() >= MOST_TASKS && !self.sums.contains_key(&pid) {
            return;
        }
        let fresh = Sums { run_ns: 0, ready_ns: 0, blocked_ns: 0, first_ns: u64::MAX, last_ns: 0 };
        let sums = self.sums.entry(pid).or_insert(fresh);
        let ns = to_ns - from_ns;
        match doing {
            Doing::Running(_) => sums.run_ns += ns,
            Doing::Ready => sums.ready_ns += ns,
            Doing::Blocked(_) => sums.blocked_ns += ns,
            Doing::Unknown => return,
        }
        if !matches!(doing, Doing::Blocked(_)) {
            sums.first_ns = sums.first_ns.min(from_ns);
            sums.last_ns = sums.last_ns.max(to_ns);
        }
    }

    fn wait(&mut self, pid: u32, cause: &str, times_ns: (u64, u64), waker: u32) -> Result<()> {
        let (from_ns, to_ns) = times_ns;
        let names = &self.names;
        let name = names.of(pid);
        let woken_by = if waker == 0 { ValueRef::Null } else { ValueRef::Integer(waker.into()) };
        let waker = names.of(waker).filter(|_| waker != 0);
        self.waits.push([
            ValueRef::Integer(since(from_ns, self.origin_ns)),
            whole(to_ns - from_ns),
            ValueRef::Integer(pid.into()),
            name.map_or(ValueRef::Null, |name| text(&name.name)),
            flag(name.is_some_and(|name| name.traced)),
            text(cause),
            woken_by,
            waker.map_or(ValueRef::Null, |name| text(&name.name)),
            self.hosts.name(self.hosts.of_task(pid)),
        ])
    }
}

impl Sink for Turns<'_> {
    fn cpu(&mut self, cpu: u32, pid: u32, from_ns: u64, to_ns: u64) {
        // Idle, or not known.
        if pid == 0 || pid == u32::MAX || self.outcome.is_err() {
            return;
        }
        let name = self.names.of(pid);
        self.outcome = self.slices.push([
            ValueRef::Integer(since(from_ns, self.origin_ns)),
            whole(to_ns - from_ns),
            ValueRef::Integer(cpu.into()),
            ValueRef::Integer(pid.into()),
            name.map_or(ValueRef::Null, |name| text(&name.name)),
            flag(name.is_some_and(|name| name.traced)),
            self.hosts.name(self.hosts.of_task(pid)),
        ]);
    }

    fn task(&mut self, pid: u32, doing: Doing, from_ns: u64, to_ns: u64, waker: u32) {
        self.sum(pid, doing, from_ns, to_ns);
        let cause = match doing {
            Doing::Ready => "cpu",
            Doing::Blocked(Wait::Lock) => "lock",
            Doing::Blocked(Wait::Timer) => "timer",
            Doing::Blocked(Wait::Process) => "process",
            Doing::Blocked(Wait::Descriptor) => "descriptor",
            Doing::Blocked(Wait::Disk) => "disk",
            Doing::Blocked(Wait::Unknown) => "other",
            Doing::Running(_) | Doing::Unknown => return,
        };
        if self.outcome.is_ok() {
            self.outcome = self.wait(pid, cause, (from_ns, to_ns), waker);
        }
    }
}

impl<'c> Tasks<'c> {
    /// Makes the tables; `span_ns` is the time that the run spans.
    pub(crate) fn new(connection: &'c Connection, span_ns: (u64, u64), hosts: &Arc<Hosts>) -> Result<Self> {
        let (origin_ns, end_ns) = span_ns;
        let turns = Turns {
            waits: TableWriter::new(connection, "waits")?,
            slices: TableWriter::new(connection, "slices")?,
            names: Names::default(),
            hosts: Arc::clone(hosts),
            sums: FxHashMap::default(),
            origin_ns,
            outcome: Ok(()),
        };
        Ok(Self {
            follow: Follow::default(),
            locks: LockFollow::new(origin_ns),
            works: Works {
                rows: TableWriter::new(connection, "transactions")?,
                points: FxHashMap::default(),
                open: FxHashMap::default(),
                hosts: Arc::clone(hosts),
                origin_ns,
            },
            lock_waits: TableWriter::new(connection, "lock_waits")?,
            tasks: TableWriter::new(connection, "tasks")?,
            turns,
            origin_ns,
            end_ns,
        })
    }

    /// Takes the next record.
    pub(crate) fn push(&mut self, sourced: &Sourced<'_>) -> Result<()> {
        let record = &sourced.record;
        if record.kind == Kind::ProbeHit as u16 {
            let running = self.follow.current(record.lane);
            return self.works.hit(sourced, running, &self.turns.names);
        }
        if sourced.source != Source::Kernel {
            return Ok(());
        }
        self.turns.names.push(record, sourced.payload);
        self.follow.push(record, &mut self.turns);
        let names = &self.turns.names;
        let process = |pid| names.of(pid).map_or(0, |name| name.tgid);
        self.locks.push(record, sourced.payload, process, &mut NoLanes);
        std::mem::replace(&mut self.turns.outcome, Ok(()))
    }

    /// Closes what is still open.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.follow.flush(self.end_ns, &mut self.turns);
        std::mem::replace(&mut self.turns.outcome, Ok(()))?;
        self.works.finish(self.end_ns, &self.turns.names)?;
        let named = |pid: u32| self.turns.names.of(pid).map(|name| name.name.to_string());
        let (lines, waits, _left_out) =
            self.locks.finish(self.end_ns, |pid| named(pid).unwrap_or_else(|| format!("task {pid}")), &mut NoLanes);
        let lines: FxHashMap<u32, &str> = lines.iter().map(|line| (line.id, line.name.as_str())).collect();
        for wait in waits {
            let holder = if wait.holder == 0 { ValueRef::Null } else { ValueRef::Integer(wait.holder.into()) };
            let holder_name = self.turns.name(wait.holder).0;
            self.lock_waits.push([
                whole(wait.from_ns),
                whole(wait.to_ns.saturating_sub(wait.from_ns)),
                ValueRef::Integer(wait.pid.into()),
                self.turns.name(wait.pid).0,
                holder,
                if wait.holder == 0 { ValueRef::Null } else { holder_name },
                lines.get(&wait.lock).map_or(ValueRef::Null, |name| text(name)),
                self.turns.hosts.name(self.turns.hosts.of_task(wait.pid)),
            ])?;
        }
        let mut pids: Vec<u32> = self.turns.sums.keys().copied().filter(|pid| *pid != 0).collect();
        pids.sort_unstable();
        for pid in pids {
            let sums = self.turns.sums[&pid];
            if sums.first_ns == u64::MAX {
                continue;
            }
            let (name, traced) = self.turns.name(pid);
            let tgid = self.turns.names.of(pid).map_or(ValueRef::Null, |name| ValueRef::Integer(name.tgid.into()));
            let at = |ns: u64| ValueRef::Integer(since(ns, self.origin_ns));
            let [run, ready, blocked] = [sums.run_ns, sums.ready_ns, sums.blocked_ns].map(whole);
            let host = self.turns.hosts.name(self.turns.hosts.of_task(pid));
            let row = [ValueRef::Integer(pid.into()), tgid, name, traced, run, ready, blocked];
            let [pid, tgid, name, traced, run, ready, blocked] = row;
            let (first, last) = (at(sums.first_ns), at(sums.last_ns));
            self.tasks.push([pid, tgid, name, traced, run, ready, blocked, first, last, host])?;
        }
        Ok(())
    }
}

/// What tasks told of their own work.
struct Works<'c> {
    rows: TableWriter<'c>,
    /// What the points' texts say.
    points: FxHashMap<Arc<str>, Option<Arc<ProbePoint>>>,
    /// By task and application what it is at.
    open: FxHashMap<(u32, Arc<str>), Work>,
    hosts: Arc<Hosts>,
    origin_ns: u64,
}

struct Work {
    since_ns: u64,
    point: Arc<ProbePoint>,
    goes_on: bool,
    by_arm: bool,
}

impl Works<'_> {
    /// Takes a hit of a probe; `running` is the task that has the hit's CPU.
    fn hit(&mut self, sourced: &Sourced<'_>, running: Option<u32>, names: &Names) -> Result<()> {
        let record: &Record = &sourced.record;
        let by_application = record.flags & BY_APPLICATION != 0;
        let pid = if by_application { Some(record.a as u32) } else { running };
        let (Some(pid), Some(told)) = (pid, sourced.name(record.b as u32)) else { return Ok(()) };
        let Some(point) = self.point(told) else { return Ok(()) };
        if point.roles & (PHASE | END) == 0 {
            return Ok(());
        }
        let key = (pid, Arc::<str>::from(point.server.as_str()));
        if let Some(work) = self.open.remove(&key) {
            self.row(pid, &work, record.time_ns, names)?;
        }
        if point.roles & PHASE != 0 && self.open.len() < MOST_OPEN {
            let by_arm = sourced.source == Source::Arm;
            let goes_on = record.flags & GOES_ON != 0;
            self.open.insert(key, Work { since_ns: record.time_ns, point, goes_on, by_arm });
        }
        Ok(())
    }

    fn point(&mut self, told: &Arc<str>) -> Option<Arc<ProbePoint>> {
        /// Points that are remembered; a recording has some dozens.
        const MOST_POINTS: usize = 1 << 12;
        if let Some(known) = self.points.get(told) {
            return known.clone();
        }
        let point = ProbePoint::read(told).map(Arc::new);
        if self.points.len() < MOST_POINTS {
            self.points.insert(Arc::clone(told), point.clone());
        }
        point
    }

    fn row(&mut self, pid: u32, work: &Work, end_ns: u64, names: &Names) -> Result<()> {
        self.rows.push([
            ValueRef::Integer(since(work.since_ns, self.origin_ns)),
            whole(end_ns.saturating_sub(work.since_ns)),
            ValueRef::Integer(pid.into()),
            names.of(pid).map_or(ValueRef::Null, |name| text(&name.name)),
            text(&work.point.server),
            text(&work.point.name),
            flag(work.goes_on),
            text(if work.by_arm { "arm" } else { "probe" }),
            self.hosts.name(self.hosts.of_task(pid)),
        ])
    }

    fn finish(&mut self, end_ns: u64, names: &Names) -> Result<()> {
        let mut open: Vec<_> = std::mem::take(&mut self.open).into_iter().collect();
        open.sort_by_key(|((pid, _), work)| (work.since_ns, *pid));
        open.iter().try_for_each(|((pid, _), work)| self.row(*pid, work, end_ns, names))
    }
}
