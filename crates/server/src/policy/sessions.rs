//! A live connection given to another server, or taken in from one: what the caller gets, and why it is refused.

use crate::policy::popularity::AskedPath;
use crate::policy::session_copies::{CopyRound, SessionCopies, TlsKeys};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use thiserror::Error;
use zeroize::Zeroizing;

/// Bytes of a request's body that may still be to come when a connection moves.
pub(crate) const BODY_BYTES_MAX: u64 = 64 << 10;
/// Bytes of a session.
pub(crate) const SESSION_BYTES_MAX: usize = 4 << 20;

/// A connection that was stopped and taken out of a server: [`crate::Control::take_session`].
///
/// Nothing is written to the connection any more. Dropping this closes the connection.
pub struct TakenSession {
    /// The connected socket, which does not block.
    pub fd: OwnedFd,
    /// What another server needs to go on, in a versioned form of this crate's own; see [`SessionSummary::read`]. The keys
    /// of a TLS session are in it: it is wiped when it is dropped, and is to be kept and sent as a key is.
    pub session: Zeroizing<Vec<u8>>,
    /// How many of the bytes that were given to the kernel last the session can make again
    /// ([`crate::Control::session_bytes`]): those of the response under way, its head included; 0 between responses.
    pub known_bytes: u64,
    /// What the server goes on making of the responses under way, such as those of upstreams, or another server. What comes
    /// by them belongs to those that [`crate::Control::adopt_session`] gets, in the same order, and the end of one is the end
    /// of the other.
    pub relays: Vec<TakenRelay>,
}

/// A response that another server makes than the one that sends it.
pub struct TakenRelay {
    /// By this it comes: a stream socket of the Unix domain, which does not block. Where the server that gives the session
    /// away did not make the response itself, it is the socket that this server got for it.
    pub socket: OwnedFd,
    /// What came by the socket and was not used up: it stands before what is still to come.
    pub before: Vec<u8>,
}

impl From<OwnedFd> for TakenRelay {
    fn from(socket: OwnedFd) -> Self {
        Self { socket, before: Vec::new() }
    }
}

impl fmt::Debug for TakenRelay {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.before.len();
        formatter.debug_struct("TakenRelay").field("socket", &self.socket).field("before_bytes", &bytes).finish()
    }
}

impl fmt::Debug for TakenSession {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never the session's bytes, which may have keys.
        let bytes = self.session.len();
        let mut shown = formatter.debug_struct("TakenSession");
        shown.field("fd", &self.fd).field("session_bytes", &bytes).field("known_bytes", &self.known_bytes);
        shown.field("relays", &self.relays).finish()
    }
}

/// What a session says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionSummary {
    /// The version of its form.
    pub version: u8,
    /// Responses that are not sent to their end.
    pub responses: usize,
    /// Those of them that the server which has given it away goes on making: as many sockets come along.
    pub relays: usize,
    /// Bytes of these responses that are still to be sent.
    pub bytes_to_go: u64,
    /// As in [`TakenSession`].
    pub known_bytes: u64,
}

/// Why a connection is not given away. It goes on where it was.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TakeError {
    /// No loop has such a connection.
    #[error("no connection of {peer} with {local} is open here: name both addresses as the server's socket has them")]
    NoConnection {
        /// The client's end.
        peer: SocketAddr,
        /// The server's end.
        local: SocketAddr,
    },
    /// It was agreed to speak a protocol of which nothing has come.
    #[error("the connection is about to speak {protocol}: ask again when its first request has come")]
    Protocol {
        /// `HTTP/2`.
        protocol: &'static str,
    },
    /// Its TLS session cannot move.
    #[error("{why}; let the connection end here")]
    Tls {
        /// Why, such as a handshake that is not over.
        why: &'static str,
    },
    /// A proxy's header says whose connection it is, and has not come.
    #[error("the PROXY header of the connection has not come: ask again when its first request has")]
    Beginning,
    /// A request's body is under way.
    #[error(
        "a request body is under way that is larger than {BODY_BYTES_MAX} bytes or of unknown length: ask again when \
         it is over"
    )]
    Body,
    /// It is a tunnel, such as a WebSocket.
    #[error("the connection is a tunnel, both ends of which this server does not know: let it end here")]
    Tunnel,
    /// An application, an upstream or its cache answers, and has not begun, or others wait behind it.
    #[error(
        "an application or an upstream answers the request under way, and has not begun to, or takes its body: ask \
             again when its response has begun"
    )]
    Application,
    /// The password of a request is checked.
    #[error("the password of a request is being checked: ask again in some milliseconds")]
    Password,
    /// A request waits for others.
    #[error("a request waits for others to be over: ask again when it is answered")]
    Waiting,
    /// The connection ends.
    #[error("the connection is about to end: let it end here")]
    Ending,
    /// The file of a response is not found by its path any more.
    #[error("the file of the response under way was changed or removed meanwhile: let the response end here")]
    Content,
    /// There is too much of it.
    #[error("the session would have more than {SESSION_BYTES_MAX} bytes: let its responses end here")]
    TooLarge,
    /// The server does not run, or its loops are kept from their work.
    #[error("the server does not answer: start it, or ask again when it is less busy")]
    NoAnswer,
    /// The system refuses a descriptor or a read.
    #[error("the content of the response under way cannot be opened: {source}")]
    System {
        /// What it says.
        source: io::Error,
    },
}

