//! The addresses of both ends of a socket.

use socket2::SockRef;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, RawFd};

/// The addresses of both ends of a socket, as far as they are of IP.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends {
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) local: Option<SocketAddr>,
}

impl Ends {
    /// Those of an open socket: the kernel is asked (getpeername(2), getsockname(2)).
    pub(crate) fn of(fd: RawFd) -> Self {
        // SAFETY: the caller's socket is open, and the handle is gone before it closes.
        let socket = unsafe { BorrowedFd::borrow_raw(fd) };
        let socket = SockRef::from(&socket);
        let address = |asked: std::io::Result<socket2::SockAddr>| asked.ok().and_then(|address| address.as_socket());
        Self { peer: address(socket.peer_addr()), local: address(socket.local_addr()) }
    }
}
