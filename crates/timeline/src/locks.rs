//! Which lock a task waits for, and who has it.

use crate::blocked::{Wait, wait_of};
use crate::notes::{APART_NS, Note};
use crate::path::{Detail, Step};
use crate::refine::Refine;
use crate::tasks::State;
use weir_measure::part::Part;
use weir_wire::watched::{LockSort, LockWait, NAMED_FILE, NAMED_FUNCTION};

/// Notes that are looked through for the one of a wait.
const MOST_NOTES: usize = 16;

/// Names the lock of a wait, if it was for one.
pub(crate) fn name(refine: &mut Refine<'_>, step: Step) -> Option<Step> {
    let (state, since_ns) = refine.state(&step)?;
    let State::Blocked { syscall, .. } = state else { return None };
    let wait = lock_of(refine, &step, since_ns, i64::from(syscall))?;
    let which = match wait.sort {
        LockSort::Futex => format!("{:#x}", wait.key),
        LockSort::Flock | LockSort::Fcntl => {
            refine.notes.name(NAMED_FILE, wait.key).map_or_else(|| "a file".to_owned(), ToString::to_string)
        }
        LockSort::AddressSpace => format!("of {}", refine.task_label(refine.process(step.pid)).unwrap_or_default()),
        LockSort::Mutex | LockSort::Semaphore | LockSort::Kernel => {
            let function = refine.notes.name(NAMED_FUNCTION, wait.key);
            function.map_or_else(|| "an unknown function".to_owned(), ToString::to_string)
        }
    };
    let holder = if plausible(refine, &wait) { refine.task_label(wait.holder) } else { None };
    let by = match (holder, step.detail) {
        (Some(holder), _) => format!(" held by {holder}"),
        // Whoever ended the wait had the lock last.
        (None, Detail::Task(waker)) => {
            refine.task_label(waker).map_or_else(String::new, |waker| format!(" ended by {waker}"))
        }
        (None, _) => String::new(),
    };
    let text = format!("{} {which}{by}", wait.sort.words());
    Some(refine.named(Step { part: Part::WaitLock, ..step }, &text))
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
    let State::Blocked { state, syscall } = state else { return None };
    // Flock and fcntl have no time-out, and who sleeps is told from the call already.
    let may_time_out = match wait_of(state, syscall) {
        Wait::Descriptor | Wait::Process => true,
        Wait::Lock => i64::from(syscall) != libc::SYS_flock && i64::from(syscall) != libc::SYS_fcntl,
        _ => false,
    };
    let from_ns = step.to_ns.saturating_sub(APART_NS).max(step.from_ns);
    let woken_ns = refine.notes.next(step.pid, from_ns, |note| note == Note::Timer)?;
    let ended = may_time_out && woken_ns <= step.to_ns.saturating_add(APART_NS);
    ended.then_some(Step { part: Part::WaitTimer, detail: Detail::Task(step.pid), ..step })
}
