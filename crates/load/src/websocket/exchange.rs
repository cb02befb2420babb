//! The way of a message: sent, answered.

use crate::connect::kernel::{HANGUP, monotonic_ns};
use crate::counts::answered::Answered;
use crate::counts::durations::Durations;
use crate::counts::websocket::WebSocketTally;
use crate::engine::state::{Engine, READS_IN_A_ROW};
use crate::options::websocket::AnswerRule;
use crate::websocket::frames::{Control, Event, Malformed, Opcode, Outgoing, write, write_message};
use crate::websocket::state::{Ask, Echo, Sockets, Stage};
use std::io;

/// The status by which a server agrees to a WebSocket: messages count as answered by it.
pub(crate) const SWITCHED: u16 = 101;
/// What may wait to be written of answers to pings: a server that sends more without reading is given up.
pub(crate) const PONGS_BYTES_MAX: usize = 1 << 20;

impl Engine<'_, Sockets<'_>> {
    /// What is counted of WebSockets.
    pub(crate) fn websocket_tally(&mut self) -> &mut WebSocketTally {
        self.tally.websocket.get_or_insert_with(|| Box::new(WebSocketTally::new()))
    }

    /// Sends a message over a connection that is free.
    pub(crate) fn send(&mut self, slot: usize, mut ask: Ask) {
        let given = self.http.given;
        let http = &mut self.connections[slot].http;
        let random = &mut self.http.random;
        let mask = || random.u32(..).to_ne_bytes();
        let fragment_bytes = given.fragment_bytes.unwrap_or(usize::MAX);
        let message = Outgoing { is_binary: given.is_binary, content: &given.message, fragment_bytes };
        write_message(&mut http.out, message, mask);
        self.now_ns = monotonic_ns();
        ask.sent_ns = self.now_ns;
        http.stage = Stage::Awaiting(ask);
        http.echo = Echo::Same(0);
        let bytes = given.message.len() as u64;
        let tally = self.websocket_tally();
        tally.sent += 1;
        tally.sent_bytes += bytes;
        self.flush(slot);
    }

