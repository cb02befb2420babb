//! Who ran, who could have, and who was blocked in what: histories of tasks and CPUs, from the scheduler's events.

use crate::attempts::Attempts;
use crate::blocked::{Wait, amounts_to, wait_of, waits_for_any};
use crate::in_hand::{InHand, SEVERAL};
use crate::lock_words::{LockWords, Word};
use crate::task_names::{TaskName, TaskNames};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;
use weir_wire::task::{BY_INTERRUPT, CONTEXT_TOLD, FROZEN, IN_SOFT_INTERRUPT, NO_SYSCALL, Switch, TaskState};

/// Changes that a task's history may hold; the oldest go first, and what they would have told is unattributed.
const MOST_CHANGES: usize = 1 << 18;
/// A wake-up this shortly before a task blocks was meant for that block: the two CPUs' events overtook each other.
const WAKE_RACE_NS: u64 = 20_000;

/// In what a wake-up was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WokenIn {
    /// The recording does not tell: then the waker may have been interrupted only.
    #[default]
    Untold,
    /// The waker did it itself.
    Task,
    /// A timer's interrupt or a device's: no task did it.
    Interrupt,
    /// A soft interrupt, in which what comes over a network is received: no task of this host did it.
    SoftInterrupt,
}

impl WokenIn {
    /// What the flags of a wake-up say.
    pub(crate) fn of(flags: u8) -> Self {
        match (flags & CONTEXT_TOLD, flags & BY_INTERRUPT, flags & IN_SOFT_INTERRUPT) {
            (0, ..) => Self::Untold,
            (_, 0, _) => Self::Task,
            (.., 0) => Self::Interrupt,
            _ => Self::SoftInterrupt,
        }
    }

    /// Whether it is known that the task that ran did nothing for it.
    fn is_by_interrupt(self) -> bool {
        matches!(self, Self::Interrupt | Self::SoftInterrupt)
    }
}

/// What a task is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Nothing is known: before its first event, or where events were lost.
    Unknown,
    /// It has this CPU.
    Running {
        /// The CPU.
        cpu: u32,
    },
    /// It could run.
    Runnable {
        /// The task that woke it; 0 if none did, or if it lost the CPU without having blocked.
        waker: u32,
        /// In what it was woken.
        woken_in: WokenIn,
    },
    /// It waits.
    Blocked {
        /// The kernel's `TASK_*` bits.
        state: u8,
        /// The system call, [`weir_wire::task::NO_SYSCALL`] for none or unknown.
        syscall: u16,
        /// The call's first argument, cut to 16 bits: a descriptor, or where a futex lies.
        argument: u16,
    },
}

/// A stretch of time in one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spell {
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
    pub(crate) state: State,
    /// The task that ended it by a wake-up, 0 if none did.
    pub(crate) woken_by: u32,
    /// In what that wake-up was made.
    pub(crate) woken_in: WokenIn,
    /// The CPU that the task got next, for a runnable spell.
    pub(crate) next_cpu: Option<u32>,
    /// Who made the task at the spell's end: the task did not exist before. 0 if it did, or if that is not known.
    pub(crate) parent: u32,
}

impl Spell {
    /// A stretch in which what a task does itself is of no matter.
    pub(crate) fn of_nothing(from_ns: u64, to_ns: u64) -> Self {
        Self {
            from_ns,
            to_ns,
            state: State::Unknown,
            woken_by: 0,
            woken_in: WokenIn::Untold,
            next_cpu: None,
            parent: 0,
        }
    }
}

/// Whether a task took from or gave to a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Receive,
    Send,
}

/// A task's dealing with a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Touch {
    pub(crate) at_ns: u64,
    pub(crate) socket: u32,
    pub(crate) verb: Verb,
    /// Whether it is a connection from a client of the server, not one to something that the server asks.
    pub(crate) server_side: bool,
    /// The client's connection for whose request it was done; 0 where unknown.
    pub(crate) owner: u32,
    /// Of a receiving from what the server asks: the task that sent there last, 0 where none is known.
    pub(crate) asker: u32,
    /// When that was, nanoseconds.
    pub(crate) asked_ns: u64,
}

/// What a socket towards something else was asked last.
#[derive(Debug, Clone, Copy)]
struct Asked {
    /// For whose request: the client's connection.
    owner: u32,
    /// By this task.
    asker: u32,
    at_ns: u64,
}

/// A waiting task of the server that another one woke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wake {
    pub(crate) at_ns: u64,
    pub(crate) woken: u32,
    /// The client's connection that the waker was at; 0 where unknown.
    pub(crate) owner: u32,
    /// What it waited in.
    pub(crate) place: Place,
}

/// Where a task waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) syscall: u16,
    /// The call's first argument, cut to 16 bits.
    pub(crate) argument: u16,
}

impl Place {
    /// The signals of one condition variable of the C library lie this close to each other, bytes.
    const APART: u16 = 8;

    /// Whether it is in the waiting for a futex.
    pub(crate) fn is_futex(self) -> bool {
        i64::from(self.syscall) == libc::SYS_futex
    }

    /// Whether two waits are in the same call for the same thing, as far as 16 bits tell.
    pub(crate) fn is_same(self, other: Self) -> bool {
        let apart = if self.is_futex() { Self::APART } else { 1 };
        self.syscall == other.syscall && self.argument.abs_diff(other.argument) < apart
    }
}

/// The futexes that a task has waited for lately, latest first.
#[derive(Debug, Default)]
struct Futexes {
    places: [Option<u16>; Self::MOST],
}

impl Futexes {
    /// Futexes that are remembered.
    const MOST: usize = 8;

    fn find(&self, place: Place) -> Option<usize> {
        let is_it = |one: &Option<u16>| one.is_some_and(|argument| place.is_same(Place { argument, ..place }));
        if place.is_futex() { self.places.iter().position(is_it) } else { None }
    }

