//! Starts programs without a copy of this process's memory: clone(2) with CLONE_VM and CLONE_VFORK, as posix_spawn(3)
//! does it, which has no way to set bounds of the new process.

use crate::fork;
use crate::start::{Start, bound, end_with_parent, put, reset_signals};
use std::ffi::{c_char, c_int, c_void};
use std::io;

/// Bytes of the stack on which the new process runs until it is another program.
const STACK_BYTES: usize = 32 << 10;
/// Starts programs, one after the other, each with a process group of its own.
#[derive(Debug)]
pub(crate) struct Spawner {
    stack: Vec<u128>,
}

/// What the new process reads and writes while it shares the memory of this one.
struct Shared<'s> {
    start: &'s Start<'s>,
    arguments: Vec<*const c_char>,
    error: c_int,
}

impl Spawner {
    pub(crate) fn new() -> Self {
        Self { stack: vec![0; STACK_BYTES / size_of::<u128>()] }
    }

    /// Starts a program; its process.
    ///
    /// # Errors
    ///
    /// Those of execve(2), also where the file cannot be run.
    pub(crate) fn start(&mut self, start: &Start<'_>) -> io::Result<libc::pid_t> {
        let mut arguments: Vec<*const c_char> = start.arguments.iter().map(|text| text.as_ptr()).collect();
        arguments.push(std::ptr::null());
        if let Some(owned) = start.owned {
            return fork::start(start, owned, &arguments);
        }
        let mut shared = Shared { start, arguments, error: 0 };
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        // SAFETY: the stack grows downwards from its end. The new process runs `become_program` on it, and this one
        // sleeps until that has called execve or _exit: so all that is shared lives long enough, and one at a time
        // writes it.
        let pid = unsafe {
            let top = self.stack.as_mut_ptr_range().end;
            libc::clone(become_program, top.cast(), flags, (&raw mut shared).cast())
        };
        match (pid, shared.error) {
            (-1, _) => Err(io::Error::last_os_error()),
            (pid, 0) => Ok(pid),
            (pid, error) => {
                // SAFETY: it is a child that has ended; the kernel writes nothing.
                unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
                Err(io::Error::from_raw_os_error(error))
            }
        }
    }
}

/// What the new process does: only system calls, as it shares its memory with the other one.
extern "C" fn become_program(shared: *mut c_void) -> c_int {
    // SAFETY: `Spawner::start` gives a pointer to this structure, and waits.
    let shared = unsafe { &mut *shared.cast::<Shared<'_>>() };
    let start = shared.start;
    // SAFETY: the calls read what lives until this process is another program; handlers, masks, descriptors, bounds and
    // the directory are its own, as they are not among what is shared.
    unsafe {
        let ok = libc::setpgid(0, 0) == 0
            && bound(libc::RLIMIT_AS, start.memory)
            && bound(libc::RLIMIT_CPU, start.cpu_s)
            && (0..).zip(start.descriptors).all(|(number, &fd)| put(fd, number))
            && libc::chdir(start.folder.as_ptr()) == 0;
        if ok {
            end_with_parent();
            reset_signals();
            libc::execve(start.file.as_ptr(), shared.arguments.as_ptr(), start.environment);
        }
        shared.error = *libc::__errno_location();
        libc::_exit(127)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[test]
    fn what_cannot_be_started_is_told_and_leaves_nothing() {
        let mut spawner = Spawner::new();
        let none = [std::ptr::null()];
        let mut start = |file: &CStr, folder: &CStr| {
            spawner.start(&Start {
                file,
                arguments: &[file.to_owned()],
                folder,
                environment: none.as_ptr(),
                descriptors: &[],
                memory: 0,
                cpu_s: 0,
                owned: None,
                is_own_program: true,
            })
        };
        let code = |result: io::Result<libc::pid_t>| result.err().and_then(|error| error.raw_os_error());
        assert_eq!(code(start(c"/nonexistent", c"/")), Some(libc::ENOENT));
        assert_eq!(code(start(c"/etc/passwd", c"/")), Some(libc::EACCES));
        assert_eq!(code(start(c"/bin/true", c"/nonexistent")), Some(libc::ENOENT));
        let pid = start(c"/bin/true", c"/").expect("it is there");
        let mut status = 1;
        // SAFETY: the kernel writes one number.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        assert_eq!(status, 0);
    }
}
