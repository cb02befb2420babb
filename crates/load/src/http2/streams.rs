//! What the loop knows of one connection over HTTP/2, and of each request on it.

use crate::checks::Seen;
use crate::connect::connection::{Connection, Phase};
use crate::grpc::call::Call;
use crate::http2::frames::{FRAME_BYTES_MAX, Reader};
use crate::http2::malformed::Malformed;
use crate::http2::wire::FIRST_WINDOW_BYTES;
use crate::plan::run_plan::Plan;
use crate::streamed::answer::Streamed;
use std::collections::VecDeque;

/// The last number that a stream is given: before it a connection is replaced. There is one for each other number up to
/// 2^31 (RFC 9113 5.1.1); in the tests of this crate they end sooner, so that the end is seen.
const LAST_STREAM: u32 = if cfg!(test) { 1999 } else { 0x7fff_ffff };
/// Streams that are begun before the server has said how many it takes (RFC 9113 6.5.2 recommends no fewer).
pub(crate) const STREAMS_AT_FIRST: u32 = 100;

/// More bytes of content than any response has: its head does not say how many.
pub(crate) const UNTOLD_LENGTH: u64 = u64::MAX;
/// Another number than any response's: a call of gRPC whose status has not come is over too soon, of any length.
pub(crate) const WITHOUT_STATUS: u64 = u64::MAX - 1;

/// A request that has begun and is not over. Up to 128 bytes are moved without a call.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Exchange {
    /// The number of its stream; 0 = none.
    pub(crate) stream: u32,
    /// 0 until it comes.
    pub(crate) status: u16,
    /// Which of the plan's requests it is.
    pub(crate) request: u32,
    /// How often it was sent before, in vain.
    pub(crate) repeats: u8,
    /// Whether it waited for its connection to be opened.
    pub(crate) opened: bool,
    /// Bytes of its frames up to the body.
    pub(crate) head_bytes: u32,
    /// How long it waited for a stream, in microseconds.
    pub(crate) held_us: u32,
    /// How long its user waits from the intended time on, in microseconds; 0 = that is not decided.
    pub(crate) patience_us: u32,
    /// Its number among those that say of which trace they are.
    pub(crate) traced: u64,
    pub(crate) intended_ns: u64,
    pub(crate) started_ns: u64,
    /// Just before the write of its first byte; 0 = not written.
    pub(crate) sent_ns: u64,
    /// When its first frame came; 0 = none has.
    pub(crate) first_byte_ns: u64,
    /// Position of its first byte in the stream to the server.
    pub(crate) request_offset: u64,
    pub(crate) response_offset: u64,
    /// Bytes of the frames of its response.
    pub(crate) response_bytes: u64,
    /// Bytes of content, and how many there should be: [`UNTOLD_LENGTH`] where the head does not say.
    pub(crate) content: u64,
    pub(crate) expected: u64,
    /// Bytes of the body that are in frames.
    pub(crate) body_sent: usize,
    /// Bytes that the server takes of the body beyond those.
    pub(crate) window: i64,
    /// Bytes of content since the server was last told that it may send more.
    pub(crate) untold: u32,
    /// Whether it is listed among those with more of a body to send.
    pub(crate) sending: bool,
}

const _: () = assert!(size_of::<Exchange>() <= 128);

impl Exchange {
    /// When its user clicks stop.
    pub(crate) fn stops_ns(&self) -> u64 {
        self.intended_ns.saturating_add(u64::from(self.patience_us) * 1000)
    }

    /// A frame of its response came, or a piece of one.
    #[inline]
    pub(crate) fn heard(&mut self, now_ns: u64, offset: u64, bytes: u32) {
        if self.first_byte_ns == 0 {
            self.first_byte_ns = now_ns;
            self.response_offset = offset;
        }
        self.response_bytes += u64::from(bytes);
    }
}