    fn note(&mut self, place: Place) {
        if place.is_futex() {
            let last = self.find(place).unwrap_or(Self::MOST - 1);
            self.places[..=last].rotate_right(1);
            self.places[0] = Some(place.argument);
        }
    }
}

#[derive(Debug, Default)]
struct Task {
    changes: VecDeque<(u64, State)>,
    touches: VecDeque<Touch>,
    /// Tasks of the server that it woke.
    wakes: VecDeque<Wake>,
    futexes: Futexes,
    /// Where threads of its process waited that it woke.
    gives_at: Futexes,
    /// How often it ended another thread's wait for readiness: what that one waited for was done.
    completed: u32,
    /// Its last dealing with a client's connection, nanoseconds.
    served_ns: u64,
    /// The thread that woke it last, and when: from that one it may have got work.
    given_by: Option<(u32, u64)>,
    /// How often it then woke that thread, which had dealt with no client meanwhile: work that it gave back.
    given_back: u32,
    /// The client's connection that it was last at: what it does at other sockets is done for that one's request.
    at: u32,
    in_hand: InHand,
    woken_while_running: Option<(u64, State)>,
    /// How often a timer had it answer a request of which it had asked nothing, and how long the shortest of these took from
    /// its last dealing with the request, nanoseconds.
    by_timer: (u32, u64),
    /// It belongs to the server: it was seen to serve, or a wake-up of a traced task told so.
    serves: bool,
    /// When it was made, and by whom.
    born: Option<(u64, u32)>,
    /// It has told of its end, and is on its last way off its CPU.
    ended: bool,
}

#[derive(Debug, Default)]
struct Cpu {
    current: Option<u32>,
    /// Its last event: what it lost, it lost after that.
    seen_ns: u64,
    history: VecDeque<(u64, u32)>,
}

/// All tasks and CPUs.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    tasks: FxHashMap<u32, Task>,
    cpus: Vec<Cpu>,
    names: TaskNames,
    /// What sockets towards something else were asked last.
    asked_for: FxHashMap<u32, Asked>,
    /// By tasks that are not the server's: the wake-ups that brought it a request, and those that brought it something
    /// else over a socket.
    brought: FxHashMap<u32, (u32, u32)>,
    pub(crate) attempts: Attempts,
    /// Processes in which a thread was seen to read the answer to what another one had asked.
    sharing: FxHashSet<u32>,
    /// Of these: answers by the client's connection for whose request they were asked for, each with the thread that read it.
    shared: FxHashMap<u32, VecDeque<(u32, Touch)>>,
    locks: LockWords,
    gaps: u64,
    /// Recent stretches in which events must be missing: (from, to).
    recent_gaps: VecDeque<(u64, u64)>,
}

/// Gaps that are remembered for the requests that they may have hit.
const MOST_GAPS: usize = 1024;
/// Tasks that are remembered although they may be idle; beyond, those go of which nothing is asked.
const MOST_TASKS: usize = 1 << 17;
/// CPUs that are told apart; a record of a higher one is damaged.
const MOST_CPUS: usize = 8192;
/// Sockets towards something else whose last question is remembered.
const MOST_ASKED: usize = 1 << 16;
/// Tasks that are not the server's whose wake-ups are counted.
const MOST_OTHERS: usize = 1 << 14;

impl Tasks {
    /// A CPU passes from one task to another.
    pub(crate) fn switch(&mut self, time_ns: u64, cpu: u32, switch: Switch) {
        let index = cpu as usize;
        if index >= MOST_CPUS {
            return;
        }
        if self.cpus.len() <= index {
            self.cpus.resize_with(index + 1, Cpu::default);
        }
        let current = self.cpus[index].current;
        let mut gap_ns = None;
        if let Some(known) = current
            && known != switch.prev
        {
            // A switch is missing: the task that we believed to run has left at an unknown time.
            let since = self.cpus[index].history.back().map_or(time_ns, |(at, _)| *at);
            self.gap(since, time_ns);
            self.left_unseen(known, cpu, time_ns);
            gap_ns = Some(since);
        }
        if switch.prev != 0 {
            self.note_overtaken(time_ns, switch);
            let task = self.tasks.entry(switch.prev).or_default();
            let woken = task.woken_while_running.take().filter(|(at, _)| time_ns.saturating_sub(*at) < WAKE_RACE_NS);
            let state = match (switch.prev_state, woken) {
                // Whether it has lost the CPU once more or left it for good, the recording does not tell.
                (0, _) if task.ended => State::Unknown,
                (0, _) => State::Runnable { waker: 0, woken_in: WokenIn::Untold },
                (_, Some((_, runnable))) => runnable,
                (state, None) => {
                    let syscall = amounts_to(switch.syscall, switch.descriptor);
                    let place = Place { syscall, argument: switch.descriptor };
                    task.futexes.note(place);
                    if !self.locks.is_empty()
                        && let Some(word) = word_of(&self.names, switch.prev, place)
                    {
                        self.locks.waits(word, time_ns, switch.prev);
                    }
                    if waits_for_any(syscall) {
                        task.in_hand.rests();
                    }
                    State::Blocked { state, syscall, argument: switch.descriptor }
                }
            };
            let ran_here = matches!(task.changes.back(), Some((_, State::Running { cpu: on })) if *on == cpu);
            match gap_ns {
                // It came to this CPU unseen, at the earliest when the CPU was last seen to change its task.
                Some(since) if !ran_here && !task.changes.is_empty() => task.push(since, State::Unknown),
                _ => task.doubt(|_| !ran_here),
            }
            task.push(time_ns, state);
        }
        if switch.next != 0 {
            let task = self.tasks.entry(switch.next).or_default();
            task.doubt(|state| !matches!(state, State::Runnable { .. }));
            task.push(time_ns, State::Running { cpu });
        }
        let cpu = &mut self.cpus[index];
        cpu.current = Some(switch.next);
        cpu.history.push_back((time_ns, switch.next));
        if cpu.history.len() > MOST_CHANGES {
            cpu.history.pop_front();
        }
    }

