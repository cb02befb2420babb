//! Operands of the scheduler's events.

use crate::{Kind, Record, Slot};

/// The system-call number that stands for "in none": a page fault, or a task that is not traced.
pub const NO_SYSCALL: u16 = 0x1ff;

/// Flag of [`crate::Kind::TaskName`]: threads of its process carry goroutines, so that what one waits in says nothing of
/// the request that it had.
pub const CARRIES: u8 = 2;
/// Flag of [`Kind::Waking`]: an interrupt made the task runnable; who is named as the waker only had the CPU then.
pub const BY_INTERRUPT: u8 = 1;
/// Flag of [`Kind::Waking`]: it was done in a soft interrupt. Without [`BY_INTERRUPT`] on top of a call of the waker's
/// that sends, as when both ends of a connection are on this host.
pub const IN_SOFT_INTERRUPT: u8 = 2;
/// Flag of [`Kind::Waking`]: the source can tell the two others.
pub const CONTEXT_TOLD: u8 = 4;

/// Flag of [`Kind::Waking`]: the task was frozen where it slept, and is thawed.
pub const WAS_FROZEN: u8 = 8;

/// Bit of a task's state: a signal has stopped it (the kernel's `__TASK_STOPPED`).
pub const STOPPED: u8 = 4;
/// Bit of a task's state: a debugger has stopped it (the kernel's `__TASK_TRACED`).
pub const TRACED: u8 = 8;
/// Bit of a task's state: a cgroup's freezer holds it, or the system's.
pub const FROZEN: u8 = 16;

/// Bits of a task's number below those that tell its host, where several hosts' recordings are read as one. The kernel
/// gives numbers below 2^22.
const NUMBER_BITS: u32 = 24;

/// The number of a task among those of several hosts; that of the first host (0) stays as it is, and so does the idle task.
#[must_use]
pub fn task_on_host(pid: u32, host: u32) -> u32 {
    if pid == 0 { 0 } else { pid ^ host << NUMBER_BITS }
}

/// The host of a task by its number, where several hosts' recordings are read as one; 0 in the recording of one host.
#[must_use]
pub fn host_of_task(pid: u32) -> u32 {
    pid >> NUMBER_BITS
}

/// CPUs of a host, where several hosts' recordings are read as one; those of the next one follow.
const MOST_CPUS: u32 = 1024;

/// The lane of a CPU, or of another writer in the kernel's stead, among those of several hosts.
#[must_use]
pub fn lane_on_host(lane: u32, host: u32) -> u32 {
    host * MOST_CPUS + lane % MOST_CPUS
}

/// The host of such a lane, where several hosts' recordings are read as one.
#[must_use]
pub fn host_of_lane(lane: u32) -> u32 {
    lane / MOST_CPUS
}

/// The number that a task has on its own host.
#[must_use]
pub fn number_on_its_host(pid: u32) -> u32 {
    pid & ((1 << NUMBER_BITS) - 1)
}

/// The record with other numbers of tasks, as `number` gives them for those that it has; the idle task (0) stays.
///
/// Records that user space makes have no number of the kernel's and stay as they are.
#[must_use]
pub fn renumbered(record: &Record, number: &mut dyn FnMut(u32) -> u32) -> Record {
    const LOW: u64 = 0xffff_ffff;
    let mut task = |pid: u64| if pid == 0 { 0 } else { u64::from(number(pid as u32)) };
    let mut halves = |both: u64| task(both & LOW) | task(both >> 32) << 32;
    let (a, b) = (record.a, record.b);
    let (a, b) = match Kind::from_code(record.kind) {
        Some(Kind::Switch | Kind::Waking | Kind::TaskState | Kind::TaskName) => (halves(a), b),
        Some(Kind::Fork) => (halves(a), halves(b)),
        Some(Kind::Exec | Kind::Exit | Kind::LockEnd | Kind::TimerWakeup | Kind::FileWait | Kind::DiskRequest) => {
            (halves(a & LOW) | a & !LOW, b)
        }
        Some(Kind::LockWait) => (halves(a), b),
        Some(Kind::AskedCall) => (a, halves(b)),
        _ => (a, b),
    };
    Record { a, b, ..*record }
}

/// A [`Kind::Switch`] taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switch {
    /// The task that leaves the CPU; 0 is the idle task.
    pub prev: u32,
    /// The task that gets the CPU.
    pub next: u32,
    /// The state it leaves in, as the kernel's `TASK_*` bits; 0 = it would rather run on.
    pub prev_state: u8,
    /// The system call that it is blocked in, [`NO_SYSCALL`] for none.
    pub syscall: u16,
    /// The call's first argument (a descriptor for most), cut to 16 bits.
    pub descriptor: u16,
}

impl Switch {
    /// The operands of a record, if it is a switch.
    #[must_use]
    pub fn read(record: &Record) -> Option<Self> {
        (record.kind == Kind::Switch as u16).then(|| {
            let (prev, next) = record.a_halves();
            Self {
                prev,
                next,
                prev_state: record.b as u8,
                syscall: (record.b >> 8) as u16,
                descriptor: (record.b >> 32) as u16,
            }
        })
    }

