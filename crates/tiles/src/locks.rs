//! Which locks tasks waited for, when, and who held them meanwhile.
//!
//! The probes tell of a lock only when a task has to wait for it, with the lock's holder at that moment. So a lock's
//! lane tells the holder while a task waits, and nothing while none does. A task that waited and goes on has the lock
//! from then on, as far as is known; a task that still waits tells the next holder by its next wait.

use crate::follow::UNKNOWN_TASK;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use weir_wire::task::Switch;
use weir_wire::watched::{LockSort, LockWait, NAMED_FILE, NAMED_FUNCTION};
use weir_wire::{Kind, Record, Slot, text_from_slots};

/// Locks that are told apart; waits for further ones are counted only.
const MOST_LOCKS: usize = 4096;
/// Locks that are listed for a view.
const MOST_LISTED: usize = 64;
/// Waits that are kept one by one; beyond, they are in the buckets only.
const MOST_WAITS: usize = 1 << 18;
/// Names of files and functions that are kept.
const MOST_NAMES: usize = 1 << 14;

/// The key of a lock's lane while no task waits for it.
pub(crate) const FREE: u32 = 0;

/// A lock of the run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockLine {
    /// Its number, by which waits refer to it.
    pub id: u32,
    /// What it is, in words.
    pub name: String,
    /// A holder was ever known. A lock that is never held is rather a condition that tasks wait for.
    pub held: bool,
    /// How often and how long it was waited for, all waits together.
    pub waits: u64,
    /// How long, nanoseconds.
    pub waited_ns: u64,
    /// The longest wait, nanoseconds.
    pub longest_ns: u64,
    /// The begin of the longest wait, from the origin.
    pub longest_from_ns: u64,
    /// From the first wait to the last, from the origin.
    pub first_ns: u64,
    /// The end of the last wait, from the origin.
    pub last_ns: u64,
}

/// A wait. Its times count from the origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "[u64; 5]", into = "[u64; 5]")]
pub struct Waited {
    /// The lock's number.
    pub lock: u32,
    /// The task that waited.
    pub pid: u32,
    /// Who had the lock when the wait began; 0 where that is not known.
    pub holder: u32,
    /// Its begin.
    pub from_ns: u64,
    /// Its end.
    pub to_ns: u64,
}

impl From<[u64; 5]> for Waited {
    fn from([lock, pid, holder, from_ns, to_ns]: [u64; 5]) -> Self {
        // Each was a u32 when it was written; a damaged file gives numbers of no lock and no task.
        let narrow = |number: u64| u32::try_from(number).unwrap_or(UNKNOWN_TASK);
        Self { lock: narrow(lock), pid: narrow(pid), holder: narrow(holder), from_ns, to_ns }
    }
}

impl From<Waited> for [u64; 5] {
    fn from(one: Waited) -> Self {
        [u64::from(one.lock), u64::from(one.pid), u64::from(one.holder), one.from_ns, one.to_ns]
    }
}

/// Takes what is followed.
pub trait Holders {
    /// A lock had this holder for a while (`FREE`: no task waited; `UNKNOWN_TASK`: it is not known).
    fn held(&mut self, lock: u32, holder: u32, from_ns: u64, to_ns: u64);
}

/// Who holds which lock, swept along time.
#[derive(Debug, Default)]
pub(crate) struct Sweeps(FxHashMap<u32, Sweep>);

#[derive(Debug)]
struct Sweep {
    waiters: u32,
    holder: u32,
    since_ns: u64,
}

impl Sweep {
    fn tell(&mut self, lock: u32, now_ns: u64, sink: &mut impl Holders) {
        if now_ns > self.since_ns {
            let holder = if self.waiters == 0 { FREE } else { self.holder };
            sink.held(lock, holder, self.since_ns, now_ns);
            self.since_ns = now_ns;
        }
    }
}

impl Sweeps {
    fn begin(&mut self, lock: u32, holder: u32, now_ns: u64, sink: &mut impl Holders) {
        let fresh = Sweep { waiters: 0, holder: UNKNOWN_TASK, since_ns: now_ns };
        let sweep = self.0.entry(lock).or_insert(fresh);
        sweep.tell(lock, now_ns, sink);
        if holder != 0 {
            sweep.holder = holder;
        } else if sweep.waiters == 0 {
            sweep.holder = UNKNOWN_TASK;
        }
        sweep.waiters += 1;
    }