    /// A task of the server is told of at the beginning of the recording: what it sleeps in, no switch has told.
    pub(crate) fn found(&mut self, time_ns: u64, told: TaskState) {
        let task = self.tasks.entry(told.pid).or_default();
        task.serves = true;
        if told.state != 0 && task.changes.is_empty() {
            let syscall = amounts_to(told.syscall, told.descriptor);
            task.push(time_ns, State::Blocked { state: told.state, syscall, argument: told.descriptor });
        }
    }

    /// A task of which nothing was told yet was in this state from this time on, as what is told next shows.
    pub(crate) fn was(&mut self, pid: u32, since_ns: u64, state: State) {
        let task = self.tasks.entry(pid).or_default();
        if task.changes.is_empty() {
            task.push(since_ns, state);
        }
    }

    /// Whether a task waits now.
    pub(crate) fn is_blocked(&self, pid: u32) -> bool {
        let last = self.tasks.get(&pid).and_then(|task| task.changes.back());
        last.is_some_and(|(_, state)| matches!(state, State::Blocked { .. }))
    }

    /// A task is made runnable; an interrupt is no task, so then the waker is 0.
    pub(crate) fn waking(&mut self, time_ns: u64, waker: u32, woken: u32, woken_in: WokenIn) {
        let runnable = State::Runnable { waker: if woken_in.is_by_interrupt() { 0 } else { waker }, woken_in };
        let comes_to = if woken_in.is_by_interrupt() { None } else { self.note_wake(time_ns, waker, woken) };
        if woken_in == WokenIn::Interrupt && !self.locks.is_empty() {
            let word = self.waits_in(woken).and_then(|place| word_of(&self.names, woken, place));
            word.into_iter().for_each(|word| self.locks.timed_out(word, time_ns, woken));
        }
        let keeps = self.keeps_request(waker, woken, woken_in);
        let task = self.tasks.entry(woken).or_default();
        match task.changes.back() {
            Some((_, State::Running { .. })) => task.woken_while_running = Some((time_ns, runnable)),
            Some((_, State::Runnable { .. })) => {}
            Some((_, State::Blocked { state, syscall, argument })) => {
                let place = Place { syscall: *syscall, argument: *argument };
                // By a futex threads also hand requests to each other: what it does next may be for another one. By a lock
                // of a file or of the kernel's none is handed on.
                if wait_of(*state, *syscall) == Wait::Lock && place.is_futex() && !keeps {
                    task.at = 0;
                    task.in_hand.forget();
                }
                task.at = comes_to.unwrap_or(task.at);
                comes_to.into_iter().for_each(|request| task.in_hand.hears(request));
                task.push(time_ns, runnable);
            }
            _ => task.push(time_ns, runnable),
        }
    }

    /// Whether the end of a wait leaves a task at the request that it had: it took that from the client itself and has not
    /// answered it, and waited for a lock, which its waker had or which it may have got as its time was over.
    fn keeps_request(&self, waker: u32, woken: u32, woken_in: WokenIn) -> bool {
        let has = |task: &Task| task.served_ns > 0 && task.in_hand.has(task.at);
        if !self.tasks.get(&woken).is_some_and(has) {
            return false;
        }
        let place = self.waits_in(woken).filter(|place| place.is_futex());
        place.is_some_and(|place| match woken_in.is_by_interrupt() {
            true => word_of(&self.names, woken, place).is_some_and(|word| self.locks.knows(word)),
            false => self.are_threads(waker, woken) && self.waits_for(waker, place),
        })
    }

    /// Whether two tasks are threads of one process, by the names that they have now.
    fn are_threads(&self, one: u32, other: u32) -> bool {
        let process = |pid| self.names.now(pid).map(|name| name.tgid);
        one != 0 && one != other && process(one).is_some_and(|tgid| process(other) == Some(tgid))
    }

    /// Notes that a lock was passed to a task on its way into the wait for it, so that it waits no more.
    fn note_overtaken(&mut self, time_ns: u64, switch: Switch) {
        let woken = self.tasks.get(&switch.prev).and_then(|task| task.woken_while_running);
        let Some((woken_ns, State::Runnable { waker, .. })) = woken.filter(|_| switch.prev_state != 0) else { return };
        let place = Place { syscall: amounts_to(switch.syscall, switch.descriptor), argument: switch.descriptor };
        let is_lock = self.are_threads(waker, switch.prev) && self.waits_for(waker, place);
        // A word that is known to be a lock: a condition's waiters wake each other as fast, at words that others have used.
        let word = word_of(&self.names, switch.prev, place).filter(|word| is_lock && self.locks.knows(*word));
        if let Some(word) = word.filter(|_| time_ns.saturating_sub(woken_ns) < WAKE_RACE_NS) {
            self.locks.waits(word, time_ns, switch.prev);
            self.locks.passed(word, time_ns, waker, switch.prev);
        }
    }

    /// Where a task waits now.
    fn waits_in(&self, pid: u32) -> Option<Place> {
        match self.tasks.get(&pid).and_then(|task| task.changes.back()) {
            Some((_, State::Blocked { syscall, argument, .. })) => {
                Some(Place { syscall: *syscall, argument: *argument })
            }
            _ => None,
        }
    }

