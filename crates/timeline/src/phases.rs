//! Phases of the servers' own work and the queries of databases, from probes in their programs.
//!
//! A mark begins a phase of the task that met it, which lasts until the task's next mark of the same server. A response
//! is in the phase of the task that it is with; while it waits behind others it is in none.

use crate::carried::{Hit as CarriedHit, Sort};
use crate::step::{Detail, Step};
use crate::tasks::{State, Tasks};
use crate::texts::Texts;
use crate::{Wait, wait_of};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::Arc;
use weir_measure::part::{Part, PartTimes};
use weir_wire::Record;
use weir_wire::probe::{
    BY_APPLICATION, BY_HAND, CARRIED, END, GOES_ON, INTERLEAVED, LOCK, PHASE, ProbePoint, QUERY, QUERY_END, REMARK,
    REQUEST, SLEEP, SPANNING,
};

/// Marks, queries, requests and waits that are remembered of all tasks together: a fast event loop meets some 300,000
/// probes a second, and what its client tells of them comes later. Beyond, the older halves of those tasks go that have
/// the most, and what was before is in no phase.
const MOST_HELD: usize = 1 << 20;
/// Tasks whose marks are remembered; beyond, those go that were marked longest ago.
const MOST_TASKS: usize = 1 << 16;
/// Points that are told apart; a recording has some dozens.
const MOST_POINTS: usize = 1 << 12;
/// What has ended and was not asked for yet; beyond, it is counted as dropped.
const MOST_ENDED: usize = 1 << 16;
/// Marks before a time that are looked at for those in force then, and that are kept for it: of an event loop the last
/// ones may be for other requests.
const KEPT: usize = 16;
/// Passages of a response that are told apart.
const MOST_SEEN: usize = 256;
/// Tasks that wait for each other, each for the one before it, whose phases may span what that one does.
const MOST_WAITERS: usize = 8;
/// Tasks of a response that are asked which transaction they began.
const MOST_ASKED: usize = 16;

/// A stretch of a response in a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhaseStretch {
    /// The phase's number ([`crate::Joiner::phase`]).
    pub phase: u32,
    /// What it was spent on.
    pub part: Part,
    /// Its begin, nanoseconds.
    pub from_ns: u64,
    /// Its end.
    pub to_ns: u64,
    /// Whether it is the first of its passage through the phase.
    pub is_first: bool,
}

/// A task's passage through a phase, whether or not a response waited for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passage {
    /// The phase's number.
    pub phase: u32,
    /// What the task did meanwhile, nanoseconds.
    pub parts_ns: PartTimes,
}

/// A query that a database ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryRun {
    /// The point that told of it, a phase's number: its server is the database.
    pub phase: u32,
    /// Its text's number ([`crate::Joiner::text`]).
    pub text: u32,
    /// How long it took, nanoseconds.
    pub ns: u64,
}

/// A task's wait for a lock that its server keeps by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LockWindow {
    pub(crate) from_ns: u64,
    /// The largest time while it waits.
    pub(crate) to_ns: u64,
    /// The server's number ([`Phases::server`]).
    pub(crate) server: u32,
}

/// What has ended since it was last asked.
#[derive(Debug, Default)]
pub struct Ended {
    /// Passages through phases.
    pub passages: Vec<Passage>,
    /// Queries.
    pub queries: Vec<QueryRun>,
    /// Of both, those that there was no room for.
    pub dropped: u64,
    /// Marks of tasks that were forgotten for want of room before anybody asked for them.
    pub forgotten: u64,
}

/// A name of a phase with its server's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhaseName {
    /// The server's name, such as `apache`.
    pub server: String,
    /// The phase's, such as `process request`.
    pub name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    at_ns: u64,
    /// 0 is none.
    phase: u32,
    /// The server's number.
    server: u32,
    roles: u16,
    /// The client's connection that the task was at.
    owner: u32,
    /// It goes on with a passage that another phase had interrupted.
    goes_on: bool,
}

#[derive(Debug, Clone, Copy)]
struct Query {
    from_ns: u64,
    /// The largest time while it runs.
    to_ns: u64,
    phase: u32,
    text: u32,
}

