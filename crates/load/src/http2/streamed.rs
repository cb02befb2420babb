//! Answers that come bit by bit over HTTP/2: whether they have stalled, and when this side ends them.

use crate::engine::state::Engine;
use crate::engine::streaming::{LOOK_NS, Watch, stalled_words};
use crate::http2::control::CANCEL;
use crate::http2::state::Http2;
use crate::http2::streams::UNTOLD_LENGTH;
use weir_wire::client::Outcome;

impl Engine<'_, Http2<'_>> {
    /// Whether too much time passed between two events of a stream's answer; it has failed then.
    #[cold]
    pub(crate) fn has_stalled(&mut self, slot: usize, stream: u32) -> bool {
        let connection = &self.connections[slot];
        let (Some(watch), Some(place)) = (Watch::of(self.plan), connection.find(stream)) else { return false };
        let streamed = &connection.http.streamed[place as usize];
        let is_stalled = streamed.is_stalled(watch.between_max_ns, self.now_ns);
        if is_stalled {
            self.stalled(slot, place, watch);
        }
        is_stalled
    }

    fn stalled(&mut self, slot: usize, place: u32, watch: Watch) {
        self.connections[slot].http.streamed[place as usize].reset();
        self.give_up(slot, place, Outcome::Stalled, Some(CANCEL), &stalled_words(watch.between_max_ns));
    }

    /// Looks whether the answer in a place has stalled, or is to be ended; tells whether it goes on.
    pub(crate) fn look_at_stream(&mut self, slot: usize, place: u32, now_ns: u64) -> bool {
        let Some(watch) = Watch::of(self.plan) else { return true };
        let connection = &mut self.connections[slot];
        let exchange = *connection.at(place);
        if exchange.status == 0 {
            return true;
        }
        let streamed = &connection.http.streamed[place as usize];
        let close_ns = exchange.sent_ns.saturating_add(watch.close_after_ns);
        let is_stalled = streamed.is_stalled(watch.between_max_ns, now_ns);
        let next_ns = streamed.stalls_ns(watch.between_max_ns).map_or(close_ns, |stalls_ns| stalls_ns.min(close_ns));
        if !is_stalled && now_ns < close_ns {
            self.scheduler.sweep_by(next_ns.max(now_ns + LOOK_NS));
            return true;
        }
        self.now_ns = now_ns;
        if is_stalled {
            self.stalled(slot, place, watch);
        } else {
            self.end_stream(slot, place);
        }
        false
    }

    /// Ends an answer that goes on: its stream is reset, and it counts as whole.
    fn end_stream(&mut self, slot: usize, place: u32) {
        if let Some(tally) = &mut self.tally.streams {
            tally.closed += 1;
        }
        let connection = &mut self.connections[slot];
        let exchange = connection.at(place);
        exchange.expected = UNTOLD_LENGTH;
        let stream = exchange.stream;
        connection.say_reset(stream, CANCEL);
        self.touch(slot);
        self.answered(slot, place);
    }
}
