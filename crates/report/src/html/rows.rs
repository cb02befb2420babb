//! Which rows a response's chart has.

use crate::culprit::lock_and_holder;
use crate::{CpuSpell, Example, ExampleStep};
use weir_measure::part::Part;

/// Rows of tasks, of others that they waited for, of locks and of CPUs that a chart has at most.
const MOST_TASKS: usize = 24;
const MOST_OTHERS: usize = 6;
const MOST_LOCKS: usize = 8;
const MOST_CPUS: usize = 16;

/// What a row shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowSort {
    /// All steps.
    Response,
    /// Steps of one task, or when it ran if it only had a hand in them.
    Task,
    /// Who had one lock while it was waited for.
    Lock,
    /// Who had a CPU.
    Cpu(u32),
}

/// A row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) sort: RowSort,
    pub(super) label: String,
    /// The task's or the lock's name.
    key: String,
    /// It has no steps of its own: what it ran is shown.
    aside: bool,
}

impl Row {
    fn new(sort: RowSort, label: String, key: &str) -> Self {
        Self { sort, label, key: key.to_owned(), aside: false }
    }

    /// Whether a step belongs into this row.
    pub(super) fn has(&self, step: &ExampleStep) -> bool {
        match self.sort {
            RowSort::Response => true,
            RowSort::Task => !self.aside && step.task == self.key,
            RowSort::Lock => step.part == Part::WaitLock.name() && lock_and_holder(&step.who).0 == self.key,
            RowSort::Cpu(_) => false,
        }
    }

    /// Whether a stretch on a CPU belongs into this row.
    pub(super) fn shows(&self, spell: &CpuSpell) -> bool {
        match self.sort {
            RowSort::Cpu(cpu) => spell.cpu == cpu,
            RowSort::Task => self.aside && spell.task == self.key,
            RowSort::Response | RowSort::Lock => false,
        }
    }
}

/// The rows of a response, in the order in which they are shown.
pub(super) fn of(example: &Example) -> Vec<Row> {
    let mut rows = vec![Row::new(RowSort::Response, "response".to_owned(), "")];
    let distinct = |names: &mut dyn Iterator<Item = &String>, most: usize| {
        let mut found: Vec<String> = Vec::new();
        for name in names.filter(|name| !name.is_empty()) {
            if found.len() < most && !found.contains(name) {
                found.push(name.clone());
            }
        }
        found
    };
    let tasks = distinct(&mut example.steps.iter().map(|step| &step.task), MOST_TASKS);
    rows.extend(tasks.iter().map(|task| Row::new(RowSort::Task, task.clone(), task)));
    // Tasks that were waited for and were seen on a CPU meanwhile.
    let on_cpu = |name: &String| example.cpus.iter().any(|spell| spell.task == *name);
    let mut others: Vec<(String, u64)> = Vec::new();
    for step in example.steps.iter().filter(|step| !tasks.contains(&step.who) && on_cpu(&step.who)) {
        match others.iter_mut().find(|(name, _)| *name == step.who) {
            Some((_, ns)) => *ns += step.ns,
            None => others.push((step.who.clone(), step.ns)),
        }
    }
    others.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let others = others.into_iter().map(|(name, _)| name).take(MOST_OTHERS).collect::<Vec<_>>();
    rows.extend(others.iter().map(|task| Row { aside: true, ..Row::new(RowSort::Task, task.clone(), task) }));
    let is_lock = |step: &&ExampleStep| step.part == Part::WaitLock.name();
    let waited: Vec<String> =
        example.steps.iter().filter(is_lock).map(|step| lock_and_holder(&step.who).0.to_owned()).collect();
    let locks = distinct(&mut waited.iter(), MOST_LOCKS);
    rows.extend(locks.iter().map(|lock| {
        let label = if lock.starts_with('/') { format!("lock {lock}") } else { lock.clone() };
        Row::new(RowSort::Lock, label, lock)
    }));
    let mut cpus: Vec<u32> = example.cpus.iter().map(|spell| spell.cpu).collect();
    cpus.sort_unstable();
    cpus.dedup();
    rows.extend(cpus.into_iter().take(MOST_CPUS).map(|cpu| Row::new(RowSort::Cpu(cpu), format!("CPU {cpu}"), "")));
    rows
}
