//! The addresses of a client's connection, as programs behind the server are told them.

use crate::exchange::application::RequestHead;
use socket2::SockRef;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

/// Both ends of a connection, as far as they are known.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Endpoints {
    /// The client's port; 0 if another process has passed the request on.
    pub(crate) client_port: u16,
    pub(crate) local: Option<SocketAddr>,
}

impl Endpoints {
    /// Those of a request that has just come: the kernel is asked.
    pub(crate) fn of(head: &RequestHead<'_>) -> Self {
        let Some(fd) = head.socket else { return Self::default() };
        // SAFETY: a request begins while its connection is open, and the handle is gone before that closes.
        let socket = unsafe { BorrowedFd::borrow_raw(fd) };
        let socket = SockRef::from(&socket);
        let local = socket.local_addr().ok().and_then(|address| address.as_socket());
        let peer = socket.peer_addr().ok().and_then(|address| address.as_socket());
        let is_client = |peer: &SocketAddr| peer.ip().to_canonical() == head.client.to_canonical();
        Self { client_port: peer.filter(is_client).map_or(0, |peer| peer.port()), local }
    }
}
