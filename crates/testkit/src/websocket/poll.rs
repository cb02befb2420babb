//! Sockets that do not block, and what tells which of them are ready.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Bytes that are received at once.
const RECEIVED_BYTES_MAX: usize = 16 << 10;

/// An instance of epoll(7).
#[derive(Debug)]
pub(super) struct Poll(OwnedFd);

impl Poll {
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: the call takes no pointers.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and has no other owner.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Tells of new input and room of a socket, by this number.
    pub(super) fn add(&self, socket: &impl AsRawFd, number: u64) -> io::Result<()> {
        let events = (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET).cast_unsigned();
        let mut event = libc::epoll_event { events, u64: number };
        // SAFETY: the structure lives over the call, which reads it.
        let added =
            unsafe { libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_ADD, socket.as_raw_fd(), &raw mut event) };
        if added < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// The numbers of sockets that have something to do, after at most so long.
    pub(super) fn wait(&self, timeout_ms: i32) -> Vec<u64> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 256];
        // SAFETY: the array lives over the call, which fills at most its length.
        let count = unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), 256, timeout_ms) };
        events[..usize::try_from(count).unwrap_or(0)].iter().map(|event| event.u64).collect()
    }
}

/// A socket with what was received and what is to be sent.
#[derive(Debug)]
pub(super) struct Buffered {
    pub(super) stream: TcpStream,
    pub(super) input: Vec<u8>,
    pub(super) output: Vec<u8>,
    /// The peer sends nothing more.
    pub(super) has_ended: bool,
}

impl Buffered {
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let _ = stream.set_nodelay(true);
        Ok(Self { stream, input: Vec::new(), output: Vec::new(), has_ended: false })
    }

    /// Receives some of what there is; whether there may be more.
    pub(super) fn fill(&mut self) -> io::Result<bool> {
        let mut piece = [0; RECEIVED_BYTES_MAX];
        while !self.has_ended {
            match self.stream.read(&mut piece) {
                Ok(0) => self.has_ended = true,
                Ok(count) => {
                    self.input.extend_from_slice(&piece[..count]);
                    return Ok(true);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Sends what the socket takes.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(count) => drop(self.output.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if self.output.is_empty() {
            self.output = Vec::new();
        }
        Ok(())
    }
}
