//! Which server a response is of.

use weir_wire::socket::SocketOpen;

/// A server's end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ServerEnd {
    /// Inode number of the network namespace, 0 where unknown.
    pub netns: u32,
    /// The TCP port.
    pub port: u16,
}

impl From<&SocketOpen> for ServerEnd {
    fn from(open: &SocketOpen) -> Self {
        Self { netns: open.netns, port: open.local.port() }
    }
}