/// Why a connection is not taken in.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AdoptError {
    /// The session's form has another version.
    #[error("the session has the form {version}, and this server knows {known}: let both nodes run the same program")]
    Version {
        /// That of the session.
        version: u8,
        /// That of this server.
        known: u8,
    },
    /// It is no session.
    #[error("the session is damaged ({part}): it was not made by take_session, or was cut on its way")]
    Malformed {
        /// What of it cannot be right.
        part: &'static str,
    },
    /// It names a file by a path that leads out of the root, or is none.
    #[error("the session names a file outside of its root: it was not made by take_session")]
    Path,
    /// This server has no such file.
    #[error("{path} of site {site} cannot be opened: {source}; put the same files and configuration on both nodes")]
    NoContent {
        /// From the root of its site.
        path: String,
        /// The place of the site in the configuration, from 0.
        site: u32,
        /// What the system says.
        source: io::Error,
    },
    /// This server has another file there.
    #[error("{path} of site {site} has other content here: put the same version of it on both nodes")]
    OtherContent {
        /// From the root of its site.
        path: String,
        /// The place of the site in the configuration, from 0.
        site: u32,
    },
    /// Bytes are wanted that the session does not know.
    #[error("the session knows {known_bytes} bytes, and not those from {from} on, {len} of them")]
    Range {
        /// How many it knows.
        known_bytes: u64,
        /// The first that was wanted.
        from: u64,
        /// How many.
        len: u64,
    },
    /// All places are taken.
    #[error("this server has as many connections as it may have, in all or of the client's address")]
    Full,
    /// It stops.
    #[error("this server is about to stop: choose another node")]
    Stopping,
    /// The server does not run, or its loops are kept from their work.
    #[error("the server does not answer: start it, or choose another node")]
    NoAnswer,
    /// The socket is no socket, or the system refuses something of it.
    #[error("the connection's socket cannot be used: {source}")]
    Socket {
        /// What the system says.
        source: io::Error,
    },
}

/// A live connection of a server; see [`crate::Control::sessions`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenSession {
    /// The client's end of the socket.
    pub peer: SocketAddr,
    /// The server's end.
    pub local: SocketAddr,
    /// Whether a response is being sent.
    pub is_sending: bool,
    /// The path of the file whose content it sends, of several the first one; none if it sends none, or the path is no
    /// UTF-8.
    pub path: Option<String>,
}

/// What moves sessions, for orders of other threads.
pub(crate) trait SessionAccess: fmt::Debug + Send + Sync {
    fn list(&self) -> Vec<OpenSession>;

    fn http3_under_way(&self) -> u64;

    fn asked(&self) -> Vec<AskedPath>;

    fn preview(&self, peer: SocketAddr, local: SocketAddr) -> Result<Vec<u8>, TakeError>;

    fn take(&self, peer: SocketAddr, local: SocketAddr) -> Result<TakenSession, TakeError>;

    fn copy(&self, keys: TlsKeys, round: CopyRound) -> SessionCopies;

    fn tell_of_copies_by(&self, eventfd: OwnedFd);

    fn give_back(&self, taken: TakenSession);

    fn bytes(&self, session: &[u8], from: u64, len: u64) -> Result<Vec<u8>, AdoptError>;

    fn adopt(&self, session: &[u8], fd: OwnedFd, relays: Vec<TakenRelay>, peer: SocketAddr) -> Result<(), AdoptError>;
}
