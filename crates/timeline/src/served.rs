//! Requests delimited from what happened at the server's sockets alone, without a client's word.
//!
//! On each connection a request begins where a task takes bytes after the last response's end, and counts from the
//! arrival of the first of these bytes; it ends with the last send before a task takes bytes again.
//! Boundaries are pick-ups, not arrivals: on one host a client may have a response, and send its next request, before
//! the server's send has told of itself.
//! Where several requests are taken before any is answered (pipelining, HTTP/2), no socket tells them apart: they are
//! one *exchange*, counted as such and never guessed apart.
//! A connection that is known to speak HTTP/2 is told of by counts alone: its frames are not even one request each.

use crate::messages::Life;
use crate::server_end::ServerEnd;
use crate::step::Step;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::Arc;
use weir_wire::trace_context::TraceContext;

/// Arrivals that a connection keeps until a task takes them: the first one and the last ones.
const MOST_ARRIVALS: usize = 1024;
/// Names and ends of connections that are told apart.
pub(crate) const MOST_NAMES: usize = 1 << 12;
/// Connections that are followed.
const MOST_CONNECTIONS: usize = 1 << 17;
/// Steps that are kept of responses which may still go on; beyond, they are told as over.
const MOST_PARKED: usize = 1 << 20;
/// A next request that arrived this long before the last send was sent before the response was whole: on one host a
/// send may tell of itself a little later than the client has it.
const OVERLAP_NS: u64 = 1_000_000;
/// A response that was silent at least so long before the recording ended is taken as over, if it was silent as long as
/// it had lasted.
const EDGE_NS: u64 = 20_000_000;
/// After so much silence a response counts as over at the recording's end, however long it had lasted.
const SILENCE_NS: u64 = 5_000_000_000;
/// Where responses are told while a recording goes on, one that was silent for so long is taken as over, if it was silent
/// as long as it had lasted.
const SETTLED_NS: u64 = 200_000_000;
/// After so long without any answer a request is given up.
const UNANSWERED_NS: u64 = 120_000_000_000;
/// Length of `HTTP/1.1 100 Continue` with its two line ends, the only response that is no request's last.
const CONTINUE_BYTES: u64 = 25;
/// A record's head in TLS: OpenSSL takes it by itself, which no HTTP server does with a request.
const TLS_HEAD_BYTES: u64 = 5;
/// The last flight of a client in a TLS handshake is shorter, one with a request behind it longer.
const TLS_FINISHED_BYTES: u64 = 160;
/// Ports that are encrypted by convention: HTTPS, its usual alternative.
const TLS_PORTS: [u16; 2] = [443, 8443];

/// Bytes of a client that reached the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) at_ns: u64,
    /// Bytes of the stream up to and with it.
    pub(crate) position: u64,
    pub(crate) not_accepted: bool,
}

/// The sends of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
    /// The task of the last one.
    pub(crate) pid: u32,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// What is known of a response that may still go on: its steps so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parked {
    pub(crate) steps: Vec<Step>,
    /// They reach up to here.
    pub(crate) until_ns: u64,
}

/// What carries a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carrier {
    Tcp,
    /// HTTP/3, told by the server's marks.
    Quic,
}

/// A request, or several that cannot be told apart, with the response.
#[derive(Debug, Clone)]
pub(crate) struct Exchange {
    pub(crate) socket: u32,
    /// Its number on its connection, if that was seen from its beginning.
    pub(crate) ordinal: Option<u32>,
    /// The first byte's arrival; `None` where it was not seen.
    pub(crate) arrival: Option<Arrival>,
    /// Arrivals whose bytes it took.
    pub(crate) arrivals: u32,
    /// A task took its first bytes.
    pub(crate) picked_ns: u64,
    /// The task.
    pub(crate) picker: u32,
    /// Bytes of the stream before its first, and up to its last.
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) sent: Option<Sent>,
    /// An interim response was given.
    pub(crate) interim: bool,
    /// Its connection is encrypted, as far as sockets show.
    pub(crate) encrypted: bool,
    /// Its connection speaks HTTP/2, as its first bytes have shown, and its streams are not followed.
    pub(crate) http2: bool,
    /// What carries it.
    pub(crate) carrier: Carrier,
    /// The stream of HTTP/2 or HTTP/3 that it is, 0 for none.
    pub(crate) stream: u32,
    /// Bytes of its response where no positions tell them.
    pub(crate) response_bytes: u64,
    /// Its status, 0 where it is not known.
    pub(crate) status: u16,
    /// The end of the response before it on its connection.
    pub(crate) answered_ns: u64,
    /// Its name, if a probe has told one.
    pub(crate) name: Option<Arc<str>>,
    /// The trace that it names itself, where it is a stream.
    pub(crate) trace: Option<TraceContext>,
    pub(crate) parked: Option<Parked>,
    /// Events that its response is made of, over HTTP/1.1.
    pub(crate) events: Option<Box<Life>>,
}

