//! What a response over HTTP/3 has beside its status: what checks look at.

use crate::checks::Answer;
use crate::connect::kernel::monotonic_ns;
use crate::counts::answered::Answered;
use crate::counts::durations::Durations;
use crate::counts::scopes::Unanswered;
use crate::engine::following::{Whole, count_unanswered, look_at_response};
use crate::engine::state::Engine;
use crate::http3::state::Http3;
use crate::http3::streams::Exchange;

impl Engine<'_, Http3<'_>> {
    /// Looks at a response that is whole, before its connection goes on; what goes out next begins behind that.
    #[inline(never)]
    pub(crate) fn follow(&mut self, slot: usize, place: u32, exchange: &Exchange, durations: Durations) -> Answered {
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
        let without_stream: Vec<u32> = self.http.held.iter().map(|exchange| exchange.request).collect();
        let on_streams = self.connections.iter().flat_map(|connection| connection.http.under_way());
        let requests: Vec<u32> = without_stream.into_iter().chain(on_streams).collect();
        for request in requests {
            count_unanswered(self.plan, &mut self.tally, request, Unanswered::Abandoned);
        }
    }
}
