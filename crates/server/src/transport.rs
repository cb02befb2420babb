//! What the bytes of a connection go through: its socket, and TLS above it where the listener speaks TLS.

use crate::epoll;
use crate::pending::Pending;
use crate::send::{self, Sent, Sink, Socket};
use crate::tls::Session;
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// A connected, non-blocking socket, in the clear or not.
#[derive(Debug)]
pub(crate) struct Transport {
    socket: OwnedFd,
    session: Option<Box<Session>>,
    /// The socket holds back what is no whole segment.
    is_corked: bool,
}

impl Transport {
    pub(crate) fn new(socket: OwnedFd, session: Option<Box<Session>>) -> Self {
        Self { socket, session, is_corked: false }
    }

    #[inline]
    pub(crate) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    #[inline]
    pub(crate) fn is_secure(&self) -> bool {
        self.session.is_some()
    }

    /// Whether both sides have agreed on HTTP/2 while they agreed on keys.
    #[inline]
    pub(crate) fn agreed_on_http2(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.agreed_on_http2())
    }

    /// Receives what is there; 0 means that the peer has ended its side.
    #[inline]
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.session {
            None => epoll::receive(self.socket.as_raw_fd(), buffer),
            Some(session) => session.receive(self.socket.as_raw_fd(), buffer),
        }
    }

    /// Sends responses in their order; see [`send::flush`].
    #[inline]
    pub(crate) fn flush(&mut self, queue: &mut [Pending], copied: &mut Vec<u8>) -> (io::Result<Sent>, u64) {
        let fd = self.socket.as_raw_fd();
        match &mut self.session {
            None => send::flush(queue, &mut Socket { fd, copied, is_corked: Some(&mut self.is_corked) }),
            Some(session) => send::flush(queue, &mut session.sealing(fd, copied)),
        }
    }

    /// Sends some of the bytes.
    pub(crate) fn write(&mut self, bytes: &[u8], copied: &mut Vec<u8>) -> io::Result<usize> {
        let fd = self.socket.as_raw_fd();
        let pieces = [IoSlice::new(bytes)];
        match &mut self.session {
            None => Socket { fd, copied, is_corked: None }.send(&pieces, false),
            Some(session) => session.sealing(fd, copied).send(&pieces, false),
        }
    }

    /// Whether bytes that were taken have not gone to the socket.
    #[inline]
    pub(crate) fn holds_output(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.holds_output())
    }

    /// Sends what is held.
    ///
    /// # Errors
    ///
    /// `WouldBlock` while the socket has no room for all of it.
    #[inline]
    pub(crate) fn push(&mut self) -> io::Result<()> {
        match &mut self.session {
            Some(session) => session.push(self.socket.as_raw_fd()),
            None => Ok(()),
        }
    }

    /// Ends our side; the peer still can send.
    pub(crate) fn end_output(&mut self) {
        self.say_goodbye();
        epoll::end_output(self.fd());
    }

    /// Tells the peer that the end is meant, where there are words for it. What does not fit is not waited for.
    pub(crate) fn say_goodbye(&mut self) {
        if let Some(session) = &mut self.session {
            session.say_goodbye(self.socket.as_raw_fd());
        }
    }
}
