//! Who runs where and what each task waits for, followed through the scheduler's events in the order of time.

use rustc_hash::{FxHashMap, FxHashSet};
use weir_timeline::{Wait, wait_of};
use weir_wire::task::Switch;
use weir_wire::{Kind, Record};

/// Tasks that are followed at a time; beyond, further ones are not, and are counted.
const MOST_TASKS: usize = 1 << 16;
/// CPUs that are told apart; a record of a higher one is damaged.
const MOST_CPUS: usize = 8192;
/// A wake-up this shortly before a task blocks was meant for that block: the two CPUs' events overtook each other.
const WAKE_RACE_NS: u64 = 20_000;
/// Codes of states from here on mean running on CPU `code - RUNNING`.
const RUNNING: u32 = 16;
/// Flag of [`Kind::Window`]: it ends.
const WINDOW_ENDS: u8 = 1;
/// Stands for a task that is not known in a CPU's lane.
pub(crate) const UNKNOWN_TASK: u32 = u32::MAX;

/// What a task does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// Nothing is known.
    Unknown,
    /// It could run, but another task has the CPU.
    Ready,
    /// It waits.
    Blocked(Wait),
    /// It has this CPU.
    Running(u32),
}

impl Doing {
    /// Its number in tiles: 0 unknown, 1 ready, 2 lock, 3 timer, 4 process, 5 descriptor, 6 disk, 7 blocked in anything
    /// else, from 16 on running on CPU `code - 16`.
    #[must_use]
    pub fn code(self) -> u32 {
        match self {
            Self::Unknown => 0,
            Self::Ready => 1,
            Self::Blocked(Wait::Lock) => 2,
            Self::Blocked(Wait::Timer) => 3,
            Self::Blocked(Wait::Process) => 4,
            Self::Blocked(Wait::Descriptor) => 5,
            Self::Blocked(Wait::Disk) => 6,
            Self::Blocked(Wait::Unknown) => 7,
            Self::Running(cpu) => RUNNING.saturating_add(cpu),
        }
    }

    /// What a number stands for.
    #[must_use]
    pub fn of_code(code: u32) -> Self {
        match code {
            1 => Self::Ready,
            2 => Self::Blocked(Wait::Lock),
            3 => Self::Blocked(Wait::Timer),
            4 => Self::Blocked(Wait::Process),
            5 => Self::Blocked(Wait::Descriptor),
            6 => Self::Blocked(Wait::Disk),
            7 => Self::Blocked(Wait::Unknown),
            RUNNING.. => Self::Running(code - RUNNING),
            _ => Self::Unknown,
        }
    }
}

/// Takes what was followed: stretches of time, each lane's in the order of time.
pub trait Sink {
    /// A CPU had a task (0 is idle, [`u32::MAX`] unknown) for a while.
    fn cpu(&mut self, cpu: u32, pid: u32, from_ns: u64, to_ns: u64);
    /// A task did something for a while, which `waker` ended by a wake-up, 0 if no task did.
    fn task(&mut self, pid: u32, doing: Doing, from_ns: u64, to_ns: u64, waker: u32);
}

#[derive(Debug, Clone, Copy)]
struct Task {
    doing: Doing,
    since_ns: u64,
    /// A wake-up that came while it still ran.
    woken_ns: Option<u64>,
    ended: bool,
}

/// Follows tasks and CPUs.
#[derive(Debug, Default)]
pub struct Follow {
    tasks: FxHashMap<u32, Task>,
    /// Tasks that have ended: a wake-up that comes later, such as by a signal, wakes no task.
    gone: FxHashSet<u32>,
    /// For each CPU its task and since when; none where that is not known.
    cpus: Vec<Option<(u32, u64)>>,
    left_out: u64,
}

impl Follow {
    /// Goes on from what tasks do and CPUs have at a time.
    #[must_use]
    pub fn from_states(
        at_ns: u64,
        tasks: impl Iterator<Item = (u32, Doing)>,
        cpus: impl Iterator<Item = (u32, u32)>,
    ) -> Self {
        let mut follow = Self::default();
        for (pid, doing) in tasks.take(MOST_TASKS) {
            follow.tasks.insert(pid, Task { doing, since_ns: at_ns, woken_ns: None, ended: false });
        }
        for (cpu, pid) in cpus.filter(|(_, pid)| *pid != UNKNOWN_TASK) {
            if let Some(slot) = follow.slot(cpu) {
                *slot = Some((pid, at_ns));
            }
        }
        follow
    }

