//! What a response over HTTP/2 has beside its status: what checks look at.

use crate::checks::Answer;
use crate::connect::kernel::monotonic_ns;
use crate::counts::answered::Answered;
use crate::counts::durations::Durations;
use crate::counts::scopes::Unanswered;
use crate::engine::following::{Whole, count_unanswered, look_at_response};
use crate::engine::state::Engine;
use crate::http2::frames::FRAME_HEAD_BYTES;
use crate::http2::state::Http2;
use crate::http2::streams::Exchange;

impl Engine<'_, Http2<'_>> {
    /// Shows a piece of content to checks: it ends, but for its padding, before the place `end` of the buffer.
    #[inline(never)]
    pub(crate) fn see_content(&mut self, slot: usize, stream: u32, [content, flow, bytes]: [u32; 3], end: usize) {
        let connection = &mut self.connections[slot];
        let Some(place) = connection.find(stream) else { return };
        // The byte that tells the padding's length counts for flow control, and stands in the frame's head.
        let has_head = (bytes - flow) as usize == FRAME_HEAD_BYTES;
        let padding = (flow - content) - u32::from(has_head && flow > content);
        let end = end - padding as usize;
        let piece = &self.buffer[end - content as usize..end];
        if let Some(seen) = connection.http.seen.get_mut(place as usize) {
            seen.content(piece);
        }
        if let (Some(streamed), Some(streams)) =
            (connection.http.streamed.get_mut(place as usize), &mut self.tally.streams)
        {
            streamed.content(piece, self.now_ns, streams);
        }
        if self.plan.grpc.is_some() {
            self.see_messages(slot, place, end - content as usize..end);
        }
    }

    /// Looks at a response that is whole, before its connection goes on; what goes out next begins behind that.
    #[inline(never)]
    pub(crate) fn follow(&mut self, slot: usize, place: u32, exchange: &Exchange, durations: Durations) -> Answered {
        let answered = self.look_at_whole(slot, place, exchange, durations);
        if self.plan.grpc.is_some() {
            self.count_call(slot, place, exchange, answered);
        }
        if let (Some(streamed), Some(streams)) =
            (self.connections[slot].http.streamed.get_mut(place as usize), &mut self.tally.streams)
        {
            let is_success = self.plan.is_success(answered);
            streamed.finish(exchange.intended_ns, is_success, self.now_ns, streams);
        }
        answered
    }

    fn look_at_whole(&mut self, slot: usize, place: u32, exchange: &Exchange, durations: Durations) -> Answered {
        let Some(followed) = &self.plan.followed else { return Answered::fit(exchange.status) };
        let answer = Answer { status: exchange.status, body_bytes: exchange.content };
        let in_time = self.now_ns <= self.scheduler.end_ns;
        let whole = Whole { request: exchange.request, answer, in_time, durations };
        let seen = self.connections[slot].http.seen.get_mut(place as usize);
        let begin_ns = if followed.checks.is_empty() { 0 } else { monotonic_ns() };
        let answered = look_at_response(self.plan, followed, &mut self.tally, &whole, seen.as_deref());
        if let Some(seen) = seen {
            seen.reset();
        }
        if !followed.checks.is_empty() {
            self.now_ns = monotonic_ns();
            self.tally.checks.took_ns += self.now_ns.saturating_sub(begin_ns);
        }
        answered
    }

    /// Counts what is under way when the run ends in its scopes.
    pub(crate) fn count_cut_scopes(&mut self) {
        if self.plan.followed.is_none() {
            return;
        }
        let waiting = self.http.users.iter().flat_map(|users| &users.bursts).flat_map(|burst| &burst.waiting);
        let without_stream: Vec<u32> = waiting.chain(&self.http.held).map(|exchange| exchange.request).collect();
        let on_streams = self.connections.iter().flat_map(|connection| connection.http.under_way());
        let requests: Vec<u32> = without_stream.into_iter().chain(on_streams).collect();
        for request in requests {
            count_unanswered(self.plan, &mut self.tally, request, Unanswered::Abandoned);
        }
    }
}
