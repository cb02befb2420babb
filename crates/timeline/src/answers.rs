//! Who gave a thread what it waited for where no socket between the two tells it: another thread of its process.
//!
//! Threads hand work to each other by wake-ups. A thread wakes one that waits for work, that one works, and wakes the first
//! when it is done: a question and its answer, as over a socket (pools of libuv, Java, Python and nginx, the workers of
//! io_uring). And what one thread asked over a socket another one may read (Go, asynchronous clients).
//! A lock looks alike: its holder wakes the next one. But each of those who wait for a lock waits in the same place, and
//! who hands work on never waits where its worker does.

use crate::blocked::{Wait, wait_of};
use crate::known::Known;
use crate::tasks::{Place, Spell, State, Touch, Verb, Wake, WokenIn};

/// Wake-ups that are looked through for the one that was a question.
const MOST_WAKES: usize = 256;
/// Threads that an answer may go through on its way.
const MOST_THREADS: usize = 8;

/// Whose request it is about: the client's connection (0: any), and since when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ours {
    pub(crate) socket: u32,
    pub(crate) since_ns: u64,
}

impl Ours {
    /// Whether what was done for a client's connection was done for this one, as far as is known.
    pub(crate) fn has(self, owner: u32) -> bool {
        self.socket == 0 || owner == 0 || owner == self.socket
    }
}

/// Who answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// What is at the other end of this socket.
    Socket(u32),
    /// This thread.
    Thread(u32),
}

/// A question and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) source: Source,
    /// The task that asked.
    pub(crate) asker: u32,
    pub(crate) asked_ns: u64,
    pub(crate) answered_ns: u64,
    /// When the one that waited for it took it, or was woken for it.
    pub(crate) read_ns: u64,
}

/// The place of a spell's wait, if it is one.
pub(crate) fn place_of(spell: &Spell) -> Option<Place> {
    match spell.state {
        State::Blocked { syscall, argument, .. } => Some(Place { syscall, argument }),
        _ => None,
    }
}

/// Whether two tasks are threads of one process.
pub(crate) fn are_siblings(known: Known<'_>, one: u32, other: u32) -> bool {
    let process = |pid| known.tasks.named(pid).map(|name| name.tgid);
    one != 0 && one != other && process(one).is_some_and(|tgid| process(other) == Some(tgid))
}

/// Whether a wait was ended by the thread with which a virtual machine does what stops its other threads, such as to collect
/// garbage (HotSpot's `VM Thread`). Those wait for its work where it waits for theirs, which a lock's holder would do, too.
pub(crate) fn is_by_machine(known: Known<'_>, pid: u32, spell: &Spell) -> bool {
    const MACHINE: &str = "VM Thread";
    let is_machine = known.tasks.named(spell.woken_by).is_some_and(|name| name.name.starts_with(MACHINE));
    is_machine && are_siblings(known, pid, spell.woken_by) && !known.tasks.deals_with_clients(spell.woken_by)
}

/// Whether a thread slept because it carried no goroutine, until another one had some for it: that is no wait of the request
/// whose goroutine it carried before, or carries after.
pub(crate) fn is_parked(known: Known<'_>, pid: u32, spell: &Spell) -> bool {
    known.tasks.carries(pid) && are_siblings(known, pid, spell.woken_by)
}

/// Whether a wait for a futex was for a lock that its waker had: one for which the waker has waited as well.
pub(crate) fn is_lock(known: Known<'_>, spell: &Spell) -> bool {
    place_of(spell).is_some_and(|place| known.tasks.passes_lock(spell.woken_by, place, (spell.from_ns, spell.to_ns)))
}

/// Whether the thread that ended a wait for a futex had slept meanwhile, which none does that has a lock.
pub(crate) fn waker_slept(known: Known<'_>, spell: &Spell) -> bool {
    let window = (spell.from_ns, spell.to_ns);
    place_of(spell).is_some_and(|place| known.tasks.slept(spell.woken_by, place, window))
}

