//! The loop of one thread, and in it the way of a request: begun, written, received, over.
//!
//! What happens rarely (connections made and lost, timeouts) is in [`super::lifecycle`].

use super::Malformed;
use super::connection::{Connection, Exchange, Phase};
use super::control::{CANCEL, PROTOCOL_ERROR};
use super::frames::{Event, FRAME_BYTES_MAX, FRAME_HEAD_BYTES, WINDOW_UPDATE};
use super::hpack::{Decoder, Head};
use super::users::Users;
use super::wire::{WINDOW_BYTES, Wire};
use crate::LoadError;
use crate::asks::Chooser;
use crate::clients::Clients;
use crate::cookies::CookieJar;
use crate::engine::NEVER;
use crate::events::Events;
use crate::kernel::{HANGUP, Kernel, READABLE, monotonic_ns};
use crate::options::{Control, Published};
use crate::plan::{self, Host, Plan, Share};
use crate::schedule::Arrivals;
use crate::slices::Slices;
use crate::tally::{Durations, Tally};
use crate::unread::Unread;
use std::collections::VecDeque;
use std::io;
use std::time::SystemTime;
use weir_wire::client::{ClientRequest, Outcome};

/// What one read takes at most.
const BUFFER_BYTES: usize = 128 * 1024;
/// Reads from one connection before the others have their turn: a response without end must not starve them.
const READS_IN_A_ROW: u32 = 16;
/// Events taken in one wait.
const EVENTS: usize = 256;
/// Bytes after which the server is told that it may send more: half of its window, so that it never waits.
const TELL_BYTES: u32 = WINDOW_BYTES / 2;

/// The state of one loop.
pub(crate) struct Engine<'a> {
    pub(super) plan: &'a Plan,
    pub(super) wire: &'a Wire,
    /// Where the requests go; over HTTP/2 that is one host.
    pub(super) host: &'a Host,
    /// Whether the bytes on the wire are those of TLS.
    pub(super) encrypted: bool,
    /// Says what is asked next.
    pub(super) chooser: Chooser,
    pub(super) control: &'a Control,
    pub(super) kernel: Kernel,
    pub(super) connections: Vec<Connection>,
    /// Slots that are closed; always at least as many as connections may still be opened.
    pub(super) free: Vec<u32>,
    /// Connections that can take a request, or could when they were listed.
    pub(super) roomy: Vec<u32>,
    /// Connections with something to write.
    pub(super) touched: Vec<u32>,
    unread: Unread,
    /// Connections that count as open or being opened, and those of them that are being opened.
    pub(super) live: u32,
    pub(super) live_max: u32,
    pub(super) connecting: u32,
    /// Connections made so far.
    pub(super) numbered: u64,
    pub(super) lane: u32,
    /// Which of the host's addresses is in use.
    pub(super) address: usize,
    pub(super) arrivals: Option<Arrivals>,
    pub(super) next_arrival_ns: u64,
    /// Requests that have begun and have no stream: their connection is being made, or the one that they had is lost.
    pub(super) held: VecDeque<Exchange>,
    /// Intended times of the arrivals that wait for a stream.
    pub(super) queue: VecDeque<u64>,
    pub(super) queue_max: usize,
    /// Requests begun or queued so far, and the most that may be.
    pub(super) issued: u64,
    pub(super) limit: u64,
    pub(super) end_ns: u64,
    /// Requests begun that are not over.
    pub(super) outstanding: u64,
    /// The clock when it was last read.
    pub(super) now_ns: u64,
    pub(super) next_sweep_ns: u64,
    /// When waiting for what is under way is given up, and whether it was.
    pub(super) give_up_ns: u64,
    pub(super) gave_up: bool,
    /// Before this no connection is opened: the host had nothing left for one.
    pub(super) hold_until_ns: u64,
    pub(super) stopped: bool,
    /// What the shared counters hold of this loop.
    pub(super) published: Published,
    pub(super) fatal: Option<LoadError>,
    /// How many streams the server took when it last said so.
    pub(super) streams_known: Option<u32>,
    pub(super) buffer: Box<[u8]>,
    /// The sessions under way, if that is what is run.
    pub(super) users: Option<Box<Users>>,
    /// The cookies of users that have no connection at the time, where users are connections.
    pub(super) jars: Vec<CookieJar>,
    /// Where cookies and blocks of headers are put together.
    cookies: Vec<u8>,
    block: Vec<u8>,
    decoder: Decoder,
    pub(super) tally: Tally,
    pub(super) events: Events,
    pub(super) slices: Slices,
}

