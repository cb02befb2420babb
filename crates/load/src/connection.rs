//! What the loop knows of one connection.

use crate::response::Parser;
use crate::transport::Stream;

/// Where a connection stands.
///
/// ```text
/// Closed -> Connecting -> Handshaking -> Busy <-> Idle
///    ^                                    |        |
///    +------------ Lingering <------------+        |
///    +---------------------------------------------+
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The slot is free.
    Closed,
    /// The connect call is under way; its first requests wait.
    Connecting,
    /// The TLS handshake is under way; its first requests wait.
    Handshaking,
    /// Requests are under way.
    Busy,
    /// Open, with nothing to do.
    Idle,
    /// Done with; the server is given the time to close first, so that the port stays free here.
    Lingering,
}

/// Requests that go out in one write; without pipelining that is one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Batch {
    /// Requests of it that are not over.
    pub(crate) left: u32,
    /// Requests of it that went over this connection and are over.
    pub(crate) answered: u32,
    pub(crate) intended_ns: u64,
    pub(crate) started_ns: u64,
    /// Just before the write; 0 = not written.
    pub(crate) sent_ns: u64,
    /// Position of its first request's first byte in the stream to the server.
    pub(crate) request_offset: u64,
    /// Of the response that is awaited: when its first byte came; 0 = none has.
    pub(crate) first_byte_ns: u64,
    /// Of the response that is awaited: position of its first byte in the stream from the server.
    pub(crate) response_offset: u64,
    /// Whether it waited for its connection to be opened.
    pub(crate) opened: bool,
    /// Whether it was sent before, on a connection that ended without answering it.
    pub(crate) retried: bool,
}

/// A slot for a connection; slots are reused, their allocations with them.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) phase: Phase,
    /// Distinguishes the uses of a slot, so that events of a former one are known as such.
    pub(crate) generation: u32,
    pub(crate) stream: Option<Stream>,
    /// The generator's number of the connection, unique in the run.
    pub(crate) number: u64,
    /// Which of the host's addresses it goes to.
    pub(crate) address: usize,
    pub(crate) connect_start_ns: u64,
    /// Responses that came over it.
    pub(crate) responses: u64,
    pub(crate) batch: Batch,
    /// Bytes at the end of the batch that are still to be written.
    pub(crate) unsent: usize,
    pub(crate) parser: Parser,
    /// Whether the server is known to have ended its stream.
    pub(crate) hung_up: bool,
    /// Whether its receptions and transmissions go through the ring.
    pub(crate) in_ring: bool,
    /// Whether it waits for its turn to be read on.
    pub(crate) listed_unread: bool,
    /// When a lingering connection is closed at the latest.
    pub(crate) linger_until_ns: u64,
}

impl Connection {
    pub(crate) fn new(head_only: bool) -> Self {
        Self {
            phase: Phase::Closed,
            generation: 0,
            stream: None,
            number: 0,
            address: 0,
            connect_start_ns: 0,
            responses: 0,
            batch: Batch::default(),
            unsent: 0,
            parser: Parser::new(head_only),
            hung_up: false,
            in_ring: false,
            listed_unread: false,
            linger_until_ns: 0,
        }
    }

    /// Whether nothing of the requests that are under way has reached the kernel.
    pub(crate) fn is_unsent(&self) -> bool {
        self.stream.as_ref().is_none_or(|stream| stream.sent == self.batch.request_offset)
    }
}
