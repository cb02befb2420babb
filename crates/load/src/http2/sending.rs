//! What a connection has to write: frames of bodies as the server's windows allow, and answers to its own messages.

use crate::connect::connection::Connection;
use crate::http2::frames::{DATA, END_STREAM, FRAME_BYTES_MAX, GOAWAY, RST_STREAM};
use crate::http2::malformed::Malformed;
use crate::http2::streams::Streams;
use crate::http2::wire::{PreparedRequest, frame};

/// Bytes of bodies that are put into frames ahead of their write.
const AHEAD_BYTES: usize = 64 * 1024;
/// Bytes of answers that wait to be written: a server that asks for more without reading them gets none.
const ANSWERS_BYTES_MAX: usize = 256 * 1024;

impl Connection<Streams> {
    /// Puts bodies into frames: of each request that has more of its body one frame in turn, as far as all windows allow.
    #[inline]
    pub(crate) fn fill(&mut self, requests: &[PreparedRequest]) {
        while self.http.window > 0 && self.http.out.len() - self.http.out_at < AHEAD_BYTES {
            let Some(place) = self.http.senders.pop_front() else { return };
            let (window, most) = (self.http.window, self.http.frame_bytes.min(FRAME_BYTES_MAX));
            let exchange = self.at(place);
            if !exchange.sending {
                continue;
            }
            let body = &requests[exchange.request as usize].body;
            let from = exchange.body_sent;
            let left = self.released(place, body.len()) - from;
            let exchange = self.at(place);
            if exchange.window <= 0 || left == 0 {
                // Listed again when its window grows, or more of it may go out.
                exchange.sending = false;
                continue;
            }
            let allowed = usize::try_from(exchange.window.min(window)).unwrap_or(usize::MAX);
            let count = left.min(allowed).min(most);
            let stream = exchange.stream;
            exchange.body_sent += count;
            exchange.window -= count as i64;
            let end = exchange.body_sent == body.len();
            exchange.sending = count < left;
            let has_more = exchange.sending;
            self.http.window -= count as i64;
            frame(&mut self.http.out, DATA, if end { END_STREAM } else { 0 }, stream, &body[from..from + count]);
            if has_more {
                self.http.senders.push_back(place);
            }
        }
    }

    /// How many bytes of a body of this length may go out by now: of a call of gRPC perhaps not all of its messages.
    #[inline]
    fn released(&self, place: u32, body_bytes: usize) -> usize {
        self.http.calls.get(place as usize).map_or(body_bytes, |call| call.released)
    }

    /// Lists a request whose window has grown, or of which more may go out, if it has more of its body to send.
    pub(crate) fn resume(&mut self, place: u32, requests: &[PreparedRequest]) {
        let request = self.at(place).request as usize;
        let body_bytes = self.released(place, requests[request].body.len());
        let exchange = self.at(place);
        if !exchange.sending && exchange.window > 0 && exchange.stream != 0 && exchange.body_sent < body_bytes {
            exchange.sending = true;
            self.http.senders.push_back(place);
        }
    }

    /// Notes when, and if need be where, the requests were written of which nothing was written before.
    #[inline]
    pub(crate) fn stamp(&mut self, now_ns: u64, offset: Option<u64>) {
        for at in 0..self.http.unsent.len() {
            let (place, _) = self.http.unsent[at];
            let exchange = self.at(place);
            exchange.sent_ns = now_ns;
            if let Some(offset) = offset {
                exchange.request_offset = offset;
            }
        }
    }

    /// The same for those that begin before this position, where the rest waits for its time.
    pub(crate) fn stamp_before(&mut self, position: u64, now_ns: u64, offset: Option<u64>) {
        for at in 0..self.http.unsent.len() {
            let (place, begin) = self.http.unsent[at];
            if begin >= position {
                return;
            }
            let exchange = self.at(place);
            exchange.sent_ns = now_ns;
            if let Some(offset) = offset {
                exchange.request_offset = offset;
            }
        }
    }

    /// So many bytes are written.
    #[inline]
    pub(crate) fn written(&mut self, count: usize) {
        self.http.out_at += count;
        if self.http.out_at == self.http.out.len() {
            self.http.out_offset += self.http.out_at as u64;
            self.http.out.clear();
            self.http.unsent.clear();
            (self.http.out_at, self.http.answers) = (0, 0);
            return;
        }
        let written = self.http.out_offset + self.http.out_at as u64;
        while self.http.unsent.front().is_some_and(|(_, offset)| *offset < written) {
            self.http.unsent.pop_front();
        }
        // What is written is let go before it has doubled what is kept.
        if self.http.out_at > self.http.out.len() / 2 {
            self.http.out.drain(..self.http.out_at);
            self.http.out_offset += self.http.out_at as u64;
            self.http.out_at = 0;
        }
    }

    /// Appends a frame that answers the server, within the bound on those.
    pub(crate) fn answer(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Result<(), Malformed> {
        if self.http.answers > ANSWERS_BYTES_MAX {
            return Err(Malformed::too_much("it wants answers and does not read them"));
        }
        let before = self.http.out.len();
        frame(&mut self.http.out, kind, flags, stream, payload);
        self.http.answers += self.http.out.len() - before;
        Ok(())
    }

    /// Tells the server that a stream is given up.
    pub(crate) fn say_reset(&mut self, stream: u32, code: u32) {
        frame(&mut self.http.out, RST_STREAM, 0, stream, &code.to_be_bytes());
    }

    /// Tells the server that no more follows: no stream of its own was taken, and nothing is wrong.
    pub(crate) fn say_goodbye(&mut self) {
        frame(&mut self.http.out, GOAWAY, 0, 0, &[0; 8]);
    }
}