impl<'a> Engine<'a> {
    pub(crate) fn new(plan: &'a Plan, wire: &'a Wire, control: &'a Control, share: Share) -> Result<Self, LoadError> {
        let kernel = Kernel::new(&plan.sockets).map_err(|cause| LoadError::System { what: "epoll_create1", cause })?;
        let slots = share.connections + plan::lingering_max(share.connections, wire.keep_alive);
        let places = share.arrivals.is_none().then_some(share.connections);
        let clients = Clients::new(plan.sources, places);
        let next_arrival_ns = share.arrivals.as_ref().map_or(NEVER, |arrivals| arrivals.next_before(share.end_ns));
        let queue = if share.arrivals.is_some() { share.queue } else { 0 };
        Ok(Self {
            plan,
            wire,
            host: &plan.hosts[0],
            encrypted: plan.hosts[0].route.tls.is_some(),
            chooser: share.chooser,
            control,
            kernel,
            connections: (0..slots).map(|_| Connection::new(wire.streams, wire.keep_alive)).collect(),
            free: (0..slots).rev().collect(),
            roomy: Vec::with_capacity(slots as usize),
            touched: Vec::with_capacity(slots as usize),
            unread: Unread::new(slots as usize),
            live: 0,
            live_max: share.connections,
            connecting: 0,
            numbered: 0,
            lane: share.lane,
            address: 0,
            arrivals: share.arrivals,
            next_arrival_ns: if share.limit == 0 { NEVER } else { next_arrival_ns },
            held: VecDeque::new(),
            // A large bound is a bound, not a wish for memory.
            queue: VecDeque::with_capacity(queue.min(100_000)),
            queue_max: queue,
            issued: 0,
            limit: share.limit,
            end_ns: share.end_ns,
            outstanding: 0,
            now_ns: monotonic_ns(),
            next_sweep_ns: 0,
            give_up_ns: share.end_ns.saturating_add(plan.timeout_ns),
            gave_up: false,
            hold_until_ns: 0,
            stopped: false,
            published: Published::default(),
            fatal: None,
            streams_known: None,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            users: Users::new(plan, share.lane, share.lanes, share.connections),
            jars: Vec::new(),
            cookies: Vec::new(),
            block: Vec::new(),
            decoder: if wire.cookie_jar { Decoder::with_cookies() } else { Decoder::default() },
            tally: Tally { clients, ..Tally::new(plan.expected.clone()) },
            events: Events::new(share.events, share.observer, share.lane),
            slices: share.slices,
        })
    }

    /// Runs until the stop rule is met and what is under way is over; gives the counts and when nothing more was begun.
    pub(crate) fn run(mut self, start_ns: u64) -> Result<(Tally, u64), LoadError> {
        self.events.begins(start_ns);
        // The loop was made before the common start: a clock read then would lengthen the first latencies.
        self.now_ns = monotonic_ns();
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        let is_timed = self.arrivals.is_some() || self.users.is_some();
        self.sweep();
        while self.fatal.is_none() && !self.is_over() {
            let mut next_ns = self.next_arrival_ns;
            if is_timed {
                self.now_ns = monotonic_ns();
                self.issue_due();
                self.wake_sessions();
                next_ns = self.next_arrival_ns.min(self.next_wake_ns());
            }
            let until_ns = if self.unread.is_empty() { next_ns.min(self.next_sweep_ns) } else { 0 };
            let count = self
                .kernel
                .wait(&mut events, until_ns.saturating_sub(self.now_ns))
                .map_err(|cause| LoadError::System { what: "waiting for events (epoll_pwait2)", cause })?;
            if count == 0 {
                self.now_ns = monotonic_ns();
            }
            for event in &events[..count] {
                self.on_event(event.u64, event.events);
                if self.now_ns >= self.next_arrival_ns {
                    self.issue_due();
                }
            }
            self.read_on();
            if self.now_ns >= self.next_sweep_ns {
                self.sweep();
            }
        }
        self.finish()
    }