/// How an exchange ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The next one began, or its connection closed.
    Told,
    /// It was silent for so long that it is taken as over.
    Silent,
    /// The recording, or its window, ended before.
    Cut,
}

/// What is done with an exchange that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sort {
    /// A request and its response, or an exchange of several.
    Response,
    /// Part of the making of an encrypted connection.
    Handshake,
    /// No answer was given.
    Unanswered,
    /// Its begin or end is not within the recording.
    Cut,
    /// Its arrival is missing although it should be there.
    NoArrival,
    /// Frames of HTTP/2: of no request, of one or of several at once.
    Http2,
}

/// Counts of what sockets showed, beside the responses themselves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exchanges {
    /// Exchanges that took part in making encrypted connections.
    pub handshakes: u64,
    /// Their time, from the first arrival to the last send, nanoseconds.
    pub handshakes_ns: u64,
    /// Exchanges whose bytes arrived in several pieces: a large request, or several requests in one.
    pub several: u64,
    /// Exchanges before whose end the client had sent more: HTTP/2 or pipelining, or a protocol of another shape.
    pub overlapped: u64,
    /// Exchanges on connections that began with the preface of HTTP/2: how many requests they were is not known.
    pub http2: u64,
    /// Such connections.
    pub http2_connections: u64,
    /// Streams of HTTP/2 that were told apart, each a response.
    pub streams: u64,
    /// Those of them whose method and path are not known: their connection is older than the recording, or a part of it
    /// was not seen.
    pub streams_nameless: u64,
    /// Those of the streams that were told apart which went over TLS.
    pub encrypted_streams: u64,
    /// Streams that were given up by one of the two sides before their response was whole.
    pub streams_reset: u64,
    /// Requests over HTTP/3, told by the server's marks; they are none of the streams above.
    pub http3: u64,
    /// Those that were given up by one of the two sides before their response was whole.
    pub http3_given_up: u64,
    /// Those of the streams that were told apart which speak gRPC.
    pub grpc: u64,
    /// Those of these that did not end well: with another status of gRPC than 0.
    pub grpc_failed: u64,
    /// Responses on connections that are encrypted: whether HTTP/2 is spoken there, no socket shows.
    pub encrypted: u64,
    /// Requests that were answered by `100 Continue` first.
    pub interim: u64,
    /// Requests that never were answered: the connection closed, or nothing came for minutes.
    pub unanswered: u64,
    /// Requests that an edge of the recording, or of a window, cut.
    pub cut: u64,
    /// Requests of one captured process to another: their time is within the outer response.
    pub inner: u64,
    /// Sends without a request before: a protocol in which the server speaks first, or a response to a request that is
    /// older than the recording.
    pub unasked: u64,
    /// Responses that went on after five seconds of silence; what happened in it may be unattributed.
    pub resumed: u64,
    /// Connections that were given up for want of memory.
    pub forgotten: u64,
}

#[derive(Debug, Default)]
struct Connection {
    /// Bytes taken, sent and arrived so far; `None` until the first such event where its beginning was not seen.
    taken: Option<u64>,
    sent: Option<u64>,
    arrived: u64,
    arrivals: VecDeque<Arrival>,
    open: Option<Exchange>,
    /// Exchanges so far, if it was seen from its beginning.
    ordinal: Option<u32>,
    encrypted: bool,
    http2: bool,
    /// Its streams are followed by themselves.
    followed: bool,
    answered_ns: u64,
}