    fn end(&mut self, lock: u32, pid: u32, now_ns: u64, sink: &mut impl Holders) {
        let Some(sweep) = self.0.get_mut(&lock) else { return };
        sweep.tell(lock, now_ns, sink);
        sweep.waiters = sweep.waiters.saturating_sub(1);
        if sweep.holder != UNKNOWN_TASK {
            sweep.holder = pid;
        }
    }

    /// Hands over what is up to a time, and goes on from there.
    pub(crate) fn flush(&mut self, at_ns: u64, sink: &mut impl Holders) {
        self.0.iter_mut().for_each(|(lock, sweep)| sweep.tell(*lock, at_ns, sink));
    }

    /// Sweeps along known waits, whose times count from an origin, between two times.
    pub(crate) fn replay(waits: &[Waited], origin_ns: u64, end_ns: u64, sink: &mut impl Holders) {
        // A wait without length cannot be seen, and its end would stand before its begin.
        let lasting = waits.iter().filter(|one| one.to_ns > one.from_ns);
        let mut changes: Vec<(u64, bool, Waited)> =
            lasting.flat_map(|one| [(one.from_ns, true, *one), (one.to_ns, false, *one)]).collect();
        // Ends first: who goes on has the lock for which the next one begins to wait.
        changes.sort_by_key(|(at_ns, begins, one)| (*at_ns, *begins, one.from_ns, one.pid));
        let mut sweeps = Self::default();
        for (at_ns, begins, one) in changes {
            let now_ns = origin_ns + at_ns;
            match begins {
                true => sweeps.begin(one.lock, one.holder, now_ns, sink),
                false => sweeps.end(one.lock, one.pid, now_ns, sink),
            }
        }
        sweeps.flush(end_ns, sink);
    }
}

#[derive(Debug)]
struct Waiting {
    lock: u32,
    holder: u32,
    since_ns: u64,
    /// The kernel tells the end of a wait for one of its own; another ends when the task is woken.
    is_kernels: bool,
}

/// Follows the waits of a run.
#[derive(Debug)]
pub struct LockFollow {
    origin_ns: u64,
    /// Locks by sort, key, and the process where the key means something only within it.
    ids: FxHashMap<(LockSort, u64, u32), u32>,
    lines: Vec<(LockLine, LockSort, u64, u32)>,
    names: FxHashMap<(u8, u64), String>,
    waiting: FxHashMap<u32, Waiting>,
    sweeps: Sweeps,
    waits: Vec<Waited>,
    left_out: u64,
}

impl LockFollow {
    /// Nothing is followed yet; times are told from `origin_ns` on.
    #[must_use]
    pub fn new(origin_ns: u64) -> Self {
        Self {
            origin_ns,
            ids: FxHashMap::default(),
            lines: Vec::new(),
            names: FxHashMap::default(),
            waiting: FxHashMap::default(),
            sweeps: Sweeps::default(),
            waits: Vec::new(),
            left_out: 0,
        }
    }

    /// Takes the next record; `process` tells the process of a task, 0 where it is not known.
    pub fn push(&mut self, record: &Record, payload: &[Slot], process: impl Fn(u32) -> u32, sink: &mut impl Holders) {
        let (low, high) = record.a_halves();
        let now_ns = record.time_ns;
        match Kind::from_code(record.kind) {
            Some(Kind::Named) if self.names.len() < MOST_NAMES => {
                self.names.insert((record.flags, record.a), text_from_slots(payload));
            }
            Some(Kind::LockWait) => {
                if let Some(wait) = LockWait::read(record) {
                    self.wait(wait, now_ns, process, sink);
                }
            }
            Some(Kind::LockEnd | Kind::Exit) => self.goes_on(low, now_ns, true, sink),
            // Between two windows no events are recorded.
            Some(Kind::Window) if record.flags != 0 => self.end_all(now_ns, sink),
            Some(Kind::Waking) => self.goes_on(high, now_ns, false, sink),
            Some(Kind::Switch) => {
                // A wake-up may have overtaken the record of the wait; who runs does not wait.
                if let Some(switch) = Switch::read(record) {
                    self.goes_on(switch.next, now_ns, false, sink);
                }
            }
            _ => {}
        }
    }

    /// Hands over what is up to a time.
    pub fn flush(&mut self, at_ns: u64, sink: &mut impl Holders) {
        self.sweeps.flush(at_ns, sink);
    }