    /// Goes on with the connections that were left with more to read.
    #[inline]
    fn read_on(&mut self) {
        self.unread.begin();
        while let Some(token) = self.unread.next() {
            self.on_event(token, libc::EPOLLIN as u32);
        }
    }

    fn on_event(&mut self, token: u64, flags: u32) {
        let slot = (token & 0xffff_ffff) as usize;
        let connection = &self.connections[slot];
        if connection.generation != (token >> 32) as u32 {
            return;
        }
        match connection.phase {
            Phase::Open | Phase::Leaving => {
                if flags & libc::EPOLLOUT as u32 != 0 {
                    self.flush(slot);
                }
                if flags & READABLE != 0 {
                    self.receive(slot, flags);
                }
            }
            Phase::Connecting | Phase::Handshaking => self.on_connect_event(slot, flags),
            Phase::Closed => {}
        }
        self.flush_touched();
    }

    /// Puts a request on a stream of a connection that has room; it is written with all others that are ready.
    #[inline]
    pub(super) fn begin(&mut self, slot: usize, exchange: Exchange) {
        let connection = &mut self.connections[slot];
        let offset = connection.out_end();
        let (wire, ask) = (self.wire, exchange.ask);
        let asked = &wire.asks[ask as usize];
        let with_body = !asked.body.is_empty();
        let (first_window, now_ns) = (connection.first_window, self.now_ns);
        let (place, placed) = connection.place(exchange);
        if placed.started_ns == 0 {
            placed.started_ns = now_ns;
        }
        placed.request_offset = offset;
        placed.window = first_window;
        placed.sending = with_body;
        let stream = placed.stream;
        if wire.cookie_jar {
            self.cookies.clear();
            if let Some(url) = self.plan.asks.url(ask) {
                connection.jar.write(url, SystemTime::now(), &mut self.cookies);
            }
            let bytes = asked.begin_with(&mut connection.out, &mut self.block, stream, &self.cookies);
            connection.at(place).head_bytes = bytes;
        } else {
            placed.head_bytes = asked.head.len() as u32;
            asked.begin(&mut connection.out, stream);
        }
        connection.unsent.push_back((place, offset));
        if with_body {
            connection.senders.push_back(place);
        }
        self.touch(slot);
    }

    /// Has a connection written before the loop goes on.
    #[inline]
    pub(super) fn touch(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        if !connection.listed_touched {
            connection.listed_touched = true;
            self.touched.push(slot as u32);
        }
    }

    #[inline]
    pub(super) fn flush_touched(&mut self) {
        while let Some(slot) = self.touched.pop() {
            self.connections[slot as usize].listed_touched = false;
            self.flush(slot as usize);
        }
    }

    /// Writes what a connection has to say, as far as there is room.
    fn flush(&mut self, slot: usize) {
        let encrypted = self.encrypted;
        let connection = &mut self.connections[slot];
        while !connection.broken {
            connection.fill(&self.wire.asks);
            let Some(stream) = &mut connection.stream else { return };
            let nothing = connection.out_at == connection.out.len();
            if nothing && !stream.is_clogged() {
                return;
            }
            self.now_ns = monotonic_ns();
            // Encrypted, only the whole write has a place in the stream, not each request in it.
            let offset = encrypted.then_some(stream.sent);
            let written = stream.write(&mut self.kernel, &connection.out[connection.out_at..]);
            connection.stamp(self.now_ns, offset);
            match written {
                Ok(count) => connection.written(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    // The server may have answered, or said farewell, and closed: that is still to be had.
                    connection.broken = true;
                    return self.receive(slot, HANGUP);
                }
            }
            if nothing {
                return;
            }
        }
    }

