//! What the optional sources said, kept until the requests that it may concern are told.

use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use weir_wire::watched::{DiskRequest, LockWait, NAMED_DEVICE, NAMED_FILE};
use weir_wire::{Kind, Record, Slot, text_from_slots};

/// Notes of one task, or interrupts of one CPU, that are kept; the oldest go first, and what they would have told stays
/// without a name.
const MOST_NOTES: usize = 1 << 16;
/// Tasks, names and members of cgroups that are told apart.
const MOST_KNOWN: usize = 1 << 16;
/// CPUs that are told apart; a record of a higher one is damaged.
const MOST_CPUS: usize = 8192;
/// The collector looks at the quotas in this beat, with some to spare for a busy machine.
const BEAT_NS: u64 = 40_000_000;
/// The probes of two sources on one event do not read the clock at the same time.
pub(crate) const APART_NS: u64 = 50_000;
/// A device's number is `major << 20 | minor`; file systems without a device have the major 0.
const DEVICE_MINOR_BITS: u32 = 20;
/// Sources' bits in [`Kind::Watched`].
pub(crate) const INTERRUPTS: u64 = 4;

/// What an optional source has cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SourceCost {
    /// Its bit: 1 = disk, 2 = locks, 4 = interrupts, 8 = timers.
    pub source: u8,
    /// Events that it told.
    pub events: u64,
    /// How long it was attached, nanoseconds.
    pub attached_ns: u64,
    /// In how much of that the kernel measured its programs, nanoseconds; 0 where it would not.
    pub measured_ns: u64,
    /// The CPU time that they took then, nanoseconds.
    pub cpu_ns: u64,
}

/// Something that a task was said to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Note {
    /// It waits in the way of storage, for this file (0 = not known).
    File { key: u64, flags: u8 },
    /// It is to wait for a lock.
    Lock(LockWait),
    /// It has the kernel's lock that it waited for.
    LockEnd,
    /// A timer makes it runnable.
    Timer,
}

/// An interrupt of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Interrupt {
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
    pub(crate) sort: u8,
    pub(crate) number: u64,
}

/// A cgroup's quota held its tasks back for some of this time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Throttled {
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
    /// How long, the sum over CPUs.
    pub(crate) held_ns: u64,
    pub(crate) cgroup: u64,
}

/// All notes.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    tasks: FxHashMap<u32, VecDeque<(u64, Note)>>,
    cpus: Vec<VecDeque<Interrupt>>,
    requests: VecDeque<(u64, DiskRequest)>,
    throttled: VecDeque<Throttled>,
    members: FxHashMap<u32, Vec<u64>>,
    names: FxHashMap<(u8, u64), Arc<str>>,
    /// Of files that lie on no device of blocks: the number of their file system.
    systems: FxHashMap<u64, u64>,
    watched: VecDeque<(u64, u64)>,
    costs: BTreeMap<u8, SourceCost>,
    /// Of each CPU: (time, stolen until then), first and last.
    stolen: BTreeMap<u32, [(u64, u64); 2]>,
}

impl Notes {
    /// Takes a record of an optional source, or of a fork; others are none of its business.
    pub(crate) fn push(&mut self, record: &Record, payload: &[Slot]) {
        let now_ns = record.time_ns;
        let Some(kind) = Kind::from_code(record.kind) else { return };
        let (low, high) = record.a_halves();
        match kind {
            Kind::Named if self.names.len() < MOST_KNOWN => {
                self.names.insert((record.flags, record.a), Arc::from(text_from_slots(payload)));
                if record.flags == NAMED_FILE && record.b != 0 && record.b >> DEVICE_MINOR_BITS == 0 {
                    self.systems.insert(record.a, record.b);
                }
            }
            Kind::FileWait => {
                self.note(low, now_ns, Note::File { key: record.b, flags: record.flags });
            }
            Kind::LockWait => {
                if let Some(wait) = LockWait::read(record) {
                    self.note(wait.pid, now_ns, Note::Lock(wait));
                }
            }
            Kind::LockEnd => self.note(low, now_ns, Note::LockEnd),
            Kind::TimerWakeup => self.note(low, now_ns, Note::Timer),
            Kind::DiskRequest => {
                if let Some(request) = DiskRequest::read(record) {
                    push_bounded(&mut self.requests, (now_ns, request));
                }
            }
            Kind::Interrupt => self.interrupt(record),
            Kind::Throttled => {
                let from_ns = now_ns.saturating_sub(record.a.min(1_000_000_000).saturating_add(BEAT_NS));
                push_bounded(
                    &mut self.throttled,
                    Throttled { from_ns, to_ns: now_ns, held_ns: record.a, cgroup: record.b },
                );
            }
            Kind::CgroupMember => self.member(low, record.b),
            Kind::Fork => {
                // A process is under the quotas of its parent. Those of an earlier process of its number are dropped.
                let cgroups = self.members.get(&low).cloned().unwrap_or_default();
                self.members.remove(&high);
                cgroups.into_iter().for_each(|cgroup| self.member(high, cgroup));
            }
            Kind::Watched => push_bounded(&mut self.watched, (now_ns, record.a)),
            Kind::CpuSteal if (record.lane as usize) < MOST_CPUS => {
                let told = (now_ns, record.a);
                self.stolen.entry(record.lane).or_insert([told, told])[1] = told;
            }
            Kind::SourceCost => {
                let [measured_ns, cpu_ns, ..] = payload.first().copied().unwrap_or_default();
                let (source, events, attached_ns) = (record.flags, record.a, record.b);
                self.costs.insert(source, SourceCost { source, events, attached_ns, measured_ns, cpu_ns });
            }
            _ => {}
        }
    }

