//! Streams of HTTP/2 told apart: each is an exchange of its own, from the frame with its head to its last frame's send.
//!
//! The kernel tells the heads of frames as they are taken and given (`Kind::StreamFrame`). Frames that are taken follow the
//! event of the socket from which they came; frames that are given stand before the event of the send that carries them.
//! What heads say comes later (`Kind::StreamHead`), so a stream that is over waits until each head of its frames has been
//! said.

use crate::messages::{Life, LongKind, LongLived, LongLives};
use crate::served::{Arrival, End, Exchange, Exchanges, Sent};
use crate::sockets::{Socket, Sockets};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::Arc;
use weir_wire::stream::{CONTROL, Flow, HeadOf, StreamFrame, StreamHead, frame_type};
use weir_wire::trace_context::TraceContext;

/// A stream that is over waits so long for its heads, nanoseconds. A recorder tells a head at its second look, and looks
/// five times a second; one that is kept from a CPU or from its disk comes later.
const HEADS_COME_WITHIN_NS: u64 = 5_000_000_000;
/// Streams under way on one connection; a client that opens more is damage.
const MOST_OPEN: usize = 1 << 14;
/// Streams under way, over, or named that are remembered.
const MOST_STREAMS: usize = 1 << 18;
/// Connections of a TLS library of which the socket is remembered.
const MOST_FLOWS: usize = 1 << 17;

/// A stream under way.
#[derive(Debug)]
struct Stream {
    exchange: Exchange,
    /// Bytes of its frames that were given.
    given: u64,
    /// Its messages, as far as frames with content are such.
    life: Life,
    /// Messages that were given and that no send has carried yet.
    unsent: u64,
    way: Way,
    /// Heads that will be said of it.
    heads: u32,
}

/// A stream that is over, until its heads have come.
#[derive(Debug)]
struct Over {
    at_ns: u64,
    exchange: Exchange,
    life: Life,
    ended: Ended,
    /// Heads that will be said of it.
    heads: u32,
}

/// How a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// With the last byte of its response.
    Answered,
    /// One side gave it up, or its connection closed: so most streams end that stay open.
    GivenUp,
}

/// How far the server's side of a stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// More is to come.
    Open,
    /// Its last byte was given: the next send of the connection carries it.
    Ending,
}

/// Whether a connection is followed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Sight {
    /// From its first frame on.
    #[default]
    Followed,
    /// No more: something of it could not be seen.
    Lost,
}

/// Whether what the heads of a connection say is told.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Heads {
    /// Sooner or later.
    #[default]
    Come,
    /// One was waited for in vain, and none has come since: no other is waited for.
    Missing,
}

#[derive(Debug, Default)]
struct Connection {
    sight: Sight,
    heads: Heads,
    streams: FxHashMap<u32, Stream>,
    /// Streams of which frames were given that no send has carried yet.
    unsent: Vec<u32>,
    /// Bytes that its streams' frames had.
    given: u64,
}

/// What heads said of a stream.
#[derive(Debug, Default, Clone)]
struct Said {
    name: Option<Arc<str>>,
    status: u16,
    grpc: bool,
    events: bool,
    websocket: bool,
    grpc_status: Option<u16>,
    trace: Option<TraceContext>,
    at_ns: u64,
    /// Heads that were said.
    heads: u32,
}

/// All streams.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    /// The sockets of a TLS library's connections.
    flows: FxHashMap<u32, u32>,
    connections: FxHashMap<u32, Connection>,
    said: FxHashMap<(u32, u32), Said>,
    over: VecDeque<Over>,
    /// What stays open and carries messages.
    long: LongLives,
    /// The same by socket and stream, where a client will ask for them.
    asked: FxHashMap<(u32, u32), Exchange>,
    /// Whether a client will.
    by_client: bool,
    counts: Exchanges,
}

