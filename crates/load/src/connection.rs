//! What the loop knows of one connection.

use crate::asks::{Entry, Table};
use crate::cookies::CookieJar;
use crate::plan::Plan;
use crate::response::Parser;
use crate::transport::Stream;
use std::time::SystemTime;

/// Where a connection stands.
///
/// ```text
/// Closed -> Connecting -> Handshaking -> Busy <-> Idle
///    ^                                    |        |
///    +------------ Lingering <------------+        |
///    +---------------------------------------------+
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The slot is free.
    Closed,
    /// The connect call is under way; its first requests wait.
    Connecting,
    /// The TLS handshake is under way; its first requests wait.
    Handshaking,
    /// Requests are under way.
    Busy,
    /// Open, with nothing to do.
    Idle,
    /// Done with; the server is given the time to close first, so that the port stays free here.
    Lingering,
}

/// Requests that go out in one write; without pipelining that is one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Batch {
    /// Requests of it that are not over.
    pub(crate) left: u32,
    /// Requests of it that went over this connection and are over.
    pub(crate) answered: u32,
    /// Which request is awaited; the others of several different ones are in the connection's `burst`.
    pub(crate) ask: u32,
    /// Which session under way it is of, from 1; 0 = none.
    pub(crate) session: u32,
    pub(crate) intended_ns: u64,
    pub(crate) started_ns: u64,
    /// Just before the write; 0 = not written.
    pub(crate) sent_ns: u64,
    /// Position of the first byte of the awaited request in the stream to the server; encrypted, of the whole write.
    pub(crate) request_offset: u64,
    /// Of the response that is awaited: when its first byte came; 0 = none has.
    pub(crate) first_byte_ns: u64,
    /// Of the response that is awaited: position of its first byte in the stream from the server.
    pub(crate) response_offset: u64,
    /// Whether it waited for its connection to be opened.
    pub(crate) opened: bool,
    /// Whether it was sent before, on a connection that ended without answering it.
    pub(crate) retried: bool,
}

/// One request of a batch of different ones.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) ask: u32,
    /// Its length, once the batch is composed.
    pub(crate) bytes: u32,
}

/// A slot for a connection; slots are reused, their allocations with them.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) phase: Phase,
    /// Distinguishes the uses of a slot, so that events of a former one are known as such.
    pub(crate) generation: u32,
    pub(crate) stream: Option<Stream>,
    /// The generator's number of the connection, unique in the run.
    pub(crate) number: u64,
    /// Whose it is, of those that are told apart for fairness.
    pub(crate) client: u32,
    /// Which of the plan's hosts it goes to, and which of the host's addresses.
    pub(crate) host: u32,
    pub(crate) address: usize,
    /// Whether its bytes on the wire are those of TLS.
    pub(crate) encrypted: bool,
    pub(crate) connect_start_ns: u64,
    /// Responses that came over it.
    pub(crate) responses: u64,
    pub(crate) batch: Batch,
    /// Bytes of the batch, and those at its end that are still to be written.
    pub(crate) batch_bytes: usize,
    pub(crate) unsent: usize,
    /// The requests of a batch that is not made of one only, or not of constant bytes.
    pub(crate) burst: Vec<Piece>,
    /// The bytes of such a batch.
    pub(crate) composed: Vec<u8>,
    /// The cookies that its responses set.
    pub(crate) jar: CookieJar,
    pub(crate) parser: Parser,
    /// Whether the server is known to have ended its stream.
    pub(crate) hung_up: bool,
    /// Whether a transmission was told of a reset: the kernel tells it once, and a reception then sees a mere end.
    pub(crate) was_reset: bool,
    /// Whether its receptions and transmissions go through the ring.
    pub(crate) in_ring: bool,
    /// When a lingering connection is closed at the latest.
    pub(crate) linger_until_ns: u64,
}

