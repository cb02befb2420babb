//! The addresses of a client's connection, as programs behind the server are told them.

use crate::exchange::application::RequestHead;
use crate::io::ends::Ends;
use std::net::SocketAddr;

/// Both ends of a connection, as far as they are known.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Endpoints {
    /// The client's port; 0 if another process has passed the request on.
    pub(crate) client_port: u16,
    pub(crate) local: Option<SocketAddr>,
}

impl Endpoints {
    /// Those of a request that has just come: the kernel is asked, once for a connection that keeps them.
    pub(crate) fn of(head: &RequestHead<'_>) -> Self {
        let Some(fd) = head.socket else { return Self::default() };
        let ends = match head.ends {
            Some(kept) => **kept.get_or_init(|| Box::new(Ends::of(fd))),
            None => Ends::of(fd),
        };
        let is_client = |peer: &SocketAddr| peer.ip().to_canonical() == head.client.to_canonical();
        Self { client_port: ends.peer.filter(is_client).map_or(0, |peer| peer.port()), local: ends.local }
    }
}