    /// Notes that a task of the server woke another one that waited. Work goes from thread to thread with the request that
    /// it is for: the client's connection at which the woken one is now, where that is known.
    fn note_wake(&mut self, at_ns: u64, waker: u32, woken: u32) -> Option<u32> {
        let place = self.waits_in(woken)?;
        if waker == 0 || waker == woken || !self.serves(waker) || !self.serves(woken) {
            return None;
        }
        let gives_work = !self.waits_for(waker, place);
        let process = |pid| self.names.now(pid).map(|name| name.tgid);
        let is_sibling = process(waker).is_some_and(|tgid| process(woken) == Some(tgid));
        let (gives_back, works) = (!self.deals_with_clients(waker), !self.deals_with_clients(woken));
        if let Some(word) = word_of(&self.names, woken, place).filter(|_| is_sibling && !gives_work) {
            self.locks.passed(word, at_ns, waker, woken);
        }
        let served_ns = self.tasks.get(&woken).map_or(0, |task| task.served_ns);
        let task = self.tasks.entry(waker).or_default();
        task.given_back += u32::from(task.given_by.is_some_and(|(by, at)| by == woken && served_ns < at));
        task.completed = task.completed.saturating_add(u32::from(!place.is_futex()));
        task.gives_at.note(place);
        // Who gives a lock back, or work, hands no request on.
        let hands_on = is_sibling && gives_work && works && task.given_by.is_none_or(|(by, _)| by != woken);
        let owner = if hands_on { task.in_hand.hands_out(task.at) } else { task.at };
        if is_sibling && gives_work && !works && place.is_futex() {
            // It may have given a request away.
            task.in_hand.forget();
        }
        task.wakes.push_back(Wake { at_ns, woken, owner, place });
        if task.wakes.len() > MOST_CHANGES {
            task.wakes.pop_front();
        }
        if is_sibling && gives_back && !place.is_futex() {
            // Its work is done, and it takes up another's without being woken.
            task.at = 0;
            return Some(owner);
        }
        if gives_work {
            self.tasks.entry(woken).or_default().given_by = Some((waker, at_ns));
        }
        (is_sibling && gives_work && works && place.is_futex()).then_some(owner)
    }

    /// The thread that gave a thread its last work.
    pub(crate) fn given_by(&self, pid: u32) -> Option<u32> {
        self.tasks.get(&pid)?.given_by.map(|(by, _)| by)
    }

    /// Whether a thread works for others: it has given work back some times, and deals with no client itself.
    pub(crate) fn is_worker(&self, pid: u32) -> bool {
        const SOME: u32 = 4;
        self.tasks.get(&pid).is_some_and(|task| task.given_back >= SOME && task.served_ns == 0)
    }

    /// Whether a thread has told others some times, by ending their waits for readiness, that something was done.
    pub(crate) fn completes(&self, pid: u32) -> bool {
        const SOME: u32 = 4;
        self.tasks.get(&pid).is_some_and(|task| task.completed >= SOME)
    }

    /// Whether a task hands work out to those who wait for this futex, and never waits there itself.
    pub(crate) fn gives_work_at(&self, pid: u32, futex: Place) -> bool {
        let gives = self.tasks.get(&pid).is_some_and(|task| task.gives_at.find(futex).is_some());
        gives && !self.waits_for(pid, futex)
    }

    /// Whether a task has dealt with a client's connection.
    pub(crate) fn deals_with_clients(&self, pid: u32) -> bool {
        self.tasks.get(&pid).is_some_and(|task| task.served_ns > 0)
    }

    /// A task that slept was frozen, and is thawed: no switch has told of it, for it had no CPU to leave.
    pub(crate) fn thawed(&mut self, pid: u32) {
        let last = self.tasks.get_mut(&pid).and_then(|task| task.changes.back_mut());
        if let Some((_, State::Blocked { state, .. })) = last {
            *state |= FROZEN;
        }
    }

    /// A task is made, a thread of its parent's process or of a `process` told; its number may have been another's before, of whom nothing must be told as of the new one.
    pub(crate) fn fork(&mut self, time_ns: u64, parent: u32, child: u32, process: Option<u32>) {
        if child == 0 || child == parent {
            return;
        }
        let task = self.tasks.entry(child).or_default();
        *task = Task { born: Some((time_ns, parent)), ..Task::default() };
        task.push(time_ns, State::Runnable { waker: parent, woken_in: WokenIn::Task });
        self.names.inherit(parent, child, process, time_ns);
    }

    /// A task was believed to have a CPU, but another task turned out to have had it.
    fn left_unseen(&mut self, pid: u32, cpu: u32, time_ns: u64) {
        let Some(task) = self.tasks.get_mut(&pid) else { return };
        // It may have been seen on another CPU since.
        if matches!(task.changes.back(), Some((_, State::Running { cpu: on })) if *on == cpu) {
            task.doubt(|_| true);
            task.push(time_ns, State::Unknown);
        }
    }

    fn gap(&mut self, from_ns: u64, to_ns: u64) {
        self.gaps += 1;
        self.recent_gaps.push_back((from_ns, to_ns));
        if self.recent_gaps.len() > MOST_GAPS {
            self.recent_gaps.pop_front();
        }
    }

    /// Whether events must be missing within a window.
    pub(crate) fn had_gap(&self, from_ns: u64, to_ns: u64) -> bool {
        self.recent_gaps.iter().any(|(from, to)| *from <= to_ns && *to >= from_ns)
    }

    /// An event of a CPU was recorded: nothing that happened there until then is lost.
    pub(crate) fn seen(&mut self, time_ns: u64, cpu: u32) {
        if let Some(cpu) = self.cpus.get_mut(cpu as usize) {
            cpu.seen_ns = cpu.seen_ns.max(time_ns);
        }
    }

    /// Events of a CPU were lost since its last one. It is not known which task ran there. A task that was not on
    /// another CPU then may have been woken, run and blocked again.
    pub(crate) fn lost(&mut self, time_ns: u64, number: u32) {
        let Some(index) = usize::try_from(number).ok().filter(|index| *index < MOST_CPUS) else { return };
        if self.cpus.len() <= index {
            self.cpus.resize_with(index + 1, Cpu::default);
        }
        let cpu = &mut self.cpus[index];
        let from_ns = cpu.seen_ns.min(time_ns);
        cpu.seen_ns = time_ns.max(cpu.seen_ns);
        cpu.current = None;
        cpu.history.push_back((cpu.history.back().map_or(from_ns, |(at, _)| from_ns.max(*at)), 0));
        if cpu.history.len() > MOST_CHANGES {
            cpu.history.pop_front();
        }
        self.gap(from_ns, time_ns);
        for task in self.tasks.values_mut() {
            task.lose(from_ns, time_ns, number);
        }
    }

