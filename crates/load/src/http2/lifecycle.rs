//! What happens to connections beside the way of a request: they are left, ended, and replaced.

use crate::connect::connection::Phase;
use crate::connect::connector::LINGER_NS;
use crate::engine::state::Engine;
use crate::http2::control::CANCEL;
use crate::http2::failing::words_of;
use crate::http2::state::Http2;
use weir_wire::client::Outcome;

impl Engine<'_, Http2<'_>> {
    /// How many of the requests that are held fall to a connection that is being made: those of its session, or an equal
    /// share.
    pub(crate) fn share_of(&self, slot: usize) -> usize {
        if let Some(users) = &self.http.users {
            return users.waiting(self.connections[slot].http.session);
        }
        self.http.held.len().div_ceil(self.http.connecting.max(1) as usize)
    }

    /// No request begins on a connection any more; another may be opened in its place.
    ///
    /// That of a session counts as open as long as it is: its session has one at a time.
    pub(crate) fn leave(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        connection.phase = Phase::Leaving;
        let connector = &self.connector;
        if connection.counted
            && connection.http.session == 0
            && connector.free.len() > (connector.live_max - connector.live) as usize
        {
            self.uncount(slot);
        }
        if self.connections[slot].http.active == 0 {
            self.left(slot);
        }
        self.replace();
    }

    /// The last request of a connection that is left is over.
    ///
    /// The server has said that it will close, or is told that it may: it is given the time to do so first, which keeps
    /// the port free here.
    pub(crate) fn left(&mut self, slot: usize) {
        let connection = &self.connections[slot];
        let mut at_once = connection.counted || connection.hung_up;
        if !self.http.wire.keep_alive && !connection.hung_up && !connection.http.broken {
            at_once |= !self.say_farewell(slot);
        }
        let connection = &mut self.connections[slot];
        if at_once {
            let session = connection.http.session;
            self.close(slot);
            self.session_goes_on(session);
            self.replace();
        } else if connection.linger_until_ns == 0 {
            connection.linger_until_ns = self.now_ns + LINGER_NS;
        }
    }

    /// Ends our side of a connection whose only request is over, as RFC 9113 6.8 and RFC 8446 6.1 have it; tells whether
    /// the server is to close it thereupon.
    ///
    /// Encrypted, it learns from TLS that nothing follows. In the clear only the socket's end says so to many, which would
    /// keep our port busy for a minute: the socket is reset in its place.
    fn say_farewell(&mut self, slot: usize) -> bool {
        let connection = &mut self.connections[slot];
        connection.http.broken = true;
        connection.say_goodbye();
        let Some(stream) = &mut connection.stream else { return false };
        // Whether it arrives changes nothing: the connection is closed either way.
        let _ = stream.write_last(&mut self.connector.kernel, &connection.http.out[connection.http.out_at..]);
        if !self.http.encrypted && !self.plan.hang_up {
            self.connector.kernel.reset_at_close(stream.fd());
        }
        self.http.encrypted && !self.plan.hang_up
    }

    /// Opens another connection if there is something to send that those being made are not for.
    pub(crate) fn replace(&mut self) {
        if self.http.users.is_some() {
            return self.begin_sessions();
        }
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
        self.open(0);
    }

    /// What of a connection that is made is overdue.
    pub(crate) fn look_at_streams(&mut self, slot: usize, now_ns: u64) {
        let timeout_ns = self.plan.timeout_ns;
        let connection = &self.connections[slot];
        let is_overdue = |since_ns: u64| now_ns.saturating_sub(since_ns) >= timeout_ns;
        match connection.phase {
            Phase::Leaving if connection.http.active == 0 && now_ns >= connection.linger_until_ns => {
                self.close(slot);
                self.replace();
            }
            // What a limited line brings may take longer.
            Phase::Open | Phase::Leaving if self.is_slowly_moving(slot) => {}
            Phase::Open | Phase::Leaving => {
                // One that says nothing at all is gone; of one that goes on only the request is given up.
                let silent = connection.http.active > 0 && is_overdue(connection.http.heard_ns);
                let (mut overdue, generation) = (false, connection.generation);
                for place in 0..connection.places() {
                    let connection = &mut self.connections[slot];
                    let exchange = *connection.at(place);
                    if exchange.stream != 0
                        && self.plan.streaming.is_some()
                        && !self.look_at_stream(slot, place, now_ns)
                    {
                        if self.connections[slot].generation != generation {
                            return;
                        }
                        continue;
                    }
                    // What began meanwhile is not overdue, so going on within this loop is safe.
                    if exchange.stream != 0 && is_overdue(exchange.started_ns) {
                        overdue = true;
                        if !silent {
                            self.give_up(slot, place, Outcome::TimedOut, Some(CANCEL), words_of(&exchange));
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
            _ => {}
        }
    }
}
