//! Locks that a server keeps by itself, such as a database's of its rows: its probes tell when a task waits for one.
//!
//! To the kernel such a wait looks like one for a message: PostgreSQL's processes sleep on a descriptor and are woken by
//! a signal. The process that ended the last sleep of the wait had the lock: it releases the lock and wakes the next
//! one.

use crate::known::Known;
use crate::phases::{LockWindow, Phases};
use crate::refinement::{Refine, Turn};
use crate::step::{Detail, Step};
use crate::tasks::{Spell, State, Tasks};

/// Times that a lock changes hands within one wait and that are told apart.
const MOST_TURNS: usize = 64;

/// The holder of the lock that a blocked task waited for, if it waited for one of its server's own;
/// [`Detail::None`] where the wake-up does not tell the holder.
pub(crate) fn holder(known: Known<'_>, pid: u32, spell: &Spell) -> Option<Detail> {
    let window = known.phases.lock_window(pid, spell.from_ns)?;
    Some(holder_of(known.tasks, pid, window).map_or(Detail::None, Detail::Task))
}

/// Puts a wait into the steps by who had the lock, if it was for one of a server's own: whose it is, who had it, and at
/// what statement.
pub(crate) fn divide(refine: &mut Refine<'_>, step: Step, steps: &mut Vec<Step>) -> bool {
    let Some(window) = refine.phases.lock_window(step.pid, step.from_ns) else { return false };
    let server = refine.phases.server(window.server).to_owned();
    for turn in turns(refine.tasks, refine.phases, step.pid, window) {
        let (from_ns, to_ns) = (turn.from_ns.max(step.from_ns), turn.to_ns.min(step.to_ns));
        if from_ns < to_ns {
            let text = turn.holder.map_or_else(
                || format!("a lock of {server}"),
                |holder| format!("a lock of {server} held by {}", in_words(refine, holder, turn.from_ns)),
            );
            steps.push(refine.held(Step { from_ns, to_ns, ..step }, &text, turn.holder));
        }
    }
    true
}

/// A holder, and what it was at when it had the lock, or had done last: that made it take the lock.
fn in_words(refine: &Refine<'_>, holder: u32, at_ns: u64) -> String {
    // Of the server's own, all processes of a name are one culprit, however many come and go.
    let own = refine.tasks.named_at(holder, at_ns).filter(|known| known.traced).map(|known| known.name.clone());
    let who = own.or_else(|| refine.task_label(holder, at_ns)).unwrap_or_else(|| format!("task {holder}"));
    let statement = refine.phases.statement(holder, at_ns).map(|number| refine.texts.text(number));
    statement.map_or_else(|| who.clone(), |text| format!("{who}: {text}"))
}

/// Who had the lock in the course of a wait for it, in the order of time.
///
/// The task that ended the wait may have waited itself, such as for the end of a third task's transaction. Until then
/// the third task kept both waiting.
pub(crate) fn turns(tasks: &Tasks, phases: &Phases, pid: u32, window: LockWindow) -> Vec<Turn> {
    let mut turns = Vec::new();
    let mut to_ns = window.to_ns;
    let mut holder = holder_of(tasks, pid, window);
    while turns.len() < MOST_TURNS
        && let Some(own) = holder.and_then(|holder| phases.lock_window_before(holder, to_ns))
        && own.to_ns > window.from_ns
    {
        turns.push(Turn { from_ns: own.to_ns, to_ns, holder });
        to_ns = own.to_ns;
        holder = holder.and_then(|waiter| holder_of(tasks, waiter, own)).filter(|before| *before != pid);
    }
    turns.push(Turn { from_ns: window.from_ns, to_ns, holder });
    // While the wait goes on, its end is not known.
    if let Some(last) = turns.first_mut() {
        last.to_ns = u64::MAX;
    }
    turns.reverse();
    turns
}

fn holder_of(tasks: &Tasks, pid: u32, window: LockWindow) -> Option<u32> {
    let mut spells = tasks.spells_back(pid, window.from_ns, window.to_ns);
    let ended = spells.find(|spell| matches!(spell.state, State::Blocked { .. }) && spell.woken_by != 0)?;
    Some(ended.woken_by).filter(|waker| *waker != pid)
}