/// Whether a frame of HTTP/2 ends a message of those that are told: content, in a frame that is not of the usual most
/// bytes, which more of the same message follows; and no control frame of a WebSocket, as which no other message begins.
fn ends_message(frame: &StreamFrame) -> bool {
    const USUAL_BYTES_MAX: u32 = 16_384;
    let is_content = frame.kind == frame_type::DATA && !frame.more && (1..USUAL_BYTES_MAX).contains(&frame.length);
    is_content && frame.frame_flags & CONTROL == 0
}

/// Bytes of content of a frame.
fn content_of(frame: &StreamFrame) -> u64 {
    if frame.kind == frame_type::DATA && !frame.more { u64::from(frame.length) } else { 0 }
}

/// A stream that begins with a frame which a task took; `from` is the position of the frame's first byte.
fn begun(socket: &Socket, (at_ns, pid): (u64, u32), frame: &StreamFrame, from: u64) -> Exchange {
    let arrival = socket.ready.first_past(from).map(|mark| Arrival {
        at_ns: mark.at_ns,
        position: mark.position,
        not_accepted: mark.not_accepted,
    });
    let picked = socket.received.first_past(from);
    let (picked_ns, picker) = picked.map_or((at_ns, pid), |mark| (mark.at_ns, mark.pid));
    Exchange {
        arrival,
        from,
        to: from.saturating_add(u64::from(frame.length) + 9),
        encrypted: matches!(frame.flow, Flow::Tls(_)),
        stream: frame.stream,
        ..Exchange::picked(socket.open.socket, picked_ns, picker)
    }
}

/// What a frame changes for its connection as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Nothing.
    None,
    /// Its streams are told by themselves.
    Followed(u32),
    /// They can be followed no further; so many were under way.
    Lost(u32, u64),
}

impl Streams {
    /// A client will ask for each stream that it has told of.
    pub(crate) fn of_client() -> Self {
        Self { by_client: true, ..Self::default() }
    }

    /// A frame was taken or given by a task; `at` is the client's connection that the task has dealt with last.
    pub(crate) fn frame(&mut self, at_ns: u64, pid: u32, frame: &StreamFrame, at: u32, sockets: &mut Sockets) -> Turn {
        let Some(socket) = self.socket_of(frame, at) else { return Turn::None };
        let is_new = !self.connections.contains_key(&socket);
        let is_lost = frame.kind == frame_type::LOST;
        if is_new && (is_lost || self.connections.len() >= MOST_FLOWS) {
            return Turn::None;
        }
        let connection = self.connections.entry(socket).or_default();
        if connection.sight == Sight::Lost {
            return Turn::None;
        }
        if is_lost {
            let under_way = connection.streams.len() as u64;
            *connection = Connection { sight: Sight::Lost, ..Connection::default() };
            return Turn::Lost(socket, under_way);
        }
        let turn = if is_new { Turn::Followed(socket) } else { Turn::None };
        let bytes = u64::from(frame.length) + 9;
        if frame.sent {
            self.given(at_ns, socket, frame, bytes);
            return turn;
        }
        let sequence = matches!(frame.flow, Flow::Socket(_)).then_some(frame.position);
        let Some(known) = sockets.get_mut(socket) else { return turn };
        let from = known.frame_begin(sequence);
        let connection = self.connections.entry(socket).or_default();
        if frame.kind == frame_type::RST_STREAM {
            let stream = connection.streams.remove(&frame.stream);
            self.give_up(at_ns, stream);
            return turn;
        }
        if let Some(stream) = connection.streams.get_mut(&frame.stream) {
            stream.exchange.to = stream.exchange.to.max(from.saturating_add(bytes));
            if ends_message(frame) {
                stream.life.received.note(at_ns);
            }
            stream.life.received.bytes += content_of(frame);
            return turn;
        }
        let begins = frame.kind == frame_type::HEADERS && !frame.more && frame.stream % 2 == 1;
        if !begins || connection.streams.len() >= MOST_OPEN {
            return turn;
        }
        let exchange = begun(known, (at_ns, pid), frame, from);
        // The tables of a connection that is older than the recording are not known.
        let heads = u32::from(!frame.older);
        let stream = Stream { exchange, given: 0, life: Life::default(), unsent: 0, way: Way::Open, heads };
        connection.streams.insert(frame.stream, stream);
        turn
    }

