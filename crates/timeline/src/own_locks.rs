//! Locks that a server keeps by itself, such as a database's of its rows: its probes tell when a task waits for one.
//!
//! To the kernel such a wait looks like one for a message: PostgreSQL's processes sleep on a descriptor and are woken by
//! a signal. Whoever ended the last sleep of the wait had the lock: it lets go, and wakes who comes next.

use crate::path::{Detail, Known, Step};
use crate::phases::LockWindow;
use crate::refine::Refine;
use crate::tasks::{Spell, State, Tasks};

/// Who had the lock that a blocked task waited for, if it waited for one of its server's own; nobody where the wake-up
/// does not tell.
pub(crate) fn holder(known: Known<'_>, pid: u32, spell: &Spell) -> Option<Detail> {
    let window = known.phases.lock_window(pid, spell.from_ns)?;
    Some(holder_of(known.tasks, pid, window).map_or(Detail::None, Detail::Task))
}

/// The step with the lock in words, if it was a wait for one: whose it is, who had it, and at what statement.
pub(crate) fn name(refine: &mut Refine<'_>, step: Step) -> Option<Step> {
    let window = refine.phases.lock_window(step.pid, step.from_ns)?;
    let server = refine.phases.server(window.server).to_owned();
    let Some(holder) = holder_of(refine.tasks, step.pid, window) else {
        return Some(refine.named(step, &format!("a lock of {server}")));
    };
    // Of the server's own, all processes of a name are one culprit, however many come and go.
    let own = refine.tasks.named(holder).filter(|known| known.traced).map(|known| known.name.clone());
    let who = own.or_else(|| refine.task_label(holder)).unwrap_or_else(|| format!("task {holder}"));
    // What it was at when the wait began, or had done last: that made it take the lock.
    let at = refine.phases.statement(holder, window.from_ns).map(|number| refine.texts.text(number).to_owned());
    let at = at.map_or_else(String::new, |text| format!(": {text}"));
    Some(refine.named(step, &format!("a lock of {server} held by {who}{at}")))
}

fn holder_of(tasks: &Tasks, pid: u32, window: LockWindow) -> Option<u32> {
    let mut spells = tasks.spells_back(pid, window.from_ns, window.to_ns);
    let ended = spells.find(|spell| matches!(spell.state, State::Blocked { .. }) && spell.woken_by != 0)?;
    Some(ended.woken_by).filter(|waker| *waker != pid)
}
