//! A small process that ends our children when we can no longer do it ourselves.
//!
//! Dropping a process value ends what it started, also when a panic unwinds. That does not help
//! when we are killed: then the kernel ends the direct children (`PR_SET_PDEATHSIG`), but not what
//! they have forked, such as a server's workers. The guardian reads a pipe of which we hold the
//! other end, so it sees our end however it comes, and then kills every process group that it was
//! told of and the experiment's control groups, and removes those. Where there are no such groups it
//! looks for the experiment's mark in the environment of every process: a daemon that left its group
//! and its session has it still.
//!
//! It is a fork without exec of a program with several threads, so it may only call what is safe
//! in a signal handler: no allocation, no locks.
mod marked;

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, PipeWriter, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::left_behind::MARK;
use marked::end_marked;

/// Process groups that can be watched at a time: an experiment has at most four.
const WATCHED_MAX: usize = 32;
/// The guardian's descriptors: the pipe that it reads, and the file that kills a control group.
const ORDERS: RawFd = 0;
const KILL_FILE: RawFd = 1;

/// The guardian of one experiment. When dropped, it has cleaned up and ended.
#[derive(Debug)]
pub struct Guardian {
    /// `None` only while being dropped.
    orders: Option<PipeWriter>,
    pid: libc::pid_t,
    /// What the marks of all that this experiment starts begin with.
    marks: String,
    marked: AtomicU64,
}

impl Guardian {
    /// Starts one. At its end `kill_file` (of a control group) is written to, and the
    /// `directories` are removed in their order, and so is `folder` with all that is in it.
    ///
    /// # Errors
    /// What the system says of the pipe or the fork.
    pub fn start(kill_file: Option<&File>, directories: &[CString], folder: Option<&CStr>) -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        let kill_file = kill_file.map(File::as_raw_fd);
        // No other experiment has them: not one of this process, and not one of a process that had its number.
        static STARTED: AtomicU64 = AtomicU64::new(0);
        let now_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let marks = format!("{}.{now_ns:x}.{}-", std::process::id(), STARTED.fetch_add(1, Ordering::Relaxed));
        let variable = format!("{MARK}={marks}");
        // SAFETY: the child calls nothing but what is safe after a fork of a threaded process,
        // and never returns.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            // SAFETY: we are the child; the descriptors were inherited and are open.
            0 => unsafe { guard(reader.as_raw_fd(), kill_file, directories, folder, variable.as_bytes()) },
            pid => Ok(Self { orders: Some(writer), pid, marks, marked: AtomicU64::new(0) }),
        }
    }

    /// From now on the process group `pid` is killed when we end.
    pub fn watch(&self, pid: libc::pid_t) {
        self.order(pid);
    }

    /// What a child calls between fork and exec so that its process group is watched from before it is anything: were it
    /// watched by our word, we could be killed in between. The guardian has to be there until the child is.
    pub fn joining(&self) -> impl Fn() -> io::Result<()> + Send + Sync + 'static {
        let pipe = self.orders.as_ref().map(AsRawFd::as_raw_fd);
        move || {
            // SAFETY: all calls are allowed between fork and exec, on a descriptor that was inherited and four bytes of ours.
            // Where the guardian was killed the write fails, which is no reason to die of it.
            unsafe {
                let order = libc::getpid().to_ne_bytes();
                let before = libc::signal(libc::SIGPIPE, libc::SIG_IGN);
                if let Some(pipe) = pipe {
                    libc::write(pipe, order.as_ptr().cast(), order.len());
                }
                libc::signal(libc::SIGPIPE, before);
            }
            Ok(())
        }
    }

    /// From now on it is not ended by the guardian: another process may soon get its number.
    pub fn release(&self, pid: libc::pid_t) {
        self.order(-pid);
    }

    /// What a process that is about to be started, and all that it starts, is to be known by: the value of
    /// `WEIR_COMPARE_SUBJECT` in its environment.
    pub fn mark(&self) -> String {
        format!("{}{}", self.marks, self.marked.fetch_add(1, Ordering::Relaxed))
    }

    fn order(&self, order: i32) {
        // Fails only when the guardian was killed; our own ends still end the children then.
        let _lost = self.orders.as_ref().map(|mut pipe| pipe.write_all(&order.to_ne_bytes()));
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        drop(self.orders.take());
        // SAFETY: the guardian is our child, and no other thread waits for it.
        unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), 0) };
    }
}

/// The guardian's life.
///
/// # Safety
/// Only in the child after a fork, with open descriptors.
unsafe fn guard(
    orders: RawFd,
    kill_file: Option<RawFd>,
    directories: &[CString],
    folder: Option<&CStr>,
    variable: &[u8],
) -> ! {
    // SAFETY: system calls on our own descriptors and on memory that outlives the calls.
    unsafe {
        stand_apart(orders, kill_file);
        let watched = watch_until_the_end();
        for group in watched.iter().filter(|group| **group > 1) {
            libc::kill(-*group, libc::SIGKILL);
        }
        if kill_file.is_some() {
            libc::write(KILL_FILE, c"1".as_ptr().cast(), 1);
        } else {
            end_marked(variable);
        }
        remove_groups(directories);
        if let Some(folder) = folder {
            // Another program may allocate memory, as walking through folders takes.
            for program in [c"/bin/rm", c"/usr/bin/rm"] {
                let words = [c"rm".as_ptr(), c"-rf".as_ptr(), c"--".as_ptr(), folder.as_ptr(), std::ptr::null()];
                libc::execve(program.as_ptr(), words.as_ptr(), words[4..].as_ptr());
            }
        }
        libc::_exit(0)
    }
}