#[derive(Debug, Default)]
struct Marks {
    marks: VecDeque<Mark>,
    queries: VecDeque<Query>,
    /// (time, number of the text): names of requests that the task took up.
    requests: VecDeque<(u64, u32)>,
    /// Likewise transactions that its application told.
    transactions: VecDeque<(u64, u32)>,
    locks: VecDeque<LockWindow>,
}

impl Marks {
    /// A wait for a lock begins or ends; an end that was not told is there when the next one begins.
    fn lock(&mut self, at_ns: u64, point: Point) {
        if let Some(open) = self.locks.back_mut().filter(|open| open.to_ns == u64::MAX) {
            open.to_ns = at_ns.max(open.from_ns);
        }
        if point.roles & END == 0 {
            self.locks.push_back(LockWindow { from_ns: at_ns, to_ns: u64::MAX, server: point.server });
        }
    }

    fn held(&self) -> usize {
        self.marks.len() + self.queries.len() + self.requests.len() + self.transactions.len() + self.locks.len()
    }

    fn forget_older_half(&mut self) {
        self.marks.drain(..self.marks.len().div_ceil(2));
        self.queries.drain(..self.queries.len().div_ceil(2));
        self.requests.drain(..self.requests.len().div_ceil(2));
        self.transactions.drain(..self.transactions.len().div_ceil(2));
        self.locks.drain(..self.locks.len().div_ceil(2));
    }

    /// Ends the query that runs, if one does.
    fn end_query(&mut self, at_ns: u64) -> Option<QueryRun> {
        let query = self.queries.back_mut().filter(|query| query.to_ns == u64::MAX)?;
        query.to_ns = at_ns.max(query.from_ns);
        Some(QueryRun { phase: query.phase, text: query.text, ns: query.to_ns - query.from_ns })
    }
}

impl Ended {
    fn query(&mut self, run: Option<QueryRun>) {
        match run {
            Some(run) if self.queries.len() < MOST_ENDED => self.queries.push(run),
            Some(_) => self.dropped += 1,
            None => {}
        }
    }