/// All connections of clients, and the exchanges under way on them.
#[derive(Debug, Default)]
pub(crate) struct Served {
    connections: FxHashMap<u32, Connection>,
    /// Exchanges that are over, to be told: with what has ended them.
    over: VecDeque<(Exchange, End)>,
    pub(crate) counts: Exchanges,
    /// Requests that were never answered, by the server's end.
    pub(crate) unanswered_at: FxHashMap<ServerEnd, u64>,
    /// Requests of one captured process to another are told, too.
    pub(crate) tells_inner: bool,
    /// Further ports that are encrypted.
    tls_ports: Vec<u16>,
}

impl Served {
    pub(crate) fn new(tls_ports: &[u16]) -> Self {
        Self { tls_ports: tls_ports.to_vec(), ..Self::default() }
    }

    /// A connection opens, seen from its `beginning` on or older than the recording.
    pub(crate) fn open(&mut self, socket: u32, port: u16, beginning: bool) {
        let encrypted = TLS_PORTS.contains(&port) || self.tls_ports.contains(&port);
        let Some(connection) = self.connection(socket) else { return };
        connection.encrypted |= encrypted;
        if beginning && connection.taken.is_none() && connection.arrivals.is_empty() {
            (connection.taken, connection.sent, connection.ordinal) = (Some(0), Some(0), Some(0));
        }
    }

    /// Bytes reach a socket.
    pub(crate) fn arrive(&mut self, socket: u32, arrival: Arrival) {
        let Some(connection) = self.connection(socket) else { return };
        if arrival.position <= connection.arrived {
            return;
        }
        connection.arrived = arrival.position;
        if connection.taken.is_some_and(|taken| arrival.position <= taken) {
            // On two CPUs a task may take bytes before their arrival has told of itself.
            if let Some(open) = &mut connection.open
                && open.arrival.is_none()
                && arrival.position > open.from
            {
                (open.arrival, open.arrivals) = (Some(arrival), 1);
            }
            return;
        }
        connection.arrivals.push_back(arrival);
        if connection.arrivals.len() > MOST_ARRIVALS {
            connection.arrivals.remove(1);
        }
    }

    /// The first bytes of a connection, about to be taken, are the preface of HTTP/2, or of a TLS handshake.
    pub(crate) fn speaks(&mut self, socket: u32, http2: bool, encrypted: bool) {
        if !(http2 || encrypted) {
            return;
        }
        let Some(connection) = self.connection(socket) else { return };
        connection.encrypted |= encrypted;
        let fresh = http2 && !connection.http2;
        connection.http2 |= http2;
        self.counts.http2_connections += u64::from(fresh);
    }

    /// The streams of a connection are told by themselves from here on, or no more.
    pub(crate) fn follow(&mut self, socket: u32, followed: bool) {
        let Self { connections, over, .. } = self;
        let Some(connection) = connections.get_mut(&socket) else { return };
        if connection.followed == followed {
            return;
        }
        connection.followed = followed;
        connection.http2 |= !followed;
        // What is under way is a stream's, but for the handshake's end, whose last flight may be answered before.
        let open =
            connection.open.take().filter(|open| open.encrypted && open.sent.is_some() && open.ordinal.is_some());
        over.extend(open.filter(|open| open.ordinal <= Some(1)).map(|open| (open, End::Told)));
    }

    /// A connection was upgraded: its last exchange is over with the response that said so.
    pub(crate) fn upgrade(&mut self, socket: u32) {
        let Self { connections, over, .. } = self;
        let Some(connection) = connections.get_mut(&socket) else { return };
        connection.followed = true;
        over.extend(connection.open.take().filter(|open| open.sent.is_some()).map(|open| (open, End::Told)));
    }

