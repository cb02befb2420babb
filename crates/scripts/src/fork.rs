//! Starts programs as other users, by fork(2).
//!
//! A process of another user shares no memory with the runner, and the runner does not sleep until that process is
//! another program: its user could stop it before (SIGSTOP).

use crate::descriptor;
use crate::owner::Owned;
use crate::start::{self, Start};
use std::ffi::{c_char, c_int};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long a process may take until it is another program.
const PATIENCE: Duration = Duration::from_secs(5);
/// The version of the structures of capset(2) (_LINUX_CAPABILITY_VERSION_3), which has two words for each set.
const CAPABILITIES_VERSION: u32 = 0x2008_0522;

/// `struct __user_cap_header_struct` of linux/capability.h.
#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: c_int,
}

/// `struct __user_cap_data_struct`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CapabilitySets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Has this thread have these capabilities (a bit each, of the first 32) and no others.
pub(crate) fn keep_capabilities(bits: u32) -> io::Result<()> {
    let header = CapabilityHeader { version: CAPABILITIES_VERSION, pid: 0 };
    let first = CapabilitySets { effective: bits, permitted: bits, inheritable: 0 };
    let sets = [first, CapabilitySets::default()];
    // SAFETY: the kernel reads a header and two structures, which this version has.
    match unsafe { libc::syscall(libc::SYS_capset, &raw const header, sets.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Starts a program as the owner of a script; its process.
///
/// # Errors
///
/// Those of execve(2) and of the change of the user.
pub(crate) fn start(program: &Start<'_>, owned: &Owned, arguments: &[*const c_char]) -> io::Result<libc::pid_t> {
    let (heard, tells) = descriptor::pipe()?;
    let tells = {
        let low = tells;
        descriptor::above(low.as_fd())?
    };
    descriptor::set_nonblocking(&heard)?;
    // SAFETY: this process has one thread, so the new one may do anything.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // SAFETY: this is a process of its own, and `arguments` ends with a null pointer.
            let error = unsafe { become_program(program, owned, arguments) };
            descriptor::write(tells.as_raw_fd(), &error.to_ne_bytes());
            // SAFETY: the call does not return.
            unsafe { libc::_exit(127) }
        }
        pid => {
            drop(tells);
            match error_of(&heard) {
                Some(0) => Ok(pid),
                told => {
                    // SAFETY: it is a child that was not waited for; the kernel writes nothing.
                    unsafe {
                        libc::kill(pid, libc::SIGKILL);
                        libc::waitpid(pid, std::ptr::null_mut(), 0);
                    }
                    Err(told.map_or_else(|| io::ErrorKind::TimedOut.into(), io::Error::from_raw_os_error))
                }
            }
        }
    }
}

/// What a new process says before it ends; 0 if it is another program, `None` if it does not become one in time.
fn error_of(heard: &OwnedFd) -> Option<c_int> {
    let until = Instant::now() + PATIENCE;
    let mut told = Vec::new();
    loop {
        let mut fds = [libc::pollfd { fd: heard.as_raw_fd(), events: libc::POLLIN, revents: 0 }];
        let left = until.saturating_duration_since(Instant::now());
        // SAFETY: the kernel writes to one entry. No signal interrupts it: they are blocked.
        unsafe { libc::poll(fds.as_mut_ptr(), 1, c_int::try_from(left.as_millis()).unwrap_or(0)) };
        match descriptor::read(heard.as_raw_fd(), size_of::<c_int>(), &mut told) {
            descriptor::Moved::Over => return Some(told.try_into().map_or(0, c_int::from_ne_bytes)),
            _ if left.is_zero() => return None,
            _ => {}
        }
    }
}

/// What the new process does until it is another program; the error, if that fails.
unsafe fn become_program(start: &Start<'_>, owned: &Owned, arguments: &[*const c_char]) -> c_int {
    let (owner, place) = (&owned.owner, owned.place.as_deref());
    // SAFETY: the calls read what lives on in this process, which is of this thread alone.
    unsafe {
        let is_ready = libc::setpgid(0, 0) == 0
            && start::bound(libc::RLIMIT_AS, start.memory)
            && start::bound(libc::RLIMIT_CPU, start.cpu_s)
            // Before the user changes: only then the kernel counts the processes of the new one.
            && start::bound(libc::RLIMIT_NPROC, owned.processes)
            && (0..).zip(start.descriptors).all(|(number, &fd)| start::put(fd, number))
            && libc::setgroups(owner.groups.len(), owner.groups.as_ptr()) == 0
            && libc::setresgid(owner.gid, owner.gid, owner.gid) == 0
            && libc::setresuid(owner.uid, owner.uid, owner.uid) == 0
            && keep_capabilities(0).is_ok()
            && match place {
                Some((_, folder)) => libc::fchdir(folder.as_raw_fd()) == 0,
                None => libc::chdir(start.folder.as_ptr()) == 0,
            };
        if is_ready {
            // A change of the user takes the setting back, so it comes behind.
            start::end_with_parent();
            start::reset_signals();
            if let Some((file, _)) = place.filter(|_| start.is_own_program) {
                let (file, empty) = (file.as_raw_fd(), c"".as_ptr());
                let (arguments, environment) = (arguments.as_ptr(), start.environment);
                libc::syscall(libc::SYS_execveat, file, empty, arguments, environment, libc::AT_EMPTY_PATH);
            }
            // What is no program but a script with an interpreter, which opens it by its name: then the kernel says
            // ENOENT, as the descriptor would be closed. Only the owner and root can have changed what the name means.
            if !(start.is_own_program && place.is_some()) || *libc::__errno_location() == libc::ENOENT {
                libc::execve(start.file.as_ptr(), arguments.as_ptr(), start.environment);
            }
        }
        *libc::__errno_location()
    }
}