    /// What each task does now, but for those of which nothing is known.
    pub fn states(&self) -> impl Iterator<Item = (u32, Doing)> {
        self.tasks.iter().filter(|(_, task)| task.doing != Doing::Unknown).map(|(pid, task)| (*pid, task.doing))
    }

    /// The task that a CPU has; `None` where it is idle or not known.
    #[must_use]
    pub fn current(&self, cpu: u32) -> Option<u32> {
        let (pid, _) = self.cpus.get(cpu as usize).copied().flatten()?;
        (pid != 0 && pid != UNKNOWN_TASK).then_some(pid)
    }

    /// Events of tasks that found no room.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Takes the next record; other kinds than the scheduler's change nothing.
    pub fn push(&mut self, record: &Record, sink: &mut impl Sink) {
        let (low, high) = record.a_halves();
        let now_ns = record.time_ns;
        match Kind::from_code(record.kind) {
            Some(Kind::Switch) => {
                if let Some(switch) = Switch::read(record) {
                    self.switch(now_ns, record.lane, switch, sink);
                }
            }
            Some(Kind::Waking) => self.waking(now_ns, low, high, sink),
            Some(Kind::Fork) => {
                self.gone.remove(&high);
                self.change(high, Doing::Ready, now_ns, low, sink);
            }
            Some(Kind::Exit) => {
                if let Some(task) = self.tasks.get_mut(&low) {
                    task.ended = true;
                }
            }
            Some(Kind::Lost) => self.lost(now_ns, record.lane, sink),
            Some(Kind::Window) if record.flags & WINDOW_ENDS != 0 => self.pause(now_ns, sink),
            _ => {}
        }
    }

    /// Hands over what is going on up to a time, and goes on from there.
    pub fn flush(&mut self, at_ns: u64, sink: &mut impl Sink) {
        for (pid, task) in &mut self.tasks {
            emit(*pid, task, at_ns, 0, sink);
            task.since_ns = task.since_ns.max(at_ns);
        }
        for (cpu, slot) in self.cpus.iter_mut().enumerate() {
            if let Some((pid, since_ns)) = slot {
                if at_ns > *since_ns {
                    sink.cpu(cpu as u32, *pid, *since_ns, at_ns);
                }
                *since_ns = (*since_ns).max(at_ns);
            }
        }
    }

    fn slot(&mut self, cpu: u32) -> Option<&mut Option<(u32, u64)>> {
        let index = cpu as usize;
        if index >= MOST_CPUS {
            return None;
        }
        if self.cpus.len() <= index {
            self.cpus.resize(index + 1, None);
        }
        self.cpus.get_mut(index)
    }

    fn switch(&mut self, now_ns: u64, cpu: u32, switch: Switch, sink: &mut impl Sink) {
        let Some(slot) = self.slot(cpu) else { return };
        let before = slot.replace((switch.next, now_ns));
        if let Some((pid, since_ns)) = before {
            // Where a switch is missing, who had the CPU meanwhile is not known.
            let known = if pid == switch.prev { pid } else { UNKNOWN_TASK };
            if now_ns > since_ns {
                sink.cpu(cpu, known, since_ns, now_ns);
            }
            if pid != switch.prev && pid != 0 {
                self.doubt(pid, cpu, now_ns, sink);
            }
        }
        if switch.prev != 0 {
            let task = self.tasks.get(&switch.prev);
            let woken = task.and_then(|task| task.woken_ns).is_some_and(|at| now_ns.saturating_sub(at) < WAKE_RACE_NS);
            if task.is_some_and(|task| task.ended) {
                self.change(switch.prev, Doing::Unknown, now_ns, 0, sink);
                self.tasks.remove(&switch.prev);
                if self.gone.len() < MOST_TASKS {
                    self.gone.insert(switch.prev);
                }
            } else {
                let doing = match switch.prev_state {
                    0 => Doing::Ready,
                    _ if woken => Doing::Ready,
                    state => Doing::Blocked(wait_of(state, switch.syscall)),
                };
                self.change(switch.prev, doing, now_ns, 0, sink);
            }
        }
        if switch.next != 0 {
            // It had only lost the CPU on its way out, and is still on that way.
            let leaves = self.gone.remove(&switch.next);
            self.change(switch.next, Doing::Running(cpu), now_ns, 0, sink);
            if let Some(task) = self.tasks.get_mut(&switch.next).filter(|_| leaves) {
                task.ended = true;
            }
        }
    }

