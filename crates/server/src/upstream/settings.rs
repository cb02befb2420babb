//! What a configuration says of upstreams.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// What is spoken with an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaks {
    Http1,
    /// HTTP/2 from the first byte, in the clear or over TLS.
    Http2,
    FastCgi,
    Scgi,
    Uwsgi,
}

/// Where an upstream listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    Address(SocketAddr),
    /// A name that is looked up again and again, and a port.
    Name(String, u16),
    Unix(PathBuf),
}

/// One server of an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UpstreamServer {
    pub(crate) place: Place,
    /// Its share among the others, from 1.
    pub(crate) weight: u32,
    /// TLS is spoken, and the certificate is for this name.
    pub(crate) tls_name: Option<String>,
}

/// How long each phase of a request may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UpstreamTimeouts {
    /// Until it is connected, TLS included.
    pub(crate) connect: Duration,
    /// Until it takes more of the request.
    pub(crate) send: Duration,
    /// From the request's last byte to the head of the response.
    pub(crate) head: Duration,
    /// Between two pieces of the body.
    pub(crate) body: Duration,
    /// Without a byte in either direction, behind an upgrade.
    pub(crate) tunnel: Duration,
    /// A connection that is kept without a request.
    pub(crate) idle: Duration,
    /// In the queue for a connection.
    pub(crate) queue: Duration,
}

impl Default for UpstreamTimeouts {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            connect: seconds(5),
            send: seconds(60),
            head: seconds(60),
            body: seconds(60),
            tunnel: seconds(3600),
            idle: seconds(60),
            queue: seconds(10),
        }
    }
}
