//! The way of a request through the server: each stretch of time named, walked back along the chain of wake-ups.

use crate::answers::{self, Answer, Ours, Source};
use crate::blocked::{Wait, hold_of, wait_of};
use crate::conversations::Conversations;
use crate::known::Known;
use crate::own_locks;
use crate::pollers::{self, Completed};
use crate::step::{Detail, Step};
use crate::tasks::{Spell, State, Touch, Verb, Wake, WokenIn};
use std::net::IpAddr;
use weir_measure::part::Part;
use weir_wire::socket::SocketOpen;

/// How many tasks a request may pass through before its chain of wake-ups is given up. With many connections on threads
/// that take turns, a request that waits for some 100 ms has been behind dozens of hand-overs.
pub(crate) const MOST_HOPS: usize = 256;
/// How many processes may wait for each other; below, it is `wait_process`.
pub(crate) const MOST_DEPTH: u32 = 8;
/// How many questions of a request, each asked by an event loop that went to others meanwhile, are followed.
const MOST_QUESTIONS: usize = 256;

/// What is known of a request at the server; the times ascend.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) socket: u32,
    /// Its first byte arrived.
    pub(crate) arrived_ns: u64,
    /// No task had accepted its connection then.
    pub(crate) not_accepted: bool,
    /// A task took it.
    pub(crate) picked_ns: u64,
    /// The task.
    pub(crate) picker: u32,
    /// Its turn: picked up, and the responses before it on its connection given.
    pub(crate) begun_ns: u64,
    /// The last send of its response.
    pub(crate) sent_ns: u64,
    /// The task that sent it.
    pub(crate) sender: u32,
}

/// A stretch in which a task was at others' requests.
#[derive(Debug, Clone, Copy)]
struct Foreign {
    from_ns: u64,
    to_ns: u64,
    /// The socket whose answer to our request was still awaited then.
    awaited: Option<u32>,
}

/// Walks requests; holds what is known and the steps found.
pub(crate) struct Walk<'a> {
    pub(crate) known: Known<'a>,
    pub(crate) span: Span,
    pub(crate) steps: &'a mut Vec<Step>,
    /// The task that waits for this walk's, 0 for the request's own.
    pub(crate) waiter: u32,
    /// How many processes wait for each other above this one.
    pub(crate) depth: u32,
}

/// What a blocked task waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaited {
    /// This, for certain.
    Known(Part, Detail),
    /// What comes over a socket.
    Socket(u32),
    /// What this thread does, that was asked for it at this time; 0 where it was at others' work then.
    Thread(u32, u64),
    /// The task that ended the wait.
    Waker,
    /// Not what ended the wait, which was another request's: what the wait after it was for.
    Later,
}

/// Waits that come after the one at hand, and what they were for.
#[derive(Debug, Default)]
struct Later {
    /// The next one.
    next: Option<(Spell, Awaited)>,
    /// The next one for readiness of anything.
    ready: Option<(Spell, Awaited)>,
}

impl Later {
    fn note(&mut self, spell: Spell, awaited: Awaited) {
        self.next = Some((spell, awaited));
        if matches!(spell.state, State::Blocked { state, syscall, .. } if wait_of(state, syscall) == Wait::Descriptor) {
            self.ready = self.next;
        }
    }
}