    fn socket_of(&mut self, frame: &StreamFrame, at: u32) -> Option<u32> {
        let number = match frame.flow {
            Flow::Socket(socket) => return Some(socket),
            Flow::Tls(number) => number,
        };
        if let Some(socket) = self.flows.get(&number) {
            return Some(*socket);
        }
        // The library has just taken from its socket what it hands over.
        if frame.sent || at == 0 || self.flows.len() >= MOST_FLOWS {
            return None;
        }
        self.flows.insert(number, at);
        Some(at)
    }

    /// A frame was given to be sent.
    fn given(&mut self, at_ns: u64, socket: u32, frame: &StreamFrame, bytes: u64) {
        let Some(connection) = self.connections.get_mut(&socket) else { return };
        if frame.kind == frame_type::RST_STREAM {
            let stream = connection.streams.remove(&frame.stream);
            return self.give_up(at_ns, stream);
        }
        let Some(stream) = connection.streams.get_mut(&frame.stream) else { return };
        match frame.kind {
            frame_type::STREAM_END => stream.way = Way::Ending,
            frame_type::DATA | frame_type::HEADERS | frame_type::CONTINUATION if !frame.more => stream.given += bytes,
            _ => return,
        }
        stream.heads += u32::from(frame.kind == frame_type::HEADERS && !frame.more && !frame.older);
        stream.unsent += u64::from(ends_message(frame));
        stream.life.sent.bytes += content_of(frame);
        if !connection.unsent.contains(&frame.stream) && connection.unsent.len() < MOST_OPEN {
            connection.unsent.push(frame.stream);
        }
    }

    /// A task gave bytes of a connection to the kernel: the frames before are in them.
    pub(crate) fn sent(&mut self, socket: u32, at_ns: u64, pid: u32) {
        let Some(connection) = self.connections.get_mut(&socket) else { return };
        for number in std::mem::take(&mut connection.unsent) {
            let Some(stream) = connection.streams.get_mut(&number) else { continue };
            (0..std::mem::take(&mut stream.unsent)).for_each(|_| stream.life.sent.note(at_ns));
            let base = connection.given;
            match &mut stream.exchange.sent {
                Some(sent) => (sent.last_ns, sent.pid, sent.to) = (at_ns, pid, sent.from + stream.given),
                none => {
                    let to = base + stream.given;
                    *none = Some(Sent { first_ns: at_ns, last_ns: at_ns, pid, from: base, to });
                }
            }
            if stream.way == Way::Ending
                && let Some(stream) = connection.streams.remove(&number)
            {
                connection.given += stream.given;
                if !self.by_client {
                    let Stream { exchange, life, heads, .. } = stream;
                    self.over.push_back(Over { at_ns, exchange, life, ended: Ended::Answered, heads });
                } else if self.asked.len() < MOST_STREAMS {
                    self.asked.insert((socket, number), stream.exchange);
                }
            }
        }
    }

    /// A stream that is over, which a client asks for; given once.
    pub(crate) fn take(&mut self, socket: u32, stream: u32) -> Option<Exchange> {
        self.asked.remove(&(socket, stream))
    }

    /// What was said of a stream, to say more.
    fn said(&mut self, at_ns: u64, flow: Flow, stream: u32) -> Option<&mut Said> {
        let socket = match flow {
            Flow::Socket(socket) => socket,
            Flow::Tls(number) => *self.flows.get(&number)?,
        };
        if self.said.len() >= MOST_STREAMS {
            return None;
        }
        if let Some(connection) = self.connections.get_mut(&socket) {
            connection.heads = Heads::Come;
        }
        let said = self.said.entry((socket, stream)).or_default();
        said.at_ns = at_ns;
        Some(said)
    }

    /// A request's head names a trace.
    pub(crate) fn trace(&mut self, at_ns: u64, flow: Flow, stream: u32, trace: TraceContext) {
        if let Some(said) = self.said(at_ns, flow, stream) {
            said.trace = Some(trace);
        }
    }

