//! What tasks did and waited for, added up as it happens, for a caller that soon asks about the time between two
//! moments.
//!
//! The histories and the names are those of a response's parts ([`crate::path`]), of one task by itself: whom it waits
//! for is not followed.

use crate::conversations::Conversations;
use crate::known::Known;
use crate::path::{MOST_DEPTH, Span, Walk};
use crate::phases::Phases;
use crate::sockets::Sockets;
use crate::step::Step;
use crate::task_names::TaskName;
use crate::tasks::{State, Tasks, WokenIn};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use weir_measure::account::Reading;
use weir_measure::part::{Part, PartTimes};
use weir_wire::task::{Switch, WAS_FROZEN};
use weir_wire::{Kind, Record};

/// Tasks that have an account; of further ones nothing is told.
pub const MOST_ACCOUNTS: usize = 1 << 14;
/// Stretches that one account keeps: so far back it can be asked.
const MOST_STRETCHES: usize = 4096;
/// Stretches of all accounts, 16 bytes each; beyond, each keeps those of [`SHORT_NS`] only.
const MOST_OF_ALL: usize = 1 << 20;
/// How long stretches are kept, nanoseconds, and how long where there are too many.
const KEPT_NS: u64 = 60_000_000_000;
const SHORT_NS: u64 = 2_000_000_000;

/// A stretch of one part, up to this time; it begins where the one before ends.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    to_ns: u64,
    part: Part,
}

/// One task's account.
#[derive(Debug)]
struct Account {
    number: u64,
    process: u32,
    /// Something was told of it since the account was opened.
    seen: bool,
    opened_ns: u64,
    /// When the task ended; 0 = it lives.
    ended_ns: u64,
    /// Where the first stretch begins.
    from_ns: u64,
    stretches: VecDeque<Stretch>,
    /// Up to where the stretches reach.
    named_ns: u64,
    /// The sums of all stretches before the one with this number.
    cursor: usize,
    sums: PartTimes,
}

impl Account {
    fn begin_of(&self, index: usize) -> u64 {
        index.checked_sub(1).and_then(|before| self.stretches.get(before)).map_or(self.from_ns, |before| before.to_ns)
    }

    fn push(&mut self, to_ns: u64, part: Part) {
        if to_ns <= self.named_ns {
            return;
        }
        self.named_ns = to_ns;
        // What the cursor has counted stays as it is.
        let is_counted = self.cursor >= self.stretches.len();
        match self.stretches.back_mut() {
            Some(last) if last.part == part && !is_counted => last.to_ns = to_ns,
            _ => self.stretches.push_back(Stretch { to_ns, part }),
        }
        if self.stretches.len() > MOST_STRETCHES {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if self.cursor == 0 {
            self.step_forward();
        }
        if let Some(first) = self.stretches.pop_front() {
            self.cursor -= 1;
            self.from_ns = first.to_ns;
        }
    }

    fn step_forward(&mut self) {
        let begin = self.begin_of(self.cursor);
        if let Some(stretch) = self.stretches.get(self.cursor) {
            self.sums[stretch.part as usize] += stretch.to_ns - begin;
            self.cursor += 1;
        }
    }

    fn step_back(&mut self) {
        let Some(index) = self.cursor.checked_sub(1) else { return };
        let begin = self.begin_of(index);
        if let Some(stretch) = self.stretches.get(index) {
            self.sums[stretch.part as usize] -= stretch.to_ns - begin;
        }
        self.cursor = index;
    }

    /// The sums up to a time that the stretches reach. Callers ask for later and later times, so the cursor moves
    /// little.
    fn read(&mut self, at_ns: u64) -> Option<Reading> {
        if at_ns < self.from_ns || at_ns > self.named_ns {
            return None;
        }
        while self.cursor > 0 && self.begin_of(self.cursor) > at_ns {
            self.step_back();
        }
        while self.stretches.get(self.cursor).is_some_and(|stretch| stretch.to_ns <= at_ns) {
            self.step_forward();
        }
        let mut times = self.sums;
        if let Some(stretch) = self.stretches.get(self.cursor) {
            times[stretch.part as usize] += at_ns - self.begin_of(self.cursor);
        }
        Some(Reading { account: self.number, at_ns, times })
    }
}

/// The accounts of the tasks of some processes, from the scheduler's events of those tasks alone.
#[derive(Debug, Default)]
pub struct Accounts {
    tasks: Tasks,
    sockets: Sockets,
    conversations: Conversations,
    phases: Phases,
    accounts: FxHashMap<u32, Account>,
    steps: Vec<Step>,
    cpus: u32,
    opened: u64,
    refused: u64,
    upto_ns: u64,
}

impl Accounts {
    /// Opens accounts of a process's tasks. Every event of them is told from `now_ns` on.
    pub fn open(&mut self, process: u32, tasks: impl IntoIterator<Item = u32>, now_ns: u64) {
        for task in tasks {
            // One that was made since is known already, by its making.
            if self.accounts.get(&task).is_none_or(|known| known.ended_ns != 0 || known.process != process) {
                self.open_one(process, task, now_ns, false);
            }
        }
    }

