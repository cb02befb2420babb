//! Which lock a task waits for, and who has it.

use crate::blocked::{Wait, wait_of};
use crate::notes::{APART_NS, Note};
use crate::refinement::{Refine, Turn};
use crate::step::{Detail, Step};
use crate::tasks::{Spell, State, WokenIn};
use weir_measure::part::Part;
use weir_wire::watched::{LockSort, LockWait, NAMED_FILE, NAMED_FUNCTION};

/// Notes that are looked through for the one of a wait.
const MOST_NOTES: usize = 16;

/// Times that a lock changes hands within one wait and that are told apart.
const MOST_TURNS: usize = 64;

/// Puts a wait into the steps by who had the lock, if it was for one.
pub(crate) fn divide(refine: &mut Refine<'_>, step: Step, steps: &mut Vec<Step>) -> bool {
    let Some((State::Blocked { syscall, .. }, since_ns)) = refine.state(&step) else { return false };
    let Some(wait) = lock_of(refine, &step, since_ns, i64::from(syscall)) else { return false };
    let which = which(refine, &step, &wait);
    for turn in turns(refine, &step, &wait) {
        let name = turn.holder.and_then(|holder| refine.task_label(holder, turn.from_ns));
        let by = match (name, step.detail) {
            (Some(holder), _) => format!(" held by {holder}"),
            // The task that ended the wait had the lock last.
            (None, Detail::Task(waker)) => {
                refine.task_label(waker, turn.to_ns).map_or_else(String::new, |waker| format!(" ended by {waker}"))
            }
            (None, _) => String::new(),
        };
        let text = format!("{} {which}{by}", wait.sort.words());
        let (from_ns, to_ns) = (turn.from_ns, turn.to_ns);
        steps.push(refine.locked(Step { from_ns, to_ns, part: Part::WaitLock, ..step }, &text, turn.holder));
    }
    true
}

/// Which lock it is, in words.
fn which(refine: &Refine<'_>, step: &Step, wait: &LockWait) -> String {
    match wait.sort {
        LockSort::Futex => format!("{:#x}", wait.key),
        LockSort::Flock | LockSort::Fcntl => {
            refine.notes.name(NAMED_FILE, wait.key).map_or_else(|| "a file".to_owned(), ToString::to_string)
        }
        LockSort::AddressSpace => {
            format!("of {}", refine.task_label(refine.process(step.pid), step.from_ns).unwrap_or_default())
        }
        LockSort::Mutex | LockSort::Semaphore | LockSort::Kernel => {
            let function = refine.notes.name(NAMED_FUNCTION, wait.key);
            function.map_or_else(|| "an unknown function".to_owned(), ToString::to_string)
        }
    }
}

/// Who had the lock in the course of a wait for it, in the order of time.
///
/// If several tasks wait, the lock changes hands within one wait. The task that ended the wait may have waited, too;
/// then it has had the lock since its own wait was over. Before the first of these tasks the noted holder had the lock.
fn turns(refine: &Refine<'_>, step: &Step, wait: &LockWait) -> Vec<Turn> {
    let mut turns = Vec::new();
    let mut to_ns = step.to_ns;
    let mut waker = refine.tasks.spells_back(step.pid, step.from_ns, to_ns).next().map_or(0, |spell| spell.woken_by);
    let by_time_out = match step.detail {
        Detail::Task(holder) if waker == 0 => Some(holder),
        _ => None,
    };
    while turns.len() < MOST_TURNS
        && let Some((got_ns, before)) = had_waited(refine, waker, wait, to_ns)
        && got_ns > step.from_ns
    {
        turns.push(Turn { from_ns: got_ns, to_ns, holder: Some(waker) });
        (to_ns, waker) = (got_ns, before);
    }
    let holder = plausible(refine, wait).then_some(wait.holder).or(by_time_out);
    turns.push(Turn { from_ns: step.from_ns, to_ns, holder });
    turns.reverse();
    turns
}