/// What HTTP/2 keeps of a connection.
#[derive(Debug)]
pub(crate) struct Streams {
    /// Which session under way it is of, from 1; 0 = none.
    pub(crate) session: u32,
    /// When something last came.
    pub(crate) heard_ns: u64,
    pub(crate) reader: Reader,
    /// Requests by their stream: a stream is numbered so that its place is free, and all places have a number.
    table: Box<[Exchange]>,
    /// What has come of the responses in these places, where checks look at it; else empty.
    pub(crate) seen: Box<[Seen]>,
    /// Their events, where answers come bit by bit; else empty.
    pub(crate) streamed: Box<[Streamed]>,
    /// The calls of gRPC in these places, where such are made; else empty.
    pub(crate) calls: Box<[Call]>,
    pub(crate) active: u32,
    /// The number of the next stream, if its place is free.
    next_stream: u32,
    /// The last number that a stream of it may have.
    last_stream: u32,
    /// Whether it may carry more than one request.
    keep_alive: bool,
    /// What the server takes: streams at a time, bytes of bodies, and in one frame.
    pub(crate) streams_max: u32,
    /// Whether the server has said how many streams it takes.
    pub(crate) streams_told: bool,
    pub(crate) window: i64,
    pub(crate) first_window: i64,
    pub(crate) frame_bytes: usize,
    /// Bytes that came since the server was last told that it may send more.
    pub(crate) untold: u32,
    /// Frames to be written, those before `out_at` written already.
    pub(crate) out: Vec<u8>,
    pub(crate) out_at: usize,
    /// Position of the beginning of `out` in the stream to the server.
    pub(crate) out_offset: u64,
    /// Bytes in `out` that answer the server's own messages: what it may make us hold has a bound.
    pub(crate) answers: usize,
    /// Requests whose first byte is not written yet, in order: place and position.
    pub(crate) unsent: VecDeque<(u32, u64)>,
    /// Places of requests with more of a body to send, whose windows are open.
    pub(crate) senders: VecDeque<u32>,
    /// The first code by which the server said that something is wrong with the connection.
    pub(crate) goaway: Option<u32>,
    /// Whether a write failed, or the last was made: what comes is still read.
    pub(crate) broken: bool,
    /// Whether it is listed as one with something to write.
    pub(crate) listed_touched: bool,
    /// Whether it is listed as one that can take a request.
    pub(crate) listed_roomy: bool,
}

impl Streams {
    pub(crate) fn new(streams: u32, keep_alive: bool, plan: &Plan) -> Self {
        let keeps = plan.keeps();
        let places = Self::places_for(streams);
        let last_stream = if keep_alive { LAST_STREAM - 2 * places as u32 } else { 1 };
        let mut own = Self {
            session: 0,
            heard_ns: 0,
            reader: Reader::default(),
            table: vec![Exchange::default(); places].into_boxed_slice(),
            seen: vec![Seen::new(keeps); if keeps.any() { places } else { 0 }].into_boxed_slice(),
            streamed: vec![Streamed::default(); if plan.streaming.is_some() { places } else { 0 }].into_boxed_slice(),
            calls: vec![Call::default(); if plan.grpc.is_some() { places } else { 0 }].into_boxed_slice(),
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
            broken: false,
            listed_touched: false,
            listed_roomy: false,
        };
        own.reset();
        own
    }

    /// How many places a connection has for so many streams at a time: with some to spare the next stream rarely has to be
    /// another than the next in number.
    pub(crate) fn places_for(streams: u32) -> usize {
        (streams + streams / 4 + 1).next_power_of_two() as usize
    }

    /// Makes it that of a new connection, or of none.
    pub(crate) fn reset(&mut self) {
        self.table.fill(Exchange::default());
        self.reader.reset();
        self.out.clear();
        self.unsent.clear();
        self.senders.clear();
        (self.active, self.next_stream, self.untold, self.session) = (0, 1, 0, 0);
        (self.out_at, self.out_offset, self.answers) = (0, 0, 0);
        (self.broken, self.streams_told) = (false, false);
        self.goaway = None;
        self.window = i64::from(FIRST_WINDOW_BYTES);
        self.first_window = i64::from(FIRST_WINDOW_BYTES);
        self.frame_bytes = FRAME_BYTES_MAX;
    }
}