/// Whether a wait that its time-out ended was for a lock, and who had that then, where it is sure.
pub(crate) fn lock_until_time_out(known: Known<'_>, pid: u32, spell: &Spell) -> Option<Option<u32>> {
    let place = place_of(spell).filter(|_| spell.woken_in == WokenIn::Interrupt)?;
    known.tasks.sought_lock(pid, place, spell.to_ns)
}

/// The last answer that a task read within a window to what another one had asked, or it itself before it ran out of work.
pub(crate) fn read_for_another(known: Known<'_>, ours: Ours, pid: u32, window: (u64, u64)) -> Option<Answer> {
    let (from_ns, to_ns) = window;
    let mut was_at_others = false;
    for touch in known.tasks.touches(pid, from_ns, to_ns).rev() {
        was_at_others |= !ours.has(touch.owner);
        let is_answer = touch.verb == Verb::Receive && !touch.server_side && touch.asker != 0;
        let is_ours = ours.has(touch.owner) && (touch.owner != 0 || !was_at_others);
        if !is_answer || !is_ours || !(from_ns..touch.at_ns).contains(&touch.asked_ns) {
            continue;
        }
        let mut waits = known.tasks.spells_back(pid, touch.asked_ns, touch.at_ns);
        // A task that waits for readiness would have been woken: until then the answer was not there.
        let waited = waits.find(|spell| matches!(spell.state, State::Blocked { .. }));
        // A runtime's thread that ran out of work meanwhile was at no request, and waited for its fellows.
        let mut waits = known.tasks.spells_back(pid, touch.asked_ns, touch.at_ns);
        let idles = |spell: Spell| {
            place_of(&spell).is_some_and(Place::is_futex)
                && are_siblings(known, pid, spell.woken_by)
                && !is_lock(known, &spell)
        };
        if touch.asker == pid && !known.tasks.carries(pid) && !waits.any(idles) {
            continue;
        }
        return Some(Answer {
            source: Source::Socket(touch.socket),
            asker: touch.asker,
            asked_ns: touch.asked_ns,
            answered_ns: waited.map_or(touch.at_ns, |spell| spell.to_ns),
            read_ns: touch.at_ns,
        });
    }
    None
}

/// The last answer within a window that any other thread of the process read to what was asked for our request, where threads
/// read each other's answers: wherever it then went to, until it was read the request waited for it.
pub(crate) fn read_elsewhere(known: Known<'_>, ours: Ours, pid: u32, window: (u64, u64)) -> Option<Answer> {
    let (from_ns, to_ns) = window;
    if ours.socket == 0 {
        return None;
    }
    let fits = |(reader, answer): &&(u32, Touch)| {
        let within = (from_ns..to_ns).contains(&answer.at_ns) && (from_ns..answer.at_ns).contains(&answer.asked_ns);
        within && are_siblings(known, pid, *reader)
    };
    let (reader, answer) = known.tasks.shared_answers(ours.socket).find(fits)?;
    let mut waits = known.tasks.spells_back(*reader, answer.asked_ns, answer.at_ns);
    let waited = waits.find(|spell| matches!(spell.state, State::Blocked { .. }));
    Some(Answer {
        source: Source::Socket(answer.socket),
        asker: answer.asker,
        asked_ns: answer.asked_ns,
        answered_ns: waited.map_or(answer.at_ns, |spell| spell.to_ns),
        read_ns: answer.at_ns,
    })
}

/// The last work that a task handed to another thread of its process within a window, and had back.
pub(crate) fn handed_out(known: Known<'_>, ours: Ours, pid: u32, window: (u64, u64)) -> Option<Answer> {
    let (from_ns, to_ns) = window;
    let wakes = known.tasks.wakes(pid, from_ns, to_ns).rev().take(MOST_WAKES);
    let is_loop = was_at_others(known, ours, pid, to_ns);
    let questions = wakes.filter(|wake| hands_ours(ours, wake, is_loop) && is_question(known, pid, wake));
    let answers = questions.filter_map(|wake| {
        let answered_ns = handed_back(known, ours, pid, wake, to_ns)?;
        Some(Answer {
            source: Source::Thread(wake.woken),
            asker: pid,
            asked_ns: wake.at_ns,
            answered_ns,
            read_ns: answered_ns,
        })
    });
    answers.max_by_key(|answer| answer.answered_ns)
}

