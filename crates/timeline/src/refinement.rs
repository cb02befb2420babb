//! What the second look at steps works with: all that is known, and the words for it.

use crate::counts::RunDivision;
use crate::notes::Notes;
use crate::phases::Phases;
use crate::step::{Detail, Step};
use crate::tasks::{State, Tasks, WokenIn};
use crate::texts::Texts;
use weir_wire::watched::NAMED_TASK;

/// A stretch of a wait for a lock in which one task had it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
    /// The task, where that is known.
    pub(crate) holder: Option<u32>,
}

/// Looks at steps with all that is known.
pub(crate) struct Refine<'a> {
    pub(crate) notes: &'a Notes,
    pub(crate) tasks: &'a Tasks,
    pub(crate) phases: &'a Phases,
    pub(crate) texts: &'a mut Texts,
    pub(crate) division: &'a mut RunDivision,
}

impl Refine<'_> {
    /// The state in which a step's task was, when it began, and whether the step lasts to its end.
    pub(crate) fn state(&self, step: &Step) -> Option<(State, u64)> {
        let spell = self.tasks.spells_back(step.pid, step.from_ns, step.to_ns).next()?;
        Some((spell.state, self.tasks.state_since(step.pid, step.to_ns)))
    }

    /// In what the wait of a step was ended.
    pub(crate) fn woken_in(&self, step: &Step) -> WokenIn {
        let spell = self.tasks.spells_back(step.pid, step.from_ns, step.to_ns).next();
        spell.map_or(WokenIn::Untold, |spell| spell.woken_in)
    }

    /// A task as its process's name of a time and number.
    pub(crate) fn task_label(&self, pid: u32, at_ns: u64) -> Option<String> {
        if let Some(known) = self.tasks.named_at(pid, at_ns) {
            return Some(format!("{} ({})", known.name, known.tgid));
        }
        self.notes.name(NAMED_TASK, u64::from(pid)).map(|name| format!("{name} ({pid})"))
    }

    /// The process of a task.
    pub(crate) fn process(&self, pid: u32) -> u32 {
        self.tasks.named(pid).map_or(pid, |known| known.tgid)
    }

    /// The step as a wait for a lock, with a text for its detail and the task that had it, where that is known.
    pub(crate) fn locked(&mut self, step: Step, text: &str, holder: Option<u32>) -> Step {
        let number = self.texts.number(text);
        Step { detail: holder.map_or(Detail::Named(number), |holder| Detail::Lock(number, holder)), ..step }
    }

    /// The step with a text for its detail.
    pub(crate) fn named(&mut self, step: Step, text: &str) -> Step {
        Step { detail: Detail::Named(self.texts.number(text)), ..step }
    }
}
