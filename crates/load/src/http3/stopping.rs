//! Users who have waited long enough: the stream of their request is cancelled in both directions (RFC 9114 4.1.1), and the
//! connection lives on.

use crate::counts::scopes::Unanswered;
use crate::engine::following::count_unanswered;
use crate::engine::state::Engine;
use crate::http3::malformed::code;
use crate::http3::sending::reset;
use crate::http3::state::Http3;
use crate::http3::streams::Exchange;
use crate::schedule::scheduler::NEVER;
use weir_wire::client::Outcome;

impl Engine<'_, Http3<'_>> {
    /// Decides how long the user of a request waits that has no stream yet, if that is not decided.
    pub(crate) fn with_patience(&mut self, mut exchange: Exchange) -> Exchange {
        if let Some(patience) = &mut self.http.patience {
            if exchange.stops_ns == 0 {
                exchange.stops_ns = exchange.intended_ns.saturating_add(patience.draw_ns());
            }
            patience.hold(exchange.stops_ns);
        }
        exchange
    }

    /// A request is on a stream: its user clicks stop when the time has come.
    #[cold]
    pub(crate) fn watch_patience(&mut self, slot: usize, place: u32) {
        let Some(patience) = &mut self.http.patience else { return };
        let exchange = self.connections[slot].http.at(place);
        if exchange.stops_ns == 0 {
            exchange.stops_ns = exchange.intended_ns.saturating_add(patience.draw_ns());
        }
        patience.set(slot, place, exchange.stops_ns);
    }

    /// Looks at the users whose time has come.
    pub(crate) fn wake_impatient(&mut self) {
        let now_ns = self.now_ns;
        while let Some((slot, place)) = self.http.patience.as_mut().and_then(|patience| patience.take_due(now_ns)) {
            let exchange = *self.connections[slot].http.at(place);
            if exchange.stream.is_some() && exchange.stops_ns <= now_ns {
                self.click_stop(slot, place);
            }
        }
        if self.http.patience.as_ref().is_some_and(|patience| patience.holds_due(now_ns)) {
            self.stop_held();
        }
        self.flush_touched();
    }

    /// The user of a request under way clicks stop.
    fn click_stop(&mut self, slot: usize, place: u32) {
        let connection = &mut self.connections[slot];
        let exchange = connection.http.take(place);
        connection.http.unsent.retain(|unsent| *unsent != place);
        let number = connection.number;
        if let (Some(stream), Some(link)) = (exchange.stream, &mut connection.http.link) {
            reset(link, stream, code::REQUEST_CANCELLED);
            self.stop_reading(slot, stream, code::REQUEST_CANCELLED);
            self.touch(slot);
        }
        self.count_stopped(number, &exchange);
        self.go_on(slot);
    }

    /// Looks at the requests that have no stream: some of their users have waited long enough.
    fn stop_held(&mut self) {
        let now_ns = self.now_ns;
        let (mut first_ns, mut stopped) = (NEVER, Vec::new());
        self.http.held.retain(|exchange| {
            let stays = exchange.stops_ns > now_ns;
            if stays {
                first_ns = first_ns.min(exchange.stops_ns);
            } else {
                stopped.push(*exchange);
            }
            stays
        });
        if let Some(patience) = &mut self.http.patience {
            patience.looked(first_ns, now_ns);
        }
        for exchange in stopped {
            self.count_stopped(0, &exchange);
            if !self.scheduler.is_open_loop()
                && let Some(exchange) = self.next_new()
            {
                // Another user takes the place.
                let exchange = self.with_patience(exchange);
                self.http.held.push_back(exchange);
            }
        }
    }

    /// Counts a request whose user clicked stop, which is no failure.
    fn count_stopped(&mut self, connection: u64, exchange: &Exchange) {
        self.scheduler.outstanding -= 1;
        self.count_held(exchange.held_since_ns);
        count_unanswered(self.plan, &mut self.tally, exchange.request, Unanswered::Stopped);
        self.tally.failed(Outcome::Stopped, 1, 0);
        self.tally.last_done_ns = self.now_ns;
        if self.events.wanted() {
            self.tell(connection, exchange, Outcome::Stopped, self.now_ns);
        }
    }
}