    fn open_one(&mut self, process: u32, task: u32, now_ns: u64, seen: bool) {
        if self.accounts.len() >= MOST_ACCOUNTS && !self.accounts.contains_key(&task) {
            self.refused += 1;
            return;
        }
        self.opened += 1;
        let account = Account {
            number: self.opened,
            process,
            seen,
            opened_ns: now_ns,
            ended_ns: 0,
            from_ns: now_ns,
            stretches: VecDeque::new(),
            named_ns: now_ns,
            cursor: 0,
            sums: [0; Part::COUNT],
        };
        self.accounts.insert(task, account);
        self.tasks.name(task, TaskName { name: String::new(), tgid: process, traced: true, carries: false }, now_ns);
    }

    /// Takes an event. They come in the order of time, of all CPUs.
    pub fn take(&mut self, record: &Record) {
        let (now_ns, cpu) = (record.time_ns, record.lane);
        let (low, high) = record.a_halves();
        self.cpus = self.cpus.max(cpu.saturating_add(1));
        match Kind::from_code(record.kind) {
            Some(Kind::Switch) => {
                let Some(switch) = Switch::read(record) else { return };
                // Nothing was told since the account was opened: so it has had the CPU, or has waited for one, since.
                self.first(switch.prev, State::Running { cpu });
                self.first(switch.next, State::Runnable { waker: 0, woken_in: WokenIn::Untold });
                self.tasks.switch(now_ns, cpu, switch);
            }
            Some(Kind::Waking) => {
                self.first(high, State::Unknown);
                if record.flags & WAS_FROZEN != 0 {
                    self.tasks.thawed(high);
                }
                self.tasks.waking(now_ns, low, high, WokenIn::of(record.flags));
            }
            Some(Kind::Fork) => {
                // A flag says that the child is a process of its own.
                let own = (record.flags & 1 != 0).then_some(high);
                let process = own.or_else(|| self.accounts.get(&low).map(|parent| parent.process));
                self.tasks.fork(now_ns, low, high, own);
                if let Some(process) = process.filter(|_| high != 0 && high != low) {
                    self.open_one(process, high, now_ns, true);
                }
            }
            Some(Kind::Exit) => {
                self.tasks.exit(low);
                if let Some(account) = self.accounts.get_mut(&low) {
                    account.ended_ns = now_ns;
                }
            }
            // The process runs another program: its account is over, and its events are told no more.
            Some(Kind::Exec) => drop(self.accounts.remove(&low)),
            Some(Kind::Lost) => self.tasks.lost(now_ns, cpu),
            _ => {}
        }
    }

    fn first(&mut self, task: u32, state: State) {
        if let Some(account) = self.accounts.get_mut(&task).filter(|account| !account.seen) {
            account.seen = true;
            self.tasks.was(task, account.opened_ns, state);
        }
    }

    /// Everything up to this time was taken.
    pub fn settle(&mut self, now_ns: u64) {
        self.upto_ns = self.upto_ns.max(now_ns);
        for cpu in 0..self.cpus {
            self.tasks.seen(now_ns, cpu);
        }
    }

    /// Up to where everything was taken.
    #[must_use]
    pub fn upto_ns(&self) -> u64 {
        self.upto_ns
    }

