//! How WebSockets on streams are opened and end, in good order or not, and their connections with them.

use crate::connect::connection::Phase;
use crate::connect::connector::{LINGER_NS, REOPEN_NS};
use crate::connect::kernel::monotonic_ns;
use crate::counts::close_codes::close_words;
use crate::engine::state::Engine;
use crate::error::outcomes::outcome_of;
use crate::error::tls_words;
use crate::http2::frames::{END_HEADERS, GOAWAY, HEADERS, RST_STREAM};
use crate::http2::{CANCEL, Malformed, frame};
use crate::tunneled::opening::check;
use crate::tunneled::state::{Stage, Tunnels};
use crate::websocket::frames::{Control, Malformed as Breach, NORMAL, Opcode, write};
use crate::websocket::{Ask, NO_CLOSE_FRAME, NO_CODE};
use std::io;
use weir_wire::client::Outcome;

/// Events taken in one wait while all are closed, and how long one lasts.
const EVENTS: usize = 256;
const WAIT_NS: u64 = 10_000_000;

impl Engine<'_, Tunnels<'_>> {
    /// Opens another connection, if there is room for it and something to send.
    pub(crate) fn replace(&mut self) {
        let is_over = self.fatal.is_some() || self.scheduler.is_past_end(self.now_ns);
        if self.connector.live >= self.connector.live_max || !self.connector.may_open(self.now_ns) || is_over {
            return;
        }
        if self.scheduler.is_open_loop() || !self.scheduler.is_used_up(self.now_ns) {
            self.open(());
        }
    }

    /// Asks for as many WebSockets as a connection may carry: in a closed loop each for a message that is to be sent.
    pub(crate) fn open_tunnels(&mut self, slot: usize) {
        while self.connections[slot].phase == Phase::Open
            && self.connections[slot].http.has_room()
            && !self.scheduler.is_past_end(self.now_ns)
            // The last arrival may be over before the run's time is: what closes then is not opened again.
            && !self.scheduler.is_over(self.now_ns, self.http.queue.len())
        {
            let ask = if self.scheduler.is_open_loop() { None } else { self.next_ask() };
            if ask.is_none() && !self.scheduler.is_open_loop() {
                return;
            }
            let block = &self.http.opening.block;
            let http = &mut self.connections[slot].http;
            let (place, stream) = http.place();
            frame(&mut http.out, HEADERS, END_HEADERS, stream, block);
            http.tunnels[place as usize].stage = Stage::Opening { since_ns: self.now_ns, ask };
            self.touch(slot);
        }
    }

    /// The answer to an opening came, or fields behind all content.
    pub(crate) fn on_answer(&mut self, slot: usize, place: u32, status: u16, end: bool) {
        let tunnel = &mut self.connections[slot].http.tunnels[place as usize];
        let Stage::Opening { since_ns, ask } = tunnel.stage else {
            if end {
                self.stream_ended(slot, place);
            }
            return;
        };
        if (100..200).contains(&status) {
            return;
        }
        if let Err(refused) = check(status, end, self.http.decoder.fields(), &self.http.given.protocols) {
            return self.give_up(slot, place, Outcome::Upgrade, &refused.to_string());
        }
        // A closed loop has its message sent as soon as there is a WebSocket for it.
        let ask = ask.map(|ask| Ask { intended_ns: self.now_ns, ..ask });
        tunnel.stage = Stage::Ready(ask);
        let took_ns = self.now_ns.saturating_sub(since_ns);
        self.websocket_tally().handshake.saturating_record(took_ns);
        self.go_on(slot, place, ask);
    }

    /// A message, or an opening, comes to nothing, and its stream is over; another takes its place.
    pub(crate) fn fail(&mut self, slot: usize, place: u32, outcome: Outcome, words: &str) {
        let (stage, frames) = self.connections[slot].http.free(place);
        self.websocket_tally().frames += frames;
        let is_refused = matches!(stage, Stage::Opening { .. });
        self.count_end(stage, outcome, words);
        if is_refused {
            // Asked for again by the sweep: at once would be in a tight loop.
            return self.scheduler.sweep_by(self.now_ns + REOPEN_NS);
        }
        self.open_tunnels(slot);
        self.leave_if_over(slot);
    }

    /// The same, where the server is to be told that the stream is given up (RFC 8441 5).
    pub(crate) fn give_up(&mut self, slot: usize, place: u32, outcome: Outcome, words: &str) {
        let http = &mut self.connections[slot].http;
        let stream = http.tunnels[place as usize].stream;
        frame(&mut http.out, RST_STREAM, 0, stream, &CANCEL.to_be_bytes());
        self.touch(slot);
        self.fail(slot, place, outcome, words);
    }

