//! Operands of the optional sources' events: disk, locks, interrupts.

use crate::{Kind, Record};

/// Sort of a [`Kind::Named`]: a file.
pub const NAMED_FILE: u8 = 1;
/// A block device; its key is `major << 20 | minor`.
pub const NAMED_DEVICE: u8 = 2;
/// A function of the kernel; its key is an address in it.
pub const NAMED_FUNCTION: u8 = 3;
/// An interrupt; its key is its number.
pub const NAMED_INTERRUPT: u8 = 4;
/// A cgroup.
pub const NAMED_CGROUP: u8 = 5;
/// A task of which the scheduler may never tell; its key is its number.
pub const NAMED_TASK: u8 = 6;

/// Flag of [`Kind::FileWait`]: the kernel counts it as waiting for a device.
pub const IO_WAIT: u8 = 1;
/// Flag of [`Kind::FileWait`]: a page of a mapped file is missing.
pub const PAGE_FAULT: u8 = 2;

/// Flag of [`Kind::FileWait`]: a signal would end it, as where a process (FUSE) or another host serves the file system.
pub const SERVED: u8 = 4;

/// Flag of [`Kind::Interrupt`]: a device's.
pub const HARD_INTERRUPT: u8 = 0;
/// Flag of [`Kind::Interrupt`]: work that interrupts put off.
pub const SOFT_INTERRUPT: u8 = 1;
/// Flag of [`Kind::Interrupt`]: the CPU's own timer.
pub const TICK: u8 = 2;
/// Flag of [`Kind::Interrupt`]: none, but the hypervisor had the CPU.
pub const STOLEN: u8 = 3;

/// What sort of lock a task waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum LockSort {
    /// A word of memory that a library's locks stand on.
    Futex = 1,
    /// The whole of a file, by flock.
    Flock = 2,
    /// A range of a file, by fcntl.
    Fcntl = 3,
    /// A mutex of the kernel's.
    Mutex = 4,
    /// A semaphore of the kernel's for readers and writers.
    Semaphore = 5,
    /// The lock of a process's memory map: mmap, munmap and page faults of its threads.
    AddressSpace = 6,
    /// Another of the kernel's.
    Kernel = 7,
}

impl LockSort {
    /// The sort of a code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        let all =
            [Self::Futex, Self::Flock, Self::Fcntl, Self::Mutex, Self::Semaphore, Self::AddressSpace, Self::Kernel];
        all.into_iter().find(|sort| *sort as u8 == code)
    }

    /// What a person would call it.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Futex => "futex",
            Self::Flock => "flock of",
            Self::Fcntl => "fcntl lock of",
            Self::Mutex => "kernel mutex in",
            Self::Semaphore => "kernel semaphore in",
            Self::AddressSpace => "address space",
            Self::Kernel => "kernel lock in",
        }
    }

    /// Whether it is one of the kernel's own, whose wait has an end of its own.
    #[must_use]
    pub fn is_kernels(self) -> bool {
        matches!(self, Self::Mutex | Self::Semaphore | Self::AddressSpace | Self::Kernel)
    }
}

/// A [`Kind::LockWait`] taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockWait {
    /// The task that waits.
    pub pid: u32,
    /// Who has the lock, 0 where that is not known.
    pub holder: u32,
    /// What sort of lock.
    pub sort: LockSort,
    /// Which one.
    pub key: u64,
}

impl LockWait {
    /// The operands of a record, if it is such a wait.
    #[must_use]
    pub fn read(record: &Record) -> Option<Self> {
        let (pid, holder) = record.a_halves();
        let sort = LockSort::from_code(record.flags).filter(|_| record.kind == Kind::LockWait as u16)?;
        Some(Self { pid, holder, sort, key: record.b })
    }
}

/// A [`Kind::DiskRequest`] taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskRequest {
    /// The task that handed it to the device, which may be one of the kernel's.
    pub pid: u32,
    /// The device: `major << 20 | minor`.
    pub device: u32,
    /// From the device having it to its end, nanoseconds.
    pub duration_ns: u64,
    /// Its length, bytes.
    pub bytes: u64,
}

impl DiskRequest {
    /// The operands of a record, if it is such a request.
    #[must_use]
    pub fn read(record: &Record) -> Option<Self> {
        let (pid, device) = record.a_halves();
        let (duration_ns, bytes) = (record.b & 0xff_ffff_ffff, record.b >> 40 << 9);
        (record.kind == Kind::DiskRequest as u16).then_some(Self { pid, device, duration_ns, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn operands_are_taken_apart() {
        let lock = Record { kind: Kind::LockWait as u16, flags: 3, a: 7 | 9 << 32, b: 77, ..Record::default() };
        assert_eq!(LockWait::read(&lock), Some(LockWait { pid: 7, holder: 9, sort: LockSort::Fcntl, key: 77 }));
        let disk = Record { kind: Kind::DiskRequest as u16, a: 7 | 254 << 52, b: 5_000_000 | 8 << 40, ..lock };
        let request = DiskRequest { pid: 7, device: 254 << 20, duration_ns: 5_000_000, bytes: 4096 };
        assert_eq!(DiskRequest::read(&disk), Some(request));
        assert_eq!((LockWait::read(&disk), DiskRequest::read(&lock)), (None, None));
    }

    proptest! {
        #[test]
        fn any_record_is_read_or_refused(slot: [u64; 4]) {
            let record = Record::from_slot(slot);
            let known = LockSort::from_code(record.flags).is_some();
            prop_assert_eq!(LockWait::read(&record).is_some(), known && record.kind == Kind::LockWait as u16);
            prop_assert_eq!(DiskRequest::read(&record).is_some(), record.kind == Kind::DiskRequest as u16);
        }
    }
}