    /// Takes what a connection has received and finishes the requests that it completes.
    #[inline]
    fn receive(&mut self, slot: usize, flags: u32) {
        let generation = self.connections[slot].generation;
        self.connections[slot].hung_up |= flags & HANGUP != 0;
        for _ in 0..READS_IN_A_ROW {
            let connection = &mut self.connections[slot];
            let Some(stream) = &mut connection.stream else { return };
            let before = stream.received;
            let read = stream.read(&mut self.kernel, &mut self.buffer);
            self.now_ns = monotonic_ns();
            let count = match read {
                // The server's close_notify comes before its FIN. We wait for the FIN, since the side that closes first
                // keeps its port in TIME_WAIT.
                Ok(0) if connection.linger_until_ns != 0 && flags & HANGUP == 0 => return,
                Ok(0) => return self.ended(slot),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => return self.failed(slot, &error),
            };
            let drained = stream.drained;
            connection.hung_up |= stream.ended;
            connection.heard_ns = self.now_ns;
            self.tally.received(count as u64, self.now_ns <= self.end_ns);
            if !self.take(slot, generation, count, before) {
                return;
            }
            self.flush_touched();
            let connection = &self.connections[slot];
            if connection.generation != generation || drained && !connection.hung_up {
                return;
            }
        }
        self.unread.list(u64::from(generation) << 32 | slot as u64);
    }

    /// Takes the frames of a read, whose first byte has the position `before`; tells whether the connection is still there.
    #[inline]
    fn take(&mut self, slot: usize, generation: u32, count: usize, before: u64) -> bool {
        let mut at = 0;
        while at < count {
            let reader = &mut self.connections[slot].reader;
            let (used, event) = match reader.next(&mut self.decoder, &self.buffer[at..count]) {
                Ok(next) => next,
                Err(malformed) => {
                    self.malformed(slot, malformed, count);
                    return false;
                }
            };
            let offset = if self.encrypted { before } else { before + at as u64 };
            at += used;
            let Some(event) = event else { continue };
            let taken = match event {
                Event::Data { stream, content, flow, bytes, end } => {
                    self.on_content(slot, stream, [content, flow, bytes], end, offset)
                }
                Event::Headers { stream, head, end, bytes } => self.on_head(slot, stream, head, end, bytes, offset),
                rare => self.on_rare_frame(slot, rare),
            };
            if let Err(malformed) = taken {
                self.malformed(slot, malformed, count);
                return false;
            }
            if self.connections[slot].generation != generation {
                return false;
            }
        }
        true
    }

    #[inline]
    fn on_head(
        &mut self,
        slot: usize,
        stream: u32,
        head: Head,
        end: bool,
        bytes: u32,
        offset: u64,
    ) -> Result<(), Malformed> {
        let connection = &mut self.connections[slot];
        let Some(place) = connection.find(stream) else { return connection.pass_over(stream) };
        let exchange = connection.at(place);
        exchange.heard(self.now_ns, offset, bytes);
        let of_trailers = exchange.status != 0;
        let wrong = match head.status {
            0 => !of_trailers || !end,
            _ if of_trailers => true,
            // Interim responses belong to the one that they announce; no other protocol was asked for.
            100..=199 => end || head.status == 101,
            status => {
                exchange.status = status;
                let empty = self.plan.asks.entry(exchange.ask).head_only || status == 304;
                exchange.expected = if empty { Some(0) } else { head.length };
                let ask = exchange.ask;
                if self.wire.cookie_jar
                    && let Some(url) = self.plan.asks.url(ask)
                {
                    self.decoder.cookies().for_each(|value| connection.jar.set(value, url, SystemTime::now()));
                }
                false
            }
        };
        if wrong {
            let words = match head.status {
                0 if of_trailers => "more follows its trailers",
                0 => "its head has no status",
                101 => "it switches protocols (101), which HTTP/2 cannot",
                100..=199 => "it ends with an interim response",
                _ => "it has two heads",
            };
            self.give_up(slot, place, Outcome::Malformed, Some(PROTOCOL_ERROR), words);
        } else if end {
            self.answered(slot, place);
        }
        Ok(())
    }

    /// Takes content, with the bytes that count for the response, for flow control and in all.
    #[inline]
    fn on_content(
        &mut self,
        slot: usize,
        stream: u32,
        [content, flow, bytes]: [u32; 3],
        end: bool,
        offset: u64,
    ) -> Result<(), Malformed> {
        let connection = &mut self.connections[slot];
        connection.untold += flow;
        if connection.untold >= TELL_BYTES {
            let more = std::mem::take(&mut connection.untold);
            connection.answer(WINDOW_UPDATE, 0, 0, &more.to_be_bytes())?;
            self.touch(slot);
        }
        let connection = &mut self.connections[slot];
        let Some(place) = connection.find(stream) else { return connection.pass_over(stream) };
        let exchange = connection.at(place);
        exchange.heard(self.now_ns, offset, bytes);
        exchange.content += u64::from(content);
        if exchange.status == 0 {
            self.give_up(slot, place, Outcome::Malformed, Some(PROTOCOL_ERROR), "its content comes before its head");
        } else if end {
            self.answered(slot, place);
        } else {
            exchange.untold += flow;
            if exchange.untold >= TELL_BYTES {
                let more = std::mem::take(&mut exchange.untold);
                connection.answer(WINDOW_UPDATE, 0, stream, &more.to_be_bytes())?;
                self.touch(slot);
            }
        }
        Ok(())
    }