impl Streams {
    /// The requests that are under way.
    pub(crate) fn under_way(&self) -> impl Iterator<Item = u32> {
        self.table.iter().filter(|exchange| exchange.stream != 0).map(|exchange| exchange.request)
    }
}

impl Connection<Streams> {
    /// Whether another request may begin.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.phase == Phase::Open && self.http.active < self.http.streams_max && !self.http.broken && !self.is_used_up()
    }

    /// Whether no stream is left to be begun.
    #[inline]
    pub(crate) fn is_used_up(&self) -> bool {
        self.http.next_stream > self.http.last_stream
    }

    /// Whether it is to be left: while the last of many requests are under way, so that another is open before they are
    /// over; but only after a single one, as the next connection's would be one more than may be under way.
    pub(crate) fn is_to_be_left(&self) -> bool {
        self.is_used_up() && (self.http.keep_alive || self.http.active == 0)
    }

    /// Puts a request on a stream of its own; gives its place.
    ///
    /// Called only where there is room: fewer requests are under way than there are places.
    #[inline]
    pub(crate) fn place(&mut self, exchange: Exchange) -> (u32, &mut Exchange) {
        let (place, stream) = self.next_place();
        let slot = &mut self.http.table[place];
        *slot = Exchange { stream, ..exchange };
        (place as u32, slot)
    }

    /// The same with a request that is wanted now, where nothing more is known of it: a free place is empty.
    #[inline]
    pub(crate) fn place_new(&mut self, now_ns: u64, request: u32) -> (u32, &mut Exchange) {
        let (place, stream) = self.next_place();
        let slot = &mut self.http.table[place];
        (slot.stream, slot.intended_ns, slot.started_ns, slot.request) = (stream, now_ns, now_ns, request);
        (place as u32, slot)
    }

    /// Where the next request is placed, and its stream.
    #[inline]
    fn next_place(&mut self) -> (usize, u32) {
        let mask = self.http.table.len() - 1;
        while self.http.table[(self.http.next_stream >> 1) as usize & mask].stream != 0 {
            self.http.next_stream += 2;
        }
        let stream = self.http.next_stream;
        let place = (stream >> 1) as usize & mask;
        self.http.next_stream += 2;
        self.http.active += 1;
        (place, stream)
    }

    /// The place of a stream's request, if that is not over.
    #[inline]
    pub(crate) fn find(&self, stream: u32) -> Option<u32> {
        let place = (stream >> 1) as usize & (self.http.table.len() - 1);
        (stream != 0 && self.http.table[place].stream == stream).then_some(place as u32)
    }

    /// A frame came of a stream that has no request: one that is over, so that it is passed over, or one that never was.
    pub(crate) fn pass_over(&self, stream: u32) -> Result<(), Malformed> {
        if stream.is_multiple_of(2) || stream >= self.http.next_stream {
            return Err(Malformed::protocol("a frame of a stream that was not begun"));
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn at(&mut self, place: u32) -> &mut Exchange {
        &mut self.http.table[place as usize]
    }

    /// Frees a place; gives what was there.
    #[inline]
    pub(crate) fn take(&mut self, place: u32) -> Exchange {
        let exchange = std::mem::take(&mut self.http.table[place as usize]);
        self.http.active -= u32::from(exchange.stream != 0);
        exchange
    }

    /// How many places there are.
    pub(crate) fn places(&self) -> u32 {
        self.http.table.len() as u32
    }

    /// Position of what is appended to `out` next, in the stream to the server.
    #[inline]
    pub(crate) fn out_end(&self) -> u64 {
        self.http.out_offset + self.http.out.len() as u64
    }
}