    /// A task takes bytes, up to a position.
    pub(crate) fn take(&mut self, socket: u32, at_ns: u64, position: u64, pid: u32) {
        if self.connection(socket).is_none() {
            return;
        }
        let Self { connections, over, counts, .. } = self;
        let Some(connection) = connections.get_mut(&socket) else { return };
        let before = connection.taken;
        if before.is_some_and(|taken| position <= taken) {
            return;
        }
        connection.taken = Some(position);
        if connection.followed {
            while connection.arrivals.front().is_some_and(|arrival| arrival.position <= position) {
                connection.arrivals.pop_front();
            }
            return;
        }
        // A TLS record's head, taken by itself at the very beginning.
        connection.encrypted |= before == Some(0) && position == TLS_HEAD_BYTES;
        let first = connection.arrivals.front().copied();
        if let Some(mut open) = connection.open.take() {
            match open.sent {
                Some(sent) if sent.to - sent.from == CONTINUE_BYTES && !open.interim && !open.encrypted => {
                    // The client was asked to go on: its request is not answered yet.
                    (open.interim, open.sent, open.parked) = (true, None, None);
                    connection.open = Some(open);
                }
                Some(sent) => {
                    connection.answered_ns = sent.last_ns;
                    let early = first.is_some_and(|next| next.at_ns.saturating_add(OVERLAP_NS) < sent.last_ns);
                    counts.overlapped += u64::from(early && !open.http2);
                    over.push_back((open, End::Told));
                }
                None => connection.open = Some(open),
            }
        }
        let waiting = connection.arrivals.len();
        while connection.arrivals.front().is_some_and(|arrival| arrival.position <= position) {
            connection.arrivals.pop_front();
        }
        // Of an arrival a part may be taken, and the rest with the next request.
        let arrivals = ((waiting - connection.arrivals.len()) as u32).max(u32::from(first.is_some()));
        if let Some(open) = &mut connection.open {
            open.to = position;
            open.arrivals += arrivals;
            return;
        }
        let ordinal = connection.ordinal;
        connection.ordinal = ordinal.map(|number| number.saturating_add(1));
        connection.open = Some(Exchange {
            ordinal,
            arrival: first,
            arrivals,
            // Of an older connection it is not known how far it had come.
            from: before.unwrap_or(position),
            to: position,
            encrypted: connection.encrypted,
            http2: connection.http2,
            answered_ns: connection.answered_ns,
            ..Exchange::picked(socket, at_ns, pid)
        });
    }

    /// A task gives bytes, up to a position.
    pub(crate) fn send(&mut self, socket: u32, at_ns: u64, position: u64, pid: u32) {
        let Some(connection) = self.connection(socket) else { return };
        let before = connection.sent;
        if before.is_some_and(|sent| position <= sent) {
            return;
        }
        connection.sent = Some(position);
        if connection.followed {
            return;
        }
        let Some(open) = &mut connection.open else {
            self.counts.unasked += 1;
            return;
        };
        match &mut open.sent {
            Some(sent) => {
                let resumed = open.parked.as_ref().is_some_and(|parked| parked.until_ns >= sent.last_ns);
                (sent.last_ns, sent.pid, sent.to) = (at_ns, pid, position);
                self.counts.resumed += u64::from(resumed);
            }
            None => {
                let from = before.unwrap_or(position);
                open.sent = Some(Sent { first_ns: at_ns, last_ns: at_ns, pid, from, to: position });
            }
        }
    }

    /// An event was in what was just given on a connection.
    pub(crate) fn event(&mut self, socket: u32, at_ns: u64, bytes: u64) {
        let open = self.connections.get_mut(&socket).and_then(|connection| connection.open.as_mut());
        let Some(open) = open.filter(|open| open.sent.is_some()) else { return };
        let sent = &mut open.events.get_or_insert_default().sent;
        sent.note(at_ns);
        sent.bytes = sent.bytes.saturating_add(bytes);
    }

    /// A connection closes.
    pub(crate) fn close(&mut self, socket: u32) {
        if let Some(exchange) = self.connections.remove(&socket).and_then(|connection| connection.open) {
            self.over.push_back((exchange, End::Told));
        }
    }

