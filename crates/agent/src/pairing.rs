//! Pairs the begins and ends of one process's transactions. See [`crate`]'s page of their lifecycle, `LIFECYCLE.md`.
//!
//! A lane keeps the order of its own records. Between lanes there is one rule only: a record that was written earlier
//! is read at most one pass later. So in a process with several lanes, a record without its begin waits for one pass,
//! and an ended transaction stays for one pass, as another lane may hold more of it.

use crate::keyed::Keyed;
use crate::notes::Notes;
use crate::protocol::Counts;
pub use crate::running::Running;
use crate::running::{End, Table};
use crate::transaction::Status;
use std::collections::{HashMap, HashSet, VecDeque};
use weir_measure::account::Reading;
use weir_wire::arm::{BOUND, CORRELATED, Detail, HAS_ARRIVAL, HAS_OWN, HAS_PARENT, Handle, Identity, LANES, TRACE};
use weir_wire::{Kind, Record, Slot};

/// Records of one process that wait for their begin.
pub const MOST_LATE: usize = 4096;
/// Handles of one process that were found again after another agent.
const MOST_RECOVERED: usize = 4096;
/// Transactions of one process for which details came before their report.
const MOST_REPORTED_EARLY: usize = 256;

/// A record with what follows it.
pub type Whole = (Record, Vec<Slot>);

/// What is done with what comes out, and where a former agent's begins are found.
pub trait Tell {
    /// A transaction has begun that may have children elsewhere.
    fn correlated(&mut self, running: &Running);

    /// A transaction is over. Returns its parent's handle if that runs in the same process.
    fn ended(&mut self, running: Running, end_ns: u64, status: Status) -> Option<Handle>;

    /// An empty buffer for what is told of a transaction, which has room already if there is one.
    fn buffer(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// A transaction that may have children elsewhere is gone without an end.
    fn gone(&mut self, running: &Running);

    /// The begin that a former agent has read, and what was told with it; nothing if it is not there any more.
    fn former(&mut self, handle: Handle) -> Vec<Whole>;

    /// What a thread of the process had done and waited for up to a time; `None` = that is not known.
    fn read(&mut self, thread: u32, at_ns: u64) -> Option<Reading>;

    /// Since 1970, nanoseconds less those of CLOCK_MONOTONIC.
    fn unix_offset_ns(&self) -> i64;
}

/// What a process may take up here.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Running transactions.
    pub running: usize,
    /// Bytes of what is told of them.
    pub attribute_bytes: usize,
}

/// A record that waits for its begin.
#[derive(Debug)]
struct Late {
    pass: u64,
    lane: u8,
    whole: Whole,
}

/// The transactions of one process.
#[derive(Debug)]
pub struct Pairing {
    running: Table,
    /// Bytes of what is told of them.
    attribute_bytes: usize,
    late: VecDeque<Late>,
    /// Those that have an end, in the order of passes.
    ending: VecDeque<(u64, Handle)>,
    /// Instances that have stopped: pass, number, time.
    stopping: VecDeque<(u64, u16, u64)>,
    /// What was told of transactions whose report is to come, by lane and handle.
    reported_early: HashMap<(u8, u64), Notes, Keyed>,
    recovered: HashSet<u64, Keyed>,
    pass: u64,
    several: bool,
    limits: Limits,
    /// What came since it was last taken.
    pub counts: Counts,
}

