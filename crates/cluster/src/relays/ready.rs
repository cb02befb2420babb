//! Waits until one of several sockets is ready.

use std::io::{self, Read, Write};
use std::os::fd::RawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// What a socket is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// It has something to be read, or has ended.
    Input,
    /// It has room, or the other end is closed.
    Room,
    /// The other end is closed.
    End,
}

/// What a socket is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ready {
    No,
    /// As it was wanted.
    Yes,
    /// Its other end is closed, and there is nothing to be read.
    Ended,
}

/// Waits at most so long; how each of the sockets is. All are not ready where the system fails, and the caller looks again.
pub(super) fn wait(sockets: &[(RawFd, Wanted)], most: Duration) -> Vec<Ready> {
    let of = |(socket, wanted): &(RawFd, Wanted)| libc::pollfd {
        fd: *socket,
        events: match wanted {
            Wanted::Input => libc::POLLIN,
            Wanted::Room => libc::POLLOUT,
            Wanted::End => 0,
        },
        revents: 0,
    };
    let mut polled: Vec<libc::pollfd> = sockets.iter().map(of).collect();
    let most_ms = i32::try_from(most.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: the structures live over the call, which fills them; a descriptor that is closed is told as such.
    let ready = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, most_ms) };
    let state = |polled: &libc::pollfd| match polled.revents {
        _ if ready <= 0 => Ready::No,
        events if events & (libc::POLLERR | libc::POLLNVAL) != 0 => Ready::Ended,
        // What was sent before the end is still to be read.
        events if events & libc::POLLIN != 0 => Ready::Yes,
        events if events & libc::POLLHUP != 0 => Ready::Ended,
        0 => Ready::No,
        _ => Ready::Yes,
    };
    polled.iter().map(state).collect()
}

/// The kernel's number of a socket, by which two descriptors of it are known; 0 where the system fails.
pub(super) fn number(socket: RawFd) -> u64 {
    // SAFETY: all zeros is a valid value of this plain structure.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel fills the structure, which lives over the call.
    let read = unsafe { libc::fstat(socket, &raw mut stat) };
    if read == 0 { stat.st_ino } else { 0 }
}

/// Bytes that can be read from a socket.
pub(super) fn unread(socket: RawFd) -> u64 {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes one number (unix(7), SIOCINQ), which lives over the call.
    let read = unsafe { libc::ioctl(socket, libc::FIONREAD, &raw mut bytes) };
    if read == 0 { u64::try_from(bytes).unwrap_or(0) } else { 0 }
}

/// Ends the waiting of another thread.
#[derive(Debug)]
pub(super) struct Bell {
    rung: UnixStream,
    heard: UnixStream,
}

impl Bell {
    pub(super) fn new() -> io::Result<Self> {
        let (rung, heard) = UnixStream::pair()?;
        rung.set_nonblocking(true)?;
        heard.set_nonblocking(true)?;
        Ok(Self { rung, heard })
    }

    pub(super) fn ring(&self) {
        // Where it is full, it rings already.
        let _ = (&self.rung).write(&[1]);
    }

    pub(super) fn heard(&self) -> &UnixStream {
        &self.heard
    }

    /// It was heard.
    pub(super) fn reset(&self) {
        let mut bytes = [0; 256];
        while matches!((&self.heard).read(&mut bytes), Ok(256)) {}
    }
}
