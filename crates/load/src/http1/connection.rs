//! What the loop knows of one connection over HTTP/1.

use crate::checks::Seen;
use crate::connect::connection::Connection;
use crate::counts::traced::TraceTally;
use crate::http1::response::Parser;
use crate::plan::run_plan::Plan;
use crate::plan::table::{Entry, Table};
use crate::requests::piece::Piece;
use crate::streamed::answer::Streamed;
use std::time::SystemTime;

/// Requests that go out in one write; without pipelining that is one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Batch {
    /// Requests of it that are not over.
    pub(crate) left: u32,
    /// Requests of it that went over this connection and are over.
    pub(crate) answered: u32,
    /// Which request is awaited; the others of several different ones are in the connection's `burst`.
    pub(crate) request: u32,
    /// Which session under way it is of, from 1; 0 = none.
    pub(crate) session: u32,
    /// How long it waited for a connection that is free, in microseconds.
    pub(crate) held_us: u32,
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

/// What HTTP/1 keeps of a connection.
#[derive(Debug)]
pub(crate) struct Pipeline {
    pub(crate) batch: Batch,
    /// Bytes of the batch, and those at its end that are still to be written.
    pub(crate) batch_bytes: usize,
    pub(crate) unsent: usize,
    /// The requests of a batch that is not made of one only, or not of constant bytes.
    pub(crate) burst: Vec<Piece>,
    /// The bytes of such a batch.
    pub(crate) composed: Vec<u8>,
    /// The number of the first request of the batch among those that say of which trace they are.
    pub(crate) first_traced: u64,
    pub(crate) parser: Parser,
    /// What has come of the response that is awaited, where checks look at it.
    pub(crate) seen: Option<Box<Seen>>,
    /// Its events, where answers come bit by bit.
    pub(crate) streamed: Option<Box<Streamed>>,
    /// Whether a transmission was told of a reset: the kernel tells it once, and a reception then sees a mere end.
    pub(crate) was_reset: bool,
    /// Whether its receptions and transmissions go through the ring.
    pub(crate) in_ring: bool,
}

impl Pipeline {
    pub(crate) fn new(plan: &Plan) -> Self {
        let (requests, keeps) = (&plan.requests, plan.keeps());
        let mut parser = Parser::new(requests.entry(0).head_only);
        if requests.cookie_jar {
            parser.keep_cookies();
        }
        if keeps.head {
            parser.keep_heads();
        }
        Self {
            batch: Batch::default(),
            batch_bytes: 0,
            unsent: 0,
            burst: Vec::new(),
            composed: Vec::new(),
            first_traced: 0,
            parser,
            seen: keeps.any().then(|| Box::new(Seen::new(keeps))),
            streamed: plan.streaming.map(|_| Box::default()),
            was_reset: false,
            in_ring: false,
        }
    }
}

impl Connection<Pipeline> {
    /// Takes over the requests that were chosen for its batch, which begins with `first`.
    pub(crate) fn take_chosen(&mut self, chosen: &mut Vec<Piece>, first: u32) {
        self.http.burst.clear();
        if chosen.first().is_some_and(|piece| piece.request == first) {
            std::mem::swap(&mut self.http.burst, chosen);
        }
    }

    /// Gives what is left of its batch back, to be begun on another connection.
    pub(crate) fn give_back(&mut self, chosen: &mut Vec<Piece>) {
        chosen.clear();
        chosen.extend(self.http.burst.iter().skip(self.http.batch.answered as usize));
    }

    /// Prepares the bytes of its batch and returns their number.
    #[inline]
    pub(crate) fn compose(&mut self, plan: &Plan, traces: Option<&mut TraceTally>) -> usize {
        let entry = plan.requests.entry(self.http.batch.request);
        if plan.requests.is_mixed {
            self.http.parser.expect_head_only(entry.head_only);
        }
        if plan.directed {
            // The director's orders have composed it.
            return self.http.composed.len();
        }
        self.http.composed.clear();
        if self.http.burst.is_empty() && !plan.requests.is_composed {
            entry.bytes as usize
        } else {
            self.compose_burst(plan, traces)
        }
    }

    fn compose_burst(&mut self, plan: &Plan, mut traces: Option<&mut TraceTally>) -> usize {
        if self.http.burst.is_empty() {
            self.http.burst.push(Piece { request: self.http.batch.request, bytes: 0 });
        }
        let mut cookies = Vec::new();
        for (place, piece) in self.http.burst.iter_mut().enumerate() {
            if let Some(url) = plan.requests.url(piece.request) {
                cookies.clear();
                self.jar.write(url, SystemTime::now(), &mut cookies);
            }
            let trace = traces.as_mut().map(|traces| {
                let number = traces.tracer.take();
                if place == 0 {
                    self.http.first_traced = number;
                }
                traces.tracer.ids(number)
            });
            piece.bytes = plan.requests.compose(piece.request, &cookies, trace, &mut self.http.composed);
        }
        self.http.composed.len()
    }

    /// Goes on to the next request of its batch.
    #[inline]
    pub(crate) fn await_next(&mut self, requests: &Table) {
        if !self.encrypted {
            // Encrypted, only the whole write has a place in the stream, not each request in it.
            let before = self.http.burst.get(self.http.batch.answered as usize - 1).map(|piece| piece.bytes);
            self.http.batch.request_offset +=
                u64::from(before.unwrap_or_else(|| requests.entry(self.http.batch.request).bytes));
        }
        if let Some(piece) = self.http.burst.get(self.http.batch.answered as usize) {
            self.http.batch.request = piece.request;
            if requests.is_mixed {
                self.http.parser.expect_head_only(requests.entry(piece.request).head_only);
            }
        }
    }

    /// Puts the cookies of the response that is whole into its jar.
    pub(crate) fn keep_cookies(&mut self, plan: &Plan) {
        let Some(url) = plan.requests.url(self.http.batch.request) else { return };
        let jar = &mut self.jar;
        self.http.parser.take_cookies(|value| jar.set(value, url, SystemTime::now()));
    }

    /// Whether what is left of its batch may be asked twice.
    pub(crate) fn is_idempotent(&self, requests: &Table) -> bool {
        match self.http.burst.get(self.http.batch.answered as usize..) {
            Some(rest) if !rest.is_empty() => rest.iter().all(|piece| requests.entry(piece.request).idempotent),
            _ => requests.entry(self.http.batch.request).idempotent,
        }
    }

    /// The length of the request that is awaited, of a batch that asks for `asked`.
    #[inline]
    pub(crate) fn awaited_bytes(&self, entry: &Entry) -> u32 {
        match self.http.burst.get(self.http.batch.answered as usize) {
            Some(piece) => piece.bytes,
            None => entry.bytes,
        }
    }

    /// Whether nothing of the requests that are under way has reached the kernel.
    pub(crate) fn is_unsent(&self) -> bool {
        self.stream.as_ref().is_none_or(|stream| stream.sent == self.http.batch.request_offset)
    }
}