    /// The record of this switch on a CPU.
    #[must_use]
    pub fn write(self, time_ns: u64, cpu: u32) -> Record {
        Record {
            time_ns,
            kind: Kind::Switch as u16,
            lane: cpu,
            a: u64::from(self.prev) | u64::from(self.next) << 32,
            b: u64::from(self.prev_state) | u64::from(self.syscall) << 8 | u64::from(self.descriptor) << 32,
            ..Record::default()
        }
    }
}

/// The state that stands for "not looked at" in a [`TaskUsage`].
pub const STATE_UNSEEN: u8 = 0xff;

/// A [`Kind::TaskUsage`]: what /proc told of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskUsage {
    /// The task.
    pub pid: u32,
    /// Its process.
    pub tgid: u32,
    /// Time on a CPU since it began, nanoseconds.
    pub run_ns: u64,
    /// Time that it could have run since it began, nanoseconds.
    pub wait_ns: u64,
    /// Turns on a CPU since it began.
    pub slices: u64,
    /// Its state: 0 for one that runs or could, else the kernel's `TASK_*` bits; [`STATE_UNSEEN`] if not looked at.
    pub state: u8,
    /// The system call that it waited in, [`NO_SYSCALL`] for none or unknown.
    pub syscall: u16,
    /// The call's first argument, cut to 16 bits.
    pub descriptor: u16,
}

impl TaskUsage {
    /// The operands of a record, if it is one and carries its slot.
    #[must_use]
    pub fn read(record: &Record, slots: &[Slot]) -> Option<Self> {
        let counts = slots.first().filter(|_| record.kind == Kind::TaskUsage as u16)?;
        let (pid, tgid) = record.a_halves();
        Some(Self {
            pid,
            tgid,
            run_ns: counts[0],
            wait_ns: counts[1],
            slices: counts[2],
            state: record.b as u8,
            syscall: (record.b >> 8) as u16,
            descriptor: (record.b >> 32) as u16,
        })
    }

    /// The record and its slot.
    #[must_use]
    pub fn write(self, time_ns: u64) -> (Record, [Slot; 1]) {
        let record = Record {
            time_ns,
            kind: Kind::TaskUsage as u16,
            slots: 1,
            a: u64::from(self.pid) | u64::from(self.tgid) << 32,
            b: u64::from(self.state) | u64::from(self.syscall) << 8 | u64::from(self.descriptor) << 32,
            ..Record::default()
        };
        (record, [[self.run_ns, self.wait_ns, self.slices, 0]])
    }
}

/// A [`Kind::TaskState`] taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskState {
    /// The task.
    pub pid: u32,
    /// Its process.
    pub tgid: u32,
    /// 0 for one that ran or could, else the kernel's `TASK_*` bits.
    pub state: u8,
    /// The system call that it was blocked in, [`NO_SYSCALL`] for none.
    pub syscall: u16,
    /// The call's first argument, cut to 16 bits.
    pub descriptor: u16,
}

impl TaskState {
    /// The operands of a record, if it is one.
    #[must_use]
    pub fn read(record: &Record) -> Option<Self> {
        let (pid, tgid) = record.a_halves();
        (record.kind == Kind::TaskState as u16).then_some(Self {
            pid,
            tgid,
            state: record.b as u8,
            syscall: (record.b >> 8) as u16,
            descriptor: (record.b >> 32) as u16,
        })
    }

    /// The record.
    #[must_use]
    pub fn write(self, time_ns: u64, cpu: u32) -> Record {
        Record {
            time_ns,
            kind: Kind::TaskState as u16,
            lane: cpu,
            a: u64::from(self.pid) | u64::from(self.tgid) << 32,
            b: u64::from(self.state) | u64::from(self.syscall) << 8 | u64::from(self.descriptor) << 32,
            ..Record::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_state_survives_the_round_trip(pid: u32, tgid: u32, state: u8, syscall: u16, descriptor: u16) {
            let told = TaskState { pid, tgid, state, syscall, descriptor };
            prop_assert_eq!(TaskState::read(&told.write(9, 1)), Some(told));
            prop_assert_eq!(Switch::read(&told.write(9, 1)), None);
        }

        #[test]
        fn a_usage_survives_the_round_trip(pid: u32, tgid: u32, counts: (u64, u64, u64), state: u8, syscall: u16, descriptor: u16) {
            let (run_ns, wait_ns, slices) = counts;
            let usage = TaskUsage { pid, tgid, run_ns, wait_ns, slices, state, syscall, descriptor };
            let (record, slots) = usage.write(9);
            prop_assert_eq!(TaskUsage::read(&record, &slots), Some(usage));
            prop_assert_eq!(TaskUsage::read(&record, &[]), None);
        }
    }
}