/// Leaves the terminal, and every descriptor but [`ORDERS`] and [`KILL_FILE`], which become these two.
///
/// # Safety
/// As for [`guard`].
unsafe fn stand_apart(orders: RawFd, kill_file: Option<RawFd>) {
    // SAFETY: system calls on our own descriptors.
    unsafe {
        // Out of the terminal's reach: Ctrl-C is for the others.
        libc::setsid();
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGPIPE] {
            libc::signal(signal, libc::SIG_IGN);
        }
        libc::prctl(libc::PR_SET_NAME, c"weir-guardian".as_ptr());
        // Copies above everything we keep, so that neither overwrites the other; then nothing
        // else of what we inherited stays open, least of all our own writing end of the pipe.
        let orders = libc::fcntl(orders, libc::F_DUPFD, 10);
        let kill_file = kill_file.map(|file| libc::fcntl(file, libc::F_DUPFD, 10));
        libc::dup2(orders, ORDERS);
        match kill_file {
            Some(file) => libc::dup2(file, KILL_FILE),
            None => libc::close(KILL_FILE),
        };
        if libc::syscall(libc::SYS_close_range, 2_u32, u32::MAX, 0_u32) != 0 {
            for descriptor in 2..4096 {
                libc::close(descriptor);
            }
        }
    }
}

/// Takes orders until the process that gives them has ended: the process groups that are watched then, and zeros.
///
/// # Safety
/// As for [`guard`], after [`stand_apart`].
unsafe fn watch_until_the_end() -> [i32; WATCHED_MAX] {
    let mut watched = [0_i32; WATCHED_MAX];
    loop {
        let mut order = 0_i32;
        // SAFETY: a system call on our own descriptor and on memory that outlives it.
        let count = unsafe { libc::read(ORDERS, (&raw mut order).cast(), size_of::<i32>()) };
        // SAFETY: the number of the last error is always there.
        if count == -1 && unsafe { *libc::__errno_location() } == libc::EINTR {
            continue;
        }
        if count != size_of::<i32>() as isize {
            return watched;
        }
        let (old, new) = if order > 0 { (0, order) } else { (-order, 0) };
        if let Some(slot) = watched.iter_mut().find(|slot| **slot == old) {
            *slot = new;
        }
    }
}

/// Removes control groups. One can be removed once its last process is gone, which takes a moment.
///
/// # Safety
/// As for [`guard`].
unsafe fn remove_groups(directories: &[CString]) {
    for _ in 0..200 {
        let mut left = 0;
        for directory in directories {
            // SAFETY: a system call on memory that outlives it; the number of the last error is always there.
            if unsafe { libc::rmdir(directory.as_ptr()) != 0 && *libc::__errno_location() != libc::ENOENT } {
                left += 1;
            }
        }
        if left == 0 {
            break;
        }
        // SAFETY: a system call on memory that outlives it.
        unsafe { libc::nanosleep(&libc::timespec { tv_sec: 0, tv_nsec: 10_000_000 }, std::ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::Command;

    #[test]
    fn what_is_watched_ends_with_us_and_what_is_released_stays() {
        let guardian = Guardian::start(None, &[], None).expect("a fork");
        let sleeper = || Command::new("sleep").arg("60").process_group(0).spawn().expect("sleep is there");
        let (mut watched, mut released) = (sleeper(), sleeper());
        guardian.watch(watched.id() as i32);
        guardian.watch(released.id() as i32);
        guardian.release(released.id() as i32);
        drop(guardian);
        assert_eq!(watched.wait().expect("our child").signal(), Some(libc::SIGKILL));
        assert!(released.try_wait().expect("our child").is_none());
        released.kill().expect("our child");
        released.wait().expect("our child");
    }

    #[test]
    fn a_child_that_joins_by_itself_ends_with_us() {
        let guardian = Guardian::start(None, &[], None).expect("a fork");
        let mut sleeper = Command::new("sleep");
        // SAFETY: it is made for this place.
        unsafe { sleeper.arg("60").process_group(0).pre_exec(guardian.joining()) };
        let mut sleeper = sleeper.spawn().expect("sleep is there");
        drop(guardian);
        assert_eq!(sleeper.wait().expect("our child").signal(), Some(libc::SIGKILL));
    }

    #[test]
    fn what_has_our_mark_ends_with_us_wherever_it_went() {
        let (ours, another) = [(); 2].map(|()| Guardian::start(None, &[], None).expect("a fork")).into();
        let sleeper = |mark: String| {
            let mut command = Command::new("sleep");
            // Behind more than is read at a time.
            command.arg("60").env("A", "x".repeat(9000)).env(MARK, mark).process_group(0);
            command.spawn().expect("sleep is there")
        };
        let (mut left, mut stays) = (sleeper(ours.mark()), sleeper(another.mark()));
        // The kernel shows the environment a moment after the program was exchanged.
        let shown = |pid: u32| std::fs::read(format!("/proc/{pid}/environ")).is_ok_and(|text| text.len() > 9000);
        let began = std::time::Instant::now();
        while !(shown(left.id()) && shown(stays.id())) && began.elapsed().as_secs() < 10 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        drop(ours);
        assert_eq!(left.wait().expect("our child").signal(), Some(libc::SIGKILL));
        assert!(stays.try_wait().expect("our child").is_none());
        drop(another);
        assert_eq!(stays.wait().expect("our child").signal(), Some(libc::SIGKILL));
    }
}