    /// A response is whole: goes on with the connection at once, and only then counts.
    #[inline]
    fn answered(&mut self, slot: usize, place: u32) {
        let connection = &mut self.connections[slot];
        let exchange = connection.at(place);
        if exchange.expected.is_some_and(|expected| expected != exchange.content) {
            let words = "its content is not as long as its content-length (RFC 9113 8.1.1)";
            return self.give_up(slot, place, Outcome::Malformed, None, words);
        }
        if exchange.body_sent < self.wire.asks[exchange.ask as usize].body.len() {
            // Answered before all of the request was there: what is left of it is not wanted (RFC 9113 8.1).
            let stream = exchange.stream;
            connection.say_reset(stream, CANCEL);
            self.touch(slot);
        }
        let connection = &mut self.connections[slot];
        connection.responses += 1;
        let (number, connect_start_ns) = (connection.number, connection.connect_start_ns);
        let session = connection.session;
        let exchange = connection.take(place);
        self.outstanding -= 1;
        let done_ns = self.now_ns;
        if session == 0 {
            self.go_on(slot);
        } else {
            self.session_answered(slot, session, exchange.status);
        }
        let from_ns = if exchange.opened { connect_start_ns.max(exchange.started_ns) } else { exchange.sent_ns };
        let durations = Durations {
            latency_ns: done_ns.saturating_sub(exchange.intended_ns),
            uncorrected_ns: done_ns.saturating_sub(from_ns),
            first_byte_ns: exchange.first_byte_ns.saturating_sub(exchange.sent_ns),
        };
        self.tally.answered(exchange.status, done_ns <= self.end_ns, durations);
        self.tally.last_done_ns = done_ns;
        if self.events.wanted() {
            self.tell(number, &exchange, Outcome::Done, done_ns);
        }
    }

    /// Has a connection that has room begin what is to be begun; one that is done with is closed.
    #[inline]
    pub(super) fn go_on(&mut self, slot: usize) {
        while self.connections[slot].has_room() {
            let Some(exchange) = self.next_exchange(slot) else { break };
            self.begin(slot, exchange);
        }
        let connection = &mut self.connections[slot];
        if connection.has_room() {
            if !connection.listed_roomy && connection.session == 0 {
                connection.listed_roomy = true;
                self.roomy.push(slot as u32);
            }
        } else if connection.phase == Phase::Open && connection.is_to_be_left() {
            self.leave(slot);
        } else if connection.phase == Phase::Leaving && connection.active == 0 {
            self.left(slot);
        }
    }

    /// Writes a request's event.
    pub(super) fn tell(&mut self, connection: u64, exchange: &Exchange, outcome: Outcome, done_ns: u64) {
        let body = exchange.body_sent;
        let frames = body.div_ceil(FRAME_BYTES_MAX);
        let request_bytes = match exchange.sent_ns {
            0 => 0,
            _ => exchange.head_bytes as usize + body + frames * FRAME_HEAD_BYTES,
        };
        self.events.request(ClientRequest {
            connection,
            intended_ns: exchange.intended_ns,
            started_ns: exchange.started_ns,
            sent_ns: exchange.sent_ns,
            first_byte_ns: exchange.first_byte_ns,
            done_ns,
            request_offset: exchange.request_offset,
            request_bytes: u32::try_from(request_bytes).unwrap_or(u32::MAX),
            response_offset: exchange.response_offset,
            response_bytes: exchange.response_bytes,
            status: if outcome == Outcome::Done { exchange.status } else { 0 },
            name: self.plan.asks.entry(exchange.ask).name,
            outcome,
            opened_connection: exchange.opened,
            encrypted: self.encrypted,
            retried: exchange.repeats > 0,
            http_version: 2,
        });
    }
}
