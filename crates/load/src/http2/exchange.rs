//! The way of a request: begun, written, received, over.
//!
//! What happens rarely (connections that are left, timeouts) is in [`crate::http2::lifecycle`].

use crate::connect::connection::{Connection, Phase};
use crate::connect::kernel::{HANGUP, monotonic_ns};
use crate::counts::answered::Answered;
use crate::counts::durations::Durations;
use crate::counts::traced::TracedOne;
use crate::engine::state::{Engine, READS_IN_A_ROW};
use crate::http2::control::{CANCEL, PROTOCOL_ERROR};
use crate::http2::frames::{Event, FRAME_BYTES_MAX, FRAME_HEAD_BYTES, WINDOW_UPDATE};
use crate::http2::hpack::Head;
use crate::http2::malformed::Malformed;
use crate::http2::state::Http2;
use crate::http2::streams::{Exchange, Streams, UNTOLD_LENGTH};
use crate::http2::wire::WINDOW_BYTES;
use std::io;
use std::time::SystemTime;
use weir_wire::client::{ClientRequest, Outcome};

/// Bytes after which the server is told that it may send more: half of its window, so that it never waits.
const TELL_BYTES: u32 = WINDOW_BYTES / 2;

impl Engine<'_, Http2<'_>> {
    /// Puts a request on a stream of a connection that has room; it is written with all others that are ready.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "each response but the last leads to a call of it")]
    pub(crate) fn begin(&mut self, slot: usize, exchange: Exchange) {
        let now_ns = self.now_ns;
        self.send(slot, |connection| {
            let (place, placed) = connection.place(exchange);
            if placed.started_ns == 0 {
                placed.started_ns = now_ns;
            }
            (place, placed)
        });
    }

    /// Sends the request that is placed on a connection; `place` gives its place, too.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "each response but the last leads to a call of it")]
    fn send(&mut self, slot: usize, place: impl FnOnce(&mut Connection<Streams>) -> (u32, &mut Exchange)) {
        let connection = &mut self.connections[slot];
        let offset = connection.out_end();
        let first_window = connection.http.first_window;
        let (place, placed) = place(connection);
        let (wire, request) = (self.http.wire, placed.request);
        let prepared = &wire.requests[request as usize];
        let with_body = !prepared.body.is_empty();
        placed.request_offset = offset;
        placed.window = first_window;
        placed.sending = with_body;
        let stream = placed.stream;
        if !self.http.has_more {
            placed.head_bytes = prepared.head.len() as u32;
            prepared.begin(&mut connection.http.out, stream);
        } else if wire.cookie_jar {
            self.http.cookies.clear();
            if let Some(url) = self.plan.requests.url(request) {
                connection.jar.write(url, SystemTime::now(), &mut self.http.cookies);
            }
            let bytes = prepared.begin_with(&mut connection.http.out, &mut self.http.block, stream, &self.http.cookies);
            connection.at(place).head_bytes = bytes;
        } else {
            placed.head_bytes = prepared.head.len() as u32;
            prepared.begin(&mut connection.http.out, stream);
        }
        connection.http.unsent.push_back((place, offset));
        if with_body {
            connection.http.senders.push_back(place);
            if let Some(call) = connection.http.calls.get_mut(place as usize) {
                call.begin(prepared.at_once_bytes());
            }
        }
        if !connection.http.listed_touched {
            connection.http.listed_touched = true;
            self.http.touched.push(slot as u32);
        }
        if self.http.has_more {
            self.begun(slot, place, offset);
        }
    }

    /// What else belongs to a request that has begun: its trace, and how long its user waits.
    #[inline(never)]
    fn begun(&mut self, slot: usize, place: u32, offset: u64) {
        if let Some(traces) = &mut self.tally.traces {
            let number = traces.tracer.take();
            let connection = &mut self.connections[slot];
            let request = connection.at(place).request;
            connection.at(place).traced = number;
            let at = (offset - connection.http.out_offset) as usize;
            let prepared = &self.http.wire.requests[request as usize];
            prepared.put_trace(&mut connection.http.out[at..], traces.tracer.ids(number));
        }
        if self.http.patience.is_some() {
            self.watch_patience(slot, place);
        }
    }

    /// Has a connection written before the loop goes on.
    #[inline]
    pub(crate) fn touch(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        if !connection.http.listed_touched {
            connection.http.listed_touched = true;
            self.http.touched.push(slot as u32);
        }
    }