    /// Notes that the running task of a CPU dealt with a socket; returns the task.
    pub(crate) fn touch(&mut self, cpu: u32, at_ns: u64, socket: u32, verb: Verb, server_side: bool) -> u32 {
        let Some(pid) = self.current(cpu) else { return 0 };
        let task = self.tasks.entry(pid).or_default();
        task.serves |= server_side;
        task.served_ns = if server_side { at_ns } else { task.served_ns };
        let asked = self.asked_for.get(&socket).copied().filter(|_| verb == Verb::Receive && !server_side);
        // An event loop goes from request to request: an answer brings it back to the one that asked.
        let owner = match verb {
            _ if server_side => socket,
            Verb::Send => {
                if self.asked_for.len() >= MOST_ASKED {
                    self.asked_for.clear();
                }
                // A connection may be long in the making, and an event loop goes to others meanwhile.
                let owner = match self.attempts.take_owner(socket) {
                    Some(owner) => {
                        task.in_hand.asks_over_its_own(owner);
                        owner
                    }
                    None => task.in_hand.asks(task.at, socket),
                };
                self.asked_for.insert(socket, Asked { owner, asker: pid, at_ns });
                owner
            }
            Verb::Receive => asked.map_or(task.at, |asked| asked.owner),
        };
        task.at = owner;
        let (asker, asked_ns) = asked.map_or((0, 0), |asked| (asked.asker, asked.at_ns));
        if verb == Verb::Receive {
            // What it took first since it was woken.
            let is_first = task.touches.back().is_none_or(|last| last.at_ns < task.ran_from_ns());
            let brought = task.last_waker().filter(|_| is_first);
            if let Some(waker) = brought {
                self.brought_by(waker, server_side);
            }
        }
        let touch = Touch { at_ns, socket, verb, server_side, owner, asker, asked_ns };
        if asker != 0 {
            self.share(pid, touch);
        }
        let task = self.tasks.entry(pid).or_default();
        task.touches.push_back(touch);
        if task.touches.len() > MOST_CHANGES {
            task.touches.pop_front();
        }
        pid
    }

    /// How long the shortest wait for a timer took after which a task answered a request, if it was seen to do that some
    /// times, nanoseconds.
    pub(crate) fn shortest_timer_ns(&self, pid: u32) -> Option<u64> {
        const SOME: u32 = 4;
        self.tasks.get(&pid).map(|task| task.by_timer).filter(|(count, _)| *count >= SOME).map(|(_, least_ns)| least_ns)
    }

    /// Notes an answer that a thread reads, where threads of its process read each other's.
    fn share(&mut self, pid: u32, answer: Touch) {
        /// Answers of one connection's requests that are remembered.
        const MOST_ANSWERS: usize = 64;
        let Some(process) = self.names.now(pid).map(|name| name.tgid) else { return };
        if answer.asker != pid && self.sharing.len() < MOST_ASKED {
            self.sharing.insert(process);
        }
        if !self.sharing.contains(&process) || [0, SEVERAL].contains(&answer.owner) {
            return;
        }
        if self.shared.len() >= MOST_ASKED {
            self.shared.clear();
        }
        let of_client = self.shared.entry(answer.owner).or_default();
        of_client.push_back((pid, answer));
        if of_client.len() > MOST_ANSWERS {
            of_client.pop_front();
        }
    }

    /// Answers to what was asked for a client's requests, latest first, each with the thread that read it, where threads
    /// read each other's.
    pub(crate) fn shared_answers(&self, client: u32) -> impl Iterator<Item = &(u32, Touch)> {
        self.shared.get(&client).into_iter().flat_map(|answers| answers.iter().rev())
    }

    /// Whether threads of a task's process carry goroutines.
    pub(crate) fn carries(&self, pid: u32) -> bool {
        self.names.now(pid).is_some_and(|name| name.carries)
    }

    /// Notes that a task took data from a socket or gave some, after it has dealt with the socket.
    pub(crate) fn exchanged(&mut self, pid: u32, verb: Verb, server_side: bool) {
        let Some(task) = self.tasks.get_mut(&pid) else { return };
        match verb {
            Verb::Receive if server_side => task.in_hand.takes(task.at),
            Verb::Receive => task.in_hand.hears(task.at),
            Verb::Send if server_side => {
                let at = task.at;
                if let Some(took_ns) = task.slept_for(at) {
                    let (count, least_ns) = task.by_timer;
                    task.by_timer = (count.saturating_add(1), if count == 0 { took_ns } else { took_ns.min(least_ns) });
                }
                if task.in_hand.gives(at) {
                    self.retract(pid, at);
                }
            }
            Verb::Send => {}
        }
    }

    /// What a task has asked for a request and not heard of before it gave the response need not have been for it.
    fn retract(&mut self, pid: u32, request: u32) {
        /// Dealings that are looked through.
        const MOST_BACK: usize = 64;
        let Some(task) = self.tasks.get_mut(&pid) else { return };
        let mut heard = Vec::new();
        for touch in task.touches.iter_mut().rev().take(MOST_BACK).filter(|touch| !touch.server_side) {
            match touch.verb {
                Verb::Receive => heard.push(touch.socket),
                Verb::Send if touch.owner == request && !heard.contains(&touch.socket) => {
                    touch.owner = SEVERAL;
                    if let Some(asked) = self.asked_for.get_mut(&touch.socket) {
                        asked.owner = SEVERAL;
                    }
                }
                Verb::Send => {}
            }
        }
    }

