//! Operands of the scheduler's events.

use crate::{Kind, Record};

/// The system-call number that stands for "in none": a page fault, or a task that is not traced.
pub const NO_SYSCALL: u16 = 0x1ff;

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
