//! What happens to connections beside the way of a request: they are left, ended, and replaced.

use crate::connect::connection::Phase;
use crate::connect::connector::LINGER_NS;
use crate::engine::state::Engine;
use crate::http3::failing::words_of;
use crate::http3::malformed::code;
use crate::http3::state::Http3;
use crate::http3::streams::Exchange;
use weir_wire::client::Outcome;

impl Engine<'_, Http3<'_>> {
    /// How many of the requests that are held fall to a connection that is being made: an equal share.
    pub(crate) fn share_of_held(&self) -> usize {
        self.http.held.len().div_ceil(self.http.connecting.max(1) as usize)
    }

    /// No request begins on a connection any more; another may be opened in its place.
    pub(crate) fn leave(&mut self, slot: usize) {
        self.connections[slot].phase = Phase::Leaving;
        let connector = &self.connector;
        if self.connections[slot].counted && connector.free.len() > (connector.live_max - connector.live) as usize {
            self.uncount(slot);
        }
        if self.connections[slot].http.active == 0 {
            self.left(slot);
        }
        self.replace();
    }

    /// The last request of a connection that is left is over. Unlike one of TCP it is closed by this side at once, as no
    /// port stays busy after it; but where sessions are resumed the server is given the time to send what that takes.
    pub(crate) fn left(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        let waits = self.http.wire.resumes && !connection.counted && !connection.http.is_confirmed();
        if !waits {
            self.close(slot);
            self.replace();
        } else if connection.linger_until_ns == 0 {
            connection.linger_until_ns = self.now_ns + LINGER_NS;
        }
    }

    /// Opens another connection if there is something to send that those being made are not for.
    pub(crate) fn replace(&mut self) {
        if self.connector.live >= self.connector.live_max
            || self.fatal.is_some()
            || !self.connector.may_open(self.now_ns)
        {
            return;
        }
        if self.scheduler.is_open_loop() {
            let (waiting, streams) = (self.http.held.len() + self.http.queue.len(), self.http.wire.streams as usize);
            if waiting <= self.http.connecting as usize * streams {
                return;
            }
            for _ in self.http.held.len()..waiting.min((self.http.connecting as usize + 1) * streams) {
                let Some(exchange) = self.next_queued() else { break };
                let exchange = self.with_patience(exchange);
                self.http.held.push_back(exchange);
            }
        } else if self.http.held.len() <= self.http.connecting as usize {
            // Each connection is opened for a request at least.
            let Some(exchange) = self.next_new() else { return };
            let exchange = self.with_patience(exchange);
            self.http.held.push_back(exchange);
        }
        self.open(());
    }

    /// What of a connection that is made is overdue.
    pub(crate) fn look_at_streams(&mut self, slot: usize, now_ns: u64) {
        let timeout_ns = self.plan.timeout_ns;
        let linger_until_ns = self.connections[slot].linger_until_ns;
        if linger_until_ns != 0 && now_ns >= linger_until_ns && self.connections[slot].http.active == 0 {
            return self.close(slot);
        }
        if self.is_slowly_moving(slot) {
            // What a limited line brings may take longer.
            return;
        }
        let http = &self.connections[slot].http;
        let is_overdue = |since_ns: u64| now_ns.saturating_sub(since_ns) >= timeout_ns;
        // One that says nothing at all is gone; of one that goes on only the request is given up.
        let silent = http.active > 0 && is_overdue(http.heard_ns);
        let (mut overdue, generation) = (false, self.connections[slot].generation);
        for place in 0..self.connections[slot].http.places() {
            let exchange: Exchange = *self.connections[slot].http.at(place);
            // What began meanwhile is not overdue, so going on within this loop is safe.
            if exchange.stream.is_some() && is_overdue(exchange.started_ns) {
                overdue = true;
                if !silent {
                    let words = words_of(&exchange);
                    self.give_up(slot, place, Outcome::TimedOut, Some(code::REQUEST_CANCELLED), words);
                }
                if self.connections[slot].generation != generation {
                    return;
                }
            }
        }
        if silent && overdue {
            self.lost(slot, Outcome::TimedOut, "the server said nothing more in time");
        }
    }
}
