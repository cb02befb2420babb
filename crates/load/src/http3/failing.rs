//! Requests of HTTP/3 that fail, alone or with their connection: why, in words, and whether they are sent again.

use crate::connect::connection::Phase;
use crate::counts::codes::http3_code_words;
use crate::counts::scopes::Unanswered;
use crate::engine::following::count_unanswered;
use crate::engine::state::Engine;
use crate::http3::malformed::{Malformed, code};
use crate::http3::sending::reset;
use crate::http3::state::Http3;
use crate::http3::streams::Exchange;
use quinn_proto::ConnectionError;
use std::io;
use weir_wire::client::Outcome;

/// Why a request failed that was never begun.
pub(crate) const NO_STREAM: &str = "no stream was free for it in time";
/// How often a request is sent again that the server says it did not look at.
const REPEATS_MAX: u8 = 8;

impl Engine<'_, Http3<'_>> {
    /// The server's host says that nothing listens there.
    pub(crate) fn refused(&mut self, slot: usize, error: &io::Error) {
        match self.connections[slot].phase {
            Phase::Connecting => {
                self.connect_failed(
                    slot,
                    io::Error::from_raw_os_error(error.raw_os_error().unwrap_or(libc::ECONNREFUSED)),
                );
            }
            Phase::Handshaking => self.handshake_failed(slot, &io::ErrorKind::ConnectionReset.into()),
            Phase::Open | Phase::Leaving => {
                self.lost(slot, Outcome::Reset, "the server's host says that nothing listens there any more");
            }
            Phase::Closed | Phase::Idle => {}
        }
    }

    /// A connection is over, by QUIC.
    pub(crate) fn connection_lost(&mut self, slot: usize, reason: &ConnectionError) {
        if matches!(self.connections[slot].phase, Phase::Connecting | Phase::Handshaking) {
            return self.handshake_lost(slot, reason);
        }
        let (outcome, words) = match reason {
            ConnectionError::ApplicationClosed(close) => {
                let code = close.error_code.into_inner();
                if code != code::NO_ERROR {
                    self.tally.http3.closes.count(u32::try_from(code).unwrap_or(u32::MAX), 1);
                }
                (Outcome::Closed, format!("the server ended the connection: {}", http3_code_words(code)))
            }
            ConnectionError::ConnectionClosed(close) => {
                (Outcome::Closed, format!("the server ended the connection: {} of QUIC", close.error_code))
            }
            ConnectionError::Reset => {
                (Outcome::Reset, "the server does not know the connection any more (stateless reset)".to_owned())
            }
            ConnectionError::TimedOut => {
                (Outcome::TimedOut, "nothing came before the connection's idle time was over".to_owned())
            }
            ConnectionError::TransportError(error) => (Outcome::Malformed, format!("not QUIC: {error}")),
            other => (Outcome::Other, other.to_string()),
        };
        self.lost(slot, outcome, &words);
    }

    /// A connection is gone: the requests under way on it fail, unless they may be repeated on another.
    ///
    /// RFC 9114 3.3 and 4.1.1: what may have been worked on is repeated only if that changes nothing, and here, as with
    /// HTTP/1, only if the connection had carried responses before and nothing of this one's came.
    pub(crate) fn lost(&mut self, slot: usize, outcome: Outcome, words: &str) {
        let connection = &mut self.connections[slot];
        let (number, carried) = (connection.number, connection.responses > 0);
        let is_by_move = connection.http.is_unheard;
        let may_repeat = matches!(outcome, Outcome::Closed | Outcome::Reset) && carried && !self.scheduler.is_stopped();
        let resent = self.tally.resent;
        for place in 0..connection.http.places() {
            let exchange = self.connections[slot].http.take(place);
            if exchange.stream.is_none() {
                continue;
            }
            let idempotent = self.plan.requests.entry(exchange.request).idempotent;
            if may_repeat && exchange.first_byte_ns == 0 && (idempotent || exchange.sent_ns == 0) {
                self.hold(exchange);
            } else {
                // With a head, the response said that there was more.
                let in_body = outcome == Outcome::Closed && exchange.status != 0;
                let outcome = if in_body { Outcome::ShortBody } else { outcome };
                self.tally.reasons.note(outcome, words, 1);
                self.tally.http3.counts.moves_lost += u64::from(is_by_move);
                self.count_failure(number, &exchange, outcome);
            }
        }
        self.tally.reconnects += u64::from(self.tally.resent > resent);
        self.close(slot);
        self.replace();
    }