/// Whether a task went to others' requests since it had ours.
fn was_at_others(known: Known<'_>, ours: Ours, pid: u32, to_ns: u64) -> bool {
    known.tasks.touches(pid, ours.since_ns, to_ns).any(|touch| !ours.has(touch.owner))
}

/// Whether a wake-up was for our request, as far as is known. What a loop hands out that has been at others, such as the
/// collection of its garbage, need not be of ours.
fn hands_ours(ours: Ours, wake: &Wake, is_loop: bool) -> bool {
    ours.has(wake.owner) && (wake.owner != 0 || !is_loop)
}

/// Whether a wake-up gave a waiting thread something to do, and was not the release of a lock.
fn is_question(known: Known<'_>, pid: u32, wake: &Wake) -> bool {
    are_siblings(known, pid, wake.woken) && !known.tasks.waits_for(pid, wake.place) && !is_in_a_request(known, wake)
}

/// Whether a thread was at a request of its own when it was woken: then it waited for something, not for work.
fn is_in_a_request(known: Known<'_>, wake: &Wake) -> bool {
    /// A worker of a pool deals with no client; a thread that serves clients was last at one a short while ago.
    const LATELY_NS: u64 = 10_000_000_000;
    let lately = known.tasks.touches(wake.woken, wake.at_ns.saturating_sub(LATELY_NS), wake.at_ns);
    lately.rev().find(|touch| touch.server_side).is_some_and(|last| last.verb == Verb::Receive)
}

/// When a thread had done what it was woken for: it wakes the one that gave it the work, or waits for more.
fn handed_back(known: Known<'_>, ours: Ours, pid: u32, wake: &Wake, to_ns: u64) -> Option<u64> {
    let worker = wake.woken;
    let begun_ns = wake.at_ns.saturating_add(1);
    let is_answer = |one: &&Wake| one.woken == pid && !known.tasks.waits_for(worker, one.place);
    let woke_ns = known.tasks.wakes(worker, begun_ns, to_ns.saturating_add(1)).find(is_answer).map(|one| one.at_ns);
    let is_back_ns = known.tasks.is_back(worker, wake.place, begun_ns, to_ns);
    match (woke_ns, is_back_ns) {
        (Some(woke_ns), None) => Some(woke_ns),
        (Some(woke_ns), Some(is_back_ns)) if woke_ns <= is_back_ns => Some(woke_ns),
        // An event loop that was at others meanwhile was not asleep: it needed no wake-up.
        (_, Some(is_back_ns)) => {
            let tells = known.tasks.completes(worker) && is_loop(known, ours, pid, (wake.at_ns, to_ns));
            tells.then_some(is_back_ns)
        }
        (None, None) => None,
    }
}

/// Whether a task went to others' requests within a window, and asked nothing over a socket for ours.
fn is_loop(known: Known<'_>, ours: Ours, pid: u32, window: (u64, u64)) -> bool {
    let touches = || known.tasks.touches(pid, window.0, window.1);
    let asks = |touch: &Touch| ours.has(touch.owner) && !touch.server_side && touch.verb == Verb::Send;
    touches().any(|touch| !ours.has(touch.owner)) && !touches().any(asks)
}

/// Whose answer ended a wait: that of a thread to which the waiter had handed work, or what one on the way to the waiter
/// had read from a socket. `None` where it was neither, such as a lock that was given back.
pub(crate) fn brought_by_thread(known: Known<'_>, ours: Ours, pid: u32, spell: &Spell) -> Option<Answer> {
    if is_lock(known, spell) || !are_siblings(known, pid, spell.woken_by) {
        return None;
    }
    on_its_way(known, ours, pid, spell).or_else(|| of_a_busy_thread(known, ours, pid, spell))
}

