//! What servers say of the connection itself, or of a stream beside its response.

use crate::counts::codes::code_words;
use crate::engine::state::Engine;
use crate::http2::frames::{ACK, Event, PING, SETTINGS, Settings};
use crate::http2::malformed::Malformed;
use crate::http2::state::Http2;
use crate::http2::streams::Exchange;
use std::sync::atomic::Ordering;
use weir_wire::client::Outcome;

/// Codes of RFC 9113 7.
pub(crate) const PROTOCOL_ERROR: u32 = 0x1;
const FLOW_CONTROL_ERROR: u32 = 0x3;
pub(crate) const REFUSED_STREAM: u32 = 0x7;
pub(crate) const CANCEL: u32 = 0x8;
/// The largest window (RFC 9113 6.9.1).
const WINDOW_MAX: i64 = 0x7fff_ffff;
/// How often a request is sent again that the server says it did not look at.
const REPEATS_MAX: u8 = 8;

impl Engine<'_, Http2<'_>> {
    /// A frame that is neither content nor headers.
    pub(crate) fn on_rare_frame(&mut self, slot: usize, event: Event) -> Result<(), Malformed> {
        match event {
            Event::Settings(settings) => self.on_settings(slot, settings)?,
            Event::Ping(number) => {
                self.connections[slot].answer(PING, ACK, 0, &number)?;
                self.touch(slot);
            }
            Event::Window { stream, more } => self.on_window(slot, stream, more)?,
            Event::Reset { stream, code } => self.on_reset(slot, stream, code)?,
            Event::Goaway { last, code } => self.on_goaway(slot, last, code),
            Event::SettingsTaken | Event::Headers { .. } | Event::Data { .. } => {}
        }
        Ok(())
    }

    fn on_settings(&mut self, slot: usize, settings: Settings) -> Result<(), Malformed> {
        self.http.host.agreed.store(true, Ordering::Relaxed);
        let wanted = self.http.wire.streams;
        let connection = &mut self.connections[slot];
        // Without a word there is no bound, which the first settings say and later ones leave as it is.
        if let Some(streams) = settings.streams {
            connection.http.streams_max = streams.min(wanted);
            connection.http.streams_told = true;
        } else if !connection.http.streams_told {
            connection.http.streams_max = wanted;
            connection.http.streams_told = true;
        }
        self.http.streams_known = Some(connection.http.streams_max);
        self.tally.streams_allowed = self.tally.streams_allowed.min(connection.http.streams_max);
        if let Some(bytes) = settings.frame_bytes {
            connection.http.frame_bytes = bytes as usize;
        }
        if let Some(window) = settings.window {
            // RFC 9113 6.9.2: streams that are open gain or lose the difference, and may be below zero.
            let difference = i64::from(window) - connection.http.first_window;
            connection.http.first_window = i64::from(window);
            for place in 0..connection.places() {
                let exchange = connection.at(place);
                if exchange.stream != 0 {
                    exchange.window += difference;
                    if exchange.window > WINDOW_MAX {
                        return Err(Malformed::flow_control("a window that is too large"));
                    }
                    connection.resume(place, &self.http.wire.requests);
                }
            }
        }
        connection.answer(SETTINGS, ACK, 0, &[])?;
        self.touch(slot);
        self.go_on(slot);
        Ok(())
    }

    fn on_window(&mut self, slot: usize, stream: u32, more: u32) -> Result<(), Malformed> {
        let connection = &mut self.connections[slot];
        if stream == 0 {
            connection.http.window += i64::from(more);
            if connection.http.window > WINDOW_MAX {
                return Err(Malformed::flow_control("a window that is too large"));
            }
            self.touch(slot);
            return Ok(());
        }
        let Some(place) = connection.find(stream) else { return connection.pass_over(stream) };
        let exchange = connection.at(place);
        exchange.window += i64::from(more);
        if exchange.window > WINDOW_MAX {
            let words = "it opens a stream's window beyond what it may be (RFC 9113 6.9.1)";
            self.give_up(slot, place, Outcome::Malformed, Some(FLOW_CONTROL_ERROR), words);
        } else {
            connection.resume(place, &self.http.wire.requests);
            self.touch(slot);
        }
        Ok(())
    }

    fn on_reset(&mut self, slot: usize, stream: u32, code: u32) -> Result<(), Malformed> {
        let connection = &mut self.connections[slot];
        let Some(place) = connection.find(stream) else { return connection.pass_over(stream) };
        let exchange = *connection.at(place);
        if code == REFUSED_STREAM && self.may_repeat(&exchange) {
            self.connections[slot].take(place);
            self.hold(slot, exchange);
            self.go_on(slot);
            self.replace();
        } else {
            let words = format!("the server gave the stream up: {}", code_words(code));
            self.give_up(slot, place, Outcome::StreamReset, None, &words);
        }
        Ok(())
    }

    /// The server takes no more streams, and did not look at those after `last`: they go to another connection.
    fn on_goaway(&mut self, slot: usize, last: u32, code: u32) {
        let connection = &mut self.connections[slot];
        // A server that ends a connection in good order says so twice (RFC 9113 6.8); what is wrong is told once.
        if code != 0 && connection.http.goaway.is_none() {
            connection.http.goaway = Some(code);
            self.tally.goaways.count(code, 1);
        }
        let (number, session) = (self.connections[slot].number, self.connections[slot].http.session);
        let resent = self.tally.resent;
        for place in 0..self.connections[slot].places() {
            let connection = &mut self.connections[slot];
            let exchange = *connection.at(place);
            if exchange.stream <= last {
                continue;
            }
            connection.take(place);
            if self.may_repeat(&exchange) {
                self.hold(slot, exchange);
            } else {
                let words = format!("the server ended the connection: GOAWAY with {}", code_words(code));
                self.tally.reasons.note(Outcome::Closed, &words, 1);
                self.count_failure(number, &exchange, Outcome::Closed);
                self.session_failed(session);
            }
        }
        self.tally.reconnects += u64::from(self.tally.resent > resent);
        // With its only request under way a connection is left anyway when that is over, and not replaced before.
        let connection = &self.connections[slot];
        if self.http.wire.keep_alive || connection.http.active == 0 {
            self.leave(slot);
        }
    }

    /// Whether a request that the server did not process is sent again. Any method may be repeated (RFC 9113 8.7), but
    /// not without end.
    fn may_repeat(&self, exchange: &Exchange) -> bool {
        exchange.repeats < REPEATS_MAX && !self.scheduler.is_stopped()
    }

    /// Keeps a request of a connection for another stream, before all that begin later.
    pub(crate) fn hold(&mut self, slot: usize, exchange: Exchange) {
        self.tally.resent += 1;
        let again = Exchange {
            intended_ns: exchange.intended_ns,
            started_ns: exchange.started_ns,
            request: exchange.request,
            repeats: exchange.repeats + 1,
            patience_us: exchange.patience_us,
            ..Exchange::default()
        };
        let again = self.with_patience(again);
        match self.connections[slot].http.session {
            0 => self.http.held.push_back(again),
            session => self.hold_for_session(session, again),
        }
    }
}
