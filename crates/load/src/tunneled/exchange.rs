//! The way of a message: sent, answered.

use crate::connect::kernel::monotonic_ns;
use crate::counts::answered::Answered;
use crate::counts::durations::Durations;
use crate::counts::websocket::WebSocketTally;
use crate::engine::state::Engine;
use crate::options::websocket::AnswerRule;
use crate::tunneled::state::{Resting, Stage, Tunnels};
use crate::websocket::frames::{Control, Event, Malformed, Opcode, Outgoing, write, write_message};
use crate::websocket::{Ask, Echo, PONGS_BYTES_MAX, SWITCHED};
use weir_wire::client::Outcome;

impl Engine<'_, Tunnels<'_>> {
    /// What is counted of WebSockets.
    pub(crate) fn websocket_tally(&mut self) -> &mut WebSocketTally {
        self.tally.websocket.get_or_insert_with(|| Box::new(WebSocketTally::new()))
    }

    /// Sends a message over a WebSocket that is free.
    pub(crate) fn send(&mut self, slot: usize, place: u32, mut ask: Ask) {
        let given = self.http.given;
        let http = &mut self.connections[slot].http;
        let random = &mut self.http.random;
        let tunnel = &mut http.tunnels[place as usize];
        let mask = || random.u32(..).to_ne_bytes();
        let fragment_bytes = given.fragment_bytes.unwrap_or(usize::MAX);
        let message = Outgoing { is_binary: given.is_binary, content: &given.message, fragment_bytes };
        write_message(&mut tunnel.out, message, mask);
        self.now_ns = monotonic_ns();
        ask.sent_ns = self.now_ns;
        tunnel.stage = Stage::Awaiting(ask);
        tunnel.echo = Echo::Same(0);
        http.list(place);
        let bytes = given.message.len() as u64;
        let tally = self.websocket_tally();
        tally.sent += 1;
        tally.sent_bytes += bytes;
        self.touch(slot);
    }

    /// Takes bytes of a WebSocket, and what the end of its stream means. What goes out next goes out behind all of them: a
    /// message among them answers none that is not sent.
    pub(crate) fn on_bytes(&mut self, slot: usize, place: u32, bytes: &[u8], end: bool) {
        let (generation, stream) = (self.connections[slot].generation, self.stream_at(slot, place));
        if matches!(self.connections[slot].http.tunnels[place as usize].stage, Stage::Opening { .. }) {
            let words = "the server sent bytes of a WebSocket before it agreed to one";
            return self.give_up(slot, place, Outcome::Malformed, words);
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let (used, event) = match self.connections[slot].http.tunnels[place as usize].reader.next(rest) {
                Ok(next) => next,
                Err(malformed) => return self.breach(slot, place, malformed),
            };
            rest = &rest[used..];
            let Some(event) = event else { break };
            self.on_message_frame(slot, place, event);
            if self.connections[slot].generation != generation || self.stream_at(slot, place) != stream {
                return;
            }
        }
        if end {
            return self.stream_ended(slot, place);
        }
        if let Stage::Ready(ask) = self.connections[slot].http.tunnels[place as usize].stage {
            self.go_on(slot, place, ask);
        }
    }

    pub(crate) fn stream_at(&self, slot: usize, place: u32) -> u32 {
        self.connections[slot].http.tunnels[place as usize].stream
    }

    fn on_message_frame(&mut self, slot: usize, place: u32, event: Event<'_>) {
        match event {
            Event::Piece { content, end } => self.on_message(slot, place, content, end),
            Event::Ping(content) => self.answer_ping(slot, place, content),
            Event::Pong(_) => self.websocket_tally().pongs += 1,
            Event::Close(code, reason) => self.on_close(slot, place, code, &reason),
        }
    }

    /// Takes a piece of a message.
    fn on_message(&mut self, slot: usize, place: u32, content: &[u8], end: Option<bool>) {
        let (given, now_ns) = (self.http.given, self.now_ns);
        let tunnel = &mut self.connections[slot].http.tunnels[place as usize];
        if let Stage::Awaiting(ask) = &mut tunnel.stage
            && ask.first_byte_ns == 0
        {
            ask.first_byte_ns = now_ns;
        }
        if given.answer == AnswerRule::Echo {
            tunnel.echo = tunnel.echo.with(content, &given.message);
        }
        let bytes = content.len() as u64;
        let Some(is_text) = end else {
            self.websocket_tally().received_bytes += bytes;
            return;
        };
        let is_echo = tunnel.echo == Echo::Same(given.message.len()) && is_text != given.is_binary;
        let is_answer = given.answer == AnswerRule::Any || is_echo;
        tunnel.echo = Echo::Same(0);
        let stage = tunnel.stage;
        let tally = self.websocket_tally();
        tally.received += 1;
        tally.received_bytes += bytes;
        match stage {
            Stage::Awaiting(ask) if is_answer => self.answered(slot, place, ask),
            // What comes while this side closes answers nothing, and was asked for.
            Stage::Closing { .. } => {}
            _ => {
                self.websocket_tally().pushed += 1;
                if let Stage::Awaiting(ask) = &mut self.connections[slot].http.tunnels[place as usize].stage {
                    ask.first_byte_ns = 0;
                }
            }
        }
    }

    /// A message is answered.
    fn answered(&mut self, slot: usize, place: u32, ask: Ask) {
        let now_ns = self.now_ns;
        if now_ns.wrapping_sub(ask.intended_ns) >= self.tally.slow.from_ns {
            self.count_slow(slot, ask.intended_ns, ask.sent_ns, ask.held_us, true);
        }
        let connection = &mut self.connections[slot];
        connection.http.tunnels[place as usize].stage = Stage::Ready(None);
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

    fn answer_ping(&mut self, slot: usize, place: u32, content: Control) {
        self.websocket_tally().pings += 1;
        let http = &mut self.connections[slot].http;
        let tunnel = &mut http.tunnels[place as usize];
        if tunnel.out.len() - tunnel.out_at > PONGS_BYTES_MAX + self.http.given.message.len() {
            let words = "it sends pings without reading the answers";
            return self.breach(slot, place, Malformed { code: 1008, what: words });
        }
        let mask = self.http.random.u32(..).to_ne_bytes();
        write(&mut tunnel.out, Opcode::Pong, true, mask, content.content());
        http.list(place);
        self.touch(slot);
    }

    /// Has a WebSocket with nothing to do send what is to be sent next, or rest.
    pub(crate) fn go_on(&mut self, slot: usize, place: u32, first: Option<Ask>) {
        match first.or_else(|| self.next_ask()) {
            Some(ask) => self.send(slot, place, ask),
            None => {
                let connection = &mut self.connections[slot];
                let tunnel = &mut connection.http.tunnels[place as usize];
                tunnel.stage = Stage::Idle;
                let (generation, stream) = (connection.generation, tunnel.stream);
                self.http.idle.push_back(Resting { slot: slot as u32, generation, place, stream });
            }
        }
    }

    /// The WebSocket that has rested longest, if one rests.
    pub(crate) fn next_idle(&mut self) -> Option<(usize, u32)> {
        while let Some(Resting { slot, generation, place, stream }) = self.http.idle.pop_front() {
            let connection = &self.connections[slot as usize];
            let tunnel = &connection.http.tunnels[place as usize];
            let is_same = connection.generation == generation && tunnel.stream == stream;
            if is_same && matches!(tunnel.stage, Stage::Idle) {
                return Some((slot as usize, place));
            }
        }
        None
    }

    /// What is to be sent next, as a WebSocket became free now, if anything is.
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