/// The answer of a thread that was at others' work when ours was handed out, so that it needed no wake-up. What it did
/// for those is what ours waited for, too.
fn of_a_busy_thread(known: Known<'_>, ours: Ours, pid: u32, spell: &Spell) -> Option<Answer> {
    // Where it is not known for whom anything was done, it may as well have given a lock back.
    if ours.socket == 0 {
        return None;
    }
    let worker = spell.woken_by;
    let next = known.tasks.touches(pid, spell.to_ns, u64::MAX).next();
    // Who ends a wait for readiness gives back no lock.
    let may_hold_a_lock = place_of(spell).is_none_or(Place::is_futex);
    let works = if may_hold_a_lock { known.tasks.is_worker(worker) } else { !known.tasks.deals_with_clients(worker) };
    let answered = Answer {
        source: Source::Thread(worker),
        asker: pid,
        asked_ns: 0,
        answered_ns: spell.to_ns,
        read_ns: spell.to_ns,
    };
    (works && next.is_some_and(|touch| ours.has(touch.owner))).then_some(answered)
}

/// The last answer within a window that another thread had read from a socket, before it woke this one to go on with it.
pub(crate) fn passed_on(known: Known<'_>, ours: Ours, pid: u32, window: (u64, u64)) -> Option<Answer> {
    /// Waits that are looked at.
    const MOST_WAITS: usize = 64;
    let waits = known.tasks.spells_back(pid, window.0, window.1);
    let waits = waits.filter(|spell| matches!(spell.state, State::Blocked { .. })).take(MOST_WAITS);
    let mut by_threads = waits.filter(|spell| are_siblings(known, pid, spell.woken_by));
    by_threads.find_map(|spell| {
        let touch = read_since_its_wait(known, ours, pid, (spell.woken_by, spell.to_ns))?;
        (touch.asked_ns >= window.0).then_some(Answer {
            source: Source::Socket(touch.socket),
            asker: touch.asker,
            asked_ns: touch.asked_ns,
            answered_ns: spell.to_ns,
            read_ns: spell.to_ns,
        })
    })
}

/// The answer of ours that a thread has read since its last wait before a time, at which it woke the task.
fn read_since_its_wait<'a>(known: Known<'a>, ours: Ours, pid: u32, thread: (u32, u64)) -> Option<&'a Touch> {
    let (thread, until_ns) = thread;
    let mut waits = known.tasks.spells_back(thread, ours.since_ns, until_ns);
    let wait = waits.find(|spell| matches!(spell.state, State::Blocked { .. }))?;
    // For whom a thread asks that got its work from another one is not known: then what is done with the answer tells.
    let goes_on = || known.tasks.touches(pid, until_ns, u64::MAX).next().is_some_and(|next| next.owner == ours.socket);
    let is_ours = |touch: &&Touch| {
        let asked = (ours.since_ns..until_ns).contains(&touch.asked_ns) && touch.asker != 0;
        let for_ours = touch.owner != 0 && touch.owner == ours.socket
            || ours.has(touch.owner) && (touch.asker == pid || goes_on());
        touch.verb == Verb::Receive && !touch.server_side && asked && for_ours
    };
    known.tasks.touches(thread, wait.to_ns, until_ns).rev().find(is_ours)
}

