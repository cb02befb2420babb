//! The way of a request: begun, answered, over.
//!
//! What happens rarely (connections that are left, timeouts) is in [`crate::http3::lifecycle`].

use crate::checks::Seen;
use crate::connect::connection::{Connection, Phase};
use crate::connect::datagrams::real_ns;
use crate::connect::kernel::monotonic_ns;
use crate::counts::answered::Answered;
use crate::counts::durations::Durations;
use crate::counts::traced::TracedOne;
use crate::engine::state::Engine;
use crate::http3::failing::words_of_reset;
use crate::http3::frames::Event;
use crate::http3::malformed::{Malformed, code};
use crate::http3::qpack::{Decoder, Head};
use crate::http3::sending::reset;
use crate::http3::state::Http3;
use crate::http3::streams::{Exchange, Streams, UNTOLD_LENGTH};
use crate::plan::run_plan::Plan;
use crate::requests::cookies::CookieJar;
use quinn_proto::{ReadError, StreamId};
use std::time::SystemTime;
use weir_wire::client::{ClientRequest, Outcome};

/// What reading a response's stream came to.
enum Read {
    /// More is to come.
    Pending,
    /// The stream is over.
    Ended,
    /// The server gave it up, with this code.
    Reset(u64),
}

/// Where a piece of a response goes.
struct Answering<'c> {
    exchange: &'c mut Exchange,
    block: &'c mut Vec<u8>,
    seen: Option<&'c mut Seen>,
    jar: &'c mut CookieJar,
    decoder: &'c mut Decoder,
    plan: &'c Plan,
}

impl Engine<'_, Http3<'_>> {
    /// Puts a request on a stream of a connection that has room for it; it goes out with all others that are ready.
    #[inline]
    pub(crate) fn begin(&mut self, slot: usize, exchange: Exchange) {
        let connection = &mut self.connections[slot];
        let Some((place, stream)) = connection.http.place(exchange) else {
            // Each caller has seen that there is a stream; one that is not there is waited for.
            let exchange = self.with_patience(exchange);
            return self.http.held.push_back(exchange);
        };
        let placed = connection.http.at(place);
        if placed.started_ns == 0 {
            placed.started_ns = self.now_ns;
        }
        connection.http.list_unsent(place);
        if self.http.patience.is_some() {
            self.watch_patience(slot, place);
        }
        self.write_request(slot, place, stream);
        self.touch(slot);
    }

    /// Reads what has come of a response.
    #[inline]
    pub(crate) fn read_response(&mut self, slot: usize, stream: StreamId) {
        let Some(place) = self.connections[slot].http.find(stream) else { return };
        match self.read(slot, place, stream) {
            Ok(Read::Pending) => {}
            Ok(Read::Ended) => self.stream_ended(slot, place, stream),
            Ok(Read::Reset(code)) => self.on_reset(slot, place, code),
            Err(malformed) if malformed.is_of_message() => {
                self.give_up(slot, place, Outcome::Malformed, Some(malformed.code), malformed.what);
            }
            Err(malformed) => self.malformed(slot, malformed),
        }
    }

