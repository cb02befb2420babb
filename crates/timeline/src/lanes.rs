//! Who had the CPUs while a response was under way, for charts.

use crate::join::Joiner;
use std::ops::Range;

impl Joiner {
    /// Who had each of some CPUs within a window that is not forgotten yet: (CPU, task, from, to), a task of 0 being none.
    pub fn on_cpus(&self, cpus: Range<u32>, from_ns: u64, to_ns: u64) -> impl Iterator<Item = (u32, u32, u64, u64)> {
        let tasks = self.known().tasks;
        cpus.flat_map(move |cpu| {
            tasks.ran_on(cpu, from_ns, to_ns).map(move |(pid, from_ns, to_ns)| (cpu, pid, from_ns, to_ns))
        })
    }
}
