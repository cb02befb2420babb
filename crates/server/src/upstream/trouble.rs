//! What goes wrong between the server and an upstream.

use super::message::Garbled;
use std::io;

/// Why a request to an upstream failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// Nothing listens there, or the network does not lead there.
    #[error("it cannot be connected: {0}")]
    Connect(#[source] io::Error),
    /// It did not take the connection in time.
    #[error("it did not take the connection in time")]
    ConnectLate,
    /// It closed the connection before it had answered.
    #[error("it closed the connection before it had answered")]
    Closed,
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Broken(#[source] io::Error),
    /// It ended the stream of the request (RFC 9113 section 7).
    #[error("it reset the request with the code {0} of HTTP/2")]
    Reset(u32),
    /// It has no tunnels over HTTP/2 (RFC 8441).
    #[error("it takes no WebSockets over HTTP/2; write protocol = \"1.1\" for their paths")]
    NoTunnels,
    /// It did not take the request in time.
    #[error("it did not take the request in time")]
    SendLate,
    /// The head of its response did not come in time.
    #[error("the head of its response did not come in time")]
    HeadLate,
    /// The rest of its response did not come in time.
    #[error("the rest of its response did not come in time")]
    BodyLate,
    /// It sent what is no response.
    #[error("{0}")]
    Garbled(#[from] Garbled),
    /// The client does not say how long its body is, and it is too long to be held until that is known.
    #[error("the client did not say how long its body is (Content-Length), and it has more than 64 KiB")]
    NoLength,
    /// The request cannot be sent to it.
    #[error("the request cannot be sent: {0}")]
    Unsendable(u16),
    /// It answered with a status with which another server is tried.
    #[error("it answered {0}")]
    Answered(u16),
    /// All its places are taken, and so is its queue.
    #[error("all its places are taken, and its queue is full")]
    Full,
    /// The request waited in the queue for too long.
    #[error("the request waited too long for a place")]
    QueueLate,
    /// Those before it would keep the request waiting for longer than `queue_wait`.
    #[error("requests wait for longer than `queue_wait`, so that this one is refused at once")]
    Shed,
}

/// Whether this server lacks descriptors, memory or ports, and the upstream is well.
fn is_own_lack(error: &io::Error) -> bool {
    const LACKS: [i32; 5] = [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM, libc::EADDRNOTAVAIL];
    error.raw_os_error().is_some_and(|code| LACKS.contains(&code))
}

impl Trouble {
    /// Whether the server did not do its part, so that others are asked before it.
    pub(crate) fn is_of_server(&self) -> bool {
        match self {
            Self::Connect(error) => !is_own_lack(error),
            Self::NoLength | Self::Unsendable(_) | Self::NoTunnels | Self::Full | Self::QueueLate | Self::Shed => false,
            _ => true,
        }
    }

    /// The status that the client gets if nothing was sent to it yet.
    pub(crate) fn status(&self) -> u16 {
        match self {
            Self::ConnectLate | Self::SendLate | Self::HeadLate | Self::BodyLate => 504,
            Self::Full | Self::QueueLate | Self::Shed => 503,
            Self::NoLength => 411,
            Self::NoTunnels => 501,
            Self::Answered(status) => *status,
            Self::Unsendable(status) => *status,
            Self::Connect(error) if is_own_lack(error) => 503,
            Self::Connect(_) | Self::Closed | Self::Broken(_) | Self::Reset(_) | Self::Garbled(_) => 502,
        }
    }
}