    /// Takes what QUIC has of a stream.
    #[inline]
    fn read(&mut self, slot: usize, place: u32, stream: StreamId) -> Result<Read, Malformed> {
        let Connection { http, jar, .. } = &mut self.connections[slot];
        let Streams { link, table, blocks, seen, .. } = http;
        let Some(link) = link else { return Ok(Read::Pending) };
        let exchange = &mut table[place as usize];
        let mut receive = link.quic.recv_stream(stream);
        let Ok(mut chunks) = receive.read(true) else { return Ok(Read::Pending) };
        let mut answering = Answering {
            exchange,
            block: &mut blocks[place as usize],
            seen: seen.get_mut(place as usize),
            jar,
            decoder: &mut self.http.decoder,
            plan: self.plan,
        };
        let came_to = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => {
                    if answering.exchange.first_byte_ns == 0 {
                        answering.exchange.first_byte_ns = self.now_ns;
                    }
                    if let Err(malformed) = answering.take(&chunk.bytes) {
                        break Err(malformed);
                    }
                }
                Ok(None) => break Ok(Read::Ended),
                Err(ReadError::Blocked) => break Ok(Read::Pending),
                Err(ReadError::Reset(code)) => break Ok(Read::Reset(code.into_inner())),
            }
        };
        // What is to be granted goes out with what else there is.
        let _ = chunks.finalize();
        came_to
    }

    /// A response's stream is over.
    #[inline]
    fn stream_ended(&mut self, slot: usize, place: u32, stream: StreamId) {
        let exchange = self.connections[slot].http.at(place);
        let words = match () {
            () if !exchange.reader.is_between() => "its stream ends within a frame (RFC 9114 7.1)",
            () if exchange.status == 0 => "its stream ends before its head (RFC 9114 4.1)",
            () if exchange.expected != exchange.content && exchange.expected != UNTOLD_LENGTH => {
                "its content is not as long as its content-length (RFC 9114 4.1.2)"
            }
            () => return self.answered(slot, place, stream),
        };
        self.give_up(slot, place, Outcome::Malformed, None, words);
    }

    /// A response is whole: goes on with the connection at once, and only then counts.
    #[inline]
    fn answered(&mut self, slot: usize, place: u32, stream: StreamId) {
        let connection = &mut self.connections[slot];
        if !connection.http.at(place).is_sent
            && let Some(link) = &mut connection.http.link
        {
            // Answered before all of the request was there: what is left of it is not wanted (RFC 9114 4.1).
            reset(link, stream, code::REQUEST_CANCELLED);
        }
        connection.responses += 1;
        let (number, connect_start_ns) = (connection.number, connection.connect_start_ns);
        let exchange = connection.http.take(place);
        self.scheduler.outstanding -= 1;
        self.count_held(exchange.held_since_ns);
        let done_ns = self.now_ns;
        if done_ns.wrapping_sub(exchange.intended_ns) >= self.tally.slow.from_ns {
            self.look_at_slow(slot, &exchange);
        }
        let from_ns = if exchange.opened { connect_start_ns.max(exchange.started_ns) } else { exchange.sent_ns };
        let durations = Durations {
            latency_ns: done_ns.saturating_sub(exchange.intended_ns),
            uncorrected_ns: done_ns.saturating_sub(from_ns),
            first_byte_ns: exchange.first_byte_ns.saturating_sub(exchange.intended_ns),
        };
        let answered = if self.plan.has_more {
            self.follow(slot, place, &exchange, durations)
        } else {
            Answered::fit(exchange.status)
        };
        self.go_on(slot);
        // Other responses that came with this one have come by now, however long checks looked at it.
        self.now_ns = done_ns;
        self.tally.answered(answered, done_ns <= self.scheduler.end_ns, durations);
        self.tally.last_done_ns = done_ns;
        if self.events.wanted() {
            self.tell(number, &exchange, Outcome::Done, done_ns);
        }
    }

    /// Counts how much of a slow request's time was the generator's own, if it is a success.
    #[cold]
    #[inline(never)]
    fn look_at_slow(&mut self, slot: usize, exchange: &Exchange) {
        let latency_ns = self.now_ns.saturating_sub(exchange.intended_ns);
        if let Some(traces) = &mut self.tally.traces {
            let trace = traces.tracer.ids(exchange.traced).trace;
            traces.add(TracedOne { latency_ns, trace, status: exchange.status, request: exchange.request, worker: 0 });
        }
        if self.tally.expected.contains(exchange.status) {
            let came_ns = self.connections[slot].http.came_real_ns;
            // Both clocks are read now: the response was read a moment ago.
            let since_read_ns = monotonic_ns().saturating_sub(self.now_ns);
            let unread_ns = (came_ns != 0).then(|| real_ns().saturating_sub(came_ns).saturating_sub(since_read_ns));
            self.count_slow_read(exchange.intended_ns, exchange.started_ns, exchange.held_us, unread_ns);
        }
    }

    /// Has a connection that has room begin what is to be begun; one that is done with is closed.
    #[inline]
    pub(crate) fn go_on(&mut self, slot: usize) {
        let mut has_room = self.has_room(slot);
        while has_room {
            let Some(exchange) = self.next_exchange() else { break };
            self.begin(slot, exchange);
            has_room = self.has_room(slot);
        }
        let connection = &mut self.connections[slot];
        if has_room {
            if !connection.http.listed_roomy {
                connection.http.listed_roomy = true;
                self.http.roomy.push(slot as u32);
            }
        } else if connection.phase == Phase::Open && connection.is_to_be_left() {
            self.leave(slot);
        } else if connection.phase == Phase::Leaving && connection.http.active == 0 {
            self.left(slot);
        }
    }

    /// The server gave a stream up.
    fn on_reset(&mut self, slot: usize, place: u32, code: u64) {
        let exchange = *self.connections[slot].http.at(place);
        if code == code::REQUEST_REJECTED && self.may_repeat(&exchange) {
            // It was not looked at (RFC 9114 4.1.1).
            self.connections[slot].http.take(place);
            self.hold(exchange);
            self.go_on(slot);
            self.replace();
        } else {
            self.give_up(slot, place, Outcome::StreamReset, None, &words_of_reset(code));
        }
    }

    /// Writes a request's event.
    pub(crate) fn tell(&mut self, connection: u64, exchange: &Exchange, outcome: Outcome, done_ns: u64) {
        self.events.request(ClientRequest {
            connection,
            intended_ns: exchange.intended_ns,
            started_ns: exchange.started_ns,
            sent_ns: exchange.sent_ns,
            first_byte_ns: exchange.first_byte_ns,
            done_ns,
            // Datagrams have no places in a stream of bytes.
            request_offset: 0,
            request_bytes: u32::try_from(exchange.written).unwrap_or(u32::MAX),
            response_offset: 0,
            response_bytes: exchange.response_bytes,
            status: if outcome == Outcome::Done { exchange.status } else { 0 },
            name: self.plan.requests.entry(exchange.request).name,
            outcome,
            opened_connection: exchange.opened,
            encrypted: true,
            retried: exchange.repeats > 0,
            http_version: 3,
            stream: exchange.stream.map_or(0, |stream| u32::try_from(u64::from(stream)).unwrap_or(u32::MAX)),
        });
    }
}