    /// Whether nothing was said, as without optional sources and quotas.
    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.is_empty() && self.cpus.is_empty() && self.throttled.is_empty() && self.watched.is_empty()
    }

    /// What the optional sources have cost.
    pub(crate) fn costs(&self) -> Vec<SourceCost> {
        self.costs.values().copied().collect()
    }

    /// What the hypervisor took of the CPUs: (stolen, of so much time), nanoseconds, the sum over CPUs.
    pub(crate) fn stolen(&self) -> (u64, u64) {
        self.stolen.values().fold((0, 0), |(stolen, time): (u64, u64), [first, last]| {
            (stolen.saturating_add(last.1.saturating_sub(first.1)), time.saturating_add(last.0.saturating_sub(first.0)))
        })
    }

    /// The name of a sort's key.
    pub(crate) fn name(&self, sort: u8, key: u64) -> Option<&Arc<str>> {
        self.names.get(&(sort, key))
    }

    /// The file system of a file, where it is none of a device's and has a name.
    pub(crate) fn file_system(&self, key: u64) -> Option<&Arc<str>> {
        self.systems.get(&key).and_then(|number| self.name(NAMED_DEVICE, *number))
    }

    /// The notes of a task up to a time, latest first.
    pub(crate) fn back(&self, pid: u32, until_ns: u64) -> impl Iterator<Item = (u64, Note)> {
        let notes = self.tasks.get(&pid);
        let end = notes.map_or(0, |notes| notes.partition_point(|(at, _)| *at <= until_ns));
        (0..end).rev().filter_map(move |index| notes.and_then(|notes| notes.get(index)).copied())
    }

    /// The first note of a task from a time on that fits.
    pub(crate) fn next(&self, pid: u32, from_ns: u64, fits: impl Fn(Note) -> bool) -> Option<u64> {
        let notes = self.tasks.get(&pid)?;
        let first = notes.partition_point(|(at, _)| *at < from_ns);
        notes.range(first..).find(|(_, note)| fits(*note)).map(|(at, _)| *at)
    }

    /// Interrupts of a CPU that end after a time, by their ends.
    pub(crate) fn interrupts(&self, cpu: u32, from_ns: u64) -> impl Iterator<Item = &Interrupt> {
        let interrupts = self.cpus.get(cpu as usize);
        let first = interrupts.map_or(0, |interrupts| interrupts.partition_point(|one| one.to_ns <= from_ns));
        interrupts.into_iter().flat_map(move |interrupts| interrupts.range(first..))
    }

    /// Requests to block devices by their ends, latest first, from those that ended by a time.
    pub(crate) fn requests_back(&self, until_ns: u64) -> impl Iterator<Item = (u64, DiskRequest)> {
        let end = self.requests.partition_point(|(at, _)| *at <= until_ns);
        self.requests.range(..end).rev().copied()
    }

    /// Times in which a quota may have held a process back, among those that touch a window.
    pub(crate) fn throttled(&self, process: u32, from_ns: u64, to_ns: u64) -> Option<Throttled> {
        let cgroups = self.members.get(&process)?;
        let first = self.throttled.partition_point(|one| one.to_ns <= from_ns);
        let ours = |one: &&Throttled| cgroups.contains(&one.cgroup) && one.from_ns < to_ns;
        self.throttled.range(first..).find(ours).copied()
    }

    /// Whether two processes are under one quota.
    pub(crate) fn share_quota(&self, one: u32, other: u32, cgroup: u64) -> bool {
        [one, other].iter().all(|process| self.members.get(process).is_some_and(|list| list.contains(&cgroup)))
    }

    /// Whether a source told everything of a window.
    pub(crate) fn was_watched(&self, source: u64, from_ns: u64, to_ns: u64) -> bool {
        let first = self.watched.partition_point(|(at, _)| *at <= from_ns);
        let end = self.watched.partition_point(|(at, _)| *at < to_ns).max(first);
        first > 0 && self.watched.range(first - 1..end).all(|(_, sources)| sources & source != 0)
    }

    /// How many things are held.
    pub(crate) fn held(&self) -> usize {
        self.tasks.values().map(|notes| 1 + notes.len()).sum::<usize>()
            + self.cpus.iter().map(VecDeque::len).sum::<usize>()
            + self.requests.len()
            + self.throttled.len()
            + self.members.len()
            + self.names.len()
            + self.systems.len()
            + self.watched.len()
    }

    /// Forgets what lies before a time, but for what may still hold at it.
    pub(crate) fn trim(&mut self, before_ns: u64) {
        for notes in self.tasks.values_mut() {
            // A wait may have begun long before it is asked for: its last notes stay.
            let keep = notes.partition_point(|(at, _)| *at < before_ns).saturating_sub(2);
            notes.drain(..keep);
        }
        if self.tasks.len() > MOST_KNOWN / 2 {
            self.tasks.retain(|_, notes| notes.back().is_some_and(|(at, _)| *at >= before_ns));
        }
        for interrupts in &mut self.cpus {
            interrupts.drain(..interrupts.partition_point(|one| one.to_ns < before_ns));
        }
        self.requests.drain(..self.requests.partition_point(|(at, _)| *at < before_ns));
        self.throttled.drain(..self.throttled.partition_point(|one| one.to_ns < before_ns));
        let keep = self.watched.partition_point(|(at, _)| *at <= before_ns).saturating_sub(1);
        self.watched.drain(..keep);
        // Both are told again every ten seconds.
        if self.names.len() >= MOST_KNOWN {
            self.names.clear();
            self.systems.clear();
        }
        if self.members.len() >= MOST_KNOWN {
            self.members.clear();
        }
    }

    fn note(&mut self, pid: u32, at_ns: u64, note: Note) {
        if self.tasks.len() < MOST_KNOWN || self.tasks.contains_key(&pid) {
            let notes = self.tasks.entry(pid).or_default();
            // Lanes are merged by time, but two CPUs' clocks may differ by nanoseconds: never let a history run back.
            let at_ns = notes.back().map_or(at_ns, |(last, _)| at_ns.max(*last));
            push_bounded(notes, (at_ns, note));
        }
    }

    fn interrupt(&mut self, record: &Record) {
        let index = record.lane as usize;
        if index >= MOST_CPUS {
            return;
        }
        if self.cpus.len() <= index {
            self.cpus.resize_with(index + 1, VecDeque::new);
        }
        let interrupts = &mut self.cpus[index];
        let to_ns = interrupts.back().map_or(record.time_ns, |last| record.time_ns.max(last.to_ns));
        let from_ns = to_ns.saturating_sub(record.a & 0xffff_ffff);
        push_bounded(interrupts, Interrupt { from_ns, to_ns, sort: record.flags, number: record.a >> 48 });
    }

    fn member(&mut self, process: u32, cgroup: u64) {
        if self.members.len() >= MOST_KNOWN && !self.members.contains_key(&process) {
            return;
        }
        let cgroups = self.members.entry(process).or_default();
        if !cgroups.contains(&cgroup) && cgroups.len() < 8 {
            cgroups.push(cgroup);
        }
    }
}

