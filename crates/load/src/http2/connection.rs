//! What the loop knows of one connection, and of each request on it.

use super::Malformed;
use super::frames::{FRAME_BYTES_MAX, Reader};
use super::wire::FIRST_WINDOW_BYTES;
use crate::cookies::CookieJar;
use crate::transport::Stream;
use std::collections::VecDeque;

/// The last number that a stream is given: before it a connection is replaced. There is one for each other number up to
/// 2^31 (RFC 9113 5.1.1); in the tests of this crate they end sooner, so that the end is seen.
const LAST_STREAM: u32 = if cfg!(test) { 1999 } else { 0x7fff_ffff };
/// Streams that are begun before the server has said how many it takes (RFC 9113 6.5.2 recommends no fewer).
pub(super) const STREAMS_AT_FIRST: u32 = 100;

/// Where a connection stands.
///
/// ```text
/// Closed -> Connecting -> Handshaking -> Open -> Leaving
///    ^          |              |           |         |
///    +----------+--------------+-----------+---------+
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The slot is free.
    Closed,
    /// The connect call is under way.
    Connecting,
    /// The TLS handshake is under way.
    Handshaking,
    /// Requests may begin.
    Open,
    /// No request may begin any more; those that did are waited for, and then the server is given the time to close.
    Leaving,
}

/// A request that has begun and is not over.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Exchange {
    /// The number of its stream; 0 = none.
    pub(super) stream: u32,
    /// 0 until it comes.
    pub(super) status: u16,
    /// Which of the plan's requests it is.
    pub(super) ask: u32,
    /// How often it was sent before, in vain.
    pub(super) repeats: u8,
    /// Whether it waited for its connection to be opened.
    pub(super) opened: bool,
    /// Bytes of its frames up to the body.
    pub(super) head_bytes: u32,
    pub(super) intended_ns: u64,
    pub(super) started_ns: u64,
    /// Just before the write of its first byte; 0 = not written.
    pub(super) sent_ns: u64,
    /// When its first frame came; 0 = none has.
    pub(super) first_byte_ns: u64,
    /// Position of its first byte in the stream to the server.
    pub(super) request_offset: u64,
    pub(super) response_offset: u64,
    /// Bytes of the frames of its response.
    pub(super) response_bytes: u64,
    /// Bytes of content, and how many there should be.
    pub(super) content: u64,
    pub(super) expected: Option<u64>,
    /// Bytes of the body that are in frames.
    pub(super) body_sent: usize,
    /// Bytes that the server takes of the body beyond those.
    pub(super) window: i64,
    /// Bytes of content since the server was last told that it may send more.
    pub(super) untold: u32,
    /// Whether it is listed among those with more of a body to send.
    pub(super) sending: bool,
}

impl Exchange {
    /// A frame of its response came, or a piece of one.
    #[inline]
    pub(super) fn heard(&mut self, now_ns: u64, offset: u64, bytes: u32) {
        if self.first_byte_ns == 0 {
            self.first_byte_ns = now_ns;
            self.response_offset = offset;
        }
        self.response_bytes += u64::from(bytes);
    }
}

/// A slot for a connection; slots are reused, their allocations with them.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) phase: Phase,
    /// Whether it counts among those that may be open at a time.
    pub(super) counted: bool,
    /// Distinguishes the uses of a slot, so that events of a former one are known as such.
    pub(super) generation: u32,
    pub(super) stream: Option<Stream>,
    /// The generator's number of the connection, unique in the run.
    pub(super) number: u64,
    /// Which of the host's addresses it goes to.
    pub(super) address: usize,
    /// Which session under way it is of, from 1; 0 = none.
    pub(super) session: u32,
    /// The cookies that its responses set.
    pub(super) jar: CookieJar,
    pub(super) connect_start_ns: u64,
    /// When something last came.
    pub(super) heard_ns: u64,
    /// Responses that came over it.
    pub(super) responses: u64,
    /// Whose it is, of those that are told apart for fairness.
    pub(super) client: u32,
    pub(super) reader: Reader,
    /// Requests by their stream: a stream is numbered so that its place is free, and all places have a number.
    table: Box<[Exchange]>,
    pub(super) active: u32,
    /// The number of the next stream, if its place is free.
    next_stream: u32,
    /// The last number that a stream of it may have.
    last_stream: u32,
    /// Whether it may carry more than one request.
    keep_alive: bool,
    /// What the server takes: streams at a time, bytes of bodies, and in one frame.
    pub(super) streams_max: u32,
    /// Whether the server has said how many streams it takes.
    pub(super) streams_told: bool,
    pub(super) window: i64,
    pub(super) first_window: i64,
    pub(super) frame_bytes: usize,
    /// Bytes that came since the server was last told that it may send more.
    pub(super) untold: u32,
    /// Frames to be written, those before `out_at` written already.
    pub(super) out: Vec<u8>,
    pub(super) out_at: usize,
    /// Position of the beginning of `out` in the stream to the server.
    pub(super) out_offset: u64,
    /// Bytes in `out` that answer the server's own messages: what it may make us hold has a bound.
    pub(super) answers: usize,
    /// Requests whose first byte is not written yet, in order: place and position.
    pub(super) unsent: VecDeque<(u32, u64)>,
    /// Places of requests with more of a body to send, whose windows are open.
    pub(super) senders: VecDeque<u32>,
    /// The first code by which the server said that something is wrong with the connection.
    pub(super) goaway: Option<u32>,
    /// Whether the server is known to have ended its stream.
    pub(super) hung_up: bool,
    /// Whether a write failed, or the last was made: what comes is still read.
    pub(super) broken: bool,
    /// Whether it is listed as one with something to write.
    pub(super) listed_touched: bool,
    /// Whether it is listed as one that can take a request.
    pub(super) listed_roomy: bool,
    /// When a connection that is left is closed at the latest.
    pub(super) linger_until_ns: u64,
}

