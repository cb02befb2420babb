//! Calls of gRPC: what of an answer is a message, what goes out next, and how a call ends.

use crate::LoadError;
use crate::connect::connection::Connection;
use crate::counts::answered::Answered;
use crate::engine::state::Engine;
use crate::grpc::call::{Call, Ended};
use crate::http2::state::Http2;
use crate::http2::streams::{Exchange, Streams, UNTOLD_LENGTH, WITHOUT_STATUS};
use crate::plan::run_plan::Plan;
use std::ops::Range;
use weir_wire::client::Outcome;

impl Engine<'_, Http2<'_>> {
    /// Takes a piece of an answer's content, and has the next message go out if it ended one that was waited for.
    pub(crate) fn see_messages(&mut self, slot: usize, place: u32, piece: Range<usize>) {
        let connection = &mut self.connections[slot];
        let (Some(call), Some(tally)) = (connection.http.calls.get_mut(place as usize), &mut self.tally.grpc) else {
            return;
        };
        let collector = self.plan.grpc.as_ref().and_then(|grpc| grpc.collector.as_deref());
        if call.content(&self.buffer[piece], self.now_ns, (tally, collector)) == 0 {
            return;
        }
        let answered = call.messages();
        let request = connection.at(place).request;
        let prepared = &self.http.wire.requests[request as usize];
        let released = prepared.released_bytes(answered);
        // What goes out all at once is released from the begin.
        if let Some(call) = connection.http.calls.get_mut(place as usize)
            && call.released < released
        {
            call.released = released;
            connection.resume(place, &self.http.wire.requests);
            self.touch(slot);
        }
    }

    /// The trailers of an answer came, if it is one to a call.
    #[inline(never)]
    pub(crate) fn on_trailers(&mut self, slot: usize, place: u32) {
        let connection = &mut self.connections[slot];
        if let Some(call) = connection.http.calls.get_mut(place as usize) {
            call.trailers(self.http.decoder.fields());
            connection.await_status(place);
        }
    }

    /// A response is over, and not as long as it said, or a call without its status.
    #[cold]
    #[inline(never)]
    pub(crate) fn over_too_soon(&mut self, slot: usize, place: u32) {
        let words = match self.connections[slot].http.calls.get(place as usize) {
            Some(call) => call.fault().to_string(),
            None => "its content is not as long as its content-length (RFC 9113 8.1.1)".to_owned(),
        };
        self.give_up(slot, place, Outcome::Malformed, None, &words);
    }

    /// Counts a call that ended with a status.
    pub(crate) fn count_call(&mut self, slot: usize, place: u32, exchange: &Exchange, answered: Answered) {
        let prepared = &self.http.wire.requests[exchange.request as usize];
        let sent = prepared.message_ends.partition_point(|end| *end <= exchange.body_sent) as u64;
        let is_success = self.plan.is_success(answered);
        let call = self.connections[slot].http.calls.get_mut(place as usize);
        if let (Some(call), Some(tally)) = (call, &mut self.tally.grpc) {
            call.finish(Ended { intended_ns: exchange.intended_ns, is_success, sent }, tally);
        }
    }
}

/// The host does not speak HTTP/2.
pub(crate) fn not_http2(plan: &Plan, host: String, cause: String) -> LoadError {
    match plan.grpc {
        Some(_) => LoadError::NotGrpc { host, cause },
        None => LoadError::NotHttp2 { host, cause },
    }
}

impl Connection<Streams> {
    /// Has a call be over when its status has come, and not before; that status is then the response's.
    pub(crate) fn await_status(&mut self, place: u32) {
        let status = self.http.calls.get(place as usize).and_then(Call::status);
        let exchange = self.at(place);
        exchange.expected = WITHOUT_STATUS;
        if let Some(status) = status {
            (exchange.status, exchange.expected) = (status, UNTOLD_LENGTH);
        }
    }
}