impl Connection {
    pub(crate) fn new(asks: &Table) -> Self {
        let mut parser = Parser::new(asks.entry(0).head_only);
        if asks.cookie_jar {
            parser.keep_cookies();
        }
        Self {
            phase: Phase::Closed,
            generation: 0,
            stream: None,
            number: 0,
            client: 0,
            host: 0,
            address: 0,
            encrypted: false,
            connect_start_ns: 0,
            responses: 0,
            batch: Batch::default(),
            batch_bytes: 0,
            unsent: 0,
            burst: Vec::new(),
            composed: Vec::new(),
            jar: CookieJar::default(),
            parser,
            hung_up: false,
            was_reset: false,
            in_ring: false,
            linger_until_ns: 0,
        }
    }

    /// Takes over the requests that were chosen for its batch, which begins with `first`.
    pub(crate) fn take_chosen(&mut self, chosen: &mut Vec<Piece>, first: u32) {
        self.burst.clear();
        if chosen.first().is_some_and(|piece| piece.ask == first) {
            std::mem::swap(&mut self.burst, chosen);
        }
    }

    /// Gives what is left of its batch back, to be begun on another connection.
    pub(crate) fn give_back(&mut self, chosen: &mut Vec<Piece>) {
        chosen.clear();
        chosen.extend(self.burst.iter().skip(self.batch.answered as usize));
    }

    /// Prepares the bytes of its batch and returns their number.
    #[inline]
    pub(crate) fn compose(&mut self, plan: &Plan) -> usize {
        let entry = plan.asks.entry(self.batch.ask);
        if plan.asks.is_mixed {
            self.parser.expect_head_only(entry.head_only);
        }
        if plan.directed {
            // The director's orders have composed it.
            return self.composed.len();
        }
        self.composed.clear();
        if self.burst.is_empty() && !plan.asks.is_composed { entry.bytes as usize } else { self.compose_burst(plan) }
    }

    fn compose_burst(&mut self, plan: &Plan) -> usize {
        if self.burst.is_empty() {
            self.burst.push(Piece { ask: self.batch.ask, bytes: 0 });
        }
        let mut cookies = Vec::new();
        for piece in &mut self.burst {
            if let Some(url) = plan.asks.url(piece.ask) {
                cookies.clear();
                self.jar.write(url, SystemTime::now(), &mut cookies);
            }
            piece.bytes = plan.asks.compose(piece.ask, &cookies, &mut self.composed);
        }
        self.composed.len()
    }

    /// Goes on to the next request of its batch.
    #[inline]
    pub(crate) fn await_next(&mut self, asks: &Table) {
        if !self.encrypted {
            // Encrypted, only the whole write has a place in the stream, not each request in it.
            let before = self.burst.get(self.batch.answered as usize - 1).map(|piece| piece.bytes);
            self.batch.request_offset += u64::from(before.unwrap_or_else(|| asks.entry(self.batch.ask).bytes));
        }
        if let Some(piece) = self.burst.get(self.batch.answered as usize) {
            self.batch.ask = piece.ask;
            if asks.is_mixed {
                self.parser.expect_head_only(asks.entry(piece.ask).head_only);
            }
        }
    }

    /// Puts the cookies of the response that is whole into its jar.
    pub(crate) fn keep_cookies(&mut self, plan: &Plan) {
        let Some(url) = plan.asks.url(self.batch.ask) else { return };
        let jar = &mut self.jar;
        self.parser.take_cookies(|value| jar.set(value, url, SystemTime::now()));
    }

    /// Whether what is left of its batch may be asked twice.
    pub(crate) fn is_idempotent(&self, asks: &Table) -> bool {
        match self.burst.get(self.batch.answered as usize..) {
            Some(rest) if !rest.is_empty() => rest.iter().all(|piece| asks.entry(piece.ask).idempotent),
            _ => asks.entry(self.batch.ask).idempotent,
        }
    }

    /// The length of the request that is awaited, of a batch that asks for `asked`.
    #[inline]
    pub(crate) fn awaited_bytes(&self, asked: &Entry) -> u32 {
        match self.burst.get(self.batch.answered as usize) {
            Some(piece) => piece.bytes,
            None => asked.bytes,
        }
    }

    /// Whether nothing of the requests that are under way has reached the kernel.
    pub(crate) fn is_unsent(&self) -> bool {
        self.stream.as_ref().is_none_or(|stream| stream.sent == self.batch.request_offset)
    }
}
