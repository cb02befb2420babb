//! Answers that come bit by bit over HTTP/1: whether they have stalled, and when this side ends them.

use crate::engine::state::Engine;
use crate::engine::streaming::{LOOK_NS, Watch, stalled_words};
use crate::http1::state::Http1;
use weir_wire::client::Outcome;

impl Engine<'_, Http1> {
    /// Whether too much time passed between two events of the answer that is under way; it has failed then.
    #[cold]
    pub(crate) fn has_stalled(&mut self, slot: usize) -> bool {
        let Some(watch) = Watch::of(self.plan) else { return false };
        let is_stalled = self.connections[slot]
            .http
            .streamed
            .as_ref()
            .is_some_and(|streamed| streamed.is_stalled(watch.between_max_ns, self.now_ns));
        if is_stalled {
            self.fail_for(slot, Outcome::Stalled, &stalled_words(watch.between_max_ns));
        }
        is_stalled
    }

    /// Looks whether an answer has stalled, or is to be ended; tells whether it goes on.
    pub(crate) fn look_at_stream(&mut self, slot: usize, now_ns: u64) -> bool {
        let Some(watch) = Watch::of(self.plan) else { return true };
        let http = &self.connections[slot].http;
        let Some(streamed) = http.streamed.as_ref().filter(|_| http.parser.in_body()) else { return true };
        let close_ns = http.batch.sent_ns.saturating_add(watch.close_after_ns);
        let is_stalled = streamed.is_stalled(watch.between_max_ns, now_ns);
        let next_ns = streamed.stalls_ns(watch.between_max_ns).map_or(close_ns, |stalls_ns| stalls_ns.min(close_ns));
        if !is_stalled && now_ns < close_ns {
            self.scheduler.sweep_by(next_ns.max(now_ns + LOOK_NS));
            return true;
        }
        self.now_ns = now_ns;
        if is_stalled {
            self.fail_for(slot, Outcome::Stalled, &stalled_words(watch.between_max_ns));
        } else {
            self.end_stream(slot);
        }
        false
    }

    /// Ends an answer that goes on: its connection is closed, and it counts as whole.
    fn end_stream(&mut self, slot: usize) {
        if let Some(tally) = &mut self.tally.streams {
            tally.closed += 1;
        }
        let connection = &mut self.connections[slot];
        // The server would go on: it is not waited for.
        connection.hung_up = true;
        let end = connection.stream.as_ref().map_or(0, |stream| stream.received);
        self.answered(slot, end, false);
    }
}