    fn waking(&mut self, now_ns: u64, waker: u32, woken: u32, sink: &mut impl Sink) {
        match self.tasks.get_mut(&woken) {
            Some(task) if matches!(task.doing, Doing::Running(_)) => task.woken_ns = Some(now_ns),
            Some(task) if task.doing == Doing::Ready => {}
            None if self.gone.contains(&woken) => {}
            _ => self.change(woken, Doing::Ready, now_ns, waker, sink),
        }
    }

    /// Events of a CPU are missing: who has it is not known from its last event on.
    fn lost(&mut self, now_ns: u64, cpu: u32, sink: &mut impl Sink) {
        let Some(slot) = self.slot(cpu) else { return };
        if let Some((pid, since_ns)) = slot.replace((UNKNOWN_TASK, now_ns)) {
            if now_ns > since_ns {
                sink.cpu(cpu, UNKNOWN_TASK, since_ns, now_ns);
            }
            self.doubt(pid, cpu, now_ns, sink);
        }
    }

    /// Events stop until the next window: what tasks do and CPUs have is not known from now on.
    fn pause(&mut self, now_ns: u64, sink: &mut impl Sink) {
        self.flush(now_ns, sink);
        for pid in self.tasks.keys() {
            // However short: a lane goes on as it was left.
            sink.task(*pid, Doing::Unknown, now_ns, now_ns + 1, 0);
        }
        self.tasks.clear();
        self.cpus.iter_mut().flatten().for_each(|(pid, _)| *pid = UNKNOWN_TASK);
    }

    /// A task was believed to have a CPU and has it no more: since when is not known.
    fn doubt(&mut self, pid: u32, cpu: u32, now_ns: u64, sink: &mut impl Sink) {
        if let Some(task) = self.tasks.get_mut(&pid).filter(|task| task.doing == Doing::Running(cpu)) {
            task.doing = Doing::Unknown;
            emit(pid, task, now_ns, 0, sink);
            task.since_ns = task.since_ns.max(now_ns);
        }
    }

    fn change(&mut self, pid: u32, doing: Doing, now_ns: u64, waker: u32, sink: &mut impl Sink) {
        if pid == 0 {
            return;
        }
        let room = self.tasks.len() < MOST_TASKS;
        match self.tasks.get_mut(&pid) {
            Some(task) => {
                emit(pid, task, now_ns, waker, sink);
                let since_ns = task.since_ns.max(now_ns);
                *task = Task { doing, since_ns, woken_ns: None, ended: task.ended };
            }
            None if room => {
                self.tasks.insert(pid, Task { doing, since_ns: now_ns, woken_ns: None, ended: false });
            }
            None => self.left_out += 1,
        }
    }
}