    /// Counts what the wake-up by a task brought: a client's request, or something else.
    fn brought_by(&mut self, waker: u32, request: bool) {
        if self.serves(waker) {
            return;
        }
        if self.brought.len() >= MOST_OTHERS {
            self.brought.clear();
        }
        let (requests, others) = self.brought.entry(waker).or_default();
        let count = if request { requests } else { others };
        *count = count.saturating_add(1);
    }

    /// Whether a task is a client of the server's: its wake-ups have brought requests, and hardly anything else.
    pub(crate) fn is_client(&self, pid: u32) -> bool {
        self.brought.get(&pid).is_some_and(|(requests, others)| *requests > others.saturating_mul(8))
    }

    /// Notes that the running task of a CPU began to connect a socket.
    pub(crate) fn connects(&mut self, cpu: u32, at_ns: u64, socket: u32) {
        let Some(pid) = self.current(cpu) else { return };
        let task = self.tasks.entry(pid).or_default();
        let owner = task.in_hand.asks(task.at, socket);
        self.attempts.begin(pid, at_ns, socket, owner);
    }

    /// The task that has a CPU, if known and not the idle one.
    pub(crate) fn current(&self, cpu: u32) -> Option<u32> {
        self.cpus.get(cpu as usize).and_then(|cpu| cpu.current).filter(|pid| *pid != 0)
    }

    /// The client's connection that a task was last at, 0 where unknown.
    pub(crate) fn at(&self, pid: u32) -> u32 {
        self.tasks.get(&pid).map_or(0, |task| task.at)
    }

    /// Gives a task its name from a time on.
    pub(crate) fn name(&mut self, pid: u32, name: TaskName, at_ns: u64) {
        self.names.name(pid, name, at_ns);
    }

    /// A task's name.
    pub(crate) fn named(&self, pid: u32) -> Option<&TaskName> {
        self.names.now(pid)
    }

    /// A task's name at a time.
    pub(crate) fn named_at(&self, pid: u32, at_ns: u64) -> Option<&TaskName> {
        self.names.at(pid, at_ns)
    }

    /// Whether a task has had more than one name.
    pub(crate) fn is_renamed(&self, pid: u32) -> bool {
        self.names.is_renamed(pid)
    }

    /// Whether a task belongs to the server.
    pub(crate) fn serves(&self, pid: u32) -> bool {
        self.tasks.get(&pid).is_some_and(|task| task.serves) || self.names.now(pid).is_some_and(|name| name.traced)
    }

    /// The tasks that belong to the server and have dealt with a socket.
    pub(crate) fn serving(&self) -> impl Iterator<Item = u32> {
        self.tasks.iter().filter(|(pid, task)| !task.touches.is_empty() && self.serves(**pid)).map(|(pid, _)| *pid)
    }

    /// Switches that must be missing.
    pub(crate) fn gaps(&self) -> u64 {
        self.gaps
    }

