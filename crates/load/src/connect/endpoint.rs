//! The other end of a connection's socket.

use socket2::SockAddr;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Where a socket is connected to: an address of TCP, or a Unix socket.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    pub(crate) name: SockAddr,
    path: Option<PathBuf>,
}

impl Endpoint {
    /// A Unix socket: a path, or after an `@` a name that is in no file system.
    pub(crate) fn unix(path: &Path) -> io::Result<Self> {
        let name = match path.as_os_str().as_bytes().strip_prefix(b"@") {
            // The kernel tells abstract names by the NUL in front.
            Some(name) => SockAddr::unix(std::ffi::OsStr::from_bytes(&[b"\0", name].concat())),
            None => SockAddr::unix(path),
        };
        Ok(Self { name: name?, path: Some(path.to_path_buf()) })
    }

    /// The address, of TCP.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.name.as_socket()
    }

    /// As events have it: a Unix socket has no address.
    pub(crate) fn told(&self) -> SocketAddr {
        self.address().unwrap_or_else(weir_wire::socket::unknown_address)
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        Self { name: address.into(), path: None }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.address(), &self.path) {
            (Some(address), _) => address.fmt(formatter),
            (None, Some(path)) => path.display().fmt(formatter),
            (None, None) => formatter.write_str("unknown"),
        }
    }
}