fn emit(pid: u32, task: &Task, now_ns: u64, waker: u32, sink: &mut impl Sink) {
    if now_ns > task.since_ns {
        sink.task(pid, task.doing, task.since_ns, now_ns, waker);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::task::NO_SYSCALL;

    #[derive(Default)]
    struct Noted {
        cpus: Vec<(u32, u32, u64, u64)>,
        tasks: Vec<(u32, Doing, u64, u64, u32)>,
    }

    impl Sink for Noted {
        fn cpu(&mut self, cpu: u32, pid: u32, from_ns: u64, to_ns: u64) {
            self.cpus.push((cpu, pid, from_ns, to_ns));
        }
        fn task(&mut self, pid: u32, doing: Doing, from_ns: u64, to_ns: u64, waker: u32) {
            self.tasks.push((pid, doing, from_ns, to_ns, waker));
        }
    }

    fn switch(time_ns: u64, prev: u32, next: u32, prev_state: u8) -> Record {
        Switch { prev, next, prev_state, syscall: NO_SYSCALL, descriptor: 0 }.write(time_ns, 0)
    }

    fn waking(time_ns: u64, waker: u32, woken: u32) -> Record {
        let a = u64::from(waker) | u64::from(woken) << 32;
        Record { time_ns, kind: Kind::Waking as u16, a, ..Record::default() }
    }

    #[test]
    fn states_follow_the_scheduler() {
        let (mut follow, mut noted) = (Follow::default(), Noted::default());
        for record in [switch(100, 0, 7, 0), switch(200, 7, 9, 1), waking(250, 9, 7), switch(300, 9, 7, 0)] {
            follow.push(&record, &mut noted);
        }
        follow.flush(350, &mut noted);
        assert_eq!(noted.cpus, [(0, 7, 100, 200), (0, 9, 200, 300), (0, 7, 300, 350)]);
        let of = |pid| noted.tasks.iter().filter(move |one| one.0 == pid).map(|one| (one.1, one.2, one.3, one.4));
        assert_eq!(
            of(7).collect::<Vec<_>>(),
            [
                (Doing::Running(0), 100, 200, 0),
                (Doing::Blocked(Wait::Unknown), 200, 250, 9),
                (Doing::Ready, 250, 300, 0),
                (Doing::Running(0), 300, 350, 0)
            ]
        );
        assert_eq!(of(9).collect::<Vec<_>>(), [(Doing::Running(0), 200, 300, 0), (Doing::Ready, 300, 350, 0)]);
    }

    #[test]
    fn what_is_missing_is_unknown() {
        let (mut follow, mut noted) = (Follow::default(), Noted::default());
        follow.push(&switch(100, 0, 7, 0), &mut noted);
        follow.push(&switch(200, 8, 9, 1), &mut noted);
        assert_eq!(noted.cpus, [(0, UNKNOWN_TASK, 100, 200)]);
        assert_eq!(noted.tasks, [(7, Doing::Unknown, 100, 200, 0)]);
    }

    #[test]
    fn who_has_ended_is_not_woken() {
        let (mut follow, mut noted) = (Follow::default(), Noted::default());
        let exit = Record { time_ns: 150, kind: Kind::Exit as u16, a: 7, ..Record::default() };
        // On its way out it loses the CPU once; the last switch of a task looks the same.
        let lost = [switch(170, 7, 0, 0), switch(180, 0, 7, 0)];
        for record in
            [switch(100, 0, 7, 0), exit].into_iter().chain(lost).chain([switch(200, 7, 0, 0), waking(250, 9, 7)])
        {
            follow.push(&record, &mut noted);
        }
        follow.flush(1_000, &mut noted);
        assert_eq!(noted.tasks, [(7, Doing::Running(0), 100, 170, 0), (7, Doing::Running(0), 180, 200, 0)]);
        // The number is given to another task.
        let fork = Record { time_ns: 1_100, kind: Kind::Fork as u16, a: 9 | 7 << 32, ..Record::default() };
        follow.push(&fork, &mut noted);
        follow.flush(1_200, &mut noted);
        assert_eq!(noted.tasks.last(), Some(&(7, Doing::Ready, 1_100, 1_200, 0)));
    }

    #[test]
    fn what_happens_between_windows_is_unknown() {
        let window = |time_ns, flags| Record { time_ns, kind: Kind::Window as u16, flags, ..Record::default() };
        let (mut follow, mut noted) = (Follow::default(), Noted::default());
        for record in [window(50, 0), switch(100, 8, 7, 0), window(200, 1), window(9_000, 0), switch(9_100, 7, 8, 1)] {
            follow.push(&record, &mut noted);
        }
        assert_eq!(noted.cpus, [(0, 7, 100, 200), (0, UNKNOWN_TASK, 200, 9_100)]);
        noted.tasks.sort_by_key(|(pid, ..)| *pid);
        assert_eq!(
            noted.tasks,
            [
                (7, Doing::Running(0), 100, 200, 0),
                (7, Doing::Unknown, 200, 201, 0),
                (8, Doing::Ready, 100, 200, 0),
                (8, Doing::Unknown, 200, 201, 0)
            ]
        );
    }

    #[test]
    fn codes_lead_back() {
        for code in (0..8).chain(16..40) {
            assert_eq!(Doing::of_code(code).code(), code);
        }
    }

    #[test]
    fn following_on_from_states_is_following_all_along() {
        let records = [switch(100, 0, 7, 0), switch(200, 7, 9, 1), waking(250, 9, 7), switch(300, 9, 7, 0)];
        let (mut whole, mut noted) = (Follow::default(), Noted::default());
        for record in &records[..2] {
            whole.push(record, &mut noted);
        }
        whole.flush(220, &mut noted);
        let (mut later, mut all, mut rest) =
            (Follow::from_states(220, whole.states(), [(0, 9)].into_iter()), Noted::default(), Noted::default());
        for record in &records[2..] {
            whole.push(record, &mut all);
            later.push(record, &mut rest);
        }
        assert_eq!(all.tasks, rest.tasks);
        assert_eq!(all.cpus, rest.cpus);
    }
}
