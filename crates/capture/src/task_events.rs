//! The scheduler's events of some processes' tasks alone, for a caller that takes them in as they come.

use crate::error::CaptureError;
use crate::expand::Expander;
use crate::probes::{Attached, Probes};
use crate::recorder::monotonic_ns;
use crate::ring::{RawEvent, Rings};
use weir_wire::{Kind, Record};

/// Attached probes that tell when tasks of the followed processes get and leave a CPU, what they are blocked in, and who
/// wakes them. Nothing is written anywhere; dropping it detaches them.
///
/// It costs each switch on the host a look at two bits, and each one of a followed task 16 bytes in a ring of 1 MiB for
/// each CPU; what is not taken in time is lost and told.
pub struct TaskEvents {
    // First: nothing is written to the rings any more when they go.
    _attached: Attached,
    probes: Probes,
    rings: Rings,
    expanders: Vec<Expander>,
    lost: Vec<u64>,
    raw: Vec<RawEvent>,
    records: Vec<Record>,
}

impl TaskEvents {
    /// Loads and attaches the probes. No process is followed yet.
    ///
    /// # Errors
    /// [`CaptureError`] says what is missing and the remedy.
    pub fn start() -> Result<Self, CaptureError> {
        let probes = Probes::load_tasks()?;
        let rings = probes.rings()?;
        let attached = probes.attach()?;
        Ok(Self {
            _attached: attached,
            expanders: (0..rings.cpus()).map(|cpu| Expander::new(cpu as u32)).collect(),
            lost: vec![0; rings.cpus()],
            probes,
            rings,
            raw: Vec::new(),
            records: Vec::new(),
        })
    }

    /// Follows a process, and those that it makes, until they end or run another program. Returns its tasks, and since
    /// when each event of them is told (CLOCK_MONOTONIC, nanoseconds).
    pub fn follow(&mut self, process: u32) -> (Vec<u32>, u64) {
        self.probes.trace(process);
        // Listed behind the mark: a task that is made meanwhile is told by its making.
        let listed = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        let tasks = listed.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        (tasks, monotonic_ns())
    }

    /// Takes what has happened on all CPUs up to now, in the order of time; returns when that is.
    pub fn take(&mut self, mut each: impl FnMut(&Record)) -> u64 {
        let now_ns = monotonic_ns();
        self.records.clear();
        for cpu in 0..self.rings.cpus() {
            self.raw.clear();
            self.rings.drain(cpu, now_ns, &mut self.raw);
            let lost = self.rings.lost(cpu);
            let fresh = lost - std::mem::replace(&mut self.lost[cpu], lost);
            if fresh > 0 {
                let time_ns = self.raw.first().map_or(now_ns, |event| event.time_ns);
                let lane = cpu as u32;
                let told = Record { time_ns, kind: Kind::Lost as u16, lane, a: fresh, ..Record::default() };
                self.records.push(told);
            }
            let (expander, records) = (&mut self.expanders[cpu], &mut self.records);
            for event in &self.raw {
                expander.expand(*event, &mut |record, _| records.push(record));
            }
        }
        self.records.sort_by_key(|record| record.time_ns);
        self.records.iter().for_each(&mut each);
        now_ns
    }

    /// Events that were not taken in time.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.iter().sum()
    }
}

impl std::fmt::Debug for TaskEvents {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("TaskEvents").field("lost", &self.lost).finish_non_exhaustive()
    }
}