fn push_bounded<T>(queue: &mut VecDeque<T>, item: T) {
    if queue.len() >= MOST_NOTES {
        queue.pop_front();
    }
    queue.push_back(item);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(notes: &mut Notes, kind: Kind, a: u64, b: u64) {
        notes.push(&Record { kind: kind as u16, a, b, ..Record::default() }, &[]);
    }

    #[test]
    fn a_number_that_is_given_again_is_under_its_makers_quotas_only() {
        let mut notes = Notes::default();
        told(&mut notes, Kind::CgroupMember, 7, 5);
        told(&mut notes, Kind::Fork, 7 | 8 << 32, 0);
        assert!(notes.share_quota(7, 8, 5));
        told(&mut notes, Kind::Fork, 9 | 8 << 32, 0);
        assert!(!notes.share_quota(7, 8, 5) && notes.share_quota(7, 7, 5));
    }

    #[test]
    fn members_that_found_no_room_are_taken_when_they_are_told_again() {
        let mut notes = Notes::default();
        for process in 0..=MOST_KNOWN as u64 {
            told(&mut notes, Kind::CgroupMember, process, 5);
        }
        let last = MOST_KNOWN as u32;
        assert!(notes.members.len() == MOST_KNOWN && !notes.share_quota(last, last, 5));
        notes.trim(0);
        told(&mut notes, Kind::CgroupMember, u64::from(last), 5);
        assert!(notes.share_quota(last, last, 5));
    }
}