/// When a task's own last wait for a lock ended before a time, and who ended it.
fn had_waited(refine: &Refine<'_>, pid: u32, lock: &LockWait, before_ns: u64) -> Option<(u64, u32)> {
    // A futex's address means something in its own process only.
    let is_same = |wait: &LockWait| {
        let process = lock.sort != LockSort::Futex || refine.process(pid) == refine.process(lock.pid);
        wait.sort == lock.sort && wait.key == lock.key && process
    };
    let mut notes = refine.notes.back(pid, before_ns).take(MOST_NOTES).filter(|_| pid != 0 && pid != lock.pid);
    let noted_ns = notes.find_map(|(at_ns, note)| match note {
        Note::Lock(wait) if is_same(&wait) => Some(at_ns),
        _ => None,
    })?;
    let spells = refine.tasks.spells_back(pid, noted_ns.saturating_sub(APART_NS), before_ns);
    // What it slept in shortly before is another wait.
    let is_wait = |spell: &Spell| matches!(spell.state, State::Blocked { .. }) && spell.to_ns > noted_ns;
    let wait = spells.filter(is_wait).last()?;
    (wait.to_ns < before_ns).then_some((wait.to_ns, wait.woken_by))
}

/// The note of the lock that a blocked task waits for.
fn lock_of(refine: &Refine<'_>, step: &Step, since_ns: u64, call: i64) -> Option<LockWait> {
    for (at_ns, note) in refine.notes.back(step.pid, since_ns.saturating_add(APART_NS)).take(MOST_NOTES) {
        let wait = match note {
            Note::Lock(wait) => wait,
            // A wait for one of the kernel's that was told before is over.
            Note::LockEnd => return None,
            _ => continue,
        };
        let fits = match wait.sort {
            // Threads that carry goroutines sleep in futexes for want of these, and lock none by them.
            LockSort::Futex if refine.tasks.carries(step.pid) => return None,
            // Told when the task leaves the CPU.
            LockSort::Futex => call == libc::SYS_futex && at_ns.saturating_add(APART_NS) >= since_ns,
            LockSort::Flock => call == libc::SYS_flock,
            LockSort::Fcntl => call == libc::SYS_fcntl,
            _ => {
                let end_ns = refine.notes.next(step.pid, at_ns, |note| note == Note::LockEnd);
                end_ns.is_none_or(|end_ns| end_ns.saturating_add(APART_NS) >= step.to_ns)
            }
        };
        if fits {
            return Some(wait);
        }
        if !wait.sort.is_kernels() {
            return None;
        }
    }
    None
}

/// Whether a holder may be one: a futex's word may mean something else, but then hardly a task of the same server.
fn plausible(refine: &Refine<'_>, wait: &LockWait) -> bool {
    let known = |pid| refine.tasks.named(pid).is_some();
    match wait.sort {
        LockSort::Futex => {
            let sibling = known(wait.holder) && refine.process(wait.holder) == refine.process(wait.pid);
            wait.holder != 0 && wait.holder != wait.pid && (sibling || refine.tasks.serves(wait.holder))
        }
        _ => wait.holder != 0,
    }
}

/// The step as a wait for time to pass, if a timer ended it.
pub(crate) fn ended_by_timer(refine: &Refine<'_>, step: Step) -> Option<Step> {
    let (state, _) = refine.state(&step)?;
    let State::Blocked { state, syscall, .. } = state else { return None };
    // Flock and fcntl have no time-out, and who sleeps is told from the call already.
    let may_time_out = match wait_of(state, syscall) {
        Wait::Descriptor | Wait::Process => true,
        // Where the wake-up tells of the time-out, what the wait was for is told from what came of it.
        Wait::Lock if refine.woken_in(&step) != WokenIn::Untold => false,
        Wait::Lock => i64::from(syscall) != libc::SYS_flock && i64::from(syscall) != libc::SYS_fcntl,
        _ => false,
    };
    let from_ns = step.to_ns.saturating_sub(APART_NS).max(step.from_ns);
    let woken_ns = refine.notes.next(step.pid, from_ns, |note| note == Note::Timer)?;
    let ended = may_time_out && woken_ns <= step.to_ns.saturating_add(APART_NS);
    // To whom no connection was made says more than who slept until it gave up.
    let detail = match step.detail {
        Detail::Unconnected(_) => step.detail,
        _ => Detail::Task(step.pid),
    };
    ended.then_some(Step { part: Part::WaitTimer, detail, ..step })
}
