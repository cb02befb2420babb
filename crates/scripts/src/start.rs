//! A program to be started, and what its process does before it is that program.

use crate::owner::Owned;
use std::ffi::{CStr, CString, c_char, c_int};
use std::os::fd::RawFd;

/// Signals that this process handles or ignores, which programs do not inherit.
const SIGNALS: [c_int; 4] = [libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGPIPE];

/// A program to be started.
#[derive(Debug)]
pub(crate) struct Start<'s> {
    /// The file, and its arguments, the first of which is its name.
    pub(crate) file: &'s CStr,
    pub(crate) arguments: &'s [CString],
    /// The working directory.
    pub(crate) folder: &'s CStr,
    /// Strings of the environment, ended by a null pointer.
    pub(crate) environment: *const *const c_char,
    /// Descriptors that it gets as 0, 1, 2 and perhaps 3. None of them is one of 0 to 2 itself.
    pub(crate) descriptors: &'s [RawFd],
    /// Bytes of its address space (RLIMIT_AS); 0 = no bound.
    pub(crate) memory: u64,
    /// Seconds of its CPU time (RLIMIT_CPU); 0 = no bound.
    pub(crate) cpu_s: u64,
    /// As whom it runs, if that is not the user of this process.
    pub(crate) owned: Option<&'s Owned>,
    /// Whether the file is the script, and no program that runs it.
    pub(crate) is_own_program: bool,
}

/// Has signals come as programs expect it.
pub(crate) unsafe fn reset_signals() {
    // SAFETY: the structures are plain data that these calls fill, and that the kernel reads.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = libc::SIG_DFL;
        for signal in SIGNALS {
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const action.sa_mask, std::ptr::null_mut());
    }
}

/// Has the kernel end this process with the runner that starts it (PR_SET_PDEATHSIG of prctl(2)): else it would run on
/// where supervisor and runner are killed at once. What it starts itself does not inherit that.
pub(crate) unsafe fn end_with_parent() {
    // SAFETY: the call takes no memory.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

/// Gives a descriptor a number, under which it stays open in the program.
pub(crate) unsafe fn put(fd: RawFd, number: c_int) -> bool {
    // SAFETY: the calls take no memory.
    unsafe { if fd == number { libc::fcntl(fd, libc::F_SETFD, 0) == 0 } else { libc::dup2(fd, number) >= 0 } }
}

/// Lowers a bound of this process, unless it is 0; whether it holds.
pub(crate) unsafe fn bound(resource: libc::__rlimit_resource_t, most: u64) -> bool {
    if most == 0 {
        return true;
    }
    let mut held = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes and reads one structure.
    unsafe {
        libc::getrlimit(resource, &raw mut held) == 0 && {
            held.rlim_max = held.rlim_max.min(most);
            held.rlim_cur = held.rlim_max;
            libc::setrlimit(resource, &raw const held) == 0
        }
    }
}
