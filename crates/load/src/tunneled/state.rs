//! What a loop, a connection and each WebSocket on it keep.

use crate::LoadError;
use crate::connect::kernel::Transport;
use crate::engine::state::{Engine, Room, Version};
use crate::http2::frames::{FRAME_BYTES_MAX, Reader as FrameReader};
use crate::http2::{FIRST_WINDOW_BYTES, hpack::Decoder};
use crate::options::control::Control;
use crate::options::websocket::WebSocket;
use crate::plan::run_plan::{Plan, Share};
use crate::tunneled::opening::Opening;
use crate::websocket::frames::Reader;
use crate::websocket::{Ask, Echo, Wanted};
use std::collections::VecDeque;

/// The last number that a stream is given: behind it a connection opens no more (RFC 9113 5.1.1).
const LAST_STREAM: u32 = 0x7fff_ffff;

/// WebSockets on streams: one message at a time on each.
#[derive(Debug)]
pub(crate) struct Tunnels<'a> {
    pub(crate) opening: &'a Opening,
    pub(crate) given: &'a WebSocket,
    /// Streams with nothing to do, the one that rests longest first; some may be over.
    pub(crate) idle: VecDeque<Resting>,
    /// Arrivals that wait for a stream.
    pub(crate) queue: VecDeque<Wanted>,
    /// Connections with something to write.
    pub(crate) touched: Vec<u32>,
    /// Masks come of it.
    pub(crate) random: fastrand::Rng,
    pub(crate) decoder: Decoder,
}

/// A stream with nothing to do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Resting {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
    pub(crate) place: u32,
    pub(crate) stream: u32,
}

/// Where a WebSocket stands.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum Stage {
    /// Its place is free.
    #[default]
    Free,
    /// It was asked for at this time; the message goes out over it first, if there is one.
    Opening { since_ns: u64, ask: Option<Ask> },
    /// It has nothing to do, but for this message, if there is one, once all that came is looked at.
    Ready(Option<Ask>),
    /// It rests among those that are idle.
    Idle,
    /// The answer to a message is awaited.
    Awaiting(Ask),
    /// This side sends nothing more; it is cancelled at this time at the latest.
    Closing { until_ns: u64 },
}

/// A WebSocket.
#[derive(Debug)]
pub(crate) struct Tunnel {
    pub(crate) stage: Stage,
    /// Its stream; 0 = none.
    pub(crate) stream: u32,
    pub(crate) reader: Reader,
    /// What is to be sent on it, those before `out_at` in frames already.
    pub(crate) out: Vec<u8>,
    pub(crate) out_at: usize,
    /// Whether its side of the stream ends behind that.
    pub(crate) ends: bool,
    /// Whether it is listed as one with something to send.
    pub(crate) is_listed: bool,
    /// Bytes that the server takes beyond those that are in frames.
    pub(crate) window: i64,
    /// Bytes that came since the server was last told that it may send more.
    pub(crate) untold: u32,
    /// How the message that comes compares with the one that was sent.
    pub(crate) echo: Echo,
}

/// A connection that carries them.
#[derive(Debug)]
pub(crate) struct Carrier {
    pub(crate) reader: FrameReader,
    /// WebSockets by their stream: all places have a number.
    pub(crate) tunnels: Box<[Tunnel]>,
    /// The most of them at a time.
    streams: u32,
    pub(crate) active: u32,
    next_stream: u32,
    /// Places of those with something to send.
    pub(crate) senders: VecDeque<u32>,
    /// What the server takes: streams at a time, bytes, and in one frame.
    pub(crate) streams_max: u32,
    pub(crate) window: i64,
    pub(crate) first_window: i64,
    pub(crate) frame_bytes: usize,
    /// Whether the server has said that it opens WebSockets.
    pub(crate) is_offered: bool,
    /// Whether it opens no more, by its word.
    pub(crate) is_leaving: bool,
    pub(crate) untold: u32,
    /// Frames to be written, those before `out_at` written already, and how many bytes answer the server's own.
    pub(crate) out: Vec<u8>,
    pub(crate) out_at: usize,
    pub(crate) answers: usize,
    pub(crate) listed_touched: bool,
}

impl Version for Tunnels<'_> {
    type Http = Carrier;
}

impl Tunnel {
    fn new(message_bytes_max: u64) -> Self {
        Self {
            stage: Stage::Free,
            stream: 0,
            reader: Reader::new(message_bytes_max),
            out: Vec::new(),
            out_at: 0,
            ends: false,
            is_listed: false,
            window: 0,
            untold: 0,
            echo: Echo::Same(0),
        }
    }

    /// Whether it has something to send that its window lets through.
    pub(crate) fn has_more(&self) -> bool {
        let left = self.out.len() - self.out_at;
        self.stream != 0 && (left > 0 && self.window > 0 || left == 0 && self.ends)
    }

    /// Frees its place; gives the frames that it had. Where it is listed, it stays so until its turn.
    pub(crate) fn reset(&mut self) -> u64 {
        let frames = self.reader.frames();
        (self.stage, self.stream) = (Stage::Free, 0);
        self.reader.reset();
        self.out.clear();
        (self.out_at, self.ends, self.window, self.untold) = (0, false, 0, 0);
        self.echo = Echo::Same(0);
        frames
    }
}

