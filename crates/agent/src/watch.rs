//! What wakes the agent: announcements, ended processes, questions, its own clock.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Something has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A caller has a question or an order.
    Woken,
    /// Announcements may have come.
    Directory,
    /// A caller connects.
    Caller,
    /// A client has sent its memory.
    Memory,
    /// The process of this client has ended.
    Ended(u32),
}

const WOKEN: u64 = 0;
const DIRECTORY: u64 = 1;
const CALLER: u64 = 2;
const MEMORY: u64 = 3;
const FIRST_CLIENT: u64 = 16;
const MOST_EVENTS: usize = 256;
/// Bytes of a directory's event before its name.
const EVENT_HEAD: usize = 16;

/// Wakes the agent from another thread.
#[derive(Debug, Clone)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    /// Wakes it.
    pub fn wake(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: eight bytes of ours are written to an open descriptor. It fails only if it was woken 2^64 times
        // meanwhile, and then it is awake.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }
}

/// Waits for events.
#[derive(Debug)]
pub struct Watch {
    poll: OwnedFd,
    directory: OwnedFd,
    waker: Waker,
}

/// What came of a call that gives a descriptor.
fn descriptor(result: i32) -> io::Result<OwnedFd> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor, so nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(result) })
}

/// A descriptor of a process, readable once it has ended.
///
/// # Errors
/// When there is no such process, or no descriptor to be had.
pub fn process_descriptor(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: the call takes two numbers.
    let result = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) };
    descriptor(result as i32)
}

impl Watch {
    /// Watches a directory.
    ///
    /// # Errors
    /// When the kernel has no descriptors or watches left.
    pub fn new(path: &Path) -> io::Result<Self> {
        // SAFETY: the calls take numbers.
        let poll = descriptor(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: as above.
        let directory = descriptor(unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) })?;
        // SAFETY: as above.
        let woken = descriptor(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        let path = CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)?;
        let mask = libc::IN_CREATE | libc::IN_MOVED_TO | libc::IN_CLOSE_WRITE | libc::IN_ATTRIB | libc::IN_ONLYDIR;
        // SAFETY: the path is a string that ends with a NUL.
        if unsafe { libc::inotify_add_watch(directory.as_raw_fd(), path.as_ptr(), mask) } < 0 {
            return Err(io::Error::last_os_error());
        }
        let watch = Self { poll, directory, waker: Waker(Arc::new(woken)) };
        watch.add(watch.directory.as_fd(), DIRECTORY)?;
        watch.add(watch.waker.0.as_fd(), WOKEN)?;
        Ok(watch)
    }

    /// A handle that wakes the agent.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Watches for callers.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn callers(&self, listener: BorrowedFd<'_>) -> io::Result<()> {
        self.add(listener, CALLER)
    }

    /// Watches for memories that are sent.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn memories(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.add(socket, MEMORY)
    }

    /// Watches for the end of a client's process.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn client(&self, process: BorrowedFd<'_>, number: u32) -> io::Result<()> {
        // It is told once: the client goes at the next pass.
        self.add_for(process, FIRST_CLIENT + u64::from(number), libc::EPOLLIN | libc::EPOLLONESHOT)
    }

    fn add(&self, what: BorrowedFd<'_>, tag: u64) -> io::Result<()> {
        self.add_for(what, tag, libc::EPOLLIN)
    }

    fn add_for(&self, what: BorrowedFd<'_>, tag: u64, events: i32) -> io::Result<()> {
        let mut event = libc::epoll_event { events: events as u32, u64: tag };
        // SAFETY: both descriptors are open, and the event is ours; the kernel copies it.
        let added =
            unsafe { libc::epoll_ctl(self.poll.as_raw_fd(), libc::EPOLL_CTL_ADD, what.as_raw_fd(), &raw mut event) };
        if added == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Waits for events, at most so long.
    #[must_use]
    pub fn wait(&self, most: Duration) -> Vec<Event> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; MOST_EVENTS];
        // Rounded up: a wait that ends before its time would only be made again.
        let milliseconds = i32::try_from(most.as_micros().div_ceil(1000)).unwrap_or(i32::MAX);
        // SAFETY: the array is ours, and its length is told.
        let count =
            unsafe { libc::epoll_wait(self.poll.as_raw_fd(), events.as_mut_ptr(), MOST_EVENTS as i32, milliseconds) };
        let came = events.iter().take(usize::try_from(count).unwrap_or(0));
        let came: Vec<Event> = came
            .map(|event| match event.u64 {
                WOKEN => Event::Woken,
                DIRECTORY => Event::Directory,
                CALLER => Event::Caller,
                MEMORY => Event::Memory,
                client => Event::Ended((client - FIRST_CLIENT.min(client)) as u32),
            })
            .collect();
        if came.contains(&Event::Woken) {
            let mut word = [0; 8];
            // SAFETY: eight bytes of ours are read into; that nothing is there does not matter.
            unsafe { libc::read(self.waker.0.as_raw_fd(), word.as_mut_ptr().cast(), word.len()) };
        }
        came
    }

    /// Takes the names of entries that have come; `false` = some were lost, and the directory must be looked through.
    pub fn names(&self, mut each: impl FnMut(&OsStr)) -> bool {
        let mut buffer = vec![0u8; 64 << 10];
        // Bounded, so that a process that makes files faster than we read their names does not stall the agent.
        for _ in 0..16 {
            // SAFETY: the buffer is ours, and its length is told.
            let length = unsafe { libc::read(self.directory.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) };
            let Some(bytes) = usize::try_from(length).ok().and_then(|length| buffer.get(..length)) else {
                return true;
            };
            if bytes.is_empty() {
                return true;
            }
            if !read_events(bytes, &mut each) {
                return false;
            }
        }
        false
    }
}

/// Reads the kernel's events of a directory; `false` = some were lost.
fn read_events(mut bytes: &[u8], each: &mut impl FnMut(&OsStr)) -> bool {
    while let Some((head, behind)) = bytes.split_at_checked(EVENT_HEAD) {
        let number = |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        if number(4) & libc::IN_Q_OVERFLOW != 0 {
            return false;
        }
        let Some((name, rest)) = behind.split_at_checked(number(12) as usize) else { return false };
        let length = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        each(OsStr::from_bytes(&name[..length]));
        bytes = rest;
    }
    true
}