    /// What a process's task had done and waited for up to a time; `None` = that is not known: its account was not
    /// opened by then, or what it says of that time was forgotten, or it has not been taken yet. Nor is it before the
    /// task's first event: it may be none that events are told of.
    pub fn read(&mut self, process: u32, task: u32, at_ns: u64) -> Option<Reading> {
        let account = self.accounts.get(&task).filter(|account| account.seen && account.process == process)?;
        if at_ns > self.upto_ns {
            return None;
        }
        if at_ns > account.named_ns {
            self.name(task);
        }
        let account = self.accounts.get_mut(&task)?;
        let pending_ns = at_ns.checked_sub(account.named_ns).filter(|pending| *pending > 0);
        let Some(pending_ns) = pending_ns else { return account.read(at_ns) };
        // It waits, and for what only its end will tell.
        let mut reading = account.read(account.named_ns)?;
        reading.times[Part::Unattributed as usize] += pending_ns;
        Some(Reading { at_ns, ..reading })
    }

    /// Names what a task did since that was last asked, but for a wait that is not over.
    fn name(&mut self, task: u32) {
        let Some(account) = self.accounts.get_mut(&task) else { return };
        let (from_ns, mut to_ns) = (account.named_ns, self.upto_ns);
        if self.tasks.is_blocked(task) {
            to_ns = self.tasks.state_since(task, to_ns.saturating_add(1)).max(from_ns);
        }
        if to_ns <= from_ns {
            return;
        }
        let Self { tasks, sockets, conversations, phases, steps, .. } = self;
        steps.clear();
        let span = Span {
            socket: 0,
            arrived_ns: from_ns,
            not_accepted: false,
            picked_ns: from_ns,
            picker: task,
            begun_ns: from_ns,
            sent_ns: to_ns,
            sender: task,
        };
        let known = Known { tasks, sockets, conversations, phases };
        // At the greatest depth the walk follows no other task.
        Walk { known, span, steps, waiter: 0, depth: MOST_DEPTH }.rest(from_ns);
        steps.sort_unstable_by_key(|step| step.from_ns);
        for step in steps.iter() {
            account.push(step.from_ns, Part::Unattributed);
            account.push(step.to_ns, step.part);
        }
        account.push(to_ns, Part::Unattributed);
    }

    /// Forgets what is too old to be asked of; to be called about each second.
    pub fn trim(&mut self) {
        let all: usize = self.accounts.values().map(|account| account.stretches.len()).sum();
        let kept_ns = if all > MOST_OF_ALL { SHORT_NS } else { KEPT_NS };
        let before_ns = self.upto_ns.saturating_sub(kept_ns);
        // What happens is named at the latest now: the histories reach no further back.
        let quiet = |account: &Account| account.named_ns >= self.upto_ns || !account.seen;
        let tasks: Vec<u32> = self.accounts.iter().filter(|(_, one)| !quiet(one)).map(|(task, _)| *task).collect();
        tasks.into_iter().for_each(|task| self.name(task));
        for account in self.accounts.values_mut() {
            while account.stretches.front().is_some_and(|first| first.to_ns < before_ns) {
                account.forget_first();
            }
        }
        let long_ago_ns = self.upto_ns.saturating_sub(SHORT_NS);
        self.accounts.retain(|_, account| account.ended_ns == 0 || account.ended_ns >= long_ago_ns);
        self.tasks.trim(long_ago_ns);
    }