    /// The trace that the request of a stream named, if that has been told.
    pub(crate) fn trace_of(&self, socket: u32, stream: u32) -> Option<TraceContext> {
        self.said.get(&(socket, stream))?.trace
    }

    /// What a head says.
    pub(crate) fn head(&mut self, at_ns: u64, head: StreamHead) {
        let Some(said) = self.said(at_ns, head.flow, head.stream) else { return };
        said.heads += 1;
        match head.of {
            HeadOf::Request => {
                said.name = Some(Arc::from(head.name));
                said.grpc |= head.grpc;
                said.websocket |= head.websocket;
            }
            HeadOf::Response => {
                said.events = head.events;
                said.status = head.status;
                said.grpc_status = head.grpc_status.or(said.grpc_status);
            }
            HeadOf::Trailers => said.grpc_status = head.grpc_status.or(said.grpc_status),
        }
    }

    /// A connection has closed: what was under way was not answered.
    pub(crate) fn close(&mut self, at_ns: u64, socket: u32) {
        let Some(connection) = self.connections.remove(&socket) else { return };
        let mut streams: Vec<Stream> = connection.streams.into_values().collect();
        streams.sort_by_key(|stream| stream.exchange.stream);
        streams.into_iter().for_each(|stream| self.give_up(at_ns, Some(stream)));
    }

    /// A stream was given up: what it was tells whether that is its usual end.
    fn give_up(&mut self, at_ns: u64, stream: Option<Stream>) {
        let Some(Stream { exchange, life, heads, .. }) = stream else { return };
        if self.by_client || self.over.len() >= MOST_STREAMS {
            self.counts.streams_reset += 1;
            return;
        }
        self.over.push_back(Over { at_ns, exchange, life, ended: Ended::GivenUp, heads });
    }

    /// The counts of streams beside those of exchanges.
    pub(crate) fn counts_with(&self, exchanges: Exchanges) -> Exchanges {
        let Exchanges { streams_reset, grpc, grpc_failed, .. } = self.counts;
        Exchanges { streams_reset, grpc, grpc_failed, ..exchanges }
    }

    /// Takes a stream aside that stays open and carries messages; whether it is such a one.
    fn is_long(&mut self, exchange: &Exchange, said: &Said, life: &Life, is_open: bool) -> bool {
        let kind = match () {
            // It was asked for, and not refused.
            () if said.websocket && matches!(said.status, 0 | 200..300) => LongKind::WebSocket,
            () if said.events => LongKind::Events,
            () if said.grpc && (life.sent.count > 1 || life.received.count > 1) => LongKind::Grpc,
            () => return false,
        };
        let last_ns = exchange.sent.map_or(exchange.picked_ns, |sent| sent.last_ns);
        let life = Life { begun_ns: exchange.begun_ns(), last_ns, ..life.clone() };
        let name = said.name.clone().unwrap_or_else(|| Arc::from("(unnamed)"));
        self.long.tell(kind, &name, &life, is_open);
        true
    }

    /// A frame of a WebSocket, on the connection that it says or that the task has dealt with last; the socket, where it is
    /// the first one.
    pub(crate) fn websocket(
        &mut self,
        at_ns: u64,
        pid: u32,
        frame: &StreamFrame,
        at: u32,
        sockets: &mut Sockets,
    ) -> Option<u32> {
        let socket = self.socket_of(frame, at)?;
        let sequence = matches!(frame.flow, Flow::Socket(_)).then_some(frame.position);
        let arrived_ns = sockets.get_mut(socket).filter(|_| !frame.sent).and_then(|known| {
            let from = known.frame_begin(sequence);
            known.ready.first_past(from).map(|mark| mark.at_ns)
        });
        self.long.frame(at_ns, pid, socket, frame, arrived_ns.unwrap_or(at_ns)).then_some(socket)
    }

    /// What stays open and carries messages.
    pub(crate) fn long(&mut self) -> &mut LongLives {
        &mut self.long
    }

    /// The same, as far as it is over.
    pub(crate) fn long_told(&self) -> Vec<LongLived> {
        self.long.told()
    }