impl Connection {
    pub(super) fn new(streams: u32, keep_alive: bool) -> Self {
        // With some places to spare the next stream rarely has to be another than the next in number.
        let places = (streams + streams / 4 + 1).next_power_of_two() as usize;
        let last_stream = if keep_alive { LAST_STREAM - 2 * places as u32 } else { 1 };
        let mut connection = Self {
            phase: Phase::Closed,
            counted: false,
            generation: 0,
            stream: None,
            number: 0,
            address: 0,
            session: 0,
            jar: CookieJar::default(),
            connect_start_ns: 0,
            heard_ns: 0,
            responses: 0,
            client: 0,
            reader: Reader::default(),
            table: vec![Exchange::default(); places].into_boxed_slice(),
            active: 0,
            next_stream: 1,
            last_stream,
            keep_alive,
            streams_max: 0,
            streams_told: false,
            window: 0,
            first_window: 0,
            frame_bytes: 0,
            untold: 0,
            out: Vec::new(),
            out_at: 0,
            out_offset: 0,
            answers: 0,
            unsent: VecDeque::with_capacity(streams as usize),
            senders: VecDeque::new(),
            goaway: None,
            hung_up: false,
            broken: false,
            listed_touched: false,
            listed_roomy: false,
            linger_until_ns: 0,
        };
        connection.reset();
        connection
    }

    /// Makes the slot one of a new connection, or of none.
    pub(super) fn reset(&mut self) {
        self.table.fill(Exchange::default());
        self.reader.reset();
        self.out.clear();
        self.unsent.clear();
        self.senders.clear();
        (self.active, self.next_stream, self.responses, self.untold, self.session) = (0, 1, 0, 0, 0);
        (self.out_at, self.out_offset, self.answers) = (0, 0, 0);
        (self.hung_up, self.broken, self.streams_told, self.linger_until_ns) = (false, false, false, 0);
        self.goaway = None;
        self.window = i64::from(FIRST_WINDOW_BYTES);
        self.first_window = i64::from(FIRST_WINDOW_BYTES);
        self.frame_bytes = FRAME_BYTES_MAX;
    }

    /// Whether another request may begin.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.phase == Phase::Open && self.active < self.streams_max && !self.broken && !self.is_used_up()
    }

    /// Whether no stream is left to be begun.
    #[inline]
    pub(super) fn is_used_up(&self) -> bool {
        self.next_stream > self.last_stream
    }

    /// Whether it is to be left: while the last of many requests are under way, so that another is open before they are
    /// over; but only after a single one, as the next connection's would be one more than may be under way.
    pub(super) fn is_to_be_left(&self) -> bool {
        self.is_used_up() && (self.keep_alive || self.active == 0)
    }

    /// Puts a request on a stream of its own; gives its place.
    ///
    /// Called only where there is room: fewer requests are under way than there are places.
    #[inline]
    pub(super) fn place(&mut self, exchange: Exchange) -> (u32, &mut Exchange) {
        let mask = self.table.len() - 1;
        while self.table[(self.next_stream >> 1) as usize & mask].stream != 0 {
            self.next_stream += 2;
        }
        let stream = self.next_stream;
        let place = (stream >> 1) as usize & mask;
        self.next_stream += 2;
        self.active += 1;
        let slot = &mut self.table[place];
        *slot = Exchange { stream, ..exchange };
        (place as u32, slot)
    }

    /// The place of a stream's request, if that is not over.
    #[inline]
    pub(super) fn find(&self, stream: u32) -> Option<u32> {
        let place = (stream >> 1) as usize & (self.table.len() - 1);
        (stream != 0 && self.table[place].stream == stream).then_some(place as u32)
    }

    /// A frame came of a stream that has no request: one that is over, so that it is passed over, or one that never was.
    pub(super) fn pass_over(&self, stream: u32) -> Result<(), Malformed> {
        if stream.is_multiple_of(2) || stream >= self.next_stream {
            return Err(Malformed::protocol("a frame of a stream that was not begun"));
        }
        Ok(())
    }

    #[inline]
    pub(super) fn at(&mut self, place: u32) -> &mut Exchange {
        &mut self.table[place as usize]
    }

    /// Frees a place; gives what was there.
    #[inline]
    pub(super) fn take(&mut self, place: u32) -> Exchange {
        let exchange = std::mem::take(&mut self.table[place as usize]);
        self.active -= u32::from(exchange.stream != 0);
        exchange
    }

    /// How many places there are.
    pub(super) fn places(&self) -> u32 {
        self.table.len() as u32
    }

    /// Position of what is appended to `out` next, in the stream to the server.
    #[inline]
    pub(super) fn out_end(&self) -> u64 {
        self.out_offset + self.out.len() as u64
    }
}