    /// What it came to: the locks that matter most, each wait, and how many waits were left out.
    pub fn finish(
        mut self,
        end_ns: u64,
        task: impl Fn(u32) -> String,
        sink: &mut impl Holders,
    ) -> (Vec<LockLine>, Vec<Waited>, u64) {
        self.end_all(end_ns, sink);
        self.flush(end_ns, sink);
        let names = &self.names;
        let mut lines: Vec<LockLine> = self
            .lines
            .into_iter()
            .map(|(line, sort, key, process)| LockLine { name: name(names, sort, key, process, &task), ..line })
            .collect();
        lines.sort_by_key(|line| (!line.held, std::cmp::Reverse(line.waited_ns), line.id));
        lines.truncate(MOST_LISTED);
        self.waits.sort_by_key(|one| (one.from_ns, one.pid));
        (lines, self.waits, self.left_out)
    }

    fn wait(&mut self, wait: LockWait, now_ns: u64, process: impl Fn(u32) -> u32, sink: &mut impl Holders) {
        self.goes_on(wait.pid, now_ns, true, sink);
        let own = process(wait.pid);
        let within = matches!(wait.sort, LockSort::Futex | LockSort::AddressSpace);
        let identity = (wait.sort, wait.key, if within { own } else { 0 });
        if self.ids.len() >= MOST_LOCKS && !self.ids.contains_key(&identity) {
            self.left_out += 1;
            return;
        }
        let lock = *self.ids.entry(identity).or_insert_with(|| {
            let id = self.lines.len() as u32;
            let line = LockLine { id, first_ns: now_ns.saturating_sub(self.origin_ns), ..LockLine::default() };
            self.lines.push((line, wait.sort, wait.key, identity.2));
            id
        });
        // What stands in a futex's word may be no task at all: then hardly one of the same process.
        let is_futex = wait.sort == LockSort::Futex;
        let plausible = wait.holder != wait.pid && (!is_futex || (own != 0 && process(wait.holder) == own));
        let holder = if plausible { wait.holder } else { 0 };
        self.lines[lock as usize].0.held |= holder != 0;
        self.sweeps.begin(lock, holder, now_ns, sink);
        let is_kernels = wait.sort.is_kernels();
        self.waiting.insert(wait.pid, Waiting { lock, holder, since_ns: now_ns, is_kernels });
    }

    fn end_all(&mut self, now_ns: u64, sink: &mut impl Holders) {
        let waiting: Vec<u32> = self.waiting.keys().copied().collect();
        waiting.into_iter().for_each(|pid| self.goes_on(pid, now_ns, true, sink));
    }

    /// A task goes on; `told` if the kernel says that it has the lock, or that the task is no more.
    fn goes_on(&mut self, pid: u32, now_ns: u64, told: bool, sink: &mut impl Holders) {
        if !self.waiting.get(&pid).is_some_and(|waiting| told || !waiting.is_kernels) {
            return;
        }
        let Some(Waiting { lock, holder, since_ns, .. }) = self.waiting.remove(&pid) else { return };
        self.sweeps.end(lock, pid, now_ns, sink);
        let waited_ns = now_ns.saturating_sub(since_ns);
        let (from_ns, to_ns) = (since_ns.saturating_sub(self.origin_ns), now_ns.saturating_sub(self.origin_ns));
        // The lock was listed when the wait began.
        if let Some((line, ..)) = self.lines.get_mut(lock as usize) {
            line.waits += 1;
            line.waited_ns += waited_ns;
            if waited_ns > line.longest_ns {
                (line.longest_ns, line.longest_from_ns) = (waited_ns, from_ns);
            }
            line.last_ns = to_ns;
        }
        if self.waits.len() < MOST_WAITS {
            self.waits.push(Waited { lock, pid, holder, from_ns, to_ns });
        } else {
            self.left_out += 1;
        }
    }
}

/// A lock in words.
fn name(
    names: &FxHashMap<(u8, u64), String>,
    sort: LockSort,
    key: u64,
    process: u32,
    task: impl Fn(u32) -> String,
) -> String {
    let of = |kind: u8, unknown: &str| names.get(&(kind, key)).map_or_else(|| unknown.to_owned(), Clone::clone);
    let which = match sort {
        LockSort::Futex => format!("{key:#x} of {}", task(process)),
        LockSort::AddressSpace => format!("of {}", task(process)),
        LockSort::Flock | LockSort::Fcntl => of(NAMED_FILE, "a file"),
        LockSort::Mutex | LockSort::Semaphore | LockSort::Kernel => of(NAMED_FUNCTION, "an unknown function"),
    };
    format!("{} {which}", sort.words())
}

#[cfg(test)]
#[path = "locks_tests.rs"]
mod tests;
