//! Requests of HTTP/2 that fail, alone or with their connection: why, in words, and whether they are sent again.

use crate::counts::codes::code_words;
use crate::counts::scopes::Unanswered;
use crate::engine::following::count_unanswered;
use crate::engine::state::Engine;
use crate::error::outcomes::outcome_of;
use crate::error::tls_words;
use crate::http2::called::not_http2;
use crate::http2::frames::GOAWAY;
use crate::http2::malformed::Malformed;
use crate::http2::state::Http2;
use crate::http2::streams::Exchange;
use crate::http2::wire::frame;
use std::io;
use std::sync::atomic::Ordering;
use weir_client::Unlike;
use weir_wire::client::Outcome;

/// Why a request failed that was never begun.
pub(crate) const NO_STREAM: &str = "no stream was free for it in time";

impl Engine<'_, Http2<'_>> {
    /// A call on a connection failed, and with it the requests under way.
    pub(crate) fn failed(&mut self, slot: usize, error: &io::Error) {
        let outcome = outcome_of(error);
        let words = match outcome {
            Outcome::Tls => tls_words::words(error),
            // Where the server said why it ends the connection, that is the reason.
            Outcome::Reset if self.connections[slot].http.goaway.is_some() => self.words_of_end(slot),
            Outcome::Reset => "the server reset the connection".to_owned(),
            _ if self.http.encrypted && error.kind() == io::ErrorKind::UnexpectedEof => {
                format!("{}, without close_notify of TLS", self.words_of_end(slot))
            }
            _ => error.to_string(),
        };
        self.lost(slot, outcome, &words);
    }

    /// The server ended its stream.
    pub(crate) fn ended(&mut self, slot: usize) {
        let reader = &self.connections[slot].http.reader;
        if !reader.is_settled() && !reader.begun().is_empty() {
            return self.malformed(slot, Malformed::protocol("the connection ended within its settings"), 0);
        }
        let words = self.words_of_end(slot);
        self.lost(slot, Outcome::Closed, &words);
    }

    /// What a connection's end is called.
    fn words_of_end(&self, slot: usize) -> String {
        match self.connections[slot].http.goaway {
            Some(code) => format!("the server ended the connection: GOAWAY with {}", code_words(code)),
            None => "the server closed the connection before the response was whole".to_owned(),
        }
    }

    /// A connection is gone: the requests under way on it fail, unless they may be repeated on another.
    ///
    /// RFC 9113 8.7: what may have been worked on is repeated only if that changes nothing, and here, as with HTTP/1, only
    /// if the connection had carried responses before and nothing of this one's came.
    pub(crate) fn lost(&mut self, slot: usize, outcome: Outcome, words: &str) {
        let connection = &mut self.connections[slot];
        let (number, session, carried) = (connection.number, connection.http.session, connection.responses > 0);
        let written = connection.http.out_offset + connection.http.out_at as u64;
        let may_repeat = matches!(outcome, Outcome::Closed | Outcome::Reset) && carried && !self.scheduler.is_stopped();
        let resent = self.tally.resent;
        for place in 0..connection.places() {
            let connection = &mut self.connections[slot];
            let exchange = connection.take(place);
            if exchange.stream == 0 {
                continue;
            }
            let unwritten = exchange.sent_ns == 0 || !self.http.encrypted && exchange.request_offset >= written;
            let idempotent = self.plan.requests.entry(exchange.request).idempotent;
            if may_repeat && exchange.first_byte_ns == 0 && (idempotent || unwritten) {
                self.hold(slot, exchange);
            } else {
                // With a head, the response said that there was more.
                let in_body = outcome == Outcome::Closed && exchange.status != 0;
                let outcome = if in_body { Outcome::ShortBody } else { outcome };
                self.tally.reasons.note(outcome, words, 1);
                self.count_failure(number, &exchange, outcome);
                self.session_failed(session);
            }
        }
        self.tally.reconnects += u64::from(self.tally.resent > resent);
        self.close(slot);
        self.session_goes_on(session);
        self.replace();
    }

    /// A request is over without a response; the server is told so if there is a code to give it.
    pub(crate) fn give_up(&mut self, slot: usize, place: u32, outcome: Outcome, code: Option<u32>, words: &str) {
        let connection = &mut self.connections[slot];
        let exchange = connection.take(place);
        let (number, session) = (connection.number, connection.http.session);
        if let Some(code) = code {
            connection.say_reset(exchange.stream, code);
            self.touch(slot);
        }
        self.tally.reasons.note(outcome, words, 1);
        self.count_failure(number, &exchange, outcome);
        self.session_failed(session);
        if session == 0 || !self.end_burst(session) {
            return self.go_on(slot);
        }
        self.begin_sessions();
    }

    pub(crate) fn count_failure(&mut self, connection: u64, exchange: &Exchange, outcome: Outcome) {
        self.scheduler.outstanding -= 1;
        count_unanswered(self.plan, &mut self.tally, exchange.request, Unanswered::Failed);
        self.tally.failed(outcome, 1, self.now_ns.saturating_sub(exchange.intended_ns));
        self.tally.last_done_ns = self.now_ns;
        if self.events.wanted() {
            self.tell(connection, exchange, outcome, self.now_ns);
        }
    }

    /// The connection breaks the protocol: the server is told, and all that is under way on it fails.
    ///
    /// `count` is how much of the buffer came last.
    pub(crate) fn malformed(&mut self, slot: usize, malformed: Malformed, count: usize) {
        let connection = &mut self.connections[slot];
        let mut words = malformed.what.to_owned();
        if !connection.http.reader.is_settled() {
            let begun = connection.http.reader.begun();
            let greeting = if begun.is_empty() { &self.buffer[..count] } else { begun };
            if greeting.starts_with(b"HTTP/") && !self.http.host.agreed.load(Ordering::Relaxed) {
                let host = self.http.host.url.host.clone();
                self.fatal = Some(not_http2(self.plan, host, "it answers in HTTP/1".to_owned()));
            }
            // The length of a frame that is allowed begins with a byte that is neither of text nor of a TLS alert.
            if greeting.first().is_some_and(|byte| *byte >= 0x15)
                && let Some(unlike) = Unlike::of(greeting, true)
            {
                words = unlike.0;
            }
        }
        if let Some(stream) = &mut connection.stream
            && connection.http.out_at == 0
            && connection.http.out.is_empty()
        {
            let mut farewell = [0; 8];
            farewell[4..].copy_from_slice(&malformed.code.to_be_bytes());
            let mut bytes = Vec::with_capacity(32);
            frame(&mut bytes, GOAWAY, 0, 0, &farewell);
            // Whether it arrives changes nothing: the connection is closed either way.
            let _ = stream.write(&mut self.connector.kernel, &bytes);
        }
        self.lost(slot, Outcome::Malformed, &words);
    }
}

/// Why a request took too long, by what came of its response.
pub(crate) fn words_of(exchange: &Exchange) -> &'static str {
    match (exchange.first_byte_ns, exchange.status) {
        (0, _) => "no byte of the response came in time",
        (_, 0) => "the head of the response was not whole in time",
        _ => "the body of the response was not whole in time",
    }
}