    /// The spells of a task within a window, latest first.
    pub(crate) fn spells_back(&self, pid: u32, from_ns: u64, to_ns: u64) -> impl Iterator<Item = Spell> + '_ {
        let (changes, born) = self.tasks.get(&pid).map(|task| (&task.changes, task.born)).unzip();
        let born = born.flatten();
        let mut index = changes.map_or(0, |changes| changes.partition_point(|(at, _)| *at < to_ns));
        let mut end = to_ns;
        std::iter::from_fn(move || {
            if end <= from_ns {
                return None;
            }
            let at = |index: usize| changes.and_then(|changes| changes.get(index)).copied();
            let next = at(index).map(|(_, state)| state);
            // Of a task that was never seen nothing is known all the time.
            let (begin, state) = index.checked_sub(1).and_then(at).unwrap_or((from_ns, State::Unknown));
            let (woken_by, woken_in, next_cpu) = match next {
                Some(State::Runnable { waker, woken_in }) => (waker, woken_in, None),
                Some(State::Running { cpu }) => (0, WokenIn::Untold, Some(cpu)),
                _ => (0, WokenIn::Untold, None),
            };
            let unborn = born.filter(|(at, _)| index == 0 && *at == end);
            let parent = unborn.map_or(0, |(_, parent)| parent);
            let spell = Spell { from_ns: begin.max(from_ns), to_ns: end, state, woken_by, woken_in, next_cpu, parent };
            end = spell.from_ns;
            index = index.saturating_sub(1);
            Some(spell)
        })
    }

    /// When the state that a task has at a time began; the time itself where nothing is known.
    pub(crate) fn state_since(&self, pid: u32, at_ns: u64) -> u64 {
        let Some(task) = self.tasks.get(&pid) else { return at_ns };
        let index = task.changes.partition_point(|(at, _)| *at < at_ns);
        index.checked_sub(1).map_or(at_ns, |before| task.changes[before].0)
    }

    /// The dealings of a task with sockets within a window, in their order.
    pub(crate) fn touches(&self, pid: u32, from_ns: u64, to_ns: u64) -> impl DoubleEndedIterator<Item = &Touch> {
        let touches = self.tasks.get(&pid).map(|task| &task.touches);
        let range = touches.map_or(0..0, |touches| {
            let first = touches.partition_point(|touch| touch.at_ns < from_ns);
            first..touches.partition_point(|touch| touch.at_ns < to_ns).max(first)
        });
        range.filter_map(move |index| touches.and_then(|touches| touches.get(index)))
    }

    /// The tasks of the server that a task woke within a window, in their order.
    pub(crate) fn wakes(&self, pid: u32, from_ns: u64, to_ns: u64) -> impl DoubleEndedIterator<Item = &Wake> {
        let wakes = self.tasks.get(&pid).map(|task| &task.wakes);
        let range = wakes.map_or(0..0, |wakes| {
            let first = wakes.partition_point(|wake| wake.at_ns < from_ns);
            first..wakes.partition_point(|wake| wake.at_ns < to_ns).max(first)
        });
        range.filter_map(move |index| wakes.and_then(|wakes| wakes.get(index)))
    }

    /// Whether a task has lately waited for a futex itself: then it is a lock, which each of those who wait may get.
    pub(crate) fn waits_for(&self, pid: u32, futex: Place) -> bool {
        self.tasks.get(&pid).is_some_and(|task| task.futexes.find(futex).is_some())
    }

    /// Whether a task's wait that a time-out ended was one for a lock, and who then had that, where it is sure.
    pub(crate) fn sought_lock(&self, pid: u32, place: Place, at_ns: u64) -> Option<Option<u32>> {
        let word = word_of(&self.names, pid, place)?;
        if let Some(gave_way) = self.gave_way(pid, place, at_ns) {
            return Some(Some(gave_way));
        }
        let given_back_ns = self.locks.given_back_ns(word, pid, at_ns)?;
        (!self.slept(pid, place, (at_ns, given_back_ns))).then(|| self.locks.holder(word, pid, at_ns))
    }

    /// Whether a task passed a lock on that another one had waited for within this window: it has waited there as well, and
    /// has not slept since it had the lock.
    pub(crate) fn passes_lock(&self, pid: u32, lock: Place, window: (u64, u64)) -> bool {
        self.waits_for(pid, lock) && !self.slept(pid, lock, window)
    }

    /// Whether a task ran out of time at a futex within a window in which another one waits for this place, since it was
    /// woken there itself. One that has a lock does not; and at the place itself it got none so, as the one that gave it
    /// back would have woken the other. Where each wait has a word of its own, as those for Python's conditions have, the
    /// word is another wait's by then, or has the same low bits in the memory of another thread.
    pub(crate) fn slept(&self, pid: u32, place: Place, (from_ns, to_ns): (u64, u64)) -> bool {
        let at_futex = |spell: Spell| match spell.state {
            State::Blocked { syscall, argument, .. } => Some((Place { syscall, argument }, spell.woken_in)),
            _ => None,
        };
        let mut waits =
            self.spells_back(pid, from_ns, to_ns).filter_map(at_futex).filter(|(other, _)| other.is_futex());
        let ends = |(other, woken_in): &(Place, WokenIn)| *woken_in == WokenIn::Interrupt || other.is_same(place);
        waits.find(ends).is_some_and(|(_, woken_in)| woken_in == WokenIn::Interrupt)
    }

    /// Who had a lock that a task got when the time of its wait for it was over, and gave way to it: one that waits for this
    /// lock as well, began to wait elsewhere only then, and was woken there by the task. Python's interpreter has its lock
    /// passed on so, lest the one that gives it back takes it again.
    fn gave_way(&self, pid: u32, lock: Place, at_ns: u64) -> Option<u32> {
        /// Within so much of the time-out, nanoseconds.
        const SOON_NS: u64 = 2_000_000;
        let mut wakes = self.wakes(pid, at_ns, at_ns.saturating_add(SOON_NS));
        let way = wakes.find(|wake| {
            wake.place.is_futex()
                && !wake.place.is_same(lock)
                && self.are_threads(pid, wake.woken)
                && self.waits_for(wake.woken, lock)
                && self.state_since(wake.woken, wake.at_ns) >= at_ns
                // It had the lock at the time-out, so it did not wait then.
                && !matches!(
                    self.spells_back(wake.woken, at_ns.saturating_sub(1), at_ns).next(),
                    Some(Spell { state: State::Blocked { .. }, .. })
                )
        })?;
        Some(way.woken)
    }

    /// When a task waits in a place again, within a window.
    pub(crate) fn is_back(&self, pid: u32, place: Place, from_ns: u64, to_ns: u64) -> Option<u64> {
        let changes = &self.tasks.get(&pid)?.changes;
        let first = changes.partition_point(|(at, _)| *at < from_ns);
        let within = changes.range(first..).take_while(|(at, _)| *at < to_ns);
        let is_there = |state: &State| match state {
            State::Blocked { syscall, argument, .. } => place.is_same(Place { syscall: *syscall, argument: *argument }),
            _ => false,
        };
        within.into_iter().find(|(_, state)| is_there(state)).map(|(at, _)| *at)
    }

    /// Who had a CPU within a window: (task, from, to); 0 is idle.
    pub(crate) fn ran_on(&self, cpu: u32, from_ns: u64, to_ns: u64) -> impl Iterator<Item = (u32, u64, u64)> + '_ {
        let history = self.cpus.get(cpu as usize).map(|cpu| &cpu.history);
        let first = history.map_or(0, |history| history.partition_point(|(at, _)| *at <= from_ns).saturating_sub(1));
        let mut index = first;
        std::iter::from_fn(move || {
            let history = history?;
            let (begin, pid) = *history.get(index)?;
            if begin >= to_ns {
                return None;
            }
            index += 1;
            let end = history.get(index).map_or(to_ns, |(at, _)| *at);
            Some((pid, begin.max(from_ns), end.min(to_ns)))
        })
        .filter(|(_, begin, end)| end > begin)
    }

    /// How many things are held.
    pub(crate) fn held(&self) -> usize {
        let of_tasks = self.tasks.values().map(Task::held).sum::<usize>();
        let of_cpus = self.cpus.iter().map(|cpu| cpu.history.len()).sum::<usize>();
        of_tasks
            + of_cpus
            + self.names.len()
            + self.asked_for.len()
            + self.attempts.held()
            + self.brought.len()
            + self.sharing.len()
            + self.shared.values().map(|answers| 1 + answers.len()).sum::<usize>()
            + self.locks.held()
    }

    /// Forgets what lies before a time, but for the state that holds at it.
    pub(crate) fn trim(&mut self, before_ns: u64) {
        for task in self.tasks.values_mut() {
            let keep = task.changes.partition_point(|(at, _)| *at <= before_ns).saturating_sub(1);
            task.changes.drain(..keep);
            let keep = task.touches.partition_point(|touch| touch.at_ns < before_ns);
            task.touches.drain(..keep);
            let keep = task.wakes.partition_point(|wake| wake.at_ns < before_ns);
            task.wakes.drain(..keep);
        }
        // A task that has ended is forgotten when no request can ask about its time any more.
        let (names, crowded) = (&mut self.names, self.tasks.len() > MOST_TASKS);
        self.tasks.retain(|pid, task| {
            let over = task.changes.back().is_none_or(|(at, _)| *at <= before_ns);
            let gone = over && task.touches.is_empty() && task.wakes.is_empty() && (task.ended || crowded);
            if gone {
                names.remove(*pid);
            }
            !gone
        });
        if self.names.len() > MOST_TASKS {
            let tasks = &self.tasks;
            self.names.retain(|pid| tasks.contains_key(&pid));
        }
        self.names.trim(before_ns);
        self.shared.retain(|_, answers| {
            answers.drain(..answers.partition_point(|(_, answer)| answer.at_ns < before_ns));
            !answers.is_empty()
        });
        self.attempts.trim(before_ns);
        self.locks.trim(before_ns);
        for cpu in &mut self.cpus {
            let keep = cpu.history.partition_point(|(at, _)| *at <= before_ns).saturating_sub(1);
            cpu.history.drain(..keep);
        }
    }

    /// A task has ended. What it did stays known for the requests that are yet to be told; its number's next owner
    /// begins anew with the fork, and once no request can ask about it any more it is forgotten.
    pub(crate) fn exit(&mut self, pid: u32) {
        self.tasks.entry(pid).or_default().ended = true;
    }
}

