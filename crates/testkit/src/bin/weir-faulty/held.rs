//! Requests wait for a lock that another process, or another thread, holds most of the time.

use std::cell::UnsafeCell;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::options::{Failure, Options};
use crate::work::{monotonic, set_name, sleep_until};
use crate::{blocking, http};

/// The lock that a request takes.
#[derive(Debug, Clone, Copy)]
enum Sort {
    Flock,
    Fcntl,
    Pthread,
}

pub(crate) fn run(mut options: Options) -> Result<(), Failure> {
    let sort = match options.word("LOCK")?.as_str() {
        "flock" => Sort::Flock,
        "fcntl" => Sort::Fcntl,
        "pthread" => Sort::Pthread,
        other => return Err(Failure::Usage(format!("there is no lock `{other}`"))),
    };
    let hold = options.millis("hold-ms", 20)?;
    let gap = options.millis("gap-ms", 5)?;
    if matches!(sort, Sort::Pthread) {
        return pthread(options, hold, gap);
    }
    let path = std::env::temp_dir().join(format!("weir-faulty-{}.lock", std::process::id()));
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
    // Processes that have the file open can use it without its name.
    fs::remove_file(&path)?;
    fork_holder(&file, sort, hold, gap)?;
    let listener = options.listen()?;
    let file = Arc::new(file);
    blocking::serve(&listener, move || {
        // Locks of flock belong to an open file: each connection needs its own.
        let own = reopened(&file);
        move |request: &_| match own.as_ref().map(|own| {
            lock(own.as_raw_fd(), sort, true)?;
            lock(own.as_raw_fd(), sort, false)
        }) {
            Ok(Ok(())) => http::ok(request),
            _ => http::answer(request, "500 Internal Server Error", "the lock was refused\n"),
        }
    })?;
    Ok(())
}

/// The same file, opened once more.
fn reopened(file: &File) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// A process named weir-holder that has the lock for `hold`, leaves it for `gap`, and ends with its parent.
fn fork_holder(file: &File, sort: Sort, hold: Duration, gap: Duration) -> io::Result<()> {
    // SAFETY: this process has one thread.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            set_name(c"weir-holder");
            // SAFETY: prctl with this option touches no memory, and getppid none either.
            let parent = unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                libc::getppid()
            };
            let own = reopened(file);
            // SAFETY: getppid has no preconditions.
            while let (Ok(own), true) = (&own, unsafe { libc::getppid() } == parent) {
                let _ = lock(own.as_raw_fd(), sort, true);
                sleep_until(monotonic() + hold);
                let _ = lock(own.as_raw_fd(), sort, false);
                sleep_until(monotonic() + gap);
            }
            std::process::exit(0)
        }
        _ => Ok(()),
    }
}

fn lock(fd: RawFd, sort: Sort, take: bool) -> io::Result<()> {
    let result = match sort {
        // SAFETY: the descriptor is open; flock touches no memory.
        Sort::Flock => unsafe { libc::flock(fd, if take { libc::LOCK_EX } else { libc::LOCK_UN }) },
        _ => {
            let kind = if take { libc::F_WRLCK } else { libc::F_UNLCK } as libc::c_short;
            let range = libc::flock { l_type: kind, l_whence: 0, l_start: 0, l_len: 1, l_pid: 0 };
            // SAFETY: the descriptor is open, and the range lives through the call, which only reads it.
            unsafe { libc::fcntl(fd, libc::F_SETLKW, &raw const range) }
        }
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The C library's mutex: unlike the standard library's it keeps its holder's number.
struct Mutex(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: the mutex is made for many threads, and is only passed to the calls below.
unsafe impl Sync for Mutex {}

impl Mutex {
    fn lock(&self) {
        // SAFETY: initialised statically, and never moved once threads share it.
        unsafe { libc::pthread_mutex_lock(self.0.get()) };
    }

    fn unlock(&self) {
        // SAFETY: as above; every caller has locked it.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
    }
}

fn pthread(options: Options, hold: Duration, gap: Duration) -> Result<(), Failure> {
    static LOCK: Mutex = Mutex(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
    let listener = options.listen()?;
    thread::spawn(move || {
        set_name(c"weir-lock");
        loop {
            LOCK.lock();
            sleep_until(monotonic() + hold);
            LOCK.unlock();
            sleep_until(monotonic() + gap);
        }
    });
    blocking::serve(&listener, || {
        |request: &_| {
            LOCK.lock();
            LOCK.unlock();
            http::ok(request)
        }
    })?;
    Ok(())
}
