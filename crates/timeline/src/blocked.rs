//! What a task waits for when it is blocked in a system call: the declarative table of the scheduler's source.

use weir_wire::task::{FROZEN, STOPPED, TRACED};

/// What a blocked system call says of the wait; sockets are told apart by the socket's own events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// A lock: futex, file lock or semaphore.
    Lock,
    /// Time to pass.
    Timer,
    /// A child, or a process that sends a signal.
    Process,
    /// Readiness or data of some descriptor: which one, its socket's events must tell.
    Descriptor,
    /// A call that only waits for storage.
    Disk,
    /// The table does not know the call.
    Unknown,
}

/// Who holds a task from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hold {
    /// A signal: SIGSTOP and its kin.
    Signal,
    /// A debugger or tracer (ptrace).
    Debugger,
    /// The freezer of a cgroup, or the system's.
    Freezer,
}

impl Hold {
    /// In words, after the name of the task.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Signal => "stopped by a signal",
            Self::Debugger => "stopped by a debugger",
            Self::Freezer => "frozen by a freezer",
        }
    }
}

/// What holds a task in this state, if it is held. A held task does not wait for what its system call is about.
pub(crate) fn hold_of(state: u8) -> Option<Hold> {
    match state {
        _ if state & FROZEN != 0 => Some(Hold::Freezer),
        _ if state & TRACED != 0 => Some(Hold::Debugger),
        _ if state & STOPPED != 0 => Some(Hold::Signal),
        _ => None,
    }
}

/// The kernel's TASK_UNINTERRUPTIBLE: a wait that no signal ends, as for storage.
pub(crate) const UNINTERRUPTIBLE: u8 = 2;

/// Calls by what they wait for. The numbers are those of the architecture that this weir was built for.
const TABLE: &[(Wait, &[i64])] = &[
    (
        Wait::Lock,
        &[
            libc::SYS_futex,
            libc::SYS_futex_waitv,
            FUTEX_WAIT,
            libc::SYS_flock,
            libc::SYS_fcntl,
            libc::SYS_semop,
            libc::SYS_semtimedop,
        ],
    ),
    (Wait::Timer, &[libc::SYS_nanosleep, libc::SYS_clock_nanosleep]),
    (
        Wait::Process,
        &[libc::SYS_wait4, libc::SYS_waitid, libc::SYS_rt_sigsuspend, libc::SYS_rt_sigtimedwait, libc::SYS_msgrcv],
    ),
    (
        Wait::Descriptor,
        &[
            libc::SYS_read,
            libc::SYS_readv,
            libc::SYS_pread64,
            libc::SYS_preadv,
            libc::SYS_preadv2,
            libc::SYS_write,
            libc::SYS_writev,
            libc::SYS_pwrite64,
            libc::SYS_pwritev,
            libc::SYS_pwritev2,
            libc::SYS_recvfrom,
            libc::SYS_recvmsg,
            libc::SYS_recvmmsg,
            libc::SYS_sendto,
            libc::SYS_sendmsg,
            libc::SYS_sendmmsg,
            libc::SYS_sendfile,
            libc::SYS_splice,
            libc::SYS_connect,
            libc::SYS_accept,
            libc::SYS_accept4,
            libc::SYS_ppoll,
            libc::SYS_pselect6,
            libc::SYS_epoll_pwait,
            libc::SYS_epoll_pwait2,
            libc::SYS_io_uring_enter,
            // A thread of the kernel's that works for a ring keeps the call in which it was made: it waits for work.
            libc::SYS_io_uring_setup,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_poll,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_select,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_epoll_wait,
        ],
    ),
    (Wait::Disk, &[libc::SYS_fsync, libc::SYS_fdatasync, libc::SYS_sync_file_range, libc::SYS_msync, libc::SYS_syncfs]),
];

/// futex_wait (Linux 6.7), the same number on every architecture; libc does not name it yet.
const FUTEX_WAIT: i64 = 455;

/// The call that a blocked call amounts to: a selection among no descriptors is how portable programs sleep.
pub(crate) fn amounts_to(syscall: u16, first_argument: u16) -> u16 {
    #[cfg(target_arch = "x86_64")]
    let selections = [libc::SYS_select, libc::SYS_pselect6];
    #[cfg(not(target_arch = "x86_64"))]
    let selections = [libc::SYS_pselect6];
    if first_argument == 0 && selections.contains(&i64::from(syscall)) {
        return libc::SYS_clock_nanosleep as u16;
    }
    syscall
}

/// Whether a call waits until any of several descriptors is ready.
pub(crate) fn waits_for_any(syscall: u16) -> bool {
    let calls = [
        libc::SYS_ppoll,
        libc::SYS_pselect6,
        libc::SYS_epoll_pwait,
        libc::SYS_epoll_pwait2,
        libc::SYS_io_uring_enter,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_poll,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_select,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_epoll_wait,
    ];
    calls.contains(&i64::from(syscall))
}

/// What a task in this state waits for.
#[must_use]
pub fn wait_of(state: u8, syscall: u16) -> Wait {
    let call = i64::from(syscall);
    let listed = TABLE.iter().find(|(_, calls)| calls.contains(&call)).map(|(wait, _)| *wait);
    match listed {
        Some(wait) if wait != Wait::Descriptor => wait,
        // An uninterruptible wait outside the calls above is one for storage: a read, an open, or a page to be read in.
        _ if state & UNINTERRUPTIBLE != 0 => Wait::Disk,
        Some(wait) => wait,
        None => Wait::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::task::NO_SYSCALL;

    #[test]
    fn calls_are_told_apart() {
        assert_eq!(wait_of(1, libc::SYS_futex as u16), Wait::Lock);
        assert_eq!(wait_of(1, libc::SYS_clock_nanosleep as u16), Wait::Timer);
        assert_eq!(wait_of(1, libc::SYS_recvfrom as u16), Wait::Descriptor);
        assert_eq!(wait_of(1, amounts_to(libc::SYS_pselect6 as u16, 5)), Wait::Descriptor);
        assert_eq!(wait_of(1, amounts_to(libc::SYS_pselect6 as u16, 0)), Wait::Timer);
        assert_eq!(wait_of(2, libc::SYS_read as u16), Wait::Disk);
        assert_eq!(wait_of(2, NO_SYSCALL), Wait::Disk);
        assert_eq!(wait_of(1, NO_SYSCALL), Wait::Unknown);
        assert_eq!(wait_of(1, libc::SYS_getpid as u16), Wait::Unknown);
    }

    #[test]
    fn a_held_task_is_told_from_one_that_waits() {
        assert_eq!([0, 1, 2].map(hold_of), [None; 3]);
        assert_eq!(hold_of(4), Some(Hold::Signal));
        assert_eq!(hold_of(8), Some(Hold::Debugger));
        // The freezer of cgroups v2 has its tasks sleep, that of v1 has a state of its own.
        assert_eq!([16, 17, 18].map(hold_of), [Some(Hold::Freezer); 3]);
    }

    #[test]
    fn no_call_stands_twice() {
        let all: Vec<i64> = TABLE.iter().flat_map(|(_, calls)| calls.iter().copied()).collect();
        let unique: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(all.len(), unique.len());
    }
}