impl Pairing {
    /// Of a process whose memory was just opened.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            running: Table::default(),
            attribute_bytes: 0,
            late: VecDeque::new(),
            ending: VecDeque::new(),
            stopping: VecDeque::new(),
            reported_early: HashMap::default(),
            recovered: HashSet::default(),
            pass: 0,
            several: false,
            limits,
            counts: Counts::default(),
        }
    }

    /// Those that run.
    pub fn running(&self) -> impl Iterator<Item = &Running> {
        self.running.each()
    }

    /// How many run.
    #[must_use]
    pub fn running_count(&self) -> usize {
        self.running.len()
    }

    /// Bytes of what is told of them.
    #[must_use]
    pub fn attribute_bytes(&self) -> usize {
        self.attribute_bytes
    }

    /// Whether another pass has something to do though no record comes.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        !(self.late.is_empty() && self.ending.is_empty() && self.stopping.is_empty())
    }

    /// A pass over all lanes begins; `several` = the process has used more than one.
    pub fn begin_pass(&mut self, several: bool, limits: Limits) {
        self.pass += 1;
        self.several = several;
        self.limits = limits;
    }

    /// Takes the next record of a lane.
    pub fn take(&mut self, lane: u8, record: &Record, slots: &[Slot], tell: &mut impl Tell) {
        self.counts.records += 1;
        match Kind::from_code(record.kind) {
            Some(Kind::ArmStart) => self.start(record, slots, tell),
            Some(Kind::ArmReport) => self.report(lane, record, slots, tell),
            Some(Kind::ArmInstance) if record.b == 0 && self.stopping.len() < MOST_LATE => {
                self.stopping.push_back((self.pass, record.a as u16, record.time_ns));
            }
            Some(
                Kind::ArmStop
                | Kind::ArmDiscard
                | Kind::ArmUpdate
                | Kind::ArmBlock
                | Kind::ArmUnblock
                | Kind::ArmBind
                | Kind::ArmDetail
                | Kind::ArmPieces,
            ) => self.of_running(lane, self.pass, record, slots, tell),
            // An instance that begins; a correlator, which tells of itself when it is reported; kinds of later versions.
            _ => {}
        }
        if !self.several && (!self.ending.is_empty() || !self.stopping.is_empty()) {
            self.finish(self.pass, tell);
        }
    }

    /// The pass is over: what had time enough is decided.
    pub fn end_pass(&mut self, tell: &mut impl Tell) {
        let patient = if self.several { self.pass.saturating_sub(1) } else { self.pass };
        for late in std::mem::take(&mut self.late) {
            let (record, slots) = &late.whole;
            if let Some(place) = self.running.find(record.a) {
                self.apply(place, late.pass, record, slots, tell);
            } else if late.pass <= patient {
                self.counts.unmatched += 1;
            } else {
                self.late.push_back(late);
            }
        }
        self.finish(patient, tell);
        self.running.shrink();
    }

    /// The process is gone: nothing more will come, and what runs is unfinished.
    pub fn end(&mut self, now_ns: u64, tell: &mut impl Tell) {
        self.several = false;
        self.end_pass(tell);
        let handles: Vec<u64> = self.running.each().map(|running| running.handle.0).collect();
        for handle in handles {
            let Some(running) = self.remove(handle) else { continue };
            self.counts.finished += 1;
            self.counts.unfinished += 1;
            tell.ended(running, now_ns, Status::Unfinished);
        }
    }

    fn start(&mut self, record: &Record, slots: &[Slot], tell: &mut impl Tell) {
        if self.running.len() >= self.limits.running {
            self.forget_the_oldest(tell);
        }
        let mut slots = slots.iter();
        let parent = (record.flags & HAS_PARENT != 0).then(|| slots.next().map(Identity::of_slot)).flatten();
        let arrival = (record.flags & HAS_ARRIVAL != 0).then(|| slots.next().map(|slot| slot[0])).flatten();
        let mut notes = Notes::default();
        if !slots.as_slice().is_empty() {
            let room = self.limits.attribute_bytes.saturating_sub(self.attribute_bytes);
            notes.pieces(slots.as_slice(), room, || tell.buffer());
            self.attribute_bytes += notes.bytes();
        }
        let running = Running {
            handle: Handle(record.a),
            transaction: record.b as u16,
            instance: (record.b >> 16) as u16,
            one_in: (record.b >> 32) as u32,
            flags: record.flags,
            thread: record.lane,
            start_ns: record.time_ns,
            begun: tell.read(record.lane, record.time_ns).map(Box::new),
            arrival_ns: arrival.unwrap_or(0),
            parent,
            own: None,
            updates: 0,
            children: 0,
            notes,
            end: None,
        };
        self.counts.started += 1;
        if running.flags & CORRELATED != 0 {
            tell.correlated(&running);
        }
        if let Some(before) = self.running.insert(running) {
            // No client of ours gives a handle twice; one that does has lost the first.
            self.counts.damaged += 1;
            self.counts.forgotten += 1;
            self.attribute_bytes -= before.notes.bytes();
        }
        if record.flags & BOUND != 0 {
            self.with_notes(record.a, |notes| notes.attributes().bind(record.lane, true, record.time_ns));
        }
    }

    /// A record that belongs to a running transaction.
    fn of_running(&mut self, lane: u8, pass: u64, record: &Record, slots: &[Slot], tell: &mut impl Tell) {
        let found = self.running.find(record.a).or_else(|| self.recover(Handle(record.a), tell));
        if let Some(place) = found {
            self.apply(place, pass, record, slots, tell);
        } else if self.several && self.late.len() < MOST_LATE {
            self.late.push_back(Late { pass, lane, whole: (*record, slots.to_vec()) });
        } else if is_detail(record) {
            self.early(lane, record, slots);
        } else {
            self.counts.unmatched += 1;
        }
    }

    /// A detail of what has not begun: it may belong to a report, before which it stands in the same lane.
    fn early(&mut self, lane: u8, record: &Record, slots: &[Slot]) {
        let key = (lane, record.a);
        if self.reported_early.len() >= MOST_REPORTED_EARLY && !self.reported_early.contains_key(&key) {
            self.counts.unmatched += self.reported_early.len() as u64;
            self.attribute_bytes -= self.reported_early.drain().map(|(_, notes)| notes.bytes()).sum::<usize>();
        }
        let room = self.limits.attribute_bytes.saturating_sub(self.attribute_bytes);
        let notes = self.reported_early.entry(key).or_default();
        let before = notes.bytes();
        note(notes, record, slots, room, Vec::new);
        self.attribute_bytes = self.attribute_bytes + notes.bytes() - before;
    }

    /// What stands in a lane before a report: it waits among the late ones if the process has several lanes.
    fn told_early(&mut self, lane: u8, handle: u64) -> Option<Notes> {
        let is_of_it = |late: &Late| {
            let record = &late.whole.0;
            late.lane == lane && record.a == handle && is_detail(record)
        };
        if self.late.iter().any(is_of_it) {
            let (of_it, others): (VecDeque<Late>, _) = std::mem::take(&mut self.late).into_iter().partition(is_of_it);
            self.late = others;
            for late in of_it {
                self.early(lane, &late.whole.0, &late.whole.1);
            }
        }
        let notes = self.reported_early.remove(&(lane, handle))?;
        self.attribute_bytes -= notes.bytes();
        Some(notes)
    }

    /// Takes a record of the transaction that runs at a place of the table.
    fn apply(&mut self, place: usize, pass: u64, record: &Record, slots: &[Slot], tell: &mut impl Tell) {
        let Some(running) = self.running.at(place) else { return };
        let time_ns = record.time_ns;
        let status = match Kind::from_code(record.kind) {
            Some(Kind::ArmStop) => Some(Status::of_number(record.b)),
            Some(Kind::ArmDiscard) => None,
            Some(Kind::ArmUpdate) => {
                running.updates = running.updates.saturating_add(1);
                return;
            }
            kind => {
                let before = running.notes.bytes();
                match kind {
                    Some(Kind::ArmBlock) => running.notes.attributes().wait(record.b, true, time_ns),
                    Some(Kind::ArmUnblock) => running.notes.attributes().wait(record.b, false, time_ns),
                    Some(Kind::ArmBind) => running.notes.attributes().bind(record.lane, record.b != 0, time_ns),
                    _ => {
                        let room = self.limits.attribute_bytes.saturating_sub(self.attribute_bytes);
                        note(&mut running.notes, record, slots, room, || tell.buffer());
                    }
                }
                self.attribute_bytes = self.attribute_bytes + running.notes.bytes() - before;
                return;
            }
        };
        if running.end.is_some() {
            // It was ended twice: the first counts.
            self.counts.unmatched += 1;
            return;
        }
        if !slots.is_empty() {
            let (before, room) =
                (running.notes.bytes(), self.limits.attribute_bytes.saturating_sub(self.attribute_bytes));
            running.notes.pieces(slots, room, || tell.buffer());
            self.attribute_bytes = self.attribute_bytes + running.notes.bytes() - before;
        }
        running.end = Some(End { pass, time_ns, thread: record.lane, status });
        if self.several {
            self.ending.push_back((pass, Handle(record.a)));
        } else if let Some(running) = self.remove(record.a) {
            self.over(running, tell);
        }
    }

    /// Changes what is told of a running transaction, and keeps count of its bytes.
    fn with_notes(&mut self, handle: u64, change: impl FnOnce(&mut Notes)) {
        let Some(running) = self.running.get_mut(handle) else { return };
        let before = running.notes.bytes();
        change(&mut running.notes);
        self.attribute_bytes = self.attribute_bytes + running.notes.bytes() - before;
    }

    /// Ends those whose end was read in a pass up to this one.
    fn finish(&mut self, patient: u64, tell: &mut impl Tell) {
        while self.ending.front().is_some_and(|ending| ending.0 <= patient) {
            let Some((_, handle)) = self.ending.pop_front() else { break };
            // Its handle may have been given again, by a client that is no client of ours.
            let is_over = self.running.get_mut(handle.0).is_some_and(|running| running.end.is_some());
            if let Some(running) = is_over.then(|| self.remove(handle.0)).flatten() {
                self.over(running, tell);
            }
        }
        while self.stopping.front().is_some_and(|stopping| stopping.0 <= patient) {
            let Some((_, instance, time_ns)) = self.stopping.pop_front() else { break };
            let of_it = |running: &&Running| running.instance == instance && running.start_ns <= time_ns;
            let handles: Vec<u64> = self.running.each().filter(of_it).map(|running| running.handle.0).collect();
            for handle in handles {
                if let Some(running) = self.remove(handle) {
                    self.counts.discarded += 1;
                    tell.gone(&running);
                }
            }
        }
    }

    #[inline]
    fn over(&mut self, running: Running, tell: &mut impl Tell) {
        let Some(End { time_ns, status, .. }) = running.end else { return };
        let Some(status) = status else {
            self.counts.discarded += 1;
            tell.gone(&running);
            return;
        };
        self.counts.finished += 1;
        if let Some(parent) = tell.ended(running, time_ns, status)
            && let Some(parent) = self.running.get_mut(parent.0)
        {
            parent.children = parent.children.saturating_add(1);
        }
    }

    /// One more child of a running transaction has ended, in another process.
    pub fn child(&mut self, handle: Handle) {
        if let Some(parent) = self.running.get_mut(handle.0) {
            parent.children = parent.children.saturating_add(1);
        }
    }

    #[inline]
    fn remove(&mut self, handle: u64) -> Option<Running> {
        let running = self.running.remove(handle)?;
        self.attribute_bytes -= running.notes.bytes();
        Some(running)
    }

    /// A transaction that was measured elsewhere.
    fn report(&mut self, lane: u8, record: &Record, slots: &[Slot], tell: &mut impl Tell) {
        let Some((&[response_ns, stopped_ms, status, _], rest)) = slots.split_first() else {
            self.counts.damaged += 1;
            return;
        };
        let mut rest = rest.iter();
        let parent = (record.flags & HAS_PARENT != 0).then(|| rest.next().map(Identity::of_slot)).flatten();
        let own = (record.flags & HAS_OWN != 0).then(|| rest.next().map(Identity::of_slot)).flatten();
        let notes = self.told_early(lane, record.a).unwrap_or_default();
        // The time of the record stands for "now", and for a time that is none.
        let stopped_ns = i64::try_from(stopped_ms).ok().filter(|time| *time > 0);
        let stopped_ns = stopped_ns.and_then(|time| time.checked_mul(1_000_000)?.checked_sub(tell.unix_offset_ns()));
        let end_ns = stopped_ns.and_then(|time| u64::try_from(time).ok()).unwrap_or(record.time_ns);
        let start_ns = end_ns.saturating_sub(response_ns);
        let running = Running {
            handle: Handle(record.a),
            transaction: record.b as u16,
            instance: (record.b >> 16) as u16,
            one_in: 0,
            flags: record.flags & TRACE,
            thread: record.lane,
            start_ns,
            begun: tell.read(record.lane, start_ns).map(Box::new),
            arrival_ns: 0,
            parent,
            own: Some(Box::new(own.unwrap_or_default())),
            updates: 0,
            children: 0,
            notes,
            end: None,
        };
        self.counts.started += 1;
        self.counts.finished += 1;
        self.counts.reported += 1;
        if let Some(parent) = tell.ended(running, end_ns, Status::of_number(status)) {
            self.child(parent);
        }
    }

    /// Looks for a begin that a former agent has read: it may still stand in its lane.
    fn recover(&mut self, handle: Handle, tell: &mut impl Tell) -> Option<usize> {
        if self.recovered.contains(&handle.0) || self.recovered.len() >= MOST_RECOVERED {
            return None;
        }
        let found = tell.former(handle);
        let ((record, slots), told) = found.split_first()?;
        self.recovered.insert(handle.0);
        self.counts.recovered += 1;
        self.start(record, slots, tell);
        for (record, slots) in told {
            let place = self.running.find(handle.0)?;
            self.apply(place, self.pass, record, slots, tell);
        }
        self.running.find(handle.0)
    }

    /// There is no more room: the older quarter goes.
    fn forget_the_oldest(&mut self, tell: &mut impl Tell) {
        let mut starts: Vec<(u64, u64)> = self.running.each().map(|one| (one.start_ns, one.handle.0)).collect();
        let quarter = (starts.len() / 4).max(1).min(starts.len());
        if quarter < starts.len() {
            starts.select_nth_unstable(quarter);
        }
        for &(_, handle) in &starts[..quarter] {
            if let Some(running) = self.remove(handle) {
                self.counts.forgotten += 1;
                tell.gone(&running);
            }
        }
    }
}

/// Whether a record tells of a transaction without doing anything to it.
pub(crate) fn is_detail(record: &Record) -> bool {
    record.kind == Kind::ArmDetail as u16 || record.kind == Kind::ArmPieces as u16
}

/// Notes what such a record tells.
fn note(notes: &mut Notes, record: &Record, slots: &[Slot], room: usize, buffer: impl FnOnce() -> Vec<u8>) {
    if record.kind == Kind::ArmPieces as u16 {
        notes.pieces(slots, room, buffer);
    } else {
        notes.piece(Detail::of_operand(record.b), slots, room, buffer);
    }
}

/// Lanes are numbered in a byte.
const _: () = assert!(LANES <= 256);

#[cfg(test)]
mod tests;