    fn passage(&mut self, passage: Passage) {
        if self.passages.len() < MOST_ENDED {
            self.passages.push(passage);
        } else {
            self.dropped += 1;
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Point {
    phase: u32,
    server: u32,
    roles: u16,
}

/// A hit whose text is still to come.
#[derive(Debug, Clone, Copy)]
struct Hit {
    at_ns: u64,
    pid: u32,
    point: Point,
    by_application: bool,
}

/// All that the probes told.
#[derive(Debug)]
pub(crate) struct Phases {
    points: FxHashMap<Arc<str>, Point>,
    servers: Vec<String>,
    names: Vec<PhaseName>,
    tasks: FxHashMap<u32, Marks>,
    lanes: FxHashMap<u32, Hit>,
    /// At least what all tasks hold.
    held: usize,
    ended: Ended,
}

impl Default for Phases {
    fn default() -> Self {
        let none = PhaseName { server: String::new(), name: String::new() };
        Self {
            points: FxHashMap::default(),
            servers: vec![String::new()],
            names: vec![none],
            tasks: FxHashMap::default(),
            lanes: FxHashMap::default(),
            held: 0,
            ended: Ended::default(),
        }
    }
}

impl Phases {
    /// What a hit says of what its task carries, if it is about that, and whether a wait is over.
    pub(crate) fn carried(&mut self, hit: &Record, told: &Arc<str>, tasks: &Tasks) -> Option<(CarriedHit, bool)> {
        let Point { server, roles, .. } = self.point(told).filter(|point| point.roles & CARRIED != 0)?;
        let sort = match (roles & LOCK, roles & SLEEP) {
            (0, 0) => return None,
            (0, _) => Sort::Sleep,
            _ => Sort::Lock,
        };
        let pid = tasks.current(hit.lane)?;
        Some((CarriedHit { at_ns: hit.time_ns, pid, carried: hit.a, sort, server }, roles & END != 0))
    }

    /// The names of the servers, by their numbers.
    pub(crate) fn servers(&self) -> &[String] {
        &self.servers
    }

    /// The running task of a lane met a probe, or an application told of one of its tasks; `told` is what the dictionary
    /// says of it.
    pub(crate) fn push_hit(&mut self, hit: &Record, told: &Arc<str>, tasks: &Tasks) {
        let Record { lane, time_ns: at_ns, a: argument, flags, .. } = *hit;
        let Some(point) = self.point(told).filter(|point| point.roles & (REMARK | CARRIED) == 0) else { return };
        let by_application = flags & BY_APPLICATION != 0;
        let pid = if by_application { u32::try_from(argument).ok() } else { tasks.current(lane) };
        let Some(pid) = pid.filter(|pid| *pid != 0) else {
            self.lanes.remove(&lane);
            return;
        };
        self.lanes.insert(lane, Hit { at_ns, pid, point, by_application });
        if self.tasks.len() >= MOST_TASKS && !self.tasks.contains_key(&pid) {
            self.make_room();
        }
        if self.held >= MOST_HELD {
            self.forget_older();
        }
        // A hit leaves at most one thing of each sort behind, its text one more.
        self.held += 1;
        let marks = self.tasks.entry(pid).or_default();
        if point.roles & LOCK != 0 {
            return marks.lock(at_ns, point);
        }
        if point.roles & QUERY_END != 0 || (point.roles & QUERY != 0 && argument == 0) {
            self.ended.query(marks.end_query(at_ns));
        }
        // A query that ends takes the phase with it.
        let over = point.roles & END != 0 || (point.roles & QUERY != 0 && argument == 0);
        if point.roles & PHASE == 0 && !over {
            return;
        }
        let mark = Mark {
            at_ns,
            phase: if over { 0 } else { point.phase },
            server: point.server,
            roles: point.roles,
            owner: tasks.at(pid),
            goes_on: flags & GOES_ON != 0,
        };
        if point.roles & (INTERLEAVED | BY_HAND) == 0
            && let Some(before) = marks.marks.iter().rev().find(|before| before.server == mark.server)
            && before.phase != 0
        {
            let passage = Passage { phase: before.phase, parts_ns: spent(tasks, pid, before.at_ns, at_ns) };
            self.ended.passage(passage);
        }
        marks.marks.push_back(mark);
    }

    /// The text that the probe just hit on this lane has read.
    pub(crate) fn text(&mut self, lane: u32, at_ns: u64, text: &str, texts: &mut Texts) {
        let Some(hit) = self.lanes.remove(&lane).filter(|hit| hit.at_ns == at_ns) else { return };
        let Some(marks) = self.tasks.get_mut(&hit.pid) else { return };
        let text = texts.number(text);
        // A statement that comes in several messages is told at each of them.
        let goes_on = |query: &Query| query.to_ns == u64::MAX && query.text == text;
        if hit.point.roles & QUERY != 0 && !marks.queries.back().is_some_and(goes_on) {
            self.ended.query(marks.end_query(at_ns));
            let query = Query { from_ns: at_ns, to_ns: u64::MAX, phase: hit.point.phase, text };
            marks.queries.push_back(query);
            self.held += 1;
        }
        if hit.point.roles & REQUEST != 0 {
            let names = if hit.by_application { &mut marks.transactions } else { &mut marks.requests };
            names.push_back((at_ns, text));
            self.held += 1;
        }
    }

    fn point(&mut self, told: &Arc<str>) -> Option<Point> {
        if let Some(point) = self.points.get(told) {
            return Some(*point);
        }
        if self.points.len() >= MOST_POINTS {
            return None;
        }
        let read = ProbePoint::read(told)?;
        let server = self.servers.iter().position(|known| *known == read.server).unwrap_or_else(|| {
            self.servers.push(read.server.clone());
            self.servers.len() - 1
        });
        let name = PhaseName { server: read.server, name: read.name };
        // Several points may begin the same phase.
        let phase = self.names.iter().position(|known| *known == name).unwrap_or_else(|| {
            self.names.push(name);
            self.names.len() - 1
        });
        let point = Point { phase: phase as u32, server: server as u32, roles: read.roles };
        self.points.insert(Arc::clone(told), point);
        Some(point)
    }

    /// A task is made: what was told of one of its number was another's.
    pub(crate) fn born(&mut self, pid: u32) {
        if !self.tasks.is_empty() {
            self.tasks.remove(&pid);
        }
    }

    /// A phase's name; an empty one for a number that is none.
    pub(crate) fn name(&self, phase: u32) -> &PhaseName {
        // Number 0 is always there: it stands for none.
        self.names.get(phase as usize).unwrap_or(&self.names[0])
    }

    /// A server's name.
    pub(crate) fn server(&self, number: u32) -> &str {
        self.servers.get(number as usize).map_or("", String::as_str)
    }

    /// The wait for a lock that a task was in at a time.
    pub(crate) fn lock_window(&self, pid: u32, at_ns: u64) -> Option<LockWindow> {
        let locks = &self.tasks.get(&pid)?.locks;
        let at = locks.partition_point(|window| window.to_ns <= at_ns);
        locks.get(at).filter(|window| window.from_ns <= at_ns).copied()
    }

    /// A task's last wait for a lock of its server's own that ended before a time.
    pub(crate) fn lock_window_before(&self, pid: u32, before_ns: u64) -> Option<LockWindow> {
        let locks = &self.tasks.get(&pid)?.locks;
        let over = locks.partition_point(|window| window.to_ns < before_ns);
        over.checked_sub(1).and_then(|last| locks.get(last)).copied()
    }

    /// The statement that a task was at, or had been at last, at a time: its text's number.
    pub(crate) fn statement(&self, pid: u32, at_ns: u64) -> Option<u32> {
        let queries = &self.tasks.get(&pid)?.queries;
        let begun = queries.partition_point(|query| query.from_ns <= at_ns);
        begun.checked_sub(1).and_then(|last| queries.get(last)).map(|query| query.text)
    }

    /// What has ended since.
    pub(crate) fn take_ended(&mut self) -> Ended {
        std::mem::take(&mut self.ended)
    }

    /// Whether any probe was met.
    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// The name of the request that a task took up within a window, if a probe told it: its text's number.
    pub(crate) fn request(&self, pid: u32, from_ns: u64, to_ns: u64) -> Option<u32> {
        let requests = &self.tasks.get(&pid)?.requests;
        let index = requests.partition_point(|(at, _)| *at < from_ns);
        requests.get(index).filter(|(at, _)| *at <= to_ns).map(|(_, text)| *text)
    }

    /// The name of the transaction that an application began first for a response, among the tasks that were at it within
    /// a window: its text's number.
    pub(crate) fn transaction(&self, steps: &[Step], from_ns: u64, to_ns: u64) -> Option<u32> {
        let mut asked: Vec<u32> = Vec::new();
        let mut found: Option<(u64, u32)> = None;
        // What others did for its sake is a part of its transaction, at most.
        for step in steps.iter().filter(|step| step.waiter == 0 && step.pid != 0 && !is_queue(step.part)) {
            if asked.contains(&step.pid) || asked.len() >= MOST_ASKED {
                continue;
            }
            asked.push(step.pid);
            let Some(marks) = self.tasks.get(&step.pid) else { continue };
            let first = marks.transactions.partition_point(|(at, _)| *at < from_ns);
            let begun = marks.transactions.get(first).filter(|(at, _)| *at <= to_ns);
            found = found.into_iter().chain(begun.copied()).min();
        }
        found.map(|(_, text)| text)
    }

    /// Divides a response's steps by the phases that its tasks were in.
    pub(crate) fn stretches(&self, steps: &[Step], socket: u32, arrived_ns: u64, out: &mut Vec<PhaseStretch>) {
        out.clear();
        let mut seen: Vec<(u32, u64, u32)> = Vec::new();
        for step in steps.iter().filter(|step| !is_queue(step.part)) {
            self.divide(step, step.pid, (steps, socket, arrived_ns), &mut seen, out);
            let mut waiter = step.waiter;
            for _ in 0..MOST_WAITERS {
                if waiter == 0 || waiter == step.pid {
                    break;
                }
                self.divide(step, waiter, (steps, socket, arrived_ns), &mut seen, out);
                waiter = steps.iter().find(|one| one.pid == waiter).map_or(0, |one| one.waiter);
            }
        }
        out.sort_by_key(|stretch| stretch.from_ns);
    }

    /// Divides a step by the phases of its task, or by those of one that waits for it: then only phases count that span
    /// what is done for them.
    fn divide(
        &self,
        step: &Step,
        pid: u32,
        (steps, socket, arrived_ns): (&[Step], u32, u64),
        seen: &mut Vec<(u32, u64, u32)>,
        out: &mut Vec<PhaseStretch>,
    ) {
        let Some(marks) = self.tasks.get(&pid) else { return };
        let is_waited_for = pid != step.pid;
        let mut servers: Vec<u32> = Vec::new();
        let end = marks.marks.partition_point(|mark| mark.at_ns < step.to_ns);
        let asked = if is_waited_for { steps.iter().find(|one| one.pid == pid) } else { Some(step) };
        let own = asked.map_or(0, |step| self.asked_over(step, steps));
        // From the last mark back to those in force at the step's begin, each until the one after it.
        let mut until: Vec<u64> = Vec::new();
        let mut older = 0;
        for mark in marks.marks.range(..end).rev() {
            older += usize::from(mark.at_ns <= step.from_ns);
            if older > KEPT {
                break;
            }
            let of_response = mark.roles & (INTERLEAVED | BY_HAND) != 0 && mark.at_ns < arrived_ns;
            let of_another = own != 0 && mark.owner != 0 && mark.owner != own;
            let of_itself = is_waited_for && mark.roles & SPANNING == 0;
            let at_another = mark.roles & INTERLEAVED != 0 && mark.owner != socket;
            if of_response || of_another || of_itself || at_another {
                continue;
            }
            let place = servers.iter().position(|server| *server == mark.server).unwrap_or_else(|| {
                servers.push(mark.server);
                until.push(step.to_ns);
                servers.len() - 1
            });
            let (from_ns, to_ns) = (mark.at_ns.max(step.from_ns), until[place]);
            until[place] = from_ns.min(to_ns);
            if to_ns <= from_ns || mark.phase == 0 {
                continue;
            }
            let passage = (pid, mark.at_ns, mark.phase);
            let is_first = !mark.goes_on && !seen.contains(&passage);
            if is_first && seen.len() < MOST_SEEN {
                seen.push(passage);
            }
            out.push(PhaseStretch { phase: mark.phase, part: step.part, from_ns, to_ns, is_first });
        }
    }

    /// Over which connection a task was asked for what others wait for in a step: the one that it was at in the end. While
    /// they waited it may have been at another one's request before; 0 where it is not known.
    fn asked_over(&self, step: &Step, steps: &[Step]) -> u32 {
        if step.waiter == 0 {
            return 0;
        }
        let ours = steps.iter().filter(|one| one.pid == step.pid && one.waiter != 0);
        let end_ns = ours.map(|one| one.to_ns).max().unwrap_or(step.to_ns);
        let Some(marks) = self.tasks.get(&step.pid).map(|marks| &marks.marks) else { return 0 };
        let last = marks.partition_point(|mark| mark.at_ns < end_ns).checked_sub(1);
        last.and_then(|last| marks.get(last)).map_or(0, |mark| mark.owner)
    }

    /// Names the query in the steps of a database's task that nothing else is known of; steps are cut where it begins
    /// and ends.
    pub(crate) fn name_queries(&self, steps: &mut Vec<Step>) {
        let asks = |step: &Step| {
            step.detail == Detail::None
                && matches!(step.part, Part::Run | Part::WaitTimer | Part::WaitDisk | Part::WaitLock)
        };
        let mut index = 0;
        while let Some(step) = steps.get(index).copied() {
            let queries = self.tasks.get(&step.pid).filter(|_| asks(&step)).map(|marks| &marks.queries);
            let query = queries.and_then(|queries| {
                let at = queries.partition_point(|query| query.to_ns <= step.from_ns);
                queries.get(at).filter(|query| query.from_ns < step.to_ns)
            });
            let Some(query) = query else {
                index += 1;
                continue;
            };
            let (from_ns, to_ns) = (query.from_ns.max(step.from_ns), query.to_ns.min(step.to_ns));
            let named = Step { from_ns, to_ns, detail: Detail::Named(query.text), ..step };
            let before = Step { to_ns: from_ns, ..step };
            let after = Step { from_ns: to_ns, ..step };
            let pieces = [before, named, after].into_iter().filter(|piece| piece.to_ns > piece.from_ns);
            steps.splice(index..=index, pieces);
            // What comes after it may be another query's.
            index += usize::from(from_ns > step.from_ns) + usize::from(to_ns > from_ns);
        }
    }

    /// Forgets what was before a time, but for what was in force then.
    pub(crate) fn trim(&mut self, before_ns: u64) {
        for marks in self.tasks.values_mut() {
            let keep = marks.marks.partition_point(|mark| mark.at_ns <= before_ns).saturating_sub(KEPT);
            marks.marks.drain(..keep);
            let keep = marks.queries.partition_point(|query| query.to_ns <= before_ns);
            marks.queries.drain(..keep);
            let keep = marks.locks.partition_point(|window| window.to_ns <= before_ns);
            marks.locks.drain(..keep);
            let keep = marks.requests.partition_point(|(at, _)| *at < before_ns);
            marks.requests.drain(..keep);
            let keep = marks.transactions.partition_point(|(at, _)| *at < before_ns);
            marks.transactions.drain(..keep);
        }
        self.held = self.held_by_tasks();
    }

    fn held_by_tasks(&self) -> usize {
        self.tasks.values().map(Marks::held).sum()
    }

    /// Forgets the older half of each task that holds at least half as much as the mean: at least a quarter of all.
    fn forget_older(&mut self) {
        let before = self.held_by_tasks();
        let enough = before / self.tasks.len().max(1) / 2;
        self.tasks.values_mut().filter(|marks| marks.held() > enough).for_each(Marks::forget_older_half);
        self.held = self.held_by_tasks();
        self.ended.forgotten += (before - self.held) as u64;
    }

    /// How many things are held in memory.
    pub(crate) fn held(&self) -> usize {
        self.tasks.len() + self.held_by_tasks() + self.ended.passages.len() + self.ended.queries.len()
    }

    /// Forgets the half of the tasks that was marked longest ago.
    fn make_room(&mut self) {
        let last = |marks: &Marks| marks.marks.back().map_or(0, |mark| mark.at_ns);
        let mut times: Vec<u64> = self.tasks.values().map(last).collect();
        let middle = times.len() / 2;
        let (_, median, _) = times.select_nth_unstable(middle);
        let median = *median;
        self.tasks.retain(|_, marks| last(marks) > median);
        self.held = self.held_by_tasks();
    }
}

/// Whether a step is spent behind others, so that what its task does is theirs.
fn is_queue(part: Part) -> bool {
    matches!(part, Part::AcceptQueue | Part::WorkerQueue)
}

/// What a task did within a window, by parts.
fn spent(tasks: &Tasks, pid: u32, from_ns: u64, to_ns: u64) -> PartTimes {
    let mut parts = PartTimes::default();
    for spell in tasks.spells_back(pid, from_ns, to_ns) {
        let part = match spell.state {
            State::Running { .. } => Part::Run,
            State::Runnable { .. } => Part::WaitCpu,
            State::Unknown => Part::Unattributed,
            State::Blocked { state, syscall, .. } => match wait_of(state, syscall) {
                Wait::Lock => Part::WaitLock,
                Wait::Timer => Part::WaitTimer,
                Wait::Process => Part::WaitProcess,
                Wait::Descriptor => Part::WaitNetwork,
                Wait::Disk => Part::WaitDisk,
                Wait::Unknown => Part::Unattributed,
            },
        };
        parts[part as usize] += spell.to_ns - spell.from_ns;
    }
    parts
}

#[cfg(test)]
mod tests;