    /// Writes what a connection has to say, as far as there is room.
    pub(crate) fn flush(&mut self, slot: usize) {
        loop {
            let connection = &mut self.connections[slot];
            let (http, Some(stream)) = (&mut connection.http, &mut connection.stream) else { return };
            if http.out_at == http.out.len() && !stream.is_clogged() {
                http.out.clear();
                http.out_at = 0;
                return;
            }
            let is_empty = http.out_at == http.out.len();
            match stream.write(&mut self.connector.kernel, &http.out[http.out_at..]) {
                Ok(count) => http.out_at += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    // The server may have said why it closed: that is still to be had, at the next turn.
                    connection.hung_up = true;
                    let token = connection.token(slot);
                    return self.unread.list(token);
                }
            }
            if is_empty {
                return;
            }
        }
    }

    /// Takes what a connection has received.
    pub(crate) fn receive(&mut self, slot: usize, flags: u32) {
        let generation = self.connections[slot].generation;
        self.connections[slot].hung_up |= flags & HANGUP != 0;
        for _ in 0..READS_IN_A_ROW {
            let connection = &mut self.connections[slot];
            let Some(stream) = &mut connection.stream else { return };
            let read = stream.read(&mut self.connector.kernel, &mut self.buffer);
            self.now_ns = monotonic_ns();
            let count = match read {
                Ok(0) => return self.ended(slot),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => return self.broken(slot, &error),
            };
            let drained = stream.drained;
            connection.hung_up |= stream.ended;
            self.tally.received(count as u64, self.now_ns <= self.scheduler.end_ns);
            // Borrowed for as long as its bytes are looked at.
            let buffer = std::mem::take(&mut self.buffer);
            self.take(slot, &buffer[..count]);
            self.buffer = buffer;
            let connection = &self.connections[slot];
            if connection.generation != generation || drained && !connection.hung_up {
                return;
            }
        }
        self.unread.list(u64::from(generation) << 32 | slot as u64);
    }

    /// Takes bytes that came. What goes out next goes out behind all of them: a message among them answers none that is
    /// not sent.
    fn take(&mut self, slot: usize, bytes: &[u8]) {
        let generation = self.connections[slot].generation;
        let mut rest = bytes;
        if matches!(self.connections[slot].http.stage, Stage::Opening { .. }) {
            let Some(used) = self.take_head(slot, bytes) else { return };
            rest = &bytes[used..];
        }
        loop {
            let (used, event) = match self.connections[slot].http.reader.next(rest) {
                Ok(next) => next,
                Err(malformed) => return self.malformed(slot, malformed),
            };
            rest = &rest[used..];
            let Some(event) = event else { break };
            self.on_frame(slot, event);
            if self.connections[slot].generation != generation {
                return;
            }
            if rest.is_empty() {
                break;
            }
        }
        if let Stage::Free(ask) = self.connections[slot].http.stage {
            self.go_on(slot, ask);
        }
        if self.connections[slot].generation == generation {
            self.flush(slot);
        }
    }

    fn on_frame(&mut self, slot: usize, event: Event<'_>) {
        match event {
            Event::Piece { content, end } => self.on_message(slot, content, end),
            Event::Ping(content) => self.answer_ping(slot, content),
            Event::Pong(_) => self.websocket_tally().pongs += 1,
            Event::Close(code, reason) => self.on_close(slot, code, &reason),
        }
    }

    /// Takes a piece of a message.
    fn on_message(&mut self, slot: usize, content: &[u8], end: Option<bool>) {
        let (given, now_ns) = (self.http.given, self.now_ns);
        let http = &mut self.connections[slot].http;
        if let Stage::Awaiting(ask) = &mut http.stage
            && ask.first_byte_ns == 0
        {
            ask.first_byte_ns = now_ns;
        }
        if given.answer == AnswerRule::Echo {
            http.echo = http.echo.with(content, &given.message);
        }
        let bytes = content.len() as u64;
        let Some(is_text) = end else {
            self.websocket_tally().received_bytes += bytes;
            return;
        };
        let is_echo = http.echo == Echo::Same(given.message.len()) && is_text != given.is_binary;
        let is_answer = given.answer == AnswerRule::Any || is_echo;
        http.echo = Echo::Same(0);
        let stage = http.stage;
        let tally = self.websocket_tally();
        tally.received += 1;
        tally.received_bytes += bytes;
        match stage {
            Stage::Awaiting(ask) if is_answer => self.answered(slot, ask),
            // What comes while this side closes answers nothing, and was asked for.
            Stage::Closing { .. } => {}
            _ => {
                self.websocket_tally().pushed += 1;
                if let Stage::Awaiting(ask) = &mut self.connections[slot].http.stage {
                    ask.first_byte_ns = 0;
                }
            }
        }
    }

    /// A message is answered.
    fn answered(&mut self, slot: usize, ask: Ask) {
        let now_ns = self.now_ns;
        if now_ns.wrapping_sub(ask.intended_ns) >= self.tally.slow.from_ns {
            self.count_slow(slot, ask.intended_ns, ask.sent_ns, ask.held_us, true);
        }
        let connection = &mut self.connections[slot];
        connection.http.stage = Stage::Free(None);
        connection.responses += 1;
        self.scheduler.outstanding -= 1;
        let durations = Durations {
            latency_ns: now_ns.saturating_sub(ask.intended_ns),
            uncorrected_ns: now_ns.saturating_sub(ask.sent_ns),
            first_byte_ns: ask.first_byte_ns.saturating_sub(ask.sent_ns),
        };
        self.tally.answered(Answered::fit(SWITCHED), now_ns <= self.scheduler.end_ns, durations);
        self.tally.last_done_ns = now_ns;
    }

    fn answer_ping(&mut self, slot: usize, content: Control) {
        self.websocket_tally().pings += 1;
        let http = &mut self.connections[slot].http;
        if http.out.len() - http.out_at > PONGS_BYTES_MAX + self.http.given.message.len() {
            return self.malformed(slot, Malformed { code: 1008, what: "it sends pings without reading the answers" });
        }
        let mask = self.http.random.u32(..).to_ne_bytes();
        write(&mut http.out, Opcode::Pong, true, mask, content.content());
    }

    /// Has a connection with nothing to do send what is to be sent next, or rest.
    pub(crate) fn go_on(&mut self, slot: usize, first: Option<Ask>) {
        match first.or_else(|| self.next_ask()) {
            Some(ask) => self.send(slot, ask),
            None => {
                self.connections[slot].http.stage = Stage::Idle;
                self.http.idle.push_back(slot as u32);
            }
        }
    }

    /// What is to be sent next, as a connection became free now, if anything is.
    pub(crate) fn next_ask(&mut self) -> Option<Ask> {
        if self.scheduler.is_open_loop() {
            let wanted = self.http.queue.pop_front()?;
            self.scheduler.outstanding += 1;
            return Some(wanted.taken(self.now_ns));
        }
        if self.scheduler.is_used_up(self.now_ns) {
            return None;
        }
        self.scheduler.issued += 1;
        self.scheduler.outstanding += 1;
        Some(Ask { intended_ns: self.now_ns, ..Ask::default() })
    }
}
