//! Requests that fail with their connection: why, in words, and whether they are sent again.

use crate::connect::connection::Connection;
use crate::counts::tally::Tally;
use crate::engine::state::Engine;
use crate::error::outcomes::outcome_of;
use crate::error::tls_words;
use crate::http1::connection::{Batch, Pipeline};
use crate::http1::malformed::Malformed;
use crate::http1::response::Stage;
use crate::http1::state::Http1;
use std::io;
use weir_client::Oddity;
use weir_wire::client::Outcome;

/// What servers say in the content of a 400 to a request in the clear where they want TLS: nginx, Apache, Go, Tomcat.
const WANTS_TLS: [&[u8]; 4] = [
    b"plain HTTP request was sent to HTTPS port",
    b"speaking plain HTTP to an SSL-enabled server",
    b"sent an HTTP request to an HTTPS server",
    b"combination of host and port requires TLS",
];

impl Engine<'_, Http1> {
    /// A call on a connection failed, and with it the requests under way.
    pub(crate) fn broken(&mut self, slot: usize, error: &io::Error) {
        let connection = &self.connections[slot];
        if connection.encrypted && error.kind() == io::ErrorKind::UnexpectedEof {
            let (outcome, words) = cut(connection.http.parser.stage());
            return self.fail_for(slot, outcome, words);
        }
        let outcome = outcome_of(error);
        match outcome {
            Outcome::Tls => self.fail_for(slot, outcome, &tls_words::words(error)),
            Outcome::Other => self.fail_for(slot, outcome, &error.to_string()),
            _ => self.fail(slot, outcome),
        }
    }

    /// Keeps why the requests under way on a connection fail, in words.
    pub(crate) fn note(&mut self, slot: usize, outcome: Outcome, words: &str) {
        let count = self.connections[slot].http.batch.left;
        self.tally.reasons.note(outcome, words, u64::from(count));
    }

    /// The requests under way on a connection fail with it, for what is known of the connection itself.
    pub(crate) fn fail(&mut self, slot: usize, outcome: Outcome) {
        let words = words_of(&self.connections[slot], outcome);
        self.fail_for(slot, outcome, words);
    }

    /// The requests under way on a connection fail with it, unless they may be repeated on another.
    ///
    /// RFC 9112 9.3.1: a kept-alive connection may be closed just as a request goes out; if nothing of the response
    /// came, the request may be repeated if repeating it changes nothing, or if nothing of it was ever sent.
    pub(crate) fn fail_for(&mut self, slot: usize, outcome: Outcome, words: &str) {
        let connection = &mut self.connections[slot];
        let (batch, host) = (connection.http.batch, connection.host);
        let repeat = matches!(outcome, Outcome::Closed | Outcome::Reset)
            && connection.responses > 0
            && batch.first_byte_ns == 0
            && (connection.is_idempotent(&self.plan.requests) || connection.is_unsent())
            && !self.scheduler.is_stopped()
            && !self.plan.directed;
        if repeat {
            connection.give_back(&mut self.http.chosen);
        } else {
            self.note(slot, outcome, words);
            self.count_failures(slot, outcome);
        }
        self.close(slot);
        if repeat {
            self.tally.reconnects += 1;
            self.tally.resent += u64::from(batch.left);
            self.open(Batch { retried: true, ..batch });
        } else {
            self.session_failed(batch.session, outcome);
            self.replace(host);
        }
    }

    /// The server ended its stream: that completes a response without another mark of its end.
    pub(crate) fn stream_ended(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        connection.hung_up = true;
        let stage = connection.http.parser.stage();
        if stage == Stage::UntilClose {
            connection.http.parser.end();
            let end = connection.stream.as_ref().map_or(0, |stream| stream.received);
            return self.answered(slot, end, false);
        }
        if let Err(malformed) = connection.http.parser.judge_part() {
            return self.not_understood(slot, &malformed);
        }
        if connection.http.parser.holds_empty_lines() {
            // They belong to the response before, so nothing of the awaited one came.
            connection.http.parser.count_odd(Oddity::LineBefore);
            connection.http.batch.first_byte_ns = 0;
        }
        let outcome = match (stage, connection.http.was_reset) {
            (_, true) => Outcome::Reset,
            (Stage::Nothing | Stage::Head, false) => Outcome::Closed,
            // With a head, the response said that there was more.
            (_, false) => Outcome::ShortBody,
        };
        self.fail(slot, outcome);
    }

    /// What came is no response.
    ///
    /// Behind a whole response it belongs to that one, whose bytes are more than it said: the request after it has no answer
    /// yet, and may be sent again on another connection (RFC 9112 6.3 and 9.3.1). So it makes no difference whether such
    /// bytes come with the response or after it.
    #[cold]
    pub(crate) fn not_understood(&mut self, slot: usize, malformed: &Malformed) {
        let connection = &mut self.connections[slot];
        if connection.responses == 0 || !connection.http.parser.begins_other() {
            return self.fail_for(slot, Outcome::Malformed, &malformed.0);
        }
        connection.http.parser.count_odd(Oddity::Surplus);
        connection.http.batch.first_byte_ns = 0;
        let may_repeat =
            connection.is_idempotent(&self.plan.requests) && !self.scheduler.is_stopped() && !self.plan.directed;
        if may_repeat {
            return self.fail_for(slot, Outcome::Closed, "");
        }
        let words = format!("bytes came behind the response before: {}", malformed.0);
        self.fail_for(slot, Outcome::Malformed, &words);
    }

    /// Bytes came with a response, behind it; tells whether its connection may be used all the same.
    #[cold]
    pub(crate) fn came_behind(&mut self, slot: usize, bytes: &[u8]) -> bool {
        if self.is_switched(slot) {
            self.keep_behind(bytes);
            return true;
        }
        // Empty lines are passed over before the next response, too.
        let is_empty = bytes.iter().all(|byte| matches!(byte, b'\r' | b'\n'));
        let oddity = if is_empty { Oddity::LineBefore } else { Oddity::Surplus };
        self.connections[slot].http.parser.count_odd(oddity);
        is_empty
    }
}

