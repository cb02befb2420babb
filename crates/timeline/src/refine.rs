//! The second look at a response's steps: what the optional sources say of each stretch.
//!
//! Passes only cut and rename steps: they still follow each other without a gap, and add up to what they did.

use crate::notes::Notes;
use crate::path::{Detail, Step};
use crate::tasks::{State, Tasks};
use crate::texts::Texts;
use crate::{disk, interrupts, locks, quota};
use weir_measure::part::Part;
use weir_wire::watched::NAMED_TASK;

/// What of the time on the CPU could be divided.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunDivision {
    /// Time in `run` of which interrupts were recorded, nanoseconds.
    pub watched_ns: u64,
    /// What interrupts took of it, nanoseconds.
    pub interrupt_ns: u64,
}

/// Looks at steps with all that is known.
pub(crate) struct Refine<'a> {
    pub(crate) notes: &'a Notes,
    pub(crate) tasks: &'a Tasks,
    pub(crate) texts: &'a mut Texts,
    pub(crate) division: &'a mut RunDivision,
}

impl Refine<'_> {
    /// Refines the steps from an index on.
    pub(crate) fn steps(&mut self, steps: &mut Vec<Step>, from: usize) {
        if self.notes.is_empty() {
            return;
        }
        let plain = steps.split_off(from.min(steps.len()));
        for step in plain {
            match step.part {
                Part::Run => interrupts::divide(self, step, steps),
                Part::WaitCpu => steps.push(quota::name(self, step)),
                Part::WaitDisk => steps.push(locks::name(self, step).unwrap_or_else(|| disk::name(self, step))),
                Part::WaitLock | Part::WaitProcess | Part::WaitNetwork | Part::Unattributed => {
                    let timed = locks::ended_by_timer(self, step).or_else(|| locks::name(self, step));
                    steps.push(timed.unwrap_or(step));
                }
                _ => steps.push(step),
            }
        }
    }

    /// The state in which a step's task was, when it began, and whether the step lasts to its end.
    pub(crate) fn state(&self, step: &Step) -> Option<(State, u64)> {
        let spell = self.tasks.spells_back(step.pid, step.from_ns, step.to_ns).next()?;
        Some((spell.state, self.tasks.state_since(step.pid, step.to_ns)))
    }

    /// A task as its process's name and number.
    pub(crate) fn task_label(&self, pid: u32) -> Option<String> {
        if let Some(known) = self.tasks.named(pid) {
            return Some(format!("{} ({})", known.name, known.tgid));
        }
        self.notes.name(NAMED_TASK, u64::from(pid)).map(|name| format!("{name} ({pid})"))
    }

    /// The process of a task.
    pub(crate) fn process(&self, pid: u32) -> u32 {
        self.tasks.named(pid).map_or(pid, |known| known.tgid)
    }

    /// The step with a text for its detail.
    pub(crate) fn named(&mut self, step: Step, text: &str) -> Step {
        Step { detail: Detail::Named(self.texts.number(text)), ..step }
    }
}