    /// How many accounts there are, and how many were refused for want of room.
    #[must_use]
    pub fn counts(&self) -> (usize, u64) {
        (self.accounts.len(), self.refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_wire::task::{BY_INTERRUPT, CONTEXT_TOLD, IN_SOFT_INTERRUPT, NO_SYSCALL};

    const US: u64 = 1000;
    const PROCESS: u32 = 70;
    const TASK: u32 = 71;

    fn switch(time_ns: u64, cpu: u32, prev: u32, next: u32, blocked_in: Option<i64>) -> Record {
        let (prev_state, syscall) = blocked_in.map_or((0, NO_SYSCALL), |call| (1, call as u16));
        Switch { prev, next, prev_state, syscall, descriptor: 0 }.write(time_ns, cpu)
    }

    fn waking(time_ns: u64, waker: u32, woken: u32, flags: u8) -> Record {
        let a = u64::from(waker) | u64::from(woken) << 32;
        Record { time_ns, kind: Kind::Waking as u16, flags: flags | CONTEXT_TOLD, a, ..Record::default() }
    }

    /// The parts in microseconds that are not 0.
    fn between(accounts: &mut Accounts, from_us: u64, to_us: u64) -> Option<Vec<(Part, u64)>> {
        let begun = accounts.read(PROCESS, TASK, from_us * US)?;
        let parts = accounts.read(PROCESS, TASK, to_us * US)?.since(&begun).expect("they add up");
        Some(Part::ALL.into_iter().zip(parts.map(|ns| ns / US)).filter(|(_, us)| *us > 0).collect())
    }

    #[test]
    fn a_tasks_time_has_the_names_of_a_responses() {
        let mut accounts = Accounts::default();
        accounts.open(PROCESS, [TASK], 0);
        let soft = IN_SOFT_INTERRUPT | BY_INTERRUPT;
        let events = [
            // It has run since its account was opened, and sleeps for 10 us.
            switch(5 * US, 0, TASK, 0, Some(libc::SYS_clock_nanosleep)),
            waking(15 * US, 0, TASK, BY_INTERRUPT),
            switch(16 * US, 0, 0, TASK, None),
            // A lock, that another task gives back; then the network; then a process; then too long for a lock.
            switch(20 * US, 0, TASK, 0, Some(libc::SYS_futex)),
            waking(30 * US, 99, TASK, 0),
            switch(31 * US, 1, 0, TASK, None),
            switch(40 * US, 1, TASK, 0, Some(libc::SYS_recvfrom)),
            waking(60 * US, 0, TASK, soft),
            switch(61 * US, 1, 0, TASK, None),
            switch(70 * US, 1, TASK, 0, Some(libc::SYS_read)),
            waking(80 * US, 99, TASK, 0),
            switch(82 * US, 0, 0, TASK, None),
            switch(90 * US, 0, TASK, 0, Some(libc::SYS_futex)),
            waking(95 * US, 0, TASK, BY_INTERRUPT),
            switch(95 * US, 0, 0, TASK, None),
        ];
        events.iter().for_each(|event| accounts.take(event));
        accounts.settle(100 * US);
        use Part::{Run, WaitCpu, WaitLock, WaitNetwork, WaitProcess, WaitTimer};
        assert_eq!(between(&mut accounts, 2, 18), Some(vec![(Run, 5), (WaitCpu, 1), (WaitTimer, 10)]));
        assert_eq!(between(&mut accounts, 18, 35), Some(vec![(Run, 6), (WaitCpu, 1), (WaitLock, 10)]));
        assert_eq!(between(&mut accounts, 35, 65), Some(vec![(Run, 9), (WaitCpu, 1), (WaitNetwork, 20)]));
        assert_eq!(between(&mut accounts, 65, 85), Some(vec![(Run, 8), (WaitCpu, 2), (WaitProcess, 10)]));
        assert_eq!(between(&mut accounts, 85, 100), Some(vec![(Run, 10), (WaitTimer, 5)]));
        // Of what is to come, of other processes' tasks, and of the time before nothing is known.
        accounts.open(PROCESS, [72], 100 * US);
        accounts.take(&waking(101 * US, 99, 72, 0));
        assert_eq!(accounts.read(PROCESS, 72, 99 * US), None);
        assert_eq!(accounts.read(1, TASK, 50 * US), None);
        assert_eq!(accounts.read(PROCESS, TASK, 101 * US), None);
    }

    #[test]
    fn what_is_not_known_is_not_attributed_and_never_left_out() {
        let mut accounts = Accounts::default();
        accounts.open(PROCESS, [TASK], 0);
        accounts.settle(10 * US);
        // Nothing has happened to it: so it has run all the time, or its events are not told.
        assert_eq!(between(&mut accounts, 0, 10), None);
        accounts.take(&switch(20 * US, 0, TASK, 0, Some(libc::SYS_futex)));
        accounts.settle(30 * US);
        assert_eq!(between(&mut accounts, 0, 10), Some(vec![(Part::Run, 10)]));
        // What it waits for, only the end of its wait tells for certain.
        assert_eq!(between(&mut accounts, 5, 30), Some(vec![(Part::Run, 15), (Part::Unattributed, 10)]));
        let lost = Record { time_ns: 50 * US, kind: Kind::Lost as u16, a: 3, ..Record::default() };
        accounts.take(&lost);
        accounts.take(&switch(60 * US, 0, TASK, 0, Some(libc::SYS_futex)));
        accounts.settle(70 * US);
        let told = between(&mut accounts, 5, 65).expect("known so far");
        assert!(told.iter().any(|(part, us)| *part == Part::Unattributed && *us >= 20), "{told:?}");
        // Another program runs under its number.
        accounts.take(&Record { time_ns: 80 * US, kind: Kind::Exec as u16, a: TASK.into(), ..Record::default() });
        accounts.settle(90 * US);
        assert_eq!(accounts.read(PROCESS, TASK, 85 * US), None);
    }

    #[test]
    fn accounts_are_bounded_and_go_with_their_tasks() {
        let mut accounts = Accounts::default();
        accounts.open(PROCESS, [TASK], 0);
        for at in 0..3 * MOST_STRETCHES as u64 {
            let begin = 1 + 10 * at;
            accounts.take(&switch(begin * US, 0, TASK, 0, Some(libc::SYS_futex)));
            accounts.take(&waking((begin + 5) * US, 99, TASK, 0));
            accounts.take(&switch((begin + 5) * US, 0, 0, TASK, None));
        }
        let now_us = 30 * MOST_STRETCHES as u64 + 1;
        accounts.settle(now_us * US);
        accounts.trim();
        assert!(accounts.accounts[&TASK].stretches.len() <= MOST_STRETCHES);
        assert_eq!(between(&mut accounts, 1, now_us), None, "that long ago is forgotten");
        assert_eq!(between(&mut accounts, now_us - 100, now_us), Some(vec![(Part::Run, 50), (Part::WaitLock, 50)]));
        accounts.take(&Record { time_ns: now_us * US, kind: Kind::Exit as u16, a: TASK.into(), ..Record::default() });
        accounts.settle(now_us * US + 2 * SHORT_NS);
        accounts.trim();
        assert_eq!(accounts.counts(), (0, 0));
        accounts.open(PROCESS, 1..=MOST_ACCOUNTS as u32 + 5, 0);
        assert_eq!(accounts.counts(), (MOST_ACCOUNTS, 5));
    }

    proptest! {
        /// For any events, told in any order, the parts between two times add up to the time between them.
        #[test]
        fn the_parts_add_up(
            events in proptest::collection::vec((0u64..50, 0u8..7, 0u32..4, 0u32..3, 0u32..3, 0u16..500), 0..150),
            asked in proptest::collection::vec((0u64..4000, 0u64..4000), 1..20),
        ) {
            let mut accounts = Accounts::default();
            accounts.open(PROCESS, [1, 2], 0);
            let mut now_ns = 0;
            for (at, (after, sort, cpu, prev, next, call)) in events.into_iter().enumerate() {
                now_ns += after;
                let record = match sort {
                    0 | 1 => switch(now_ns, cpu, prev, next, (call < 470).then_some(i64::from(call))),
                    2 | 3 => waking(now_ns, prev, next, (call & 3) as u8),
                    4 => Record { time_ns: now_ns, kind: Kind::Lost as u16, lane: cpu, a: 1, ..Record::default() },
                    5 => Record { time_ns: now_ns, kind: Kind::Exit as u16, a: next.into(), ..Record::default() },
                    _ => {
                        let (kind, a) = (Kind::Fork as u16, u64::from(prev) | u64::from(next) << 32);
                        Record { time_ns: now_ns, kind, flags: (call & 1) as u8, a, ..Record::default() }
                    }
                };
                accounts.take(&record);
                if at % 5 == 0 {
                    accounts.settle(now_ns);
                    let _ = accounts.read(PROCESS, 1, now_ns);
                }
                if at % 40 == 39 {
                    accounts.trim();
                }
            }
            accounts.settle(now_ns);
            for (from, to) in asked {
                for task in [1, 2] {
                    let (from, to) = (from.min(to), from.max(to));
                    let (Some(begun), Some(ended)) = (accounts.read(PROCESS, task, from), accounts.read(PROCESS, task, to))
                    else {
                        continue;
                    };
                    let parts = ended.since(&begun).expect("both are of one account");
                    prop_assert_eq!(parts.iter().sum::<u64>(), to - from);
                }
            }
        }
    }
}
