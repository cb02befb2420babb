//! What all protocols of upstreams have in common: how a request is written for one, and what its response is made of.
//!
//! A protocol is a state machine without a socket. It writes a request's head and body as bytes, and it reads the bytes
//! of a response as [`Said`]. The handler (`upstream/handler.rs`) has the socket, the time-outs and the flow control.

use crate::exchange::application::RequestHead;
use std::net::IpAddr;

/// Bytes of a response's head, or of an interim response's, that an upstream may send.
pub(crate) const HEAD_BYTES_MAX: usize = 64 << 10;
/// Fields of such a head.
pub(crate) const FIELDS_MAX: usize = 256;

/// A request on its way to an upstream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outgoing<'r> {
    pub(crate) head: RequestHead<'r>,
    /// The target that the upstream is asked for: that of the request, or what the tables of its path made of it.
    pub(crate) target: &'r str,
    /// The client's address, as a trusted proxy told it or as the socket has it.
    pub(crate) client: IpAddr,
    /// Port of the client, if known.
    pub(crate) client_port: u16,
    /// The address and port that the client has reached, if known.
    pub(crate) local: Option<std::net::SocketAddr>,
    /// The user whose password was checked, if one was.
    pub(crate) user: Option<&'r str>,
    /// The number of the request, where scripts and messages have one.
    pub(crate) request_id: Option<u64>,
}

/// How the body of a request goes to an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyFraming {
    /// There is none.
    None,
    /// So many bytes as they are.
    Length(u64),
    /// Chunks of HTTP/1.1, records of FastCGI, frames of HTTP/2: the protocol writes what frames them.
    Framed,
    /// The protocol needs the length first, and the client did not say it: the whole body is held before the request goes
    /// out.
    Unknown,
}

/// The head of a response from an upstream.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct ResponseHead {
    /// 200 to 599, or 101 where the request asked to change protocols.
    pub(crate) status: u16,
    /// Lines of fields, each with CR LF, as the client gets them: without those of the connection (RFC 9110 section
    /// 7.6.1) and without those that frame the message.
    pub(crate) fields: Vec<u8>,
    /// Bytes of the body, if the upstream says so.
    pub(crate) length: Option<u64>,
}

/// A part of a response, in its order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Said<'i> {
    /// An interim response (RFC 9110 section 15.2) other than 100 and 101: its status and lines of fields, filtered as
    /// those of a head are.
    Interim { status: u16, fields: &'i [u8] },
    /// The head.
    Head(ResponseHead),
    /// Bytes of the body.
    Body(&'i [u8]),
    /// Lines of fields behind the body, filtered likewise.
    Trailers(&'i [u8]),
    /// What a program wrote to its log by way of FastCGI's STDERR.
    Log(&'i [u8]),
    /// In place of a head: the program of a gateway leaves the answer to the server. No body follows.
    Instead(Instead),
    /// The response is whole.
    End,
}

/// What the program of a gateway wants in place of a response of its own.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Instead {
    /// The server answers as if the client had asked for this path with GET (RFC 3875 section 6.2.2). It begins with one
    /// slash and may have a query.
    Path(Vec<u8>),
    /// The server answers with a file or a path of its own. The status and the fields of the head belong to that answer;
    /// its length is not known.
    HandOver { to: HandOver, head: ResponseHead },
}

/// Where a program hands a request over to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HandOver {
    /// `X-Accel-Redirect`: a path of the server, which may be closed to clients. It begins with one slash.
    Path(Vec<u8>),
    /// `X-Sendfile`: a file, by its name in the file system.
    File(Vec<u8>),
}

/// Why bytes are no response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Garbled {
    /// A head that cannot be read, or that says two things about where its message ends.
    #[error("the head of its response cannot be read: {0}")]
    Head(&'static str),
    /// A head of more bytes or fields than are taken.
    #[error("the head of its response is larger than {HEAD_BYTES_MAX} bytes or {FIELDS_MAX} fields")]
    TooLarge,
    /// A body whose framing cannot be read.
    #[error("the body of its response cannot be read: {0}")]
    Body(&'static str),
    /// It ended before the response was whole.
    #[error("it ended in the middle of its response")]
    Cut,
    /// Bytes that belong to no response.
    #[error("it sent bytes that belong to no response")]
    Stray,
    /// It refused the request before it ran anything: another upstream may be asked.
    #[error("it refuses the request: {0}")]
    Refused(&'static str),
}
