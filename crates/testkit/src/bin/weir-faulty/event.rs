//! An event loop: one thread serves all of its connections, so each waits for the others.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use crate::http::{BAD_REQUEST, Inbox, Request};

/// Connections beyond this number are closed at once.
const CONNECTION_LIMIT: usize = 4096;
const EVENTS_AT_ONCE: usize = 64;

/// A connection and what is under way on it.
struct Connection {
    stream: TcpStream,
    inbox: Inbox,
    unsent: Vec<u8>,
    closing: bool,
}

enum Next {
    Keep,
    Close,
}

/// Serves for ever. The handler runs in the loop, for one request at a time; `before` runs when
/// the loop has woken up, before it looks at any connection.
pub(crate) fn serve(
    listener: &TcpListener,
    mut before: impl FnMut(),
    mut handler: impl FnMut(&Request) -> Vec<u8>,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let epoll = Epoll::new()?;
    epoll.add(listener.as_raw_fd(), libc::EPOLLIN)?;
    let mut connections: HashMap<RawFd, Connection> = HashMap::new();
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS_AT_ONCE];
    loop {
        let ready = epoll.wait(&mut events)?;
        before();
        for event in &events[..ready] {
            let fd = event.u64 as RawFd;
            if fd == listener.as_raw_fd() {
                accept(listener, &epoll, &mut connections)?;
            } else if let Some(connection) = connections.get_mut(&fd) {
                match connection.advance(&mut handler) {
                    Ok(Next::Keep) => epoll.change(fd, connection.interest())?,
                    // Closing the descriptor takes it out of the epoll set. A connection that
                    // breaks is the client's affair.
                    Ok(Next::Close) | Err(_) => {
                        connections.remove(&fd);
                    }
                }
            }
        }
    }
}

fn accept(listener: &TcpListener, epoll: &Epoll, connections: &mut HashMap<RawFd, Connection>) -> io::Result<()> {
    // As many as the loop handles at once: the rest is still ready the next time.
    for _ in 0..EVENTS_AT_ONCE {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            // Another loop on the same listener was faster, or the client is gone again.
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionAborted) => {
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        if connections.len() >= CONNECTION_LIMIT {
            continue;
        }
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let fd = stream.as_raw_fd();
        epoll.add(fd, libc::EPOLLIN)?;
        let (inbox, unsent) = (Inbox::default(), Vec::new());
        connections.insert(fd, Connection { stream, inbox, unsent, closing: false });
    }
    Ok(())
}

impl Connection {
    /// Sends, reads once, and answers what is complete.
    fn advance(&mut self, handler: &mut impl FnMut(&Request) -> Vec<u8>) -> io::Result<Next> {
        self.send()?;
        // A client that does not read its answers is not read from either.
        if self.unsent.is_empty() && !self.closing {
            let mut buffer = [0; 16 << 10];
            match self.stream.read(&mut buffer) {
                Ok(0) => return Ok(Next::Close),
                Ok(length) => self.inbox.push(&buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        while !self.closing {
            match self.inbox.take() {
                Ok(Some(request)) => {
                    let answer = handler(&request);
                    self.unsent.extend_from_slice(&answer);
                    self.closing = !request.keep_alive;
                    // Each answer leaves when it is ready, not with the last of a pipeline.
                    self.send()?;
                }
                Ok(None) => break,
                Err(crate::http::Malformed) => {
                    self.unsent.extend_from_slice(BAD_REQUEST);
                    self.closing = true;
                    self.send()?;
                }
            }
        }
        Ok(if self.closing && self.unsent.is_empty() { Next::Close } else { Next::Keep })
    }

    fn send(&mut self) -> io::Result<()> {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(length) => drop(self.unsent.drain(..length)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn interest(&self) -> Option<i32> {
        (!self.unsent.is_empty()).then_some(libc::EPOLLIN | libc::EPOLLOUT)
    }
}

/// The epoll of a loop.
pub(crate) struct Epoll {
    fd: OwnedFd,
    /// Descriptors that also wait to be written to; seldom any.
    waiting_to_send: std::cell::RefCell<Vec<RawFd>>,
}

impl Epoll {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: epoll_create1 touches no memory; the descriptor is checked before it is owned.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is open, and nothing else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { fd, waiting_to_send: std::cell::RefCell::default() })
    }

    pub(crate) fn add(&self, fd: RawFd, events: i32) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, events)
    }

    /// Waits for room to send too, or no longer; without a system call where nothing changes.
    fn change(&self, fd: RawFd, sending: Option<i32>) -> io::Result<()> {
        let mut waiting = self.waiting_to_send.borrow_mut();
        let position = waiting.iter().position(|known| *known == fd);
        match (position, sending) {
            (None, Some(events)) => {
                waiting.push(fd);
                self.control(libc::EPOLL_CTL_MOD, fd, events)
            }
            (Some(position), None) => {
                waiting.swap_remove(position);
                self.control(libc::EPOLL_CTL_MOD, fd, libc::EPOLLIN)
            }
            _ => Ok(()),
        }
    }

    fn control(&self, operation: i32, fd: RawFd, events: i32) -> io::Result<()> {
        let mut event = libc::epoll_event { events: events as u32, u64: fd as u64 };
        // SAFETY: the event lives through the call, which only reads it.
        let result = unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), operation, fd, &mut event) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    pub(crate) fn wait(&self, events: &mut [libc::epoll_event]) -> io::Result<usize> {
        loop {
            // SAFETY: the kernel writes at most as many events as the slice has.
            let ready = unsafe { libc::epoll_wait(self.fd.as_raw_fd(), events.as_mut_ptr(), events.len() as i32, -1) };
            if ready >= 0 {
                return Ok(ready as usize);
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }
}