    /// A request is over without a response; the server is told so if there is a code to give it.
    pub(crate) fn give_up(&mut self, slot: usize, place: u32, outcome: Outcome, code: Option<u64>, words: &str) {
        let connection = &mut self.connections[slot];
        let exchange = connection.http.take(place);
        let number = connection.number;
        if let (Some(code), Some(stream)) = (code, exchange.stream) {
            if let Some(link) = &mut self.connections[slot].http.link {
                reset(link, stream, code);
            }
            self.stop_reading(slot, stream, code);
            self.touch(slot);
        }
        self.tally.reasons.note(outcome, words, 1);
        self.count_failure(number, &exchange, outcome);
        self.go_on(slot);
    }

    /// A body is held up by the server's windows no more.
    #[inline]
    pub(crate) fn count_held(&mut self, since_ns: u64) {
        if since_ns != 0 {
            self.tally.http3.counts.bodies_held_ns += self.now_ns.saturating_sub(since_ns);
        }
    }

    pub(crate) fn count_failure(&mut self, connection: u64, exchange: &Exchange, outcome: Outcome) {
        self.scheduler.outstanding -= 1;
        self.count_held(exchange.held_since_ns);
        count_unanswered(self.plan, &mut self.tally, exchange.request, Unanswered::Failed);
        self.tally.failed(outcome, 1, self.now_ns.saturating_sub(exchange.intended_ns));
        self.tally.last_done_ns = self.now_ns;
        if self.events.wanted() {
            self.tell(connection, exchange, outcome, self.now_ns);
        }
    }

    /// The connection breaks the protocol: the server is told, and all that is under way on it fails.
    pub(crate) fn malformed(&mut self, slot: usize, malformed: Malformed) {
        self.say_goodbye(slot, malformed.code);
        self.lost(slot, Outcome::Malformed, malformed.what);
    }

    /// The server takes no more requests, and did not look at those on stream `first` and behind it: they go to another
    /// connection (RFC 9114 5.2).
    pub(crate) fn on_goaway(&mut self, slot: usize, first: u64) {
        let resent = self.tally.resent;
        let number = self.connections[slot].number;
        for place in 0..self.connections[slot].http.places() {
            let http = &mut self.connections[slot].http;
            let exchange = *http.at(place);
            if exchange.stream.is_none_or(|stream| u64::from(stream) < first) {
                continue;
            }
            http.take(place);
            if self.may_repeat(&exchange) {
                self.hold(exchange);
            } else {
                self.tally.reasons.note(Outcome::Closed, "the server ended the connection: GOAWAY", 1);
                self.count_failure(number, &exchange, Outcome::Closed);
            }
        }
        self.tally.reconnects += u64::from(self.tally.resent > resent);
        // With its only request under way a connection is left anyway when that is over, and not replaced before.
        let connection = &self.connections[slot];
        if connection.phase == Phase::Open && (self.http.wire.keep_alive || connection.http.active == 0) {
            self.leave(slot);
        }
    }

    /// Whether a request that the server did not process is sent again. Any method may be repeated (RFC 9114 4.1.1), but
    /// not without end.
    pub(crate) fn may_repeat(&self, exchange: &Exchange) -> bool {
        exchange.repeats < REPEATS_MAX && !self.scheduler.is_stopped()
    }

    /// Keeps a request of a connection for another stream.
    pub(crate) fn hold(&mut self, exchange: Exchange) {
        self.tally.resent += 1;
        let again = self.with_patience(Exchange {
            intended_ns: exchange.intended_ns,
            started_ns: exchange.started_ns,
            request: exchange.request,
            repeats: exchange.repeats + 1,
            stops_ns: exchange.stops_ns,
            ..Exchange::default()
        });
        self.http.held.push_back(again);
    }
}

/// Why a request failed whose stream the server gave up.
pub(crate) fn words_of_reset(code: u64) -> String {
    format!("the server gave the stream up: {}", http3_code_words(code))
}

/// Why a request took too long, by what came of its response.
pub(crate) fn words_of(exchange: &Exchange) -> &'static str {
    match (exchange.held_since_ns, exchange.first_byte_ns, exchange.status) {
        (1.., _, 0) => "the server's flow window held its body up until its time was over",
        (_, 0, _) => "no byte of the response came in time",
        (_, _, 0) => "the head of the response was not whole in time",
        _ => "the body of the response was not whole in time",
    }
}