impl Walk<'_> {
    /// Names every stretch from the arrival to the last send.
    pub(crate) fn server(&mut self) {
        let span = self.span;
        self.until_pick_up(span.picker, span.arrived_ns, span.picked_ns);
        // Pipelined: taken together with the requests before it, and waiting for their answers.
        self.step(span.picked_ns, span.begun_ns, Part::WorkerQueue, span.picker, Detail::None);
        self.until_last_send(span.begun_ns, span.sent_ns);
    }

    /// Names every stretch from a time within the response to the last send.
    pub(crate) fn rest(&mut self, from_ns: u64) {
        self.until_last_send(from_ns, self.span.sent_ns);
    }

    fn step(&mut self, from_ns: u64, to_ns: u64, part: Part, pid: u32, detail: Detail) {
        // In another process that the server waits for, it matters whose time it is.
        let own = matches!(part, Part::Run | Part::WaitTimer | Part::WorkerQueue | Part::AcceptQueue);
        let named = own || self.waiter != 0 && part == Part::WaitDisk;
        let detail = if named && detail == Detail::None { Detail::Task(pid) } else { detail };
        if to_ns > from_ns {
            self.steps.push(Step { from_ns, to_ns, part, pid, waiter: self.waiter, detail });
        }
    }

    /// From the arrival to the pick-up, at first with the thread that hands requests out where that one waits for a lock.
    fn until_pick_up(&mut self, pid: u32, from_ns: u64, to_ns: u64) {
        match self.dispatched(pid, from_ns, to_ns) {
            Some((dispatcher, handed_ns)) => {
                self.back_from_pick_up(pid, handed_ns, to_ns);
                self.back_from_pick_up(dispatcher, from_ns, handed_ns);
            }
            None => self.back_from_pick_up(pid, from_ns, to_ns),
        }
    }

    /// The thread that handed a request out to a pool, and when it last did so before the pick-up: where the one that took it
    /// was at others' requests meanwhile, and the one that handed it out waited for a lock. While that is an interpreter's,
    /// other threads of the pool were free, and the request waited for the lock and not for the one that took it.
    fn dispatched(&self, pid: u32, from_ns: u64, to_ns: u64) -> Option<(u32, u64)> {
        let tasks = self.known.tasks;
        if self.last_foreign(pid, from_ns, to_ns) <= from_ns {
            return None;
        }
        let dispatcher =
            tasks.given_by(pid).filter(|one| self.is_sibling(*one, pid) && !tasks.deals_with_clients(*one))?;
        let is_handed =
            |wake: &&Wake| self.is_sibling(wake.woken, dispatcher) && tasks.gives_work_at(dispatcher, wake.place);
        let handed_ns = tasks.wakes(dispatcher, from_ns, to_ns).rev().find(is_handed)?.at_ns;
        let mut lock = None;
        let mut spells = tasks.spells_back(dispatcher, from_ns, handed_ns);
        spells.any(|spell| self.is_lock(dispatcher, &spell, &mut lock)).then_some((dispatcher, handed_ns))
    }

    /// Back from the task that picked up, over those that woke or made it.
    fn back_from_pick_up(&mut self, mut pid: u32, from_ns: u64, mut to_ns: u64) {
        let queue = if self.span.not_accepted { Part::AcceptQueue } else { Part::WorkerQueue };
        for _ in 0..MOST_HOPS {
            let busy_until = self.last_foreign(pid, from_ns, to_ns);
            let (mut hop, mut lock) = (None, None);
            for spell in self.known.tasks.spells_back(pid, from_ns, to_ns) {
                let Spell { from_ns: begin, to_ns: end, state, woken_by, parent, .. } = spell;
                match state {
                    // Before the task was made, the request was with the one that made it.
                    _ if parent != 0 => {
                        hop = Some((parent, end));
                        break;
                    }
                    // A wait for the CPU counts as such, even if the task is at another request.
                    State::Runnable { .. } => self.wait_cpu(pid, &spell),
                    State::Unknown => self.step(begin, end, Part::Unattributed, pid, Detail::None),
                    State::Running { .. } => {
                        let turn = busy_until.clamp(begin, end);
                        self.step(begin, turn, queue, pid, Detail::None);
                        self.step(turn, end, Part::Run, pid, Detail::None);
                    }
                    State::Blocked { state, .. } if hold_of(state).is_some() => {
                        let held = hold_of(state).map_or(Detail::None, |by| Detail::Held(pid, by));
                        self.step(begin, end, Part::Stopped, pid, held);
                    }
                    State::Blocked { .. } if begin < busy_until => self.step(begin, end, queue, pid, Detail::None),
                    // An interpreter's lock, say: who gives it back hands no request over.
                    State::Blocked { .. } if self.is_lock(pid, &spell, &mut lock) => {
                        let holder = lock.map_or(0, |(_, holder)| holder);
                        let holder = if holder == 0 { Detail::None } else { Detail::Task(holder) };
                        self.step(begin, end, Part::WaitLock, pid, holder);
                    }
                    State::Blocked { .. } if self.hands_over(woken_by, pid) => {
                        hop = Some((woken_by, end));
                        break;
                    }
                    State::Blocked { state, syscall, .. } => {
                        let part = match wait_of(state, syscall) {
                            Wait::Lock if timed_out(&spell, syscall) => Part::WaitTimer,
                            Wait::Lock => Part::WaitLock,
                            Wait::Timer => Part::WaitTimer,
                            Wait::Disk if self.is_sibling(woken_by, pid) => Part::WaitLock,
                            Wait::Disk => Part::WaitDisk,
                            Wait::Process => Part::WaitProcess,
                            // Idle, and not yet woken for this arrival: it is still being delivered.
                            Wait::Descriptor if self.span.not_accepted => Part::AcceptQueue,
                            Wait::Descriptor => Part::RequestTransit,
                            Wait::Unknown => Part::Unattributed,
                        };
                        self.step(begin, end, part, pid, Detail::None);
                    }
                }
            }
            match hop {
                Some((waker, at)) => (pid, to_ns) = (waker, at),
                None => return,
            }
        }
        self.step(from_ns, to_ns, Part::Unattributed, pid, Detail::None);
    }

    /// Whether a wait was for a lock that its waker had, or that was got when its time was over; or goes on in one
    /// that was (`lock`: that one, and the holder, 0 where it is not known).
    fn is_lock(&self, pid: u32, spell: &Spell, lock: &mut Option<(Spell, u32)>) -> bool {
        let holder = match lock {
            Some((next, holder)) if answers::goes_on(self.known, pid, spell, next) => Some(*holder),
            // Processes that take turns at accepting hand the next connection over with their lock.
            _ if self.is_sibling(spell.woken_by, pid) && answers::is_lock(self.known, spell) => Some(spell.woken_by),
            _ => answers::lock_until_time_out(self.known, pid, spell).map(Option::unwrap_or_default),
        };
        *lock = holder.map(|holder| (*spell, holder));
        holder.is_some()
    }

    /// From the beginning to the last send: back from the task that sent.
    fn until_last_send(&mut self, from_ns: u64, mut to_ns: u64) {
        let (mut pid, mut hops) = (self.span.sender, 0);
        for _ in 0..MOST_QUESTIONS + MOST_HOPS {
            let question = self.last_answer(pid, from_ns, to_ns);
            let answered_ns = question.map_or(from_ns, |question| question.answered_ns.clamp(from_ns, to_ns));
            let hop = match pollers::is_poller(self.known, pid) {
                true => self.polled(pid, answered_ns, to_ns),
                false => self.own_time(pid, answered_ns, to_ns),
            };
            match (hop, question) {
                (Some(_), _) if hops == MOST_HOPS => break,
                // Back with the one that waits for this walk's: it had not asked yet.
                (Some((waker, at)), _) if waker == self.waiter => {
                    return self.step(from_ns, at, Part::Unattributed, pid, Detail::None);
                }
                (Some((waker, at)), _) => {
                    (pid, to_ns) = (waker, at);
                    hops += 1;
                }
                (None, Some(Answer { source, asker, asked_ns, .. })) => {
                    let awaited = match source {
                        Source::Socket(socket) => Awaited::Socket(socket),
                        Source::Thread(thread) => Awaited::Thread(thread, asked_ns),
                    };
                    self.blocked(asker, &Spell::of_nothing(asked_ns, answered_ns), &awaited);
                    (pid, to_ns) = (asker, asked_ns);
                }
                (None, None) => return,
            }
        }
        self.step(from_ns, to_ns, Part::Unattributed, pid, Detail::None);
    }

    /// The last answer to a question of ours within a window during which what a task does itself tells nothing of ours:
    /// it went to others' requests, or another thread had asked, or is asked.
    fn last_answer(&self, pid: u32, from_ns: u64, to_ns: u64) -> Option<Answer> {
        let (ours, window) = (self.ours(), (from_ns, to_ns));
        let over_sockets = [
            self.last_question(pid, from_ns, to_ns),
            answers::read_for_another(self.known, ours, pid, window),
            answers::passed_on(self.known, ours, pid, window),
            answers::read_elsewhere(self.known, ours, pid, window),
        ];
        let over_sockets = over_sockets.into_iter().flatten().max_by_key(|answer| answer.answered_ns);
        let of_threads = answers::handed_out(self.known, ours, pid, window);
        // What was asked over a socket comes before what threads are woken for meanwhile.
        match (over_sockets, of_threads) {
            (Some(socket), Some(thread)) if thread.asked_ns >= socket.read_ns => Some(thread),
            (socket, thread) => socket.or(thread),
        }
    }

    /// Whose request it is, since its turn.
    fn ours(&self) -> Ours {
        Ours { socket: self.span.socket, since_ns: self.span.picked_ns }
    }

    /// What a task did while it had the request, latest first; where it got it from another task, that one and when.
    fn own_time(&mut self, pid: u32, from_ns: u64, to_ns: u64) -> Option<(u32, u64)> {
        let foreign = self.foreign_stretches(pid, from_ns, to_ns);
        let mut later = Later::default();
        for spell in self.known.tasks.spells_back(pid, from_ns, to_ns) {
            let Spell { from_ns: begin, to_ns: end, state, woken_by, parent, .. } = spell;
            match state {
                // Before the task was made, the request was with the one that made it.
                _ if parent != 0 => return Some((parent, end)),
                State::Runnable { .. } => self.wait_cpu(pid, &spell),
                State::Unknown => self.step(begin, end, Part::Unattributed, pid, Detail::None),
                State::Running { .. } => self.run_or_queue(pid, begin, end, &foreign),
                State::Blocked { state, .. } if hold_of(state).is_some() => {
                    let held = hold_of(state).map_or(Detail::None, |by| Detail::Held(pid, by));
                    self.step(begin, end, Part::Stopped, pid, held);
                }
                State::Blocked { .. } if self.was_handed_over(pid, &spell) => return Some((woken_by, end)),
                State::Blocked { .. } if answers::is_idle_worker(self.known, self.waiter, pid, &spell) => {
                    return Some((woken_by, end));
                }
                State::Blocked { state, syscall, .. } => {
                    let awaited = self.wait(pid, &spell, (state, syscall), &foreign);
                    let awaited = self.with_later(pid, &spell, awaited, &later);
                    self.blocked(pid, &spell, &awaited);
                    later.note(spell, awaited);
                }
            }
        }
        None
    }

    /// What a wait was for, by those after it: it goes on in the next one, or what ended it was nothing of ours.
    fn with_later(&self, pid: u32, spell: &Spell, awaited: Awaited, later: &Later) -> Awaited {
        let goes_on = |next: &Spell| answers::goes_on(self.known, pid, spell, next);
        match (awaited, later.next, later.ready) {
            (Awaited::Known(Part::WaitTimer, _), Some((next, awaited)), _) if goes_on(&next) => awaited,
            (Awaited::Known(Part::WaitLock, Detail::None), Some((next, Awaited::Known(Part::WaitLock, holder))), _)
                if goes_on(&next) =>
            {
                Awaited::Known(Part::WaitLock, holder)
            }
            // Time had passed for another request, say.
            (Awaited::Waker, _, Some(ready)) if spell.woken_in == WokenIn::Interrupt => {
                self.as_in(pid, spell, ready).unwrap_or(Awaited::Waker)
            }
            (Awaited::Later, _, ready) => {
                let known = ready.and_then(|ready| self.as_in(pid, spell, ready));
                let part = if self.was_due(pid, spell) { Part::WaitTimer } else { Part::Unattributed };
                known.unwrap_or(Awaited::Known(part, Detail::None))
            }
            _ => awaited,
        }
    }

    /// Whether a timer of the request's was due when a loop came to answer it, though what ended the wait was another
    /// request: the loop asked nothing for it, and others that it answered by a timer took no longer.
    fn was_due(&self, pid: u32, spell: &Spell) -> bool {
        let Span { socket, picker, sender, sent_ns, .. } = self.span;
        let Some(least_ns) = self.known.tasks.shortest_timer_ns(pid).filter(|_| pid == picker && pid == sender) else {
            return false;
        };
        // A runtime counts from when it looked at the clock, which it does once for all that it takes up together.
        let least_ns = least_ns - least_ns / 16;
        let mut before = self.known.tasks.touches(pid, self.span.picked_ns, sent_ns).rev();
        let last = before.find(|touch| touch.owner == socket);
        last.is_some_and(|taken| {
            let took_ns = sent_ns.saturating_sub(taken.at_ns);
            taken.server_side && taken.verb == Verb::Receive && taken.at_ns <= spell.from_ns && took_ns >= least_ns
        })
    }

    /// What a thread that polls a ring did for the one that asks by it, whose request it is; that one, and until when it was
    /// at it. Without any the time is the poller's own.
    fn polled(&mut self, pid: u32, from_ns: u64, to_ns: u64) -> Option<(u32, u64)> {
        let asker = pollers::asker(self.known, pid, (from_ns, to_ns));
        let since_ns = asker.map_or(from_ns, |(_, until_ns)| until_ns);
        for spell in self.known.tasks.spells_back(pid, since_ns, to_ns) {
            match spell.state {
                State::Running { .. } => self.step(spell.from_ns, spell.to_ns, Part::Run, pid, Detail::None),
                State::Runnable { .. } => self.wait_cpu(pid, &spell),
                State::Blocked { state, .. } if hold_of(state).is_some() => {
                    let held = hold_of(state).map_or(Detail::None, |by| Detail::Held(pid, by));
                    self.step(spell.from_ns, spell.to_ns, Part::Stopped, pid, held);
                }
                // It sleeps until it is told that there is something to do again.
                State::Blocked { .. } | State::Unknown => {
                    self.step(spell.from_ns, spell.to_ns, Part::Unattributed, pid, Detail::None);
                }
            }
        }
        asker
    }

    /// What was awaited in a wait that a thread which polls a ring has ended, where the waiting one touches nothing itself.
    fn of_a_ring(&self, pid: u32, spell: &Spell) -> Option<Awaited> {
        let (known, until_ns) = (self.known, self.span.sent_ns.saturating_add(1));
        let poller = Some(spell.woken_by).filter(|waker| *waker != 0 && pollers::is_poller(known, *waker))?;
        if known.tasks.touches(pid, spell.to_ns, until_ns).any(|touch| !self.is_foreign(touch)) {
            return None;
        }
        let asked = |socket| Awaited::Socket(socket);
        Some(match pollers::completed(known, self.ours(), poller, (spell.from_ns, spell.to_ns)) {
            Completed::Answer(socket) => asked(socket),
            Completed::Request => Awaited::Known(Part::RequestTransit, self.sender(spell)),
            Completed::Response => Awaited::Waker,
            Completed::Others => Awaited::Later,
            Completed::Work(thread, asked_ns) => Awaited::Thread(thread, asked_ns),
            // What was asked before and has not been answered is none that only time ends.
            Completed::Time => {
                self.asked(poller, spell.from_ns).map_or(Awaited::Known(Part::WaitTimer, Detail::None), asked)
            }
        })
    }

    /// What a later wait for readiness was for, if nothing of ours was done since the one at hand.
    fn as_in(&self, pid: u32, spell: &Spell, (next, awaited): (Spell, Awaited)) -> Option<Awaited> {
        if !answers::does_nothing(self.known, self.ours(), pid, (spell.to_ns, next.from_ns)) {
            return None;
        }
        Some(match awaited {
            // The task that ended that one is not the one that ended this one.
            Awaited::Waker if next.woken_by == 0 => Awaited::Known(Part::WaitTimer, Detail::None),
            Awaited::Waker if self.known.tasks.serves(next.woken_by) => Awaited::Thread(next.woken_by, 0),
            Awaited::Waker => Awaited::Known(Part::WaitProcess, Detail::Task(next.woken_by)),
            awaited => awaited,
        })
    }

    /// The last question of ours that a task asked a captured process within a window, and during which it went to
    /// others' requests: then what it does itself tells nothing of ours until the answer is sent.
    fn last_question(&self, pid: u32, from_ns: u64, to_ns: u64) -> Option<Answer> {
        let Known { tasks, conversations, .. } = self.known;
        let mut foreign_ns = tasks.touches(pid, from_ns, to_ns).rev().find(|touch| self.is_foreign(touch))?.at_ns;
        for touch in tasks.touches(pid, from_ns, to_ns).rev() {
            if self.is_foreign(touch) {
                foreign_ns = touch.at_ns;
                continue;
            }
            if touch.server_side || touch.verb != Verb::Send || touch.at_ns >= foreign_ns {
                continue;
            }
            let Some(peer) = conversations.peer(touch.socket) else { continue };
            let Some(answer) = conversations.sent(peer, touch.at_ns).filter(|answer| answer.at_ns <= to_ns) else {
                continue;
            };
            if foreign_ns < answer.at_ns && tasks.serves(answer.pid) {
                let (source, asked_ns) = (Source::Socket(touch.socket), touch.at_ns);
                // From another host it is on the way for a while.
                let is_far = conversations.is_far(touch.socket);
                let heard_ns = if is_far { conversations.heard_ns(touch.socket, answer.at_ns) } else { 0 };
                let answered_ns = heard_ns.min(to_ns).max(answer.at_ns);
                return Some(Answer { source, asker: pid, asked_ns, answered_ns, read_ns: answered_ns });
            }
        }
        None
    }

    /// A wait while a task has the request: what it waited for has its place, where that is known.
    fn blocked(&mut self, pid: u32, spell: &Spell, awaited: &Awaited) {
        let (part, detail) = match awaited {
            Awaited::Known(part, detail) => (*part, *detail),
            Awaited::Socket(socket) if self.follow(pid, spell, Some(*socket)) => return,
            Awaited::Waker if self.follow(pid, spell, None) => return,
            Awaited::Thread(thread, asked_ns) if self.follow_thread(pid, spell, *thread, *asked_ns) => return,
            // It waited for the one that waits for it: that one had not asked yet, for it was at others' requests.
            Awaited::Waker | Awaited::Socket(_) if self.waiter != 0 && spell.woken_by == self.waiter => {
                (Part::WorkerQueue, Detail::Task(self.waiter))
            }
            Awaited::Socket(socket) => self.towards(*socket, spell),
            // Another thread of the same server that was at other requests, and then passed something on.
            Awaited::Waker if self.is_sibling(spell.woken_by, pid) => (Part::WorkerQueue, self.waker_of(spell)),
            Awaited::Thread(thread, _) if self.is_sibling(*thread, pid) => (Part::WorkerQueue, Detail::Task(*thread)),
            Awaited::Thread(thread, _) => (Part::WaitProcess, Detail::Task(*thread)),
            Awaited::Later => (Part::Unattributed, Detail::None),
            // Something came over a network, to a socket of which nothing is told.
            Awaited::Waker if spell.woken_in == WokenIn::SoftInterrupt => (Part::WaitNetwork, Detail::None),
            // No task ended it but an interrupt, in which no socket was given anything: time has passed.
            Awaited::Waker if spell.woken_by == 0 => (Part::WaitTimer, Detail::None),
            Awaited::Waker => (Part::WaitProcess, self.waker_of(spell)),
        };
        self.step(spell.from_ns, spell.to_ns, part, pid, detail);
    }

    /// Puts what the awaited task did in the place of the wait, if that task is of a captured process; and so on where
    /// it waited for others.
    ///
    /// Who answered over a connection is told by the sockets; over a pipe, or by ending, by the wake-up.
    fn follow(&mut self, pid: u32, spell: &Spell, socket: Option<u32>) -> bool {
        let Spell { from_ns, to_ns, woken_by, .. } = *spell;
        let Known { tasks, conversations, .. } = self.known;
        if let Some(far) = socket.filter(|socket| conversations.is_far(*socket)) {
            return self.follow_far(pid, spell, far);
        }
        let socket = socket.or_else(|| self.answered_at(pid, spell));
        let peer = socket.and_then(|socket| conversations.peer(socket));
        let asked_ns = socket.and_then(|socket| conversations.asked_ns(socket, from_ns)).unwrap_or(from_ns);
        let answered = peer.and_then(|peer| conversations.answered(peer, asked_ns, to_ns));
        let captured = |task: &u32| *task != 0 && *task != pid && *task != self.waiter && tasks.serves(*task);
        // The task that takes the question up was awaited before it took it up, too.
        let answered_ns = answered.map_or(to_ns, |dealing| dealing.at_ns);
        let picked = peer.and_then(|peer| conversations.picked(peer, answered_ns)).filter(|one| one.pid != 0);
        // One that waits further up may be asked again, over another connection, as a proxy that stands twice in a chain.
        let is_another = peer.is_some_and(|peer| peer != self.span.socket && self.is_clients(peer));
        let asked_again = |task: &u32| *task != 0 && is_another && tasks.serves(*task);
        let by_socket =
            answered.or(picked).map(|dealing| dealing.pid).filter(|task| captured(task) || asked_again(task));
        // Who reads the answer for this one is none that it was asked of.
        let reads = |task: &u32| socket.is_some() && pollers::is_poller(self.known, *task);
        let waker = Some(woken_by).filter(|task| captured(task) && !reads(task));
        let Some(sender) = by_socket.or(waker).filter(|_| self.depth < MOST_DEPTH) else {
            return false;
        };
        let picked_ns = picked.map_or(from_ns, |dealing| dealing.at_ns.clamp(from_ns, to_ns));
        let span = Span {
            // What another thread of the server does for other requests is none of ours.
            socket: peer.unwrap_or(if self.is_sibling(sender, pid) { self.span.socket } else { 0 }),
            arrived_ns: from_ns,
            not_accepted: peer.is_some_and(|peer| conversations.is_new(peer, asked_ns)),
            picked_ns,
            picker: picked.map_or(sender, |dealing| dealing.pid),
            begun_ns: picked_ns,
            sent_ns: answered.map_or(to_ns, |dealing| dealing.at_ns.max(to_ns)),
            sender,
        };
        let mut inner = Walk { known: self.known, span, steps: self.steps, waiter: pid, depth: self.depth + 1 };
        inner.until_pick_up(span.picker, from_ns, picked_ns);
        inner.until_last_send(picked_ns, to_ns);
        true
    }

    /// Whether a socket is an end at which requests come in.
    fn is_clients(&self, socket: u32) -> bool {
        let is_server_side = self.known.sockets.get(socket).is_some_and(|known| known.server_side);
        is_server_side || self.known.conversations.is_accepted(socket)
    }

    /// The same over a connection to another recorded host: between what the hosts did lies the way there and back.
    fn follow_far(&mut self, pid: u32, spell: &Spell, socket: u32) -> bool {
        let Spell { from_ns, to_ns, .. } = *spell;
        let Known { tasks, conversations, sockets, .. } = self.known;
        let asked_ns = conversations.asked_ns(socket, from_ns).unwrap_or(from_ns);
        let follows = from_ns <= to_ns && self.depth < MOST_DEPTH;
        let Some(peer) = conversations.peer(socket).filter(|_| follows) else { return false };
        let Some(answered) = conversations.far_answer(socket, asked_ns, to_ns).filter(|one| tasks.serves(one.pid))
        else {
            return false;
        };
        let picked = conversations.picked(peer, answered.at_ns).filter(|one| one.pid != 0).unwrap_or(answered);
        let (arrived_ns, not_accepted) = conversations.arrived(peer, answered.at_ns).unwrap_or((picked.at_ns, false));
        let arrived_ns = arrived_ns.clamp(from_ns, to_ns);
        let answered_ns = answered.at_ns.clamp(arrived_ns, to_ns);
        let picked_ns = picked.at_ns.clamp(arrived_ns, answered_ns);
        let way = sockets.get(socket).map_or(Detail::None, |known| Detail::Way(known.open.remote));
        self.step(from_ns, arrived_ns, Part::WaitNetwork, pid, way);
        self.step(answered_ns, to_ns, Part::WaitNetwork, pid, way);
        let span = Span {
            socket: peer,
            arrived_ns,
            not_accepted,
            picked_ns,
            picker: picked.pid,
            begun_ns: picked_ns,
            sent_ns: answered.at_ns.max(answered_ns),
            sender: answered.pid,
        };
        let mut inner = Walk { known: self.known, span, steps: self.steps, waiter: pid, depth: self.depth + 1 };
        inner.until_pick_up(span.picker, arrived_ns, picked_ns);
        inner.until_last_send(picked_ns, answered_ns);
        true
    }

    /// Puts what a thread did for the request in the place of the wait for it.
    fn follow_thread(&mut self, pid: u32, spell: &Spell, thread: u32, asked_ns: u64) -> bool {
        if [0, pid, self.waiter].contains(&thread) || self.depth >= MOST_DEPTH {
            return false;
        }
        let Spell { from_ns, to_ns, .. } = *spell;
        let span = Span {
            socket: 0,
            arrived_ns: from_ns,
            not_accepted: false,
            picked_ns: asked_ns.min(from_ns),
            picker: pid,
            begun_ns: from_ns,
            sent_ns: to_ns,
            sender: thread,
        };
        Walk { known: self.known, span, steps: self.steps, waiter: pid, depth: self.depth + 1 }
            .until_last_send(from_ns, to_ns);
        true
    }

    /// The socket of ours at which a wait was ended that was not for one socket alone, as in `poll`: the waker sent at its
    /// other end, and we had asked there. The event of its sending comes after the wake-up from within it.
    fn answered_at(&self, pid: u32, spell: &Spell) -> Option<u32> {
        let Known { tasks, conversations, .. } = self.known;
        let until_ns = spell.to_ns.saturating_add(Conversations::RETURN_NS);
        let mut sent = tasks.touches(spell.woken_by, spell.to_ns, until_ns).filter(|touch| touch.verb == Verb::Send);
        let own = conversations.peer(sent.next()?.socket)?;
        conversations.asked(own, spell.to_ns).filter(|asked| asked.pid == pid).map(|_| own)
    }

    /// Whether the end of a wait is where a task got the request from the one that woke it, not where it waited for
    /// something with it.
    fn was_handed_over(&self, pid: u32, spell: &Spell) -> bool {
        let (span, waker) = (&self.span, spell.woken_by);
        // It is woken for each call that is done.
        if pollers::is_poller(self.known, waker) {
            return self.known.tasks.state_since(pid, spell.to_ns) < span.picked_ns;
        }
        if pid == span.picker || !self.hands_over(waker, pid) {
            return false;
        }
        if self.known.tasks.state_since(pid, spell.to_ns) < span.picked_ns {
            return true;
        }
        // It can have got it only once, and not when it had it already.
        let ours = |touch: &Touch| touch.socket == span.socket;
        let earlier = |spell: Spell| matches!(spell.state, State::Blocked { .. }) && spell.woken_by == span.picker;
        waker == span.picker
            && !self.known.tasks.touches(pid, span.begun_ns, spell.from_ns).any(ours)
            && !self.known.tasks.spells_back(pid, span.begun_ns, spell.from_ns).any(earlier)
    }

    /// Whether a wake-up may have handed the request over: it came from another task of the server.
    fn hands_over(&self, waker: u32, woken: u32) -> bool {
        waker != 0 && waker != woken && self.known.tasks.serves(waker)
    }

    /// Whether two tasks are threads of one process.
    fn is_sibling(&self, one: u32, other: u32) -> bool {
        answers::are_siblings(self.known, one, other)
    }

    /// Waiting for a CPU, by who had it.
    fn wait_cpu(&mut self, pid: u32, spell: &Spell) {
        let Some(cpu) = spell.next_cpu else {
            return self.step(spell.from_ns, spell.to_ns, Part::WaitCpu, pid, Detail::None);
        };
        let mut at_ns = spell.from_ns;
        for (holder, from_ns, to_ns) in self.known.tasks.ran_on(cpu, spell.from_ns, spell.to_ns) {
            self.step(at_ns, from_ns, Part::WaitCpu, pid, Detail::None);
            // No task had it: the CPU was waking up, or the task was on its way to it.
            let detail = if holder == 0 || holder == pid { Detail::None } else { Detail::Task(holder) };
            self.step(from_ns, to_ns, Part::WaitCpu, pid, detail);
            at_ns = to_ns;
        }
        self.step(at_ns, spell.to_ns, Part::WaitCpu, pid, Detail::None);
    }

    /// The end of a task's last dealing with another connection before it came to ours.
    fn last_foreign(&self, pid: u32, from_ns: u64, to_ns: u64) -> u64 {
        let foreign = |touch: &&Touch| self.is_foreign(touch);
        self.known.tasks.touches(pid, from_ns, to_ns).rev().find(foreign).map_or(0, |touch| touch.at_ns)
    }

    /// Whether a dealing was for another connection's request.
    ///
    /// Of a task that was followed by its wake-up alone it is not known over which connection it was asked.
    fn is_foreign(&self, touch: &Touch) -> bool {
        !self.is_of_ours(touch.owner)
    }

    /// Stretches in which a task was at other connections' requests: from its first dealing with them to the last one
    /// before it came back to ours, or had nothing to do.
    fn foreign_stretches(&self, pid: u32, from_ns: u64, to_ns: u64) -> Vec<Foreign> {
        let mut stretches: Vec<Foreign> = Vec::new();
        let Some(first) = self.known.tasks.touches(pid, from_ns, to_ns).find(|touch| self.is_foreign(touch)) else {
            return stretches;
        };
        // Ends of the waits of an event loop that had nothing to do, latest first: taken from the back as time goes on.
        let mut idle_ns: Vec<u64> = self.idle_ends(pid, first.at_ns, to_ns).collect();
        let mut open: Option<Foreign> = None;
        for touch in self.known.tasks.touches(pid, first.at_ns, to_ns) {
            let at_ns = touch.at_ns;
            let mut was_idle = false;
            while idle_ns.last().is_some_and(|end_ns| *end_ns <= at_ns) {
                was_idle |= idle_ns.pop().is_some();
            }
            if was_idle || !self.is_foreign(touch) {
                stretches.extend(open.take());
            }
            if self.is_foreign(touch) {
                let from_ns = open.map_or(at_ns, |stretch| stretch.from_ns);
                open = Some(Foreign { from_ns, to_ns: at_ns, awaited: None });
            }
        }
        stretches.extend(open);
        self.mark_awaited(pid, from_ns, to_ns, &mut stretches);
        stretches
    }

    /// The ends of a task's waits for any descriptor within a window, latest first.
    fn idle_ends(&self, pid: u32, from_ns: u64, to_ns: u64) -> impl Iterator<Item = u64> {
        let idle = |spell: &Spell| match spell.state {
            State::Blocked { state, syscall, .. } => wait_of(state, syscall) == Wait::Descriptor,
            _ => false,
        };
        self.known.tasks.spells_back(pid, from_ns, to_ns).filter(idle).map(|spell| spell.to_ns)
    }

    /// Finds the stretches at others in which the answer to our own question had surely not come: an event loop that
    /// waits would have been woken by it, so up to the end of its last wait it was not there.
    fn mark_awaited(&self, pid: u32, from_ns: u64, to_ns: u64, stretches: &mut [Foreign]) {
        let mut asked: Option<Touch> = None;
        for touch in self.known.tasks.touches(pid, from_ns, to_ns) {
            if touch.server_side || touch.owner != self.span.socket {
                continue;
            }
            match (touch.verb, asked) {
                (Verb::Send, _) => asked = Some(*touch),
                (Verb::Receive, Some(question)) if question.socket == touch.socket => {
                    if let Some(until_ns) = self.idle_ends(pid, question.at_ns, touch.at_ns).next() {
                        let within =
                            |stretch: &&mut Foreign| question.at_ns <= stretch.from_ns && stretch.to_ns <= until_ns;
                        stretches.iter_mut().filter(within).for_each(|stretch| stretch.awaited = Some(touch.socket));
                    }
                    asked = None;
                }
                (Verb::Receive, _) => {}
            }
        }
    }

    fn run_or_queue(&mut self, pid: u32, begin: u64, end: u64, foreign: &[Foreign]) {
        let mut at_ns = begin;
        for stretch in foreign {
            let (from_ns, to_ns) = (stretch.from_ns.clamp(at_ns, end), stretch.to_ns.clamp(at_ns, end));
            self.step(at_ns, from_ns, Part::Run, pid, Detail::None);
            match stretch.awaited {
                Some(socket) if to_ns > from_ns => {
                    self.blocked(pid, &Spell::of_nothing(from_ns, to_ns), &Awaited::Socket(socket));
                }
                _ => self.step(from_ns, to_ns, Part::WorkerQueue, pid, Detail::None),
            }
            at_ns = to_ns;
        }
        self.step(at_ns, end, Part::Run, pid, Detail::None);
    }

    /// What a blocked task waits for while it has the request.
    fn wait(&self, pid: u32, spell: &Spell, call: (u8, u16), foreign: &[Foreign]) -> Awaited {
        // In such a stretch the task waits on behalf of other requests, and this request waits for the task.
        if let Some(stretch) = foreign.iter().find(|one| one.from_ns <= spell.from_ns && spell.to_ns <= one.to_ns) {
            return stretch.awaited.map_or(Awaited::Known(Part::WorkerQueue, Detail::None), Awaited::Socket);
        }
        // A lock of the server's own counts as a lock, although the kernel sees another sort of wait.
        if let Some(holder) = own_locks::holder(self.known, pid, spell) {
            return Awaited::Known(Part::WaitLock, holder);
        }
        let (waker, (state, syscall)) = (self.waker_of(spell), call);
        let sort = wait_of(state, syscall);
        if let Some(awaited) = self.of_a_ring(pid, spell) {
            return awaited;
        }
        if matches!(sort, Wait::Lock | Wait::Descriptor)
            && let Some(awaited) = self.of_a_thread(pid, spell)
        {
            return awaited;
        }
        match sort {
            Wait::Lock if answers::is_by_machine(self.known, pid, spell) => {
                Awaited::Thread(spell.woken_by, spell.from_ns)
            }
            Wait::Lock if answers::is_parked(self.known, pid, spell) => Awaited::Later,
            Wait::Lock if timed_out(spell, syscall) => match answers::lock_until_time_out(self.known, pid, spell) {
                Some(holder) => Awaited::Known(Part::WaitLock, holder.map_or(Detail::None, Detail::Task)),
                None => Awaited::Known(Part::WaitTimer, Detail::None),
            },
            // Such a thread had no lock, but brought what was waited for, however the work came to it.
            Wait::Lock if self.is_sibling(spell.woken_by, pid) && answers::waker_slept(self.known, spell) => {
                Awaited::Thread(spell.woken_by, spell.from_ns)
            }
            Wait::Lock => Awaited::Known(Part::WaitLock, waker),
            Wait::Timer => Awaited::Known(Part::WaitTimer, Detail::None),
            Wait::Process => Awaited::Waker,
            // Threads of a process wait for each other at their address space (mmap, munmap, page faults) in the state in
            // which others wait for storage.
            Wait::Disk if self.is_sibling(spell.woken_by, pid) => Awaited::Known(Part::WaitLock, waker),
            Wait::Disk => Awaited::Known(Part::WaitDisk, Detail::None),
            Wait::Unknown => Awaited::Known(Part::Unattributed, Detail::None),
            Wait::Descriptor => match self.descriptor(pid, spell) {
                Awaited::Waker => self.unconnected(pid, spell).unwrap_or_else(|| self.waker_or_later(pid, spell)),
                awaited => awaited,
            },
        }
    }

    /// What was awaited in a wait that another thread of the server ended, or in which none of this task's own was.
    fn of_a_thread(&self, pid: u32, spell: &Spell) -> Option<Awaited> {
        let (known, ours) = (self.known, self.ours());
        if let Some(socket) = answers::read_next(known, ours, pid, spell, self.span.sent_ns) {
            return Some(Awaited::Socket(socket));
        }
        let answer = answers::brought_by_thread(known, ours, pid, spell)?;
        Some(match answer.source {
            Source::Socket(socket) => Awaited::Socket(socket),
            Source::Thread(thread) => Awaited::Thread(thread, answer.asked_ns),
        })
    }

    /// The task that ended a wait, unless that brought another request: a client's wake-up ends no wait for an answer.
    fn waker_or_later(&self, pid: u32, spell: &Spell) -> Awaited {
        let is_anothers = answers::is_anothers(self.known, self.ours(), pid, spell, self.span.sent_ns);
        let ends_nothing = is_anothers || answers::is_parked(self.known, pid, spell);
        if ends_nothing { Awaited::Later } else { Awaited::Waker }
    }

    /// The peer to which a task was making a connection of ours meanwhile, where that never was made.
    fn unconnected(&self, pid: u32, spell: &Spell) -> Option<Awaited> {
        let Known { tasks, sockets, .. } = self.known;
        // Another task of the server that wakes it has brought it something else.
        if self.hands_over(spell.woken_by, pid) {
            return None;
        }
        let mut ours = tasks.attempts.at(pid, spell.from_ns).filter(|one| self.is_of_ours(one.owner));
        // Its address is told with its end: of one that was made its first use tells.
        let SocketOpen { remote: peer, netns, .. } = ours.find_map(|one| sockets.get(one.socket))?.open;
        let part = if sockets.is_own(peer.ip(), netns) { Part::WaitProcess } else { Part::WaitNetwork };
        Some(Awaited::Known(part, Detail::Unconnected(peer)))
    }

    /// Whether what was done for a client's connection was done for ours, as far as is known.
    fn is_of_ours(&self, owner: u32) -> bool {
        self.ours().has(owner)
    }

    /// Which descriptor: what the task touches right after, else what it has asked and not yet heard from.
    fn descriptor(&self, pid: u32, spell: &Spell) -> Awaited {
        let mut touches = self.known.tasks.touches(pid, spell.to_ns, self.span.sent_ns.saturating_add(1));
        // An event of another request may have ended an event loop's wait.
        let next = touches.find(|touch| !self.is_foreign(touch));
        match next {
            // A script's output through a pipe, of which no event tells; the connection comes after it.
            Some(touch) if touch.socket == self.span.socket && self.was_told_by_another_program(pid, spell) => {
                Awaited::Waker
            }
            Some(touch) if touch.socket == self.span.socket => match (touch.verb, self.asked(pid, spell.from_ns)) {
                (Verb::Receive, _) => Awaited::Known(Part::RequestTransit, self.sender(spell)),
                // It answers now without having heard: what it waited for is no socket.
                (Verb::Send, None) if self.is_sibling(spell.woken_by, pid) => Awaited::Waker,
                (Verb::Send, None) if self.has_sent(pid, spell.from_ns) => {
                    Awaited::Known(Part::WaitNetwork, self.reader(pid, spell))
                }
                (Verb::Send, None) => Awaited::Waker,
                (Verb::Send, Some(peer)) => Awaited::Socket(peer),
            },
            Some(touch) if !touch.server_side => Awaited::Socket(touch.socket),
            _ => self.asked(pid, spell.from_ns).map_or(Awaited::Waker, Awaited::Socket),
        }
    }

    /// Whether a wait was ended by a captured process that runs another program. Workers of one server do not wake each
    /// other over descriptors, but interrupts come while any of them runs.
    fn was_told_by_another_program(&self, pid: u32, spell: &Spell) -> bool {
        let waker = spell.woken_by;
        let name = |task| self.known.tasks.named(task).map(|known| known.name.as_str());
        waker != self.waiter && self.hands_over(waker, pid) && name(waker) != name(pid)
    }

    /// The client that made room for more of its response; where it is of this host and some of its wake-ups came in an
    /// interrupt, by another of them.
    fn reader(&self, pid: u32, spell: &Spell) -> Detail {
        /// A response of many waits has told by then.
        const MOST_WAITS: usize = 32;
        let Some((client, is_own)) = self.client() else { return Detail::None };
        if !is_own {
            return Detail::Reader(client, 0);
        }
        let others = self.known.tasks.spells_back(pid, self.span.begun_ns, self.span.sent_ns).take(MOST_WAITS);
        let mut waits = std::iter::once(*spell).chain(others);
        let reader = waits.find(|wait| wait.woken_in == WokenIn::Task && wait.woken_by != 0);
        Detail::Reader(client, reader.map_or(0, |wait| wait.woken_by))
    }

    /// The client that sent more of its request.
    fn sender(&self, spell: &Spell) -> Detail {
        let Some((client, is_own)) = self.client() else { return Detail::None };
        let is_told = is_own && spell.woken_in == WokenIn::Task;
        Detail::Sender(client, if is_told { spell.woken_by } else { 0 })
    }

    /// The client's address, and whether it is of this host.
    fn client(&self) -> Option<(IpAddr, bool)> {
        let open = self.known.sockets.get(self.span.socket)?.open;
        let client = open.remote.ip();
        Some((client, self.known.sockets.is_own(client, open.netns)))
    }

    fn waker_of(&self, spell: &Spell) -> Detail {
        if spell.woken_by == 0 { Detail::None } else { Detail::Task(spell.woken_by) }
    }

    /// The last socket towards something else that the task has sent to and not received from since.
    fn asked(&self, pid: u32, before_ns: u64) -> Option<u32> {
        let mut heard: Option<u32> = None;
        for touch in self.known.tasks.touches(pid, self.span.picked_ns, before_ns.saturating_add(1)).rev() {
            if touch.server_side || self.is_foreign(touch) || heard == Some(touch.socket) {
                continue;
            }
            match touch.verb {
                Verb::Send => return Some(touch.socket),
                Verb::Receive => heard = Some(touch.socket),
            }
        }
        None
    }

    /// Whether the task had begun to send the response: then it waits for the client to take it.
    fn has_sent(&self, pid: u32, before_ns: u64) -> bool {
        self.known
            .tasks
            .touches(pid, self.span.begun_ns, before_ns.saturating_add(1))
            .any(|touch| touch.socket == self.span.socket && touch.verb == Verb::Send)
    }

    /// Waiting for a peer: a process of this host that is not captured, or another host.
    fn towards(&self, socket: u32, spell: &Spell) -> (Part, Detail) {
        match self.known.sockets.get(socket) {
            // A socket without addresses is a Unix socket: its peer is a process of this host.
            None => (Part::WaitProcess, self.waker_of(spell)),
            Some(known) if self.known.sockets.is_own(known.open.remote.ip(), known.open.netns) => {
                (Part::WaitProcess, Detail::Peer(known.open.remote))
            }
            Some(known) => (Part::WaitNetwork, Detail::Peer(known.open.remote)),
        }
    }
}

/// Whether a wait for a lock was given up because its time was over. Locks of files have no time-out.
fn timed_out(spell: &Spell, syscall: u16) -> bool {
    let waits_for_ever = [libc::SYS_flock, libc::SYS_fcntl].contains(&i64::from(syscall));
    spell.woken_in == WokenIn::Interrupt && !waits_for_ever
}
