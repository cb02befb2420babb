//! A connection moves to another port of this host, as a user's does who changes networks (RFC 9000 9).

use crate::connect::connection::Phase;
use crate::connect::stream::Stream;
use crate::engine::state::Engine;
use crate::http3::state::Http3;

impl Engine<'_, Http3<'_>> {
    /// Moves a connection whose time for it has come.
    pub(crate) fn move_if_due(&mut self, slot: usize, now_ns: u64) {
        let every_ns = self.http.wire.migrate_ns;
        let connection = &self.connections[slot];
        // A server that has not answered over the new way yet would have to look at another one meanwhile.
        if every_ns == u64::MAX || connection.phase != Phase::Open || connection.http.is_unheard {
            return;
        }
        let since_ns = connection.http.moved_ns.max(connection.connect_start_ns);
        let due_ns = since_ns.saturating_add(every_ns);
        if now_ns < due_ns {
            return self.scheduler.sweep_by(due_ns);
        }
        self.move_connection(slot);
        self.scheduler.sweep_by(now_ns.saturating_add(every_ns));
    }

    /// Has a connection go on over a socket of its own anew; what was on its way to the old one is lost, as when a
    /// network is left.
    fn move_connection(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        let route = &self.http.host.route;
        let endpoint = &route.endpoints[connection.address];
        let (source, token) = (route.source(endpoint, connection.number), connection.token(slot));
        connection.http.moved_ns = self.now_ns;
        let Ok(fd) = self.connector.kernel.connect(endpoint, source, token) else {
            // This host has no port or descriptor left: it stays where it is, and tries again when it is due.
            return;
        };
        let mut stream = Stream::new(fd);
        let http = &mut connection.http;
        if let Some(old) = connection.stream.take() {
            (stream.sent, stream.received) = (old.sent, old.received);
            self.connector.kernel.close(old.into_fd());
        }
        connection.stream = Some(stream);
        http.blocked.clear();
        if let Some(line) = &mut http.line {
            line.moves();
        }
        http.is_unheard = true;
        if let Some(link) = &mut http.link {
            link.sets_ecn = true;
            link.quic.local_address_changed();
        }
        self.tally.http3.counts.moves += 1;
        self.touch(slot);
    }
}
