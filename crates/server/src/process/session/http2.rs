//! What a connection of HTTP/2 has beside its responses (RFC 9113): windows, the table of header fields, frames that are
//! not whole or not sent.

/// Streams of a connection.
pub(crate) const STREAMS_MAX: usize = 1024;
/// Streams that were ended before the client did, as far as they are remembered.
pub(crate) const ABANDONED_MAX: usize = 256;
/// A connection of HTTP/2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Http2 {
    pub(crate) table: Table,
    pub(crate) has_preface: bool,
    pub(crate) has_settings: bool,
    pub(crate) continued: Option<Continued>,
    /// The place of the stream that has the next turn.
    pub(crate) next: u32,
    /// The last stream that the client has begun.
    pub(crate) last: u32,
    pub(crate) abandoned: Vec<u32>,
    /// The rest of frames that were made already.
    pub(crate) unsent: Vec<u8>,
    pub(crate) carries_streams: bool,
    /// Frames about the connection, which go out next.
    pub(crate) control: Vec<u8>,
    /// Bytes that the client lets the server send, in all and on a new stream; settings can make the windows of streams
    /// negative.
    pub(crate) window: i64,
    pub(crate) stream_window: i64,
    /// The client's bound on the server's table.
    pub(crate) table_bytes: u32,
    pub(crate) table_is_due: bool,
    /// Bytes that the server lets the client send.
    pub(crate) receive_window: i64,
    /// What is left for frames that bring nothing.
    pub(crate) tokens: u64,
    pub(crate) goaway: GoawayState,
    pub(crate) has_heard: bool,
    pub(crate) is_new: bool,
    pub(crate) owes_alt_svc: bool,
    /// Those of the responses, in their order, which is that of their numbers.
    pub(crate) streams: Vec<Stream>,
}

/// The client's table of header fields (RFC 7541 section 2.3.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) bytes_max: usize,
    /// The newest first: name and value in one, and where the value begins.
    pub(crate) entries: Vec<(Vec<u8>, usize)>,
}

/// A block of fields whose further frames are to come (section 6.10).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Continued {
    pub(crate) stream: u32,
    pub(crate) flags: u8,
    pub(crate) depends_on: Option<u32>,
    pub(crate) block: Vec<u8>,
}

/// How far the client was told that the connection ends; times are what is left of them, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GoawayState {
    Unsaid,
    Awaited { left_ms: u64 },
    Announced { left_ms: u64 },
    Said,
}

/// A stream, beside its response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stream {
    pub(crate) id: u32,
    pub(crate) window: i64,
    /// The response waits for the end of the request's body.
    pub(crate) is_held: bool,
    /// The client has ended its side.
    pub(crate) is_received: bool,
    pub(crate) body_expected: Option<u64>,
    pub(crate) body_bytes: u64,
    pub(crate) body_unacknowledged: u32,
    /// Milliseconds since the client last did its part.
    pub(crate) age_ms: u64,
}

impl Http2 {
    /// Bytes that it takes when it is written, or some more.
    pub(super) fn written_bytes(&self) -> usize {
        let table: usize = self.table.entries.iter().map(|(text, _)| text.len() + 8).sum();
        let block = self.continued.as_ref().map_or(0, |continued| continued.block.len());
        let texts = table + block + self.unsent.len() + self.control.len();
        texts + self.abandoned.len() * 4 + self.streams.len() * 64 + 256
    }
}