impl Answering<'_> {
    /// Takes bytes of a response's stream.
    #[inline]
    fn take(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        self.exchange.response_bytes += bytes.len() as u64;
        let mut at = 0;
        while at < bytes.len() {
            let (used, event) = self.exchange.reader.next(&bytes[at..], self.block)?;
            at += used;
            match event {
                Some(Event::Headers(block)) => {
                    let head = self.decoder.decode(block)?;
                    self.head(head)?;
                }
                Some(Event::Content(content)) => {
                    if self.exchange.status == 0 || self.exchange.has_trailers {
                        return Err(Malformed::new(code::FRAME_UNEXPECTED, "content before a head or behind trailers"));
                    }
                    self.exchange.content += content.len() as u64;
                    if let Some(seen) = &mut self.seen {
                        seen.content(content);
                    }
                }
                None => {}
            }
        }
        Ok(())
    }

    /// A block of fields is whole.
    #[inline]
    fn head(&mut self, head: Head) -> Result<(), Malformed> {
        let exchange = &mut *self.exchange;
        if exchange.has_trailers {
            return Err(Malformed::new(code::FRAME_UNEXPECTED, "more follows its trailers"));
        }
        match head.status {
            0 if exchange.status == 0 => return Err(Malformed::message("its head has no status")),
            0 => exchange.has_trailers = true,
            _ if exchange.status != 0 => return Err(Malformed::message("it has two heads")),
            101 => return Err(Malformed::message("it switches protocols (101), which HTTP/3 cannot")),
            // Interim responses belong to the one that they announce.
            100..=199 => {}
            status => {
                exchange.status = status;
                let empty = self.plan.requests.entry(exchange.request).head_only || status == 304;
                exchange.expected = if empty { 0 } else { head.length.unwrap_or(UNTOLD_LENGTH) };
                if self.plan.has_more {
                    if let Some(seen) = &mut self.seen {
                        seen.reset();
                        seen.head(self.decoder.fields());
                    }
                    // Only with a cookie jar the plan has URLs.
                    if let Some(url) = self.plan.requests.url(exchange.request) {
                        let now = SystemTime::now;
                        self.decoder.cookies().for_each(|value| self.jar.set(value, url, now()));
                    }
                }
            }
        }
        Ok(())
    }
}
