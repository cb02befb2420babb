//! The way of a request: sent, received, over.
//!
//! What happens rarely (connections that rest and end) is in [`crate::http1::lifecycle`].

use crate::connect::connection::Phase;
use crate::connect::kernel::{HANGUP, monotonic_ns};
use crate::counts::answered::Answered;
use crate::counts::traced::TracedOne;
use crate::engine::slowest::held_us;
use crate::engine::state::{Engine, READS_IN_A_ROW};
use crate::http1::account::Over;
use crate::http1::connection::Batch;
use crate::http1::failing;
use crate::http1::following::{Watching, feed_watched, follow};
use crate::http1::state::{Http1, Wanted};
use crate::requests::piece::Piece;
use std::io;
use weir_wire::client::Outcome;

impl Engine<'_, Http1> {
    /// Sends a batch on an idle connection to its host, or on a new one; there is one or the other.
    #[inline]
    pub(crate) fn issue(&mut self, batch: Batch) {
        let host = self.plan.requests.entry(batch.request).host as usize;
        match self.http.pools[host].idle.pop() {
            Some(slot) => {
                self.http.resting -= 1;
                self.begin(slot as usize, batch);
            }
            None => self.open(batch),
        }
    }

    /// Sends a batch on a connection that is free.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "each response but the last leads to a call of it")]
    pub(crate) fn begin(&mut self, slot: usize, batch: Batch) {
        let connection = &mut self.connections[slot];
        connection.http.batch = batch;
        if !self.plan.requests.is_constant {
            connection.take_chosen(&mut self.http.chosen, batch.request);
        }
        self.send_batch(slot);
    }

    /// Sends the batch that a connection holds.
    #[inline]
    pub(crate) fn send_batch(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        connection.phase = Phase::Open;
        connection.http.batch_bytes = match self.plan.requests.is_constant {
            true => connection.http.batch.left as usize * self.plan.requests.entry(0).bytes as usize,
            false => connection.compose(self.plan, self.tally.traces.as_deref_mut()),
        };
        connection.http.unsent = connection.http.batch_bytes;
        connection.http.batch.request_offset = connection.stream.as_ref().map_or(0, |stream| stream.sent);
        if connection.http.in_ring {
            if self.http.ring.fits {
                return self.queue_batch(slot);
            }
            if !self.back_to_epoll(slot) {
                return;
            }
        }
        if self.http.slow.is_some() {
            return self.send_slowly(slot);
        }
        let connection = &mut self.connections[slot];
        self.now_ns = monotonic_ns();
        connection.http.batch.sent_ns = self.now_ns;
        if connection.http.batch.started_ns == 0 {
            connection.http.batch.started_ns = self.now_ns;
        }
        self.send_rest(slot);
    }

    /// Sends what is left of a batch, as far as there is room.
    #[inline]
    pub(crate) fn send_rest(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        let Some(stream) = &mut connection.stream else { return };
        let bytes = match connection.http.composed.is_empty() {
            true => self.plan.requests.wire(connection.http.batch.request, connection.http.batch_bytes),
            false => connection.http.composed.as_slice(),
        };
        let failed = loop {
            match stream.write(&mut self.connector.kernel, &bytes[bytes.len() - connection.http.unsent..]) {
                Ok(count) => connection.http.unsent -= count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => break error,
            }
            if connection.http.unsent == 0 {
                return;
            }
        };
        if connection.is_unsent() {
            self.broken(slot, &failed);
        } else {
            // The server may have answered early and closed: its answer is still to be had.
            connection.http.was_reset |= failed.kind() == io::ErrorKind::ConnectionReset;
            self.receive(slot, HANGUP);
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
                Ok(0) => return self.stream_ended(slot),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => return self.broken(slot, &error),
            };
            let drained = stream.drained;
            connection.hung_up |= stream.ended;
            // Borrowed for as long as its bytes are looked at.
            let buffer = std::mem::take(&mut self.buffer);
            let open = self.take(slot, before, &buffer[..count]);
            self.buffer = buffer;
            if !open || drained && !self.connections[slot].hung_up {
                return;
            }
        }
        self.unread.list(u64::from(generation) << 32 | slot as u64);
    }

    /// Takes bytes that came at a position of the stream; whether more may come of what is under way.
    #[inline]
    pub(crate) fn take(&mut self, slot: usize, before: u64, bytes: &[u8]) -> bool {
        let generation = self.connections[slot].generation;
        self.tally.received(bytes.len() as u64, self.now_ns <= self.scheduler.end_ns);
        let mut at = 0;
        while at < bytes.len() {
            let mut connection = &mut self.connections[slot];
            if connection.http.batch.first_byte_ns == 0 {
                connection.http.batch.first_byte_ns = self.now_ns;
                connection.http.batch.response_offset = if connection.encrypted { before } else { before + at as u64 };
            }
            let fed = match self.plan.is_watched {
                false => connection.http.parser.feed(&bytes[at..]),
                true => {
                    let (plan, now_ns) = (self.plan, self.now_ns);
                    let (tally, events) = (&mut self.tally, &mut self.events);
                    let fed = feed_watched(Watching { plan, tally, events, now_ns }, connection, &bytes[at..]);
                    if plan.streaming.is_some() && fed.is_ok() && self.has_stalled(slot) {
                        return false;
                    }
                    connection = &mut self.connections[slot];
                    fed
                }
            };
            match fed {
                Ok(progress) => {
                    at += progress.consumed;
                    if connection.http.parser.status() == 400 {
                        failing::look_for_tls(&mut self.tally, connection.encrypted, bytes);
                    }
                    if !progress.complete {
                        return true;
                    }
                }
                Err(malformed) => {
                    self.not_understood(slot, &malformed);
                    return false;
                }
            }
            let end = match &connection.stream {
                Some(stream) if connection.encrypted => stream.received,
                _ => before + at as u64,
            };
            // Bytes behind the last response belong to nothing: such a connection carries no more requests.
            let hung_up = connection.hung_up;
            let is_clean = at == bytes.len() || connection.http.batch.left > 1 || self.came_behind(slot, &bytes[at..]);
            let reusable = is_clean && !hung_up;
            self.answered(slot, end, reusable);
            let connection = &self.connections[slot];
            if connection.generation != generation
                || connection.phase != Phase::Open
                || connection.http.batch.answered == 0
            {
                return false;
            }
        }
        true
    }

    /// A response is whole: goes on with the connection at once, and only then counts.
    #[inline]
    pub(crate) fn answered(&mut self, slot: usize, response_end: u64, reusable: bool) {
        let connection = &mut self.connections[slot];
        let connection = if self.now_ns.wrapping_sub(connection.http.batch.intended_ns) >= self.tally.slow.from_ns {
            self.look_at_slow(slot);
            &mut self.connections[slot]
        } else {
            connection
        };
        let entry = self.plan.requests.entry(connection.http.batch.request);
        let mut over = Over {
            connection: connection.number,
            connect_start_ns: connection.connect_start_ns,
            batch: connection.http.batch,
            done_ns: self.now_ns,
            response_end,
            request_bytes: connection.awaited_bytes(entry),
            answered: Answered::fit(connection.http.parser.status()),
            encrypted: connection.encrypted,
        };
        if self.plan.has_more {
            let end_ns = self.scheduler.end_ns;
            follow(self.plan, &mut self.tally, &mut self.now_ns, end_ns, connection, &mut over);
        }
        let session = over.batch.session;
        if session != 0
            && let Some(sessions) = &mut self.http.sessions
            && sessions.count_answer(
                session,
                over.connection,
                over.answered.status(),
                self.plan.is_success(over.answered),
            )
        {
            // Each response of a director's has a time of its own to come.
            connection.http.batch.started_ns = self.now_ns;
        }
        let keeps_open = connection.http.parser.keep_alive() && connection.http.unsent == 0;
        let keep = keeps_open && reusable && entry.keep_alive;
        connection.responses += 1;
        connection.http.batch.left -= 1;
        connection.http.batch.answered += 1;
        connection.http.batch.first_byte_ns = 0;
        self.scheduler.outstanding -= 1;
        let host = connection.host;
        if connection.http.batch.left > 0 {
            connection.await_next(&self.plan.requests);
            if !keeps_open {
                self.fail_for(slot, Outcome::Closed, "the server ended the connection with the response before");
            }
        } else if over.batch.session != 0 {
            return self.burst_over(slot, keep, &over);
        } else if keep {
            match self.next_batch(host) {
                Some(batch)
                    if batch.request == over.batch.request || self.plan.requests.entry(batch.request).host == host =>
                {
                    self.begin(slot, batch);
                }
                Some(batch) => {
                    self.rest(slot);
                    self.issue(batch);
                }
                None => self.rest(slot),
            }
        } else {
            self.retire(slot);
            self.replace(host);
        }
        self.count_answer(&over);
    }

    /// Counts how much of a slow request's time was the generator's own, if it is a success.
    #[cold]
    #[inline(never)]
    fn look_at_slow(&mut self, slot: usize) {
        let connection = &self.connections[slot];
        let (batch, status) = (connection.http.batch, connection.http.parser.status());
        if let Some(traces) = &mut self.tally.traces {
            let number = connection.http.first_traced + u64::from(batch.answered);
            let trace = traces.tracer.ids(number).trace;
            let latency_ns = self.now_ns.saturating_sub(batch.intended_ns);
            traces.add(TracedOne { latency_ns, trace, status, request: batch.request, worker: 0 });
        }
        if !self.tally.expected.contains(status) {
            return;
        }
        let reads_at_once = self.http.slow.is_none();
        let begun_ns = match batch.opened {
            // What it waited for before is not told apart.
            _ if batch.retried => batch.intended_ns,
            true => connection.connect_start_ns,
            // A slow line sends later than it could.
            false => {
                if reads_at_once {
                    batch.sent_ns
                } else {
                    batch.started_ns
                }
            }
        };
        self.count_slow(slot, batch.intended_ns, begun_ns, batch.held_us, reads_at_once);
    }

    /// What is to be sent next, as a connection to this host became free now, if anything is; a closed loop may go on
    /// with another host.
    #[inline]
    pub(crate) fn next_batch(&mut self, host: u32) -> Option<Batch> {
        if self.scheduler.is_open_loop() {
            let Wanted { intended_ns, late_us, request } = self.http.pools[host as usize].queue.pop_front()?;
            self.http.queued -= 1;
            self.scheduler.outstanding += 1;
            let held_us = held_us(intended_ns, late_us, self.now_ns);
            return Some(Batch { left: 1, request, intended_ns, held_us, ..Batch::default() });
        }
        if self.scheduler.is_used_up(self.now_ns) {
            return None;
        }
        let left = u64::from(self.plan.pipeline).min(self.scheduler.limit - self.scheduler.issued);
        self.scheduler.issued += left;
        self.scheduler.outstanding += left;
        let request = self.plan.requests.choose(&mut self.chooser);
        if left > 1 && !self.plan.requests.is_constant {
            self.choose_more(request, left);
        }
        Some(Batch {
            left: left as u32,
            request,
            intended_ns: self.now_ns,
            started_ns: self.now_ns,
            ..Batch::default()
        })
    }

    /// Chooses the other requests of a batch.
    fn choose_more(&mut self, first: u32, count: u64) {
        self.http.chosen.clear();
        self.http.chosen.push(Piece { request: first, bytes: 0 });
        for _ in 1..count {
            let request = self.plan.requests.choose(&mut self.chooser);
            self.http.chosen.push(Piece { request, bytes: 0 });
        }
    }
}
