//! Copies of live connections whose responses take long, for another node to go on with them where this one dies.

use crate::io::connection_facts::ConnectionFacts;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;
use zeroize::Zeroizing;

/// After which time a response is copied: a short one costs nothing.
pub(crate) const COPIED_AFTER: Duration = Duration::from_millis(20);
/// A response that goes on for so many bytes is copied again: positions are compared by sequence numbers, which wrap.
pub(crate) const COPIED_AGAIN_BYTES: u64 = 512 << 20;

/// A connection that goes on here, as another server could go on with it.
pub struct SessionCopy {
    /// The client's end.
    pub peer: SocketAddr,
    /// The server's end.
    pub local: SocketAddr,
    /// As [`crate::TakenSession::session`], once [`crate::place_session`] has said how far its response came.
    pub session: Zeroizing<Vec<u8>>,
    /// Bytes of the response under way that were given to the kernel when `facts` were read; over TLS, bytes of its records
    /// as far as they are known.
    pub offset: u64,
    /// All bytes of that response, or of these records.
    pub response_bytes: u64,
    /// What the kernel said of the socket.
    pub facts: ConnectionFacts,
    /// Another descriptor of the socket, for a process that outlives this one; none where no more can be made. The server
    /// ends the connection itself, also while this is open elsewhere.
    pub socket: Option<OwnedFd>,
}

impl fmt::Debug for SessionCopy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("SessionCopy");
        shown
            .field("peer", &self.peer)
            .field("offset", &self.offset)
            .field("facts", &self.facts)
            .finish_non_exhaustive()
    }
}

/// What has changed since the last call of [`crate::Control::copy_sessions`].
#[derive(Debug, Default)]
pub struct SessionCopies {
    /// Connections that were not copied since their response began, or not since it came far.
    pub copies: Vec<SessionCopy>,
    /// Connections (the client's end, the server's) whose copied response is over.
    pub ended: Vec<(SocketAddr, SocketAddr)>,
    /// Connections that send now and cannot be copied: how many, by the reason.
    pub left_out: BTreeMap<&'static str, u64>,
}

/// Of which sessions copies are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CopyRound {
    /// Those that have not been copied yet, or came far since.
    Changed,
    /// All whose response takes long: what was copied before is lost.
    All,
}

/// Whether the keys of TLS go with the copies: another node that has them can read and write what the connection says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsKeys {
    /// They do, so that downloads over TLS go on elsewhere as well.
    Copied,
    /// They stay here: connections over TLS are not copied.
    StayHere,
}

/// Why a connection that sends is not copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotCopied {
    /// HTTP/2: its client sends while it receives, and what a dead node has acknowledged is gone.
    Http2,
    /// TLS: its keys cannot be given away.
    Tls,
    /// TLS, by [`TlsKeys::StayHere`].
    TlsByChoice,
    /// TLS: it is not known where records end that the client has not acknowledged.
    TlsEarlier,
    /// TLS: it goes over to other keys before the response is over.
    TlsUpdates,
    /// Its answer comes of an application, an upstream, or rules.
    Made,
    /// A request's body is under way, or it is a tunnel.
    Body,
    /// Further requests wait behind it.
    Pipelined,
    /// The loop is in the middle of something; the next look is some milliseconds later.
    Busy,
}

impl NotCopied {
    /// Whether it stays so as long as the response lasts.
    pub(crate) const fn is_lasting(self) -> bool {
        matches!(self, Self::Http2 | Self::Tls | Self::TlsByChoice | Self::Made)
    }

    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Http2 => "HTTP/2",
            Self::Tls => "TLS of which the keys cannot be given away",
            Self::TlsByChoice => "TLS, whose keys are not given away",
            Self::TlsEarlier => "TLS, until the client has earlier records",
            Self::TlsUpdates => "TLS that goes over to other keys",
            Self::Made => "answered by an upstream, a script or rules",
            Self::Body => "a request body or a tunnel",
            Self::Pipelined => "further requests wait behind the response",
            Self::Busy => "in the middle of a step",
        }
    }
}