/// The answer that went from thread to thread before it came to the waiter: from one to which it had handed work, or that
/// read what was asked over a socket.
fn on_its_way(known: Known<'_>, ours: Ours, pid: u32, spell: &Spell) -> Option<Answer> {
    let (mut thread, mut until_ns) = (spell.woken_by, spell.to_ns);
    let is_loop = was_at_others(known, ours, pid, until_ns);
    let answered = |source, asker, asked_ns| {
        Some(Answer { source, asker, asked_ns, answered_ns: spell.to_ns, read_ns: spell.to_ns })
    };
    for _ in 0..MOST_THREADS {
        if !are_siblings(known, pid, thread) {
            return None;
        }
        if let Some(touch) = read_since_its_wait(known, ours, pid, (thread, until_ns)) {
            return answered(Source::Socket(touch.socket), touch.asker, touch.asked_ns);
        }
        let asked = known.tasks.wakes(pid, ours.since_ns, until_ns).rev().take(MOST_WAKES);
        let mut asked = asked.filter(|wake| wake.woken == thread && hands_ours(ours, wake, is_loop));
        // Where it is not known for whom anything was done, a question that was answered before this wait is over.
        let is_open = |wake: &Wake| {
            let mut told = known.tasks.wakes(thread, wake.at_ns.saturating_add(1), spell.from_ns);
            ours.socket != 0 || !told.any(|one| one.woken == pid)
        };
        if let Some(wake) = asked.find(|wake| is_question(known, pid, wake) && is_open(wake)) {
            return answered(Source::Thread(spell.woken_by), pid, wake.at_ns);
        }
        let mut waits = known.tasks.spells_back(thread, ours.since_ns, until_ns);
        let wait = waits.find(|spell| matches!(spell.state, State::Blocked { .. }))?;
        (thread, until_ns) = (wait.woken_by, wait.to_ns);
    }
    None
}

/// Whether a thread waited for work, as those do to whom the `asker` hands it out, until another one passed some on.
pub(crate) fn is_idle_worker(known: Known<'_>, asker: u32, pid: u32, spell: &Spell) -> bool {
    let at_work = place_of(spell).is_some_and(|place| known.tasks.gives_work_at(asker, place));
    at_work && asker != 0 && asker != spell.woken_by && are_siblings(known, pid, spell.woken_by)
}

/// Whether a task did nothing for our request that is known of within a window.
pub(crate) fn does_nothing(known: Known<'_>, ours: Ours, pid: u32, window: (u64, u64)) -> bool {
    let (from_ns, to_ns) = window;
    let (is_loop, mut wakes) = (was_at_others(known, ours, pid, to_ns), known.tasks.wakes(pid, from_ns, to_ns));
    !known.tasks.touches(pid, from_ns, to_ns).any(|touch| ours.has(touch.owner))
        && !wakes.any(|wake| hands_ours(ours, wake, is_loop) && is_question(known, pid, wake))
}

/// What a task waits for that asked something over a socket, went to sleep for lack of work, and reads the answer next.
pub(crate) fn read_next(known: Known<'_>, ours: Ours, pid: u32, spell: &Spell, until_ns: u64) -> Option<u32> {
    let mut touches = known.tasks.touches(pid, spell.to_ns, until_ns.saturating_add(1));
    let next = touches.find(|touch| ours.has(touch.owner))?;
    let asked = next.asker != 0 && (ours.since_ns..=spell.from_ns).contains(&next.asked_ns);
    (next.verb == Verb::Receive && !next.server_side && asked && !is_lock(known, spell)).then_some(next.socket)
}

/// Whether a wait was ended by what concerns another request, such as a client that sent one: then it ended nothing of
/// ours.
pub(crate) fn is_anothers(known: Known<'_>, ours: Ours, pid: u32, spell: &Spell, until_ns: u64) -> bool {
    let next = known.tasks.touches(pid, spell.to_ns, until_ns.saturating_add(1)).next();
    let at_another = next.is_some_and(|touch| touch.server_side && !ours.has(touch.owner));
    at_another || spell.woken_by != 0 && known.tasks.is_client(spell.woken_by)
}

/// Whether a wait goes on in the next one: it has a time-out, after which the task looked and waited for the same again.
pub(crate) fn goes_on(known: Known<'_>, pid: u32, wait: &Spell, next: &Spell) -> bool {
    /// For what a task does between two waits for the same thing, and for what it may lose the CPU meanwhile.
    const BETWEEN_NS: u64 = 2_000_000;
    let (Some(place), Some(again)) = (place_of(wait), place_of(next)) else { return false };
    let is_lock = matches!(wait.state, State::Blocked { state, syscall, .. } if wait_of(state, syscall) == Wait::Lock);
    is_lock
        && place.is_futex()
        && place.is_same(again)
        && next.from_ns.saturating_sub(wait.to_ns) < BETWEEN_NS
        && known.tasks.touches(pid, wait.to_ns, next.from_ns).next().is_none()
}
