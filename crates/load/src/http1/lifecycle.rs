//! What happens to connections beside the way of a request: they rest, end, and are replaced.

use crate::connect::connection::Phase;
use crate::connect::connector::LINGER_NS;
use crate::engine::state::Engine;
use crate::http1::state::Http1;
use std::io;
use weir_client::Oddity;

impl Engine<'_, Http1> {
    /// A connection with nothing to do waits for the next arrival.
    pub(crate) fn rest(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        connection.phase = Phase::Idle;
        self.http.pools[connection.host as usize].idle.push(slot as u32);
        self.http.resting += 1;
    }

    /// Something came on an idle connection: its end, bytes that no request asked for, or a message of TLS itself.
    pub(crate) fn idle_readable(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        if !connection.http.in_ring
            && let Some(stream) = &mut connection.stream
        {
            match stream.read(&mut self.connector.kernel, &mut self.buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && connection.encrypted => return,
                Ok(1..) => connection.http.parser.count_odd(Oddity::Surplus),
                _ => {}
            }
        }
        let (host, session) = (connection.host, connection.http.batch.session);
        if let (Some(sessions), 1..) = (&mut self.http.sessions, session) {
            sessions.lose_connection(session);
            return self.close(slot);
        }
        let idle = &mut self.http.pools[host as usize].idle;
        if let Some(place) = idle.iter().position(|idle| *idle as usize == slot) {
            idle.swap_remove(place);
            self.http.resting -= 1;
        }
        self.close(slot);
        self.replace(host);
    }

    /// Done with a connection that must not carry more.
    pub(crate) fn retire(&mut self, slot: usize) {
        let others = self.connector.live - 1;
        let most = self.connector.live_max * self.http.pools.len() as u32;
        let has_room = self.connector.free.len() >= (most - others) as usize;
        if self.connections[slot].hung_up || self.plan.hang_up || !has_room {
            return self.close(slot);
        }
        self.uncount(slot);
        self.leave_host(slot);
        let connection = &mut self.connections[slot];
        connection.phase = Phase::Leaving;
        connection.linger_until_ns = self.now_ns + LINGER_NS;
    }

    /// A connection is its host's no more.
    pub(crate) fn leave_host(&mut self, slot: usize) {
        let connection = &self.connections[slot];
        self.events.closes(connection.number);
        self.http.pools[connection.host as usize].live -= 1;
        self.leave_jar(slot);
    }

    /// Keeps the cookies of a connection for the user's next one.
    fn leave_jar(&mut self, slot: usize) {
        if !self.plan.requests.cookie_jar {
            return;
        }
        let connection = &mut self.connections[slot];
        let jar = std::mem::take(&mut connection.jar);
        match (&mut self.http.sessions, connection.http.batch.session) {
            (Some(sessions), session @ 1..) => sessions.keep_jar(session, jar),
            _ => self.http.pools[connection.host as usize].jars.push(jar),
        }
    }

    /// How many connections count against the most that there may be: in an open loop all to the host, in a closed loop
    /// those of all hosts with something to do.
    pub(crate) fn at_work(&self, host: usize) -> u32 {
        match self.scheduler.arrivals {
            Some(_) => self.http.pools[host].live,
            None => self.connector.live - self.http.resting,
        }
    }

    /// Opens another connection in the place of one that is gone, if there is something to send.
    pub(crate) fn replace(&mut self, host: u32) {
        if self.http.sessions.is_some() {
            return self.begin_sessions();
        }
        if self.at_work(host as usize) < self.connector.live_max
            && self.connector.may_open(self.now_ns)
            && self.fatal.is_none()
            && let Some(batch) = self.next_batch(host)
        {
            self.issue(batch);
        }
    }
}
