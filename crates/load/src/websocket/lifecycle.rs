//! How connections become WebSockets, and how they end.

use crate::connect::connection::Phase;
use crate::connect::connector::LINGER_NS;
use crate::connect::kernel::monotonic_ns;
use crate::counts::close_codes::close_words;
use crate::engine::state::Engine;
use crate::websocket::frames::{Control, NORMAL, Opcode, write};
use crate::websocket::handshake::{HEAD_BYTES_MAX, Refused, check};
use crate::websocket::state::{Ask, Sockets, Stage};
use memchr::memmem;
use weir_wire::client::Outcome;

/// What ends a head.
const END_OF_HEAD: &[u8] = b"\r\n\r\n";
/// The code of a close frame without one, and of a connection that ended without such a frame (RFC 6455 7.4.1).
pub(crate) const NO_CODE: u16 = 1005;
pub(crate) const NO_CLOSE_FRAME: u16 = 1006;
/// So much of what a server says with a refusal is told.
const SAID_BYTES_MAX: usize = 120;
/// Events taken in one wait while all connections are closed, and how long one lasts.
const EVENTS: usize = 256;
const WAIT_NS: u64 = 10_000_000;

/// The begin of what a server said behind the head of a refusal, if that is a text; empty otherwise.
fn shown(content: &[u8]) -> String {
    let line = content.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    let line = &line[..line.len().min(SAID_BYTES_MAX)];
    let is_text = !line.is_empty() && line.iter().all(|byte| matches!(byte, b' '..=b'~')) && !line.starts_with(b"<");
    if is_text { String::from_utf8_lossy(line).into_owned() } else { String::new() }
}

impl Engine<'_, Sockets<'_>> {
    /// Opens another connection, if there is room for it and something to send.
    pub(crate) fn replace(&mut self) {
        if self.connector.live >= self.connector.live_max
            || !self.connector.may_open(self.now_ns)
            || self.fatal.is_some()
            || self.scheduler.is_past_end(self.now_ns)
        {
            return;
        }
        if self.scheduler.is_open_loop() {
            return self.open(None);
        }
        if let Some(ask) = self.next_ask() {
            self.open(Some(ask));
        }
    }

    /// A connection is made: asks for the upgrade.
    pub(crate) fn ask_to_upgrade(&mut self, slot: usize) {
        let key = std::array::from_fn(|_| self.http.random.u8(..));
        let ask = self.take_ask(slot);
        let connection = &mut self.connections[slot];
        connection.phase = Phase::Open;
        let accept = self.http.opening.write(key, &mut connection.http.out);
        self.now_ns = monotonic_ns();
        connection.http.stage = Stage::Opening { since_ns: self.now_ns, accept, ask };
        self.flush(slot);
    }

    /// Takes bytes of the head of the answer to the upgrade; gives how many belong to it once it is whole and agrees.
    pub(crate) fn take_head(&mut self, slot: usize, bytes: &[u8]) -> Option<usize> {
        let http = &mut self.connections[slot].http;
        let before = http.head.len();
        http.head.extend_from_slice(&bytes[..bytes.len().min(HEAD_BYTES_MAX + 1 - before)]);
        // Its end may have begun with the piece before.
        let from = before.saturating_sub(END_OF_HEAD.len() - 1);
        let Some(end) = memmem::find(&http.head[from..], END_OF_HEAD).map(|at| from + at + END_OF_HEAD.len()) else {
            if http.head.len() > HEAD_BYTES_MAX {
                self.refused(slot, &Refused::TooLong);
            } else if !b"HTTP/1.".starts_with(&http.head[..http.head.len().min(7)]) {
                self.refused(slot, &Refused::NotHttp);
            }
            return None;
        };
        let Stage::Opening { since_ns, accept, ask } = http.stage else { return None };
        if let Err(refused) = check(&http.head[..end], accept, &self.http.given.protocols) {
            let said = shown(&http.head[end..]);
            self.refused_saying(slot, &refused, &said);
            return None;
        }
        http.head.clear();
        let took_ns = self.now_ns.saturating_sub(since_ns);
        self.websocket_tally().handshake.saturating_record(took_ns);
        // A closed loop has its message sent as soon as there is a WebSocket for it.
        let ask = ask.map(|ask| Ask { intended_ns: self.now_ns, ..ask });
        self.connections[slot].http.stage = Stage::Free(ask);
        Some(end - before)
    }

    /// A close frame came: it is answered, and the connection closed (RFC 6455 5.5.1).
    pub(crate) fn on_close(&mut self, slot: usize, code: Option<u16>, reason: &Control) {
        if matches!(self.connections[slot].http.stage, Stage::Closing { .. }) {
            return self.close(slot);
        }
        self.websocket_tally().closes.count(u32::from(code.unwrap_or(NO_CODE)), 1);
        self.say_close(slot, code);
        let mut words = format!("the server closed the WebSocket: {}", close_words(u32::from(code.unwrap_or(NO_CODE))));
        if let Some(text) = reason.content().get(2..).filter(|text| !text.is_empty()) {
            words.push_str(&format!(" {:?}", String::from_utf8_lossy(text)));
        }
        self.fail(slot, Outcome::Closed, &words);
    }

    /// Says that nothing more follows; whether it arrives changes nothing.
    pub(crate) fn say_close(&mut self, slot: usize, code: Option<u16>) {
        let mask = self.http.random.u32(..).to_ne_bytes();
        let content = code.map(u16::to_be_bytes);
        let connection = &mut self.connections[slot];
        let http = &mut connection.http;
        write(&mut http.out, Opcode::Close, true, mask, content.as_ref().map_or(&[], |code| &code[..]));
        if let Some(stream) = &mut connection.stream
            && let Ok(count) = stream.write(&mut self.connector.kernel, &http.out[http.out_at..])
        {
            http.out_at += count;
        }
    }

    /// Closes all connections as the standard has it (RFC 6455 7.1.2): says so, and waits a second for the servers' word.
    pub(crate) fn close_all(&mut self) {
        let until_ns = monotonic_ns() + LINGER_NS;
        self.http.idle.clear();
        // What is still open counts again until it is closed.
        self.connector.live = self.connections.iter().filter(|connection| connection.counted).count() as u32;
        for slot in 0..self.connections.len() {
            let (phase, stage) = (self.connections[slot].phase, self.connections[slot].http.stage);
            match (phase, stage) {
                (Phase::Closed, _) => {}
                (Phase::Open, Stage::Free(_) | Stage::Idle | Stage::Awaiting(_)) => {
                    self.say_close(slot, Some(NORMAL));
                    self.connections[slot].http.stage = Stage::Closing { until_ns };
                }
                (Phase::Open, Stage::Closing { .. }) => {}
                _ => {
                    self.connections[slot].http.stage = Stage::Closed;
                    self.close(slot);
                }
            }
        }
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        while self.connector.live > 0 && monotonic_ns() < until_ns {
            if self.turn_of_epoll(&mut events, WAIT_NS).is_err() {
                break;
            }
        }
        for slot in 0..self.connections.len() {
            if matches!(self.connections[slot].http.stage, Stage::Closing { .. }) {
                self.websocket_tally().closes.count(u32::from(NO_CLOSE_FRAME), 1);
                self.close(slot);
            }
        }
    }
}