/// Bytes of a response with the status 400: whether they say that the server wants TLS here.
#[cold]
pub(crate) fn look_for_tls(tally: &mut Tally, encrypted: bool, bytes: &[u8]) {
    let says = |words: &[u8]| memchr::memmem::find(bytes, words).is_some();
    tally.wants_tls |= !encrypted && WANTS_TLS.iter().any(|words| says(words));
}

/// How it counts that TLS ended without its last word (RFC 8446 6.1), and what is said of it.
///
/// A body that ends with its connection may then have been cut anywhere (RFC 9112 9.8).
fn cut(stage: Stage) -> (Outcome, &'static str) {
    match stage {
        Stage::Nothing => {
            (Outcome::Closed, "the server closed the connection without an answer, and without close_notify of TLS")
        }
        Stage::Head => (Outcome::Closed, "the connection ended within the head, without close_notify of TLS"),
        Stage::Length => {
            (Outcome::ShortBody, "the body was cut before its Content-Length, without close_notify of TLS")
        }
        Stage::Chunks => (Outcome::ShortBody, "the body was cut before its last chunk, without close_notify of TLS"),
        Stage::UntilClose => {
            (Outcome::ShortBody, "the body, which ends with its connection, may be cut: TLS ended without close_notify")
        }
    }
}

/// What a connection tells of why its requests fail.
fn words_of(connection: &Connection<Pipeline>, outcome: Outcome) -> &'static str {
    let stage = connection.http.parser.stage();
    match (outcome, stage) {
        (Outcome::Closed, Stage::Head) => "the server closed the connection within the head of a response",
        (Outcome::Closed, _) => "the server closed the connection without an answer",
        (Outcome::ShortBody, Stage::Chunks) => "the connection ended before the last chunk of the body",
        (Outcome::ShortBody, _) => "the connection ended before all of the body came that its Content-Length says",
        (Outcome::Reset, Stage::Nothing) => "the server reset the connection before it answered",
        (Outcome::Reset, Stage::Head) => "the server reset the connection within the head of a response",
        (Outcome::Reset, _) => "the server reset the connection within the body of a response",
        (Outcome::TimedOut, Stage::Nothing) => "no byte of the response came in time",
        (Outcome::TimedOut, Stage::Head) => "the head of the response was not whole in time",
        (Outcome::TimedOut, Stage::UntilClose) => {
            "the response says no length, and the connection that ends it stayed open"
        }
        (Outcome::TimedOut, _) => "the body of the response was not whole in time",
        (Outcome::ConnectTimedOut, _) => "the connection was not made in time",
        _ => outcome.name(),
    }
}
