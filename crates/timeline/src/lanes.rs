//! Who had the CPUs while a response was under way, for charts.

use crate::blocked::{Wait, hold_of, wait_of};
use crate::join::Joiner;
use crate::tasks::State;
use std::ops::Range;
use weir_measure::part::Part;

impl Joiner {
    /// Who had each of some CPUs within a window that is not forgotten yet: (CPU, task, from, to), a task of 0 being none.
    pub fn on_cpus(&self, cpus: Range<u32>, from_ns: u64, to_ns: u64) -> impl Iterator<Item = (u32, u32, u64, u64)> {
        let tasks = self.known().tasks;
        cpus.flat_map(move |cpu| {
            tasks.ran_on(cpu, from_ns, to_ns).map(move |(pid, from_ns, to_ns)| (cpu, pid, from_ns, to_ns))
        })
    }

    /// What a task did within a window that is not forgotten yet, latest first: (part, from, to). A wait for a
    /// descriptor counts as one for the network, for its socket is not looked at; what is not known as unattributed.
    pub fn states_back(&self, pid: u32, from_ns: u64, to_ns: u64) -> impl Iterator<Item = (Part, u64, u64)> {
        let spells = self.known().tasks.spells_back(pid, from_ns, to_ns);
        spells.map(|spell| (part_of(spell.state), spell.from_ns, spell.to_ns))
    }
}

/// What a task does in a state, by itself alone.
fn part_of(state: State) -> Part {
    match state {
        State::Running { .. } => Part::Run,
        State::Runnable { .. } => Part::WaitCpu,
        State::Blocked { state, .. } if hold_of(state).is_some() => Part::Stopped,
        State::Blocked { state, syscall, .. } => match wait_of(state, syscall) {
            Wait::Lock => Part::WaitLock,
            Wait::Timer => Part::WaitTimer,
            Wait::Process => Part::WaitProcess,
            Wait::Descriptor => Part::WaitNetwork,
            Wait::Disk => Part::WaitDisk,
            Wait::Unknown => Part::Unattributed,
        },
        _ => Part::Unattributed,
    }
}
