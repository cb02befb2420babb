//! Messages and openings that fail with their connection: why, in words.

use crate::engine::state::Engine;
use crate::error::outcomes::outcome_of;
use crate::error::tls_words;
use crate::websocket::frames::Malformed;
use crate::websocket::handshake::Refused;
use crate::websocket::lifecycle::NO_CLOSE_FRAME;
use crate::websocket::state::{Ask, Sockets, Stage};
use std::io;
use weir_wire::client::Outcome;

impl Engine<'_, Sockets<'_>> {
    /// Takes the message of a connection, whose answer is no more awaited on it.
    pub(crate) fn take_ask(&mut self, slot: usize) -> Option<Ask> {
        match std::mem::take(&mut self.connections[slot].http.stage) {
            Stage::Making(ask) | Stage::Opening { ask, .. } | Stage::Free(ask) => ask,
            Stage::Awaiting(ask) => Some(ask),
            Stage::Closed | Stage::Idle | Stage::Closing { .. } => None,
        }
    }

    /// A connection becomes no WebSocket; the message that waited for it fails, in an open loop the first that waits for
    /// any.
    pub(crate) fn not_opened(&mut self, slot: usize, outcome: Outcome, words: &str) {
        self.websocket_tally().not_opened += 1;
        self.tally.reasons.note(outcome, words, 1);
        let ask = match self.take_ask(slot) {
            None if self.scheduler.is_open_loop() => self.next_ask(),
            ask => ask,
        };
        if let Some(ask) = ask {
            self.count_failure(outcome, ask);
        }
    }

    fn count_failure(&mut self, outcome: Outcome, ask: Ask) {
        self.scheduler.outstanding -= 1;
        self.tally.failed(outcome, 1, self.now_ns.saturating_sub(ask.intended_ns));
        self.tally.last_done_ns = self.now_ns;
    }

    /// A connection is of no further use, and the message under way on it fails; another takes its place.
    pub(crate) fn fail(&mut self, slot: usize, outcome: Outcome, words: &str) {
        match self.connections[slot].http.stage {
            Stage::Making(_) | Stage::Opening { .. } => {
                self.not_opened(slot, outcome, words);
                self.close(slot);
                // Tried again by the sweep: at once would be in a tight loop.
                return self.scheduler.sweep_by(self.now_ns + crate::connect::connector::REOPEN_NS);
            }
            Stage::Awaiting(ask) | Stage::Free(Some(ask)) => {
                self.tally.reasons.note(outcome, words, 1);
                self.count_failure(outcome, ask);
            }
            Stage::Idle | Stage::Free(None) => self.tally.reconnects += 1,
            Stage::Closed | Stage::Closing { .. } => {}
        }
        self.close(slot);
        self.replace();
    }

    /// The answer to the upgrade opens no WebSocket.
    pub(crate) fn refused(&mut self, slot: usize, refused: &Refused) {
        self.refused_saying(slot, refused, "");
    }

    /// The same, with what the server says of it.
    pub(crate) fn refused_saying(&mut self, slot: usize, refused: &Refused, said: &str) {
        let outcome = if *refused == Refused::NotHttp { Outcome::Malformed } else { Outcome::Upgrade };
        let mut words = refused.to_string();
        if !said.is_empty() {
            words.push_str(&format!(" It says {said:?}"));
        }
        self.fail(slot, outcome, &words);
    }

    /// The server breaks the standard: it is told so by a code, and what is under way fails.
    pub(crate) fn malformed(&mut self, slot: usize, malformed: Malformed) {
        self.say_close(slot, Some(malformed.code));
        self.fail(slot, Outcome::Malformed, malformed.what);
    }

    /// The server ended its stream without a close frame.
    pub(crate) fn ended(&mut self, slot: usize) {
        self.connections[slot].hung_up = true;
        match self.connections[slot].http.stage {
            Stage::Opening { .. } => {
                self.fail(slot, Outcome::Closed, "the server closed the connection before it answered the upgrade");
            }
            Stage::Closing { .. } => {
                self.websocket_tally().closes.count(u32::from(NO_CLOSE_FRAME), 1);
                self.close(slot);
            }
            _ => {
                self.websocket_tally().closes.count(u32::from(NO_CLOSE_FRAME), 1);
                let is_within = self.connections[slot].http.reader.is_within();
                let words = if is_within {
                    "the server closed the connection within a frame or a message"
                } else {
                    "the server closed the connection without a close frame (RFC 6455 7.1.5: 1006)"
                };
                self.fail(slot, Outcome::Closed, words);
            }
        }
    }

    /// A call on a connection failed.
    pub(crate) fn broken(&mut self, slot: usize, error: &io::Error) {
        let is_cut = self.connections[slot].encrypted && error.kind() == io::ErrorKind::UnexpectedEof;
        if is_cut || matches!(self.connections[slot].http.stage, Stage::Closing { .. }) {
            return self.ended(slot);
        }
        if !matches!(self.connections[slot].http.stage, Stage::Opening { .. }) {
            self.websocket_tally().closes.count(u32::from(NO_CLOSE_FRAME), 1);
        }
        let outcome = outcome_of(error);
        match outcome {
            Outcome::Tls => self.fail(slot, outcome, &tls_words::words(error)),
            Outcome::Reset => self.fail(slot, outcome, "the server reset the connection"),
            _ => self.fail(slot, outcome, &error.to_string()),
        }
    }
}
