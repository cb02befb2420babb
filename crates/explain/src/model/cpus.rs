//! What tasks had of the CPUs while requests were under way.

use std::collections::HashMap;
use weir_timeline::Joiner;
use weir_wire::Record;
use weir_wire::task::Switch;

/// Tasks that are told apart; what further ones had is that of others.
const MOST_TASKS: usize = 1 << 16;

/// What a task is called.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Task {
    pub(super) name: String,
    pub(super) tgid: u32,
    pub(super) is_servers: bool,
    pub(super) used_ns: u64,
}

/// The fold.
#[derive(Debug, Default)]
pub(super) struct Cpus {
    /// Of each CPU, the task on it and since when.
    on: HashMap<u32, (u32, u64)>,
    tasks: HashMap<u32, Task>,
    /// What was used behind the end of the last request that is known.
    since: HashMap<u32, u64>,
    ends_ns: u64,
}

impl Cpus {
    /// Of tasks that are known.
    #[cfg(test)]
    pub(super) fn of(tasks: impl IntoIterator<Item = (u32, Task)>) -> Self {
        Self { tasks: tasks.into_iter().collect(), ..Self::default() }
    }

    /// Takes a record of the kernel.
    pub(super) fn push(&mut self, joiner: &Joiner, record: &Record) {
        let Some(switch) = Switch::read(record) else { return };
        let now_ns = record.time_ns;
        if let Some((task, from_ns)) = self.on.insert(record.lane, (switch.next, now_ns))
            && task == switch.prev
            && task != 0
            && joiner.clients_began()
        {
            let ns = now_ns.saturating_sub(from_ns);
            if self.tasks.len() < MOST_TASKS || self.tasks.contains_key(&task) {
                *self.since.entry(task).or_default() += ns;
                let known = self.tasks.entry(task).or_default();
                if known.name.is_empty()
                    && let Some(name) = joiner.task_name_at(task, now_ns)
                {
                    *known = Task { name: name.name.clone(), tgid: name.tgid, ..known.clone() };
                }
                known.is_servers |= joiner.serves(task);
            }
        }
    }

    /// A request has ended: what was used so far was used while requests were under way.
    pub(super) fn until(&mut self, end_ns: u64) {
        if end_ns > self.ends_ns {
            self.ends_ns = end_ns;
            for (task, ns) in self.since.drain() {
                self.tasks.entry(task).or_default().used_ns += ns;
            }
        }
    }

    /// A task, if it had a CPU.
    pub(super) fn task(&self, pid: u32) -> Option<&Task> {
        self.tasks.get(&pid)
    }

    /// The tasks by their numbers.
    pub(super) fn tasks(&self) -> impl Iterator<Item = (u32, &Task)> {
        self.tasks.iter().map(|(pid, task)| (*pid, task))
    }
}
