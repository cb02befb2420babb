//! Users who have waited long enough: the stream of their request is cancelled, and the connection lives on.

use crate::counts::scopes::Unanswered;
use crate::engine::following::count_unanswered;
use crate::engine::sessions::End;
use crate::engine::state::Engine;
use crate::http2::control::CANCEL;
use crate::http2::state::Http2;
use crate::http2::streams::Exchange;
use crate::schedule::scheduler::NEVER;
use weir_wire::client::Outcome;

/// Bytes that wait to be written, above which a connection takes no further requests of users who give up: each leaves some
/// behind.
const WAITING_BYTES_MAX: usize = 256 << 10;

/// A patience as requests have it: at least a microsecond, at most 71 minutes.
pub(crate) fn patience_us(patience_ns: u64) -> u32 {
    u32::try_from(patience_ns / 1000).unwrap_or(u32::MAX).max(1)
}

impl Engine<'_, Http2<'_>> {
    /// Decides how long the user of a request waits that has no stream yet, if that is not decided.
    pub(crate) fn with_patience(&mut self, mut exchange: Exchange) -> Exchange {
        if let Some(patience) = &mut self.http.patience {
            if exchange.patience_us == 0 {
                exchange.patience_us = patience_us(patience.draw_ns());
            }
            patience.hold(exchange.stops_ns());
        }
        exchange
    }

    /// A request is on a stream: its user clicks stop when the time has come.
    #[cold]
    pub(crate) fn watch_patience(&mut self, slot: usize, place: u32) {
        let Some(patience) = &mut self.http.patience else { return };
        let exchange = self.connections[slot].at(place);
        if exchange.patience_us == 0 {
            exchange.patience_us = patience_us(patience.draw_ns());
        }
        patience.set(slot, place, exchange.stops_ns());
    }

    /// Looks at the users whose time has come.
    pub(crate) fn wake_impatient(&mut self) {
        let now_ns = self.now_ns;
        while let Some((slot, place)) = self.http.patience.as_mut().and_then(|patience| patience.take_due(now_ns)) {
            let exchange = *self.connections[slot].at(place);
            if exchange.stream != 0 && exchange.stops_ns() <= now_ns {
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
        let exchange = connection.take(place);
        connection.http.unsent.retain(|(unsent, _)| *unsent != place);
        connection.say_reset(exchange.stream, CANCEL);
        let (number, session) = (connection.number, connection.http.session);
        let waiting = connection.http.out.len() - connection.http.out_at;
        self.touch(slot);
        self.count_stopped(number, &exchange);
        self.session_ends(session, End::Stopped);
        if waiting > WAITING_BYTES_MAX {
            let words = "it takes nothing, while users give up one after the other: its connection is closed";
            return self.lost(slot, Outcome::TimedOut, words);
        }
        if session == 0 || !self.end_burst(session) {
            return self.go_on(slot);
        }
        self.begin_sessions();
    }

    /// Looks at the requests that have no stream: some of their users have waited long enough.
    fn stop_held(&mut self) {
        let now_ns = self.now_ns;
        let (mut first_ns, mut stopped) = (NEVER, Vec::new());
        self.http.held.retain(|exchange| {
            let stays = exchange.stops_ns() > now_ns;
            if stays {
                first_ns = first_ns.min(exchange.stops_ns());
            } else {
                stopped.push((0, *exchange));
            }
            stays
        });
        let bursts = self.http.users.iter_mut().flat_map(|users| users.bursts.iter_mut());
        for (session, burst) in (1..).zip(bursts) {
            burst.waiting.retain(|exchange| {
                let stays = exchange.stops_ns() > now_ns;
                if stays {
                    first_ns = first_ns.min(exchange.stops_ns());
                } else {
                    stopped.push((session, *exchange));
                }
                stays
            });
        }
        if let Some(patience) = &mut self.http.patience {
            patience.looked(first_ns, now_ns);
        }
        for (session, exchange) in stopped {
            self.count_stopped(0, &exchange);
            self.session_ends(session, End::Stopped);
            if self.end_burst(session) {
                self.begin_sessions();
            } else if session == 0 && !self.scheduler.is_open_loop() {
                // Another user takes the place.
                if let Some(exchange) = self.next_new() {
                    let exchange = self.with_patience(exchange);
                    self.http.held.push_back(exchange);
                }
            }
        }
    }

    /// Counts a request whose user clicked stop, which is no failure.
    fn count_stopped(&mut self, connection: u64, exchange: &Exchange) {
        self.scheduler.outstanding -= 1;
        count_unanswered(self.plan, &mut self.tally, exchange.request, Unanswered::Stopped);
        self.tally.failed(Outcome::Stopped, 1, 0);
        self.tally.last_done_ns = self.now_ns;
        if self.events.wanted() {
            self.tell(connection, exchange, Outcome::Stopped, self.now_ns);
        }
    }
}