    /// Whether the stream that was over first waits for its heads no more; beyond so many as are remembered none waits.
    fn is_said(&mut self, now_ns: u64) -> bool {
        let Some(Over { at_ns, exchange, heads, .. }) = self.over.front() else { return false };
        let said = self.said.get(&(exchange.socket, exchange.stream)).map_or(0, |said| said.heads);
        let mut connection = self.connections.get_mut(&exchange.socket);
        if said >= *heads
            || self.over.len() >= MOST_STREAMS
            || connection.as_ref().is_some_and(|connection| connection.heads == Heads::Missing)
        {
            return true;
        }
        let is_in_vain = at_ns.saturating_add(HEADS_COME_WITHIN_NS) <= now_ns;
        if let Some(connection) = connection.as_mut().filter(|_| is_in_vain) {
            connection.heads = Heads::Missing;
        }
        is_in_vain
    }

    /// The next stream that is over and whose heads have come, or will not come any more.
    pub(crate) fn next_over(&mut self, now_ns: u64) -> Option<Exchange> {
        while self.is_said(now_ns) {
            let Over { mut exchange, life, ended, .. } = self.over.pop_front()?;
            let said = self.said.remove(&(exchange.socket, exchange.stream)).unwrap_or_default();
            if ended == Ended::GivenUp {
                self.counts.streams_reset += u64::from(!self.is_long(&exchange, &said, &life, false));
                continue;
            }
            self.counts.grpc += u64::from(said.grpc);
            self.counts.grpc_failed += u64::from(said.grpc && said.grpc_status.is_some_and(|status| status != 0));
            if self.is_long(&exchange, &said, &life, false) {
                continue;
            }
            (exchange.name, exchange.status, exchange.trace) = (said.name, said.status, said.trace);
            return Some(exchange);
        }
        None
    }

    /// The recording, or a window of it, ends: gives the streams that are over, then those under way, which it cuts.
    pub(crate) fn edge(&mut self) -> Vec<(Exchange, End)> {
        let mut found = Vec::new();
        while let Some(exchange) = self.next_over(u64::MAX) {
            found.push((exchange, End::Told));
        }
        let mut open: Vec<(Exchange, Life)> = std::mem::take(&mut self.connections)
            .into_values()
            .flat_map(|connection| connection.streams.into_values().map(|stream| (stream.exchange, stream.life)))
            .collect();
        open.sort_by_key(|(exchange, _)| (exchange.picked_ns, exchange.socket, exchange.stream));
        for (exchange, life) in open {
            let said = self.said.remove(&(exchange.socket, exchange.stream)).unwrap_or_default();
            if !self.is_long(&exchange, &said, &life, true) {
                found.push((exchange, End::Cut));
            }
        }
        self.flows.clear();
        self.said.clear();
        found
    }

    /// Forgets what is not asked for any more; returns the oldest time that may still be.
    pub(crate) fn sweep(&mut self, before_ns: u64) -> Option<u64> {
        let Self { said, connections, over, .. } = self;
        let over_ns = over.iter().map(|over| over.exchange.begun_ns()).min();
        // A stream that is over still waits for what its heads say, and may have to for longer than anything else.
        let said_from_ns = over_ns.map_or(before_ns, |begun_ns| begun_ns.min(before_ns));
        let is_open =
            |(socket, stream): &(u32, u32)| connections.get(socket).is_some_and(|one| one.streams.contains_key(stream));
        said.retain(|key, said| said.at_ns >= said_from_ns || is_open(key));
        self.asked.retain(|_, exchange| exchange.sent.is_some_and(|sent| sent.last_ns >= before_ns));
        let open = self.connections.values().flat_map(|one| one.streams.values()).map(|stream| &stream.exchange);
        open.chain(self.asked.values()).map(Exchange::begun_ns).chain(over_ns).min()
    }

    /// How many things are held.
    pub(crate) fn held(&self) -> usize {
        let open: usize = self.connections.values().map(|one| 1 + one.streams.len() + one.unsent.len()).sum();
        self.long.held() + open + self.flows.len() + self.said.len() + self.over.len() + self.asked.len()
    }
}