    /// Counts what the end of a WebSocket means for the message on it.
    fn count_end(&mut self, stage: Stage, outcome: Outcome, words: &str) {
        let ask = match stage {
            Stage::Opening { ask, .. } => return self.not_opened(ask, outcome, words),
            Stage::Ready(ask) => ask,
            Stage::Awaiting(ask) => Some(ask),
            Stage::Idle => None,
            Stage::Free | Stage::Closing { .. } => return,
        };
        match ask {
            Some(ask) => {
                self.tally.reasons.note(outcome, words, 1);
                self.count_failure(outcome, ask);
            }
            None => self.tally.reconnects += 1,
        }
    }

    /// No WebSocket was opened; the message that waited for it fails, else the next that waits for any.
    pub(crate) fn not_opened(&mut self, ask: Option<Ask>, outcome: Outcome, words: &str) {
        self.websocket_tally().not_opened += 1;
        self.tally.reasons.note(outcome, words, 1);
        if let Some(ask) = ask.or_else(|| self.next_ask()) {
            self.count_failure(outcome, ask);
        }
    }

    fn count_failure(&mut self, outcome: Outcome, ask: Ask) {
        self.scheduler.outstanding -= 1;
        self.tally.failed(outcome, 1, self.now_ns.saturating_sub(ask.intended_ns));
        self.tally.last_done_ns = self.now_ns;
    }

    /// A close frame came: it is answered, and this side of the stream ends (RFC 6455 5.5.1, RFC 8441 5).
    pub(crate) fn on_close(&mut self, slot: usize, place: u32, code: Option<u16>, reason: &Control) {
        if matches!(self.connections[slot].http.tunnels[place as usize].stage, Stage::Closing { .. }) {
            return self.tunnel_over(slot, place);
        }
        self.websocket_tally().closes.count(u32::from(code.unwrap_or(NO_CODE)), 1);
        let mut words = format!("the server closed the WebSocket: {}", close_words(u32::from(code.unwrap_or(NO_CODE))));
        if let Some(text) = reason.content().get(2..).filter(|text| !text.is_empty()) {
            words.push_str(&format!(" {:?}", String::from_utf8_lossy(text)));
        }
        self.end_with(slot, place, code, Outcome::Closed, &words);
    }

    /// The server breaks the standard within a WebSocket: it is told so by a code.
    pub(crate) fn breach(&mut self, slot: usize, place: u32, breach: Breach) {
        self.end_with(slot, place, Some(breach.code), Outcome::Malformed, breach.what);
    }

    /// Says that nothing more follows, and counts what is under way as failed; the server's word is waited for.
    fn end_with(&mut self, slot: usize, place: u32, code: Option<u16>, outcome: Outcome, words: &str) {
        self.say_close(slot, place, code);
        let http = &mut self.connections[slot].http;
        let stage = http.tunnels[place as usize].stage;
        http.tunnels[place as usize].stage = Stage::Closing { until_ns: self.now_ns + LINGER_NS };
        self.count_end(stage, outcome, words);
    }

    fn say_close(&mut self, slot: usize, place: u32, code: Option<u16>) {
        let mask = self.http.random.u32(..).to_ne_bytes();
        let content = code.map(u16::to_be_bytes);
        let http = &mut self.connections[slot].http;
        let tunnel = &mut http.tunnels[place as usize];
        write(&mut tunnel.out, Opcode::Close, true, mask, content.as_ref().map_or(&[], |code| &code[..]));
        tunnel.ends = true;
        http.list(place);
        self.touch(slot);
    }

    /// The server ended its side of a stream.
    pub(crate) fn stream_ended(&mut self, slot: usize, place: u32) {
        let tunnel = &self.connections[slot].http.tunnels[place as usize];
        if matches!(tunnel.stage, Stage::Closing { .. }) {
            return self.tunnel_over(slot, place);
        }
        let words = match (tunnel.stage, tunnel.reader.is_within()) {
            (Stage::Opening { .. }, _) => "the server ended the stream before it agreed to a WebSocket",
            (_, true) => "the server ended the stream within a frame or a message",
            _ => "the server ended the stream without a close frame (RFC 6455 7.1.5: 1006)",
        };
        if !matches!(tunnel.stage, Stage::Opening { .. }) {
            self.websocket_tally().closes.count(u32::from(NO_CLOSE_FRAME), 1);
        }
        self.give_up(slot, place, Outcome::Closed, words);
    }

    /// A WebSocket is closed by both sides: its place is free once what this side said is in frames.
    fn tunnel_over(&mut self, slot: usize, place: u32) {
        let http = &mut self.connections[slot].http;
        http.fill();
        let tunnel = &http.tunnels[place as usize];
        if tunnel.ends {
            // The server's window has no room for the end.
            let stream = tunnel.stream;
            frame(&mut http.out, RST_STREAM, 0, stream, &CANCEL.to_be_bytes());
        }
        let (_, frames) = http.free(place);
        self.websocket_tally().frames += frames;
        self.touch(slot);
        self.open_tunnels(slot);
        self.leave_if_over(slot);
    }