impl Carrier {
    fn new(opening: &Opening) -> Self {
        let tunnel = || Tunnel::new(opening.given.message_bytes_max);
        // With some places to spare the next stream rarely has to be another than the next in number.
        let places = (opening.streams + opening.streams / 4 + 1).next_power_of_two() as usize;
        let mut own = Self {
            reader: FrameReader::default(),
            tunnels: std::iter::repeat_with(tunnel).take(places).collect(),
            streams: opening.streams,
            active: 0,
            next_stream: 1,
            senders: VecDeque::new(),
            streams_max: 0,
            window: 0,
            first_window: 0,
            frame_bytes: 0,
            is_offered: false,
            is_leaving: false,
            untold: 0,
            out: Vec::new(),
            out_at: 0,
            answers: 0,
            listed_touched: false,
        };
        own.reset();
        own
    }

    /// Makes it that of another connection; gives the frames of messages that its WebSockets had.
    pub(crate) fn reset(&mut self) -> u64 {
        let frames = self.tunnels.iter_mut().map(Tunnel::reset).sum();
        self.reader.reset();
        self.out.clear();
        (self.active, self.next_stream, self.untold) = (0, 1, 0);
        (self.out_at, self.answers) = (0, 0);
        (self.is_offered, self.is_leaving) = (false, false);
        self.streams_max = self.streams;
        self.senders.clear();
        self.tunnels.iter_mut().for_each(|tunnel| tunnel.is_listed = false);
        self.window = i64::from(FIRST_WINDOW_BYTES);
        self.first_window = self.window;
        self.frame_bytes = FRAME_BYTES_MAX;
        frames
    }

    /// Whether another WebSocket may be opened.
    pub(crate) fn has_room(&self) -> bool {
        let may = self.is_offered && !self.is_leaving;
        may && self.active < self.streams_max && self.next_stream <= LAST_STREAM
    }

    /// Gives a WebSocket a stream, which is numbered so that its place is free; gives the place and the stream.
    ///
    /// Called only where there is room: fewer are open than there are places.
    pub(crate) fn place(&mut self) -> (u32, u32) {
        let mask = self.tunnels.len() - 1;
        while self.tunnels[(self.next_stream >> 1) as usize & mask].stream != 0 {
            self.next_stream += 2;
        }
        let stream = self.next_stream;
        let place = (stream >> 1) as usize & mask;
        self.next_stream += 2;
        self.active += 1;
        let tunnel = &mut self.tunnels[place];
        (tunnel.stream, tunnel.window) = (stream, self.first_window);
        (place as u32, stream)
    }

    /// The place of a stream that is not over.
    pub(crate) fn find(&self, stream: u32) -> Option<u32> {
        let place = (stream >> 1) as usize & (self.tunnels.len() - 1);
        (stream != 0 && self.tunnels[place].stream == stream).then_some(place as u32)
    }

    /// Lists a WebSocket that has something to send, if its window is open.
    pub(crate) fn list(&mut self, place: u32) {
        let tunnel = &mut self.tunnels[place as usize];
        if !tunnel.is_listed && tunnel.has_more() {
            tunnel.is_listed = true;
            self.senders.push_back(place);
        }
    }

    /// Whether a stream was never asked for.
    pub(crate) fn is_unknown(&self, stream: u32) -> bool {
        stream.is_multiple_of(2) || stream >= self.next_stream
    }

    /// Takes so many streams at a time, as the server has it, and no more than are wanted.
    pub(crate) fn allow(&mut self, streams: Option<u32>) {
        self.streams_max = streams.unwrap_or(self.streams_max).min(self.streams);
    }

    /// Frees a place; gives its stage and the frames of messages that it had.
    pub(crate) fn free(&mut self, place: u32) -> (Stage, u64) {
        let tunnel = &mut self.tunnels[place as usize];
        let (stage, had_stream) = (tunnel.stage, tunnel.stream != 0);
        let frames = tunnel.reset();
        self.active -= u32::from(had_stream);
        (stage, frames)
    }
}

/// Makes the loop of a share.
pub(crate) fn engine<'a>(
    plan: &'a Plan,
    opening: &'a Opening,
    control: &'a Control,
    share: Share,
) -> Result<Engine<'a, Tunnels<'a>>, LoadError> {
    // As many again may be closing.
    let slots = share.connections + share.connections.min(1024);
    let room = Room {
        slots,
        places_are_clients: share.arrivals.is_none(),
        receive_buffer: None,
        transport: Transport::Streams,
    };
    // A large bound is a bound, not a wish for memory.
    let queue = if share.arrivals.is_some() { share.queue.min(100_000) } else { 0 };
    let mut decoder = Decoder::default();
    decoder.keep_fields();
    let tunnels = Tunnels {
        opening,
        given: &opening.given,
        idle: VecDeque::new(),
        queue: VecDeque::with_capacity(queue),
        touched: Vec::new(),
        random: fastrand::Rng::new(),
        decoder,
    };
    Engine::new(plan, control, share, &room, || Carrier::new(opening), |_| Ok(tunnels))
}