/// The word of memory that a task waits for, if it does that.
fn word_of(names: &TaskNames, pid: u32, place: Place) -> Option<Word> {
    let process = names.now(pid).map(|name| name.tgid).filter(|_| place.is_futex())?;
    Some(Word::new(process, place.argument))
}

impl Task {
    /// How many things it holds.
    fn held(&self) -> usize {
        1 + self.changes.len() + self.touches.len() + self.wakes.len()
    }

    /// The task that ended its last wait, if it runs for that now.
    fn last_waker(&self) -> Option<u32> {
        let mut back = self.changes.iter().rev();
        let (Some((_, State::Running { .. })), Some((_, State::Runnable { waker, .. }))) = (back.next(), back.next())
        else {
            return None;
        };
        Some(*waker).filter(|waker| *waker != 0)
    }

    /// How long it had waited with a client's request, nanoseconds, if a timer woke it and the first that it did was to
    /// answer, and if it had asked nothing for the request.
    fn slept_for(&self, client: u32) -> Option<u64> {
        /// Dealings that are looked through for the one at which the request was taken.
        const MOST_BACK: usize = 64;
        let mut states = self.changes.iter().rev().map(|(_, state)| *state);
        let (Some(State::Running { .. }), Some(State::Runnable { woken_in: WokenIn::Interrupt, .. })) =
            (states.next(), states.next())
        else {
            return None;
        };
        let mut back = self.touches.iter().rev();
        let answer = back.next()?;
        let mut before = back.take(MOST_BACK);
        let first = before.next().filter(|touch| touch.at_ns < self.ran_from_ns())?;
        let taken = std::iter::once(first).chain(before).find(|touch| touch.owner == client)?;
        (taken.server_side && taken.verb == Verb::Receive).then(|| answer.at_ns.saturating_sub(taken.at_ns))
    }

    /// When it got its CPU.
    fn ran_from_ns(&self) -> u64 {
        self.changes.back().map_or(0, |(at, _)| *at)
    }

    /// The task's next state cannot follow from its last one: an event between them is missing, so that the last state
    /// ended at an unknown time.
    fn doubt(&mut self, unfit: impl Fn(State) -> bool) {
        if let Some((_, state)) = self.changes.back_mut()
            && unfit(*state)
        {
            *state = State::Unknown;
        }
    }

    /// Takes back what a CPU's lost events make doubtful within a window up to now.
    fn lose(&mut self, from_ns: u64, to_ns: u64, lost: u32) {
        let first = self.changes.partition_point(|(at, _)| *at <= from_ns).saturating_sub(1);
        let tail = self.changes.split_off(first.min(self.changes.len()));
        let mut doubtful = false;
        for (index, (at_ns, state)) in tail.iter().copied().enumerate() {
            let end_ns = tail.get(index + 1).map_or(to_ns, |(end_ns, _)| *end_ns);
            // Another CPU tells when it was there.
            doubtful = match state {
                State::Running { cpu } => cpu == lost && end_ns > from_ns,
                _ => end_ns > from_ns,
            };
            if !doubtful || at_ns < from_ns {
                self.push(at_ns, state);
            }
            if doubtful {
                self.push(at_ns.max(from_ns), State::Unknown);
            }
        }
        let Some((_, last)) = tail.back().copied().filter(|_| doubtful) else { return };
        // Whose request it was at may have changed with what is lost.
        self.at = 0;
        self.in_hand.forget();
        // Should it turn out to be woken next, it was blocked since; in what it may have blocked meanwhile is lost.
        if let State::Blocked { state, .. } = last {
            self.push(to_ns, State::Blocked { state, syscall: NO_SYSCALL, argument: 0 });
        }
    }

    fn push(&mut self, time_ns: u64, state: State) {
        // Lanes are merged by time, but two CPUs' clocks may differ by nanoseconds: never let a history run back.
        let at = self.changes.back().map_or(time_ns, |(last, _)| time_ns.max(*last));
        self.changes.push_back((at, state));
        if self.changes.len() > MOST_CHANGES {
            self.changes.pop_front();
        }
    }
}

#[cfg(test)]
mod tests;