    #[inline]
    pub(crate) fn flush_touched(&mut self) {
        while let Some(slot) = self.http.touched.pop() {
            self.connections[slot as usize].http.listed_touched = false;
            self.flush(slot as usize);
        }
    }

    /// Writes what a connection has to say, as far as there is room.
    pub(crate) fn flush(&mut self, slot: usize) {
        if self.http.line.is_some() {
            return self.flush_slowly(slot);
        }
        let encrypted = self.http.encrypted;
        let connection = &mut self.connections[slot];
        while !connection.http.broken {
            // A call of a function less for each request without a body.
            if !connection.http.senders.is_empty() {
                connection.fill(&self.http.wire.requests);
            }
            let Some(stream) = &mut connection.stream else { return };
            let nothing = connection.http.out_at == connection.http.out.len();
            if nothing && !stream.is_clogged() {
                return;
            }
            self.now_ns = monotonic_ns();
            // Encrypted, only the whole write has a place in the stream, not each request in it.
            let offset = encrypted.then_some(stream.sent);
            let written = stream.write(&mut self.connector.kernel, &connection.http.out[connection.http.out_at..]);
            connection.stamp(self.now_ns, offset);
            match written {
                Ok(count) => connection.written(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    // The server may have answered, or said farewell, and closed: that is still to be had.
                    connection.http.broken = true;
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
    pub(crate) fn receive(&mut self, slot: usize, flags: u32) {
        let generation = self.connections[slot].generation;
        self.connections[slot].hung_up |= flags & HANGUP != 0;
        for _ in 0..READS_IN_A_ROW {
            let connection = &mut self.connections[slot];
            let Some(stream) = &mut connection.stream else { return };
            let before = stream.received;
            let read = stream.read(&mut self.connector.kernel, &mut self.buffer);
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
            connection.http.heard_ns = self.now_ns;
            self.tally.received(count as u64, self.now_ns <= self.scheduler.end_ns);
            if !self.take_frames(slot, generation, count, before) {
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

    /// Takes the frames of a read that a slow client's line has brought; the same as `take_frames`, out of line.
    #[inline(never)]
    pub(crate) fn take(&mut self, slot: usize, generation: u32, count: usize, before: u64) -> bool {
        self.take_frames(slot, generation, count, before)
    }

    /// Takes the frames of a read, whose first byte has the position `before`; tells whether the connection is still there.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "each read leads to a call of it")]
    fn take_frames(&mut self, slot: usize, generation: u32, count: usize, before: u64) -> bool {
        let mut at = 0;
        while at < count {
            let reader = &mut self.connections[slot].http.reader;
            let (used, event) = match reader.next(&mut self.http.decoder, &self.buffer[at..count]) {
                Ok(next) => next,
                Err(malformed) => {
                    self.malformed(slot, malformed, count);
                    return false;
                }
            };
            let offset = if self.http.encrypted { before } else { before + at as u64 };
            at += used;
            let Some(event) = event else { continue };
            let taken = match event {
                Event::Data { stream, content, flow, bytes, end } => {
                    if self.plan.is_watched {
                        self.see_content(slot, stream, [content, flow, bytes], at);
                        if self.plan.streaming.is_some() && self.has_stalled(slot, stream) {
                            if self.connections[slot].generation != generation {
                                return false;
                            }
                            continue;
                        }
                    }
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

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "each response leads to a call of it")]
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
            0 => {
                if self.plan.has_more && of_trailers && end {
                    self.on_trailers(slot, place);
                }
                !of_trailers || !end
            }
            _ if of_trailers => true,
            // Interim responses belong to the one that they announce; no other protocol was asked for.
            100..=199 => end || head.status == 101,
            status => {
                exchange.status = status;
                let empty = self.plan.requests.entry(exchange.request).head_only || status == 304;
                exchange.expected = if empty { 0 } else { head.length.unwrap_or(UNTOLD_LENGTH) };
                let request = exchange.request;
                if self.plan.has_more {
                    if let Some(seen) = connection.http.seen.get_mut(place as usize) {
                        seen.reset();
                        seen.head(self.http.decoder.fields());
                    }
                    if let Some(streamed) = connection.http.streamed.get_mut(place as usize) {
                        let form = self.plan.form_of(self.http.decoder.fields());
                        streamed.begin(form, self.plan.expected.contains(status));
                    }
                    if let Some(call) = connection.http.calls.get_mut(place as usize) {
                        call.head(status, self.http.decoder.fields(), end);
                        connection.await_status(place);
                    }
                    // Only with a cookie jar the plan has URLs.
                    if let Some(url) = self.plan.requests.url(request) {
                        let now = SystemTime::now;
                        self.http.decoder.cookies().for_each(|value| connection.jar.set(value, url, now()));
                    }
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
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "each response leads to a call of it")]
    fn on_content(
        &mut self,
        slot: usize,
        stream: u32,
        [content, flow, bytes]: [u32; 3],
        end: bool,
        offset: u64,
    ) -> Result<(), Malformed> {
        let connection = &mut self.connections[slot];
        connection.http.untold += flow;
        if connection.http.untold >= TELL_BYTES {
            let more = std::mem::take(&mut connection.http.untold);
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
    // Of its two callers one passes each response, where a call took more than all that it decides.
    #[inline(always)]
    pub(crate) fn answered(&mut self, slot: usize, place: u32) {
        let connection = &mut self.connections[slot];
        let exchange = connection.at(place);
        if exchange.expected != exchange.content && exchange.expected != UNTOLD_LENGTH {
            return self.over_too_soon(slot, place);
        }
        let connection = if exchange.body_sent < self.http.wire.requests[exchange.request as usize].body.len() {
            // Answered before all of the request was there: what is left of it is not wanted (RFC 9113 8.1).
            let stream = exchange.stream;
            connection.say_reset(stream, CANCEL);
            self.touch(slot);
            &mut self.connections[slot]
        } else {
            connection
        };
        connection.responses += 1;
        let (number, connect_start_ns) = (connection.number, connection.connect_start_ns);
        let session = connection.http.session;
        let exchange = connection.take(place);
        self.scheduler.outstanding -= 1;
        let done_ns = self.now_ns;
        if done_ns.wrapping_sub(exchange.intended_ns) >= self.tally.slow.from_ns {
            self.look_at_slow(slot, &exchange);
        }
        let from_ns = if exchange.opened { connect_start_ns.max(exchange.started_ns) } else { exchange.sent_ns };
        let durations = Durations {
            latency_ns: done_ns.saturating_sub(exchange.intended_ns),
            uncorrected_ns: done_ns.saturating_sub(from_ns),
            first_byte_ns: exchange.first_byte_ns.saturating_sub(exchange.sent_ns),
        };
        let answered = match self.plan.has_more {
            false => Answered::fit(exchange.status),
            true => self.follow(slot, place, &exchange, durations),
        };
        if session == 0 {
            self.go_on(slot);
        } else {
            self.session_answered(slot, session, answered);
        }
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
        if let Some(traces) = &mut self.tally.traces {
            let trace = traces.tracer.ids(exchange.traced).trace;
            let latency_ns = self.now_ns.saturating_sub(exchange.intended_ns);
            traces.add(TracedOne { latency_ns, trace, status: exchange.status, request: exchange.request, worker: 0 });
        }
        if self.tally.expected.contains(exchange.status) {
            let reads_at_once = self.http.line.is_none();
            self.count_slow(slot, exchange.intended_ns, exchange.started_ns, exchange.held_us, reads_at_once);
        }
    }

    /// Has a connection that has room begin what is to be begun; one that is done with is closed.
    #[inline]
    pub(crate) fn go_on(&mut self, slot: usize) {
        let is_plain = self.http.users.is_none() && !self.scheduler.is_open_loop();
        while self.connections[slot].has_room() {
            if is_plain && self.http.held.is_empty() {
                let Some(request) = self.next_request() else { break };
                let now_ns = self.now_ns;
                self.send(slot, |connection| connection.place_new(now_ns, request));
            } else {
                let Some(exchange) = self.next_exchange(slot) else { break };
                self.begin(slot, exchange);
            }
        }
        let connection = &mut self.connections[slot];
        if connection.has_room() {
            if !connection.http.listed_roomy && connection.http.session == 0 {
                connection.http.listed_roomy = true;
                self.http.roomy.push(slot as u32);
            }
        } else if connection.phase == Phase::Open && connection.is_to_be_left() {
            self.leave(slot);
        } else if connection.phase == Phase::Leaving && connection.http.active == 0 {
            self.left(slot);
        }
    }

    /// Writes a request's event.
    pub(crate) fn tell(&mut self, connection: u64, exchange: &Exchange, outcome: Outcome, done_ns: u64) {
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
            name: self.plan.requests.entry(exchange.request).name,
            outcome,
            opened_connection: exchange.opened,
            encrypted: self.http.encrypted,
            retried: exchange.repeats > 0,
            http_version: 2,
            stream: exchange.stream,
        });
    }
}