    /// Closes a connection that opens no more, once nothing is open on it.
    pub(crate) fn leave_if_over(&mut self, slot: usize) {
        let http = &self.connections[slot].http;
        if http.is_leaving && http.active == 0 && self.connections[slot].phase == Phase::Open {
            self.close(slot);
            self.replace();
        }
    }

    /// A connection is gone, and with it all that is open on it.
    pub(crate) fn lost(&mut self, slot: usize, outcome: Outcome, words: &str) {
        if !self.connections[slot].http.is_offered {
            self.not_opened(None, outcome, words);
            self.scheduler.sweep_by(self.now_ns + REOPEN_NS);
        }
        for place in 0..self.connections[slot].http.tunnels.len() as u32 {
            if self.stream_at(slot, place) == 0 {
                continue;
            }
            let (stage, frames) = self.connections[slot].http.free(place);
            let tally = self.websocket_tally();
            tally.frames += frames;
            if !matches!(stage, Stage::Opening { .. }) {
                tally.closes.count(u32::from(NO_CLOSE_FRAME), 1);
            }
            self.count_end(stage, outcome, words);
        }
        let is_offered = self.connections[slot].http.is_offered;
        self.close(slot);
        if is_offered {
            self.replace();
        }
    }

    /// The server ended its stream of bytes.
    pub(crate) fn ended(&mut self, slot: usize) {
        self.lost(slot, Outcome::Closed, "the server closed the connection");
    }

    /// A call on a connection failed.
    pub(crate) fn broken(&mut self, slot: usize, error: &io::Error) {
        if self.connections[slot].encrypted && error.kind() == io::ErrorKind::UnexpectedEof {
            return self.ended(slot);
        }
        let outcome = outcome_of(error);
        match outcome {
            Outcome::Tls => self.lost(slot, outcome, &tls_words::words(error)),
            Outcome::Reset => self.lost(slot, outcome, "the server reset the connection"),
            _ => self.lost(slot, outcome, &error.to_string()),
        }
    }

    /// The connection breaks HTTP/2: the server is told, and all that is open on it fails.
    pub(crate) fn malformed(&mut self, slot: usize, malformed: Malformed) {
        let mut farewell = [0; 8];
        farewell[4..].copy_from_slice(&malformed.code.to_be_bytes());
        let connection = &mut self.connections[slot];
        frame(&mut connection.http.out, GOAWAY, 0, 0, &farewell);
        if let Some(stream) = &mut connection.stream {
            // Whether it arrives changes nothing: the connection is closed either way.
            let _ = stream.write(&mut self.connector.kernel, &connection.http.out[connection.http.out_at..]);
        }
        self.lost(slot, Outcome::Malformed, malformed.what);
    }

    /// Closes all WebSockets as the standard has it (RFC 6455 7.1.2): says so, and waits a second for the servers' word.
    pub(crate) fn close_all(&mut self) {
        self.now_ns = monotonic_ns();
        let until_ns = self.now_ns + LINGER_NS;
        self.http.idle.clear();
        // What is still open counts again until it is closed.
        self.connector.live = self.connections.iter().filter(|connection| connection.counted).count() as u32;
        for slot in 0..self.connections.len() {
            for place in 0..self.connections[slot].http.tunnels.len() as u32 {
                let stage = self.connections[slot].http.tunnels[place as usize].stage;
                if matches!(stage, Stage::Ready(_) | Stage::Idle | Stage::Awaiting(_)) {
                    self.say_close(slot, place, Some(NORMAL));
                    self.connections[slot].http.tunnels[place as usize].stage = Stage::Closing { until_ns };
                }
            }
        }
        self.flush_touched();
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        while self.are_closing() && monotonic_ns() < until_ns {
            if self.turn_of_epoll(&mut events, WAIT_NS).is_err() {
                break;
            }
        }
        for slot in 0..self.connections.len() {
            let tunnels = &self.connections[slot].http.tunnels;
            let late = tunnels.iter().filter(|tunnel| matches!(tunnel.stage, Stage::Closing { .. })).count() as u64;
            if late > 0 {
                self.websocket_tally().closes.count(u32::from(NO_CLOSE_FRAME), late);
            }
            if self.connections[slot].phase != Phase::Closed {
                self.close(slot);
            }
        }
    }

    fn are_closing(&self) -> bool {
        let tunnels = self.connections.iter().flat_map(|connection| connection.http.tunnels.iter());
        tunnels.into_iter().any(|tunnel| matches!(tunnel.stage, Stage::Closing { .. }))
    }
}