    /// The recording, or a window of it, ends: what is under way is over or cut, and nothing is known from here on.
    pub(crate) fn edge(&mut self, at_ns: u64) {
        let connections = std::mem::take(&mut self.connections).into_values();
        let mut open: Vec<Exchange> = connections.filter_map(|connection| connection.open).collect();
        // By their times, so that a run is told in the same way whenever it is read.
        open.sort_by_key(|exchange| (exchange.picked_ns, exchange.socket));
        for exchange in open {
            let whole = exchange.is_silent(at_ns, EDGE_NS);
            self.over.push_back((exchange, if whole { End::Silent } else { End::Cut }));
        }
    }

    /// Takes responses as over that have been silent for long by this time, for those who are told while the recording
    /// goes on. What is sent of them later is no response's.
    pub(crate) fn settle(&mut self, now_ns: u64) {
        let is_over = |open: &mut Exchange| open.is_silent(now_ns, SETTLED_NS);
        let open = self.connections.values_mut().map(|connection| &mut connection.open);
        let mut over: Vec<Exchange> = open.filter_map(|open| open.take_if(is_over)).collect();
        over.sort_by_key(|exchange| (exchange.picked_ns, exchange.socket));
        self.over.extend(over.into_iter().map(|exchange| (exchange, End::Silent)));
    }

    /// The next exchange that is over, if its last send was by this time.
    pub(crate) fn next_over(&mut self, until_ns: u64) -> Option<(Exchange, End)> {
        let (first, _) = self.over.front()?;
        let last_ns = first.sent.map_or(first.picked_ns, |sent| sent.last_ns);
        if last_ns > until_ns { None } else { self.over.pop_front() }
    }

    /// Gives up requests that no task answers, and puts aside, by `steps`, what is known of responses that have been
    /// silent for long. Returns the oldest time that may still be asked for.
    pub(crate) fn sweep(&mut self, now_ns: u64, mut steps: impl FnMut(&Exchange) -> Parked) -> Option<u64> {
        let (silent_ns, dead_ns) = (now_ns.saturating_sub(SILENCE_NS), now_ns.saturating_sub(UNANSWERED_NS));
        let (mut oldest_ns, mut held) = (None, 0);
        let Self { connections, over, .. } = self;
        for connection in connections.values_mut() {
            if connection.arrivals.front().is_some_and(|first| first.at_ns < dead_ns) {
                connection.arrivals.clear();
            }
            let Some(open) = &mut connection.open else { continue };
            let quiet = open.sent.is_some_and(|sent| sent.last_ns < silent_ns);
            if quiet && open.sent.map(|sent| sent.last_ns) != open.parked.as_ref().map(|parked| parked.until_ns) {
                open.parked = Some(steps(open));
            }
            let kept = open.parked.as_ref().map_or(0, |parked| parked.steps.len() + 1);
            let full = held + kept > MOST_PARKED;
            if open.sent.is_none() && open.begun_ns() < dead_ns || quiet && full {
                let end = if full { End::Silent } else { End::Told };
                over.extend(connection.open.take().map(|open| (open, end)));
                continue;
            }
            held += kept;
            let needed_ns = if quiet { None } else { Some(open.begun_ns()) };
            oldest_ns = [oldest_ns, needed_ns].into_iter().flatten().min();
        }
        let waiting =
            connections.values().filter_map(|connection| connection.arrivals.front()).map(|first| first.at_ns);
        let waiting = waiting.chain(over.iter().map(|(exchange, _)| exchange.begun_ns()));
        if connections.len() > MOST_CONNECTIONS / 2 {
            let idle = |one: &Connection| one.open.is_none() && one.arrivals.is_empty();
            let waiting = waiting.min();
            connections.retain(|_, connection| !idle(connection));
            return [oldest_ns, waiting].into_iter().flatten().min();
        }
        [oldest_ns, waiting.min()].into_iter().flatten().min()
    }

    /// Counts a request that was never answered, by the server's end of its connection.
    pub(crate) fn note_unanswered(&mut self, end: Option<ServerEnd>) {
        self.counts.unanswered += 1;
        let ends = &mut self.unanswered_at;
        if let Some(end) = end.filter(|end| ends.len() < MOST_NAMES || ends.contains_key(end)) {
            *ends.entry(end).or_default() += 1;
        }
    }

    /// How many things are held.
    pub(crate) fn held(&self) -> usize {
        let of = |one: &Connection| {
            let parked = one.open.as_ref().and_then(|open| open.parked.as_ref());
            1 + one.arrivals.len() + parked.map_or(0, |parked| parked.steps.len())
        };
        self.connections.values().map(of).sum::<usize>() + self.over.len()
    }

    /// A connection, remembered from its first event on; `None` where there are too many.
    fn connection(&mut self, socket: u32) -> Option<&mut Connection> {
        if self.connections.len() >= MOST_CONNECTIONS && !self.connections.contains_key(&socket) {
            self.counts.forgotten += 1;
            return None;
        }
        Some(self.connections.entry(socket).or_default())
    }
}

impl Exchanges {
    /// Counts a response by what carried it.
    pub(crate) fn add(&mut self, exchange: &Exchange) {
        let is_stream = exchange.stream != 0 && exchange.carrier == Carrier::Tcp;
        self.several += u64::from(exchange.arrivals > 1);
        self.interim += u64::from(exchange.interim);
        self.http3 += u64::from(exchange.carrier == Carrier::Quic);
        self.encrypted += u64::from(exchange.encrypted && exchange.carrier == Carrier::Tcp);
        self.encrypted_streams += u64::from(is_stream && exchange.encrypted);
        self.streams += u64::from(is_stream);
        self.streams_nameless += u64::from(is_stream && exchange.name.is_none());
    }
}

impl Exchange {
    /// One of a socket that a task picks up at a time, and of which nothing else is known.
    pub(crate) fn picked(socket: u32, picked_ns: u64, picker: u32) -> Self {
        Self {
            socket,
            ordinal: None,
            arrival: None,
            arrivals: 1,
            picked_ns,
            picker,
            from: 0,
            to: 0,
            sent: None,
            interim: false,
            encrypted: false,
            http2: false,
            carrier: Carrier::Tcp,
            stream: 0,
            response_bytes: 0,
            status: 0,
            answered_ns: 0,
            name: None,
            trace: None,
            parked: None,
            events: None,
        }
    }

    /// Whether its response has begun, and has been silent by this time for as long as it had lasted, but at least so long.
    fn is_silent(&self, now_ns: u64, least_ns: u64) -> bool {
        self.sent.is_some_and(|sent| {
            let lasted_ns = sent.last_ns.saturating_sub(self.begun_ns());
            now_ns.saturating_sub(sent.last_ns) >= lasted_ns.clamp(least_ns, SILENCE_NS.max(least_ns))
        })
    }

    /// Its first byte's arrival, or where that was not seen the pick-up.
    pub(crate) fn begun_ns(&self) -> u64 {
        self.arrival.map_or(self.picked_ns, |arrival| arrival.at_ns.min(self.picked_ns))
    }

    /// The same, sent to its last byte by a task at a time.
    pub(crate) fn with_last_send(self, last_ns: u64, pid: u32) -> Self {
        let to = self.response_bytes;
        Self { sent: self.sent.map(|sent| Sent { last_ns, pid, to, ..sent }), ..self }
    }

    /// What it turned out to be.
    pub(crate) fn sort(&self, end: End) -> Sort {
        let bytes = self.to.saturating_sub(self.from);
        match (self.sent, self.arrival, self.ordinal) {
            _ if self.http2 => Sort::Http2,
            _ if end == End::Cut => Sort::Cut,
            (_, None, _) if self.carrier == Carrier::Quic => Sort::NoArrival,
            // Of an older connection's first one, the bytes may have arrived before the recording.
            (_, None, None) if bytes == 0 => Sort::Cut,
            (_, None, _) => Sort::NoArrival,
            (None, ..) => Sort::Unanswered,
            (Some(_), _, Some(0)) if self.encrypted => Sort::Handshake,
            (Some(_), _, Some(1)) if self.encrypted && bytes <= TLS_FINISHED_BYTES => Sort::Handshake,
            _ => Sort::Response,
        }
    }
}
