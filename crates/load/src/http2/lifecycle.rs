//! What happens to connections outside the way of a request: made, lost, timed out, left.

use super::connection::{Exchange, Phase, STREAMS_AT_FIRST};
use super::control::CANCEL;
use super::engine::Engine;
use super::failing::{NO_STREAM, words_of};
use crate::LoadError;
use crate::cookies::CookieJar;
use crate::engine::NEVER;
use crate::kernel::{BROKEN, monotonic_ns};
use crate::lifecycle::outcome_of_connect;
use crate::reach::{Refusal, tls_words};
use crate::tally::Tally;
use crate::transport::{Handshake, Stream, tls_error};
use std::io;
use std::sync::atomic::Ordering;
use weir_wire::client::{ClientConnection, Outcome};

/// How often timeouts and the stop flag are looked at, and the live counters brought up to date.
const SWEEP_NS: u64 = 100_000_000;
/// How soon a connection that could not be made is tried again.
const REOPEN_NS: u64 = 10_000_000;
/// How long a server that is to close may take for it before we do.
const LINGER_NS: u64 = 1_000_000_000;
/// How long requests under way may still take after the user ended the run.
const STOP_GRACE_NS: u64 = 1_000_000_000;
/// How HTTP/2 is called in a TLS handshake (RFC 9113 3.2).
const ALPN: &[u8] = b"h2";

impl Engine<'_> {
    /// Begins to open a connection for what is held, or for a session.
    pub(super) fn open(&mut self, session: u32) {
        // `live` is below its maximum wherever this is called, and `leave` keeps a free slot for each such one.
        let slot = self.free.pop().expect("a free slot for each connection that may be opened") as usize;
        self.live += 1;
        self.connecting += 1;
        self.numbered += 1;
        self.now_ns = monotonic_ns();
        let route = &self.host.route;
        let endpoint = &route.endpoints[self.address];
        let source = route.source(endpoint, self.numbered);
        let streams = self.wire.streams.min(self.streams_known.unwrap_or(STREAMS_AT_FIRST));
        if self.wire.cookie_jar {
            let jar = if session == 0 { self.jars.pop() } else { self.jar_of_session(session) };
            self.connections[slot].jar = jar.unwrap_or_else(|| CookieJar::new(&self.plan.asks.cookies));
        }
        self.session_opens(session, slot);
        let connection = &mut self.connections[slot];
        connection.phase = Phase::Connecting;
        connection.counted = true;
        connection.session = session;
        connection.number = u64::from(self.lane) << 40 | self.numbered;
        connection.client = self.tally.clients.enter(self.numbered);
        connection.address = self.address;
        connection.connect_start_ns = self.now_ns;
        connection.streams_max = streams;
        self.events.opens(connection.number);
        let token = u64::from(connection.generation) << 32 | slot as u64;
        match self.kernel.connect(endpoint, source, token) {
            Ok(fd) => connection.stream = Some(Stream::new(fd)),
            Err(error) => self.not_begun(slot, error),
        }
    }

    /// A connect call failed at once: a Unix socket whose queue is full says so, where TCP asks again by itself; the sweep
    /// does it here.
    fn not_begun(&mut self, slot: usize, error: io::Error) {
        if error.kind() == io::ErrorKind::WouldBlock {
            self.next_sweep_ns = self.next_sweep_ns.min(self.now_ns + REOPEN_NS);
        } else {
            self.connect_failed(slot, error);
        }
    }

    /// Tries again to connect where there was no room for it.
    fn connect_again(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        let endpoint = &self.host.route.endpoints[connection.address];
        let token = u64::from(connection.generation) << 32 | slot as u64;
        match self.kernel.connect(endpoint, self.host.route.source(endpoint, connection.number), token) {
            Ok(fd) => connection.stream = Some(Stream::new(fd)),
            Err(error) => self.not_begun(slot, error),
        }
    }

    /// An event of a connection that is being made.
    pub(super) fn on_connect_event(&mut self, slot: usize, flags: u32) {
        if self.connections[slot].phase == Phase::Handshaking {
            return self.handshake(slot);
        }
        let fd = self.connections[slot].stream.as_ref().map(|stream| std::os::fd::AsRawFd::as_raw_fd(stream.fd()));
        let error = match fd {
            Some(fd) if flags & BROKEN != 0 => self.kernel.socket_error(fd),
            _ => None,
        };
        match error {
            Some(error) => self.connect_failed(slot, error),
            None => self.connected(slot),
        }
    }

    fn connected(&mut self, slot: usize) {
        self.host.reached.store(true, Ordering::Relaxed);
        let route = &self.host.route;
        if route.is_plain() {
            return self.ready(slot);
        }
        let connection = &mut self.connections[slot];
        connection.phase = Phase::Handshaking;
        let Some(stream) = &mut connection.stream else { return };
        match stream.prepare(route, None) {
            Ok(()) => self.handshake(slot),
            Err(error) => self.handshake_failed(slot, &error),
        }
    }

    fn handshake(&mut self, slot: usize) {
        let Some(stream) = &mut self.connections[slot].stream else { return };
        match stream.handshake(&mut self.kernel) {
            Ok(Handshake::Pending) => {}
            // Without TLS, behind a proxy, there is nothing to agree on.
            Ok(Handshake::Ready) if self.host.route.tls.is_none() || stream.agreed_protocol() == Some(ALPN) => {
                match stream.resumed() {
                    Some(true) => self.tally.handshakes.resumed += 1,
                    Some(false) => self.tally.handshakes.full += 1,
                    None => {}
                }
                self.host.agreed.store(true, Ordering::Relaxed);
                self.ready(slot);
            }
            Ok(Handshake::Ready) => {
                let cause = match stream.agreed_protocol() {
                    None => "in the TLS handshake it chose no protocol".to_owned(),
                    Some(other) => format!("in the TLS handshake it chose {}", String::from_utf8_lossy(other)),
                };
                self.fatal = Some(LoadError::NotHttp2 { host: self.host.url.host.clone(), cause });
                self.not_made(slot, Outcome::Tls);
            }
            Err(error) => self.handshake_failed(slot, &error),
        }
    }

    /// A connection can carry its first requests.
    fn ready(&mut self, slot: usize) {
        self.now_ns = monotonic_ns();
        let share = self.share_of(slot);
        self.connecting -= 1;
        let connection = &mut self.connections[slot];
        connection.phase = Phase::Open;
        connection.heard_ns = self.now_ns;
        // A proxy may have been spoken to before.
        connection.out_offset = connection.stream.as_ref().map_or(0, |stream| stream.sent);
        connection.out.extend_from_slice(&self.wire.preface);
        let start_ns = connection.connect_start_ns;
        self.tally.connect.saturating_record(self.now_ns.saturating_sub(start_ns));
        self.events.connected(connection.number, start_ns, self.now_ns);
        self.tell_connection(slot, false);
        for _ in 0..share {
            if !self.connections[slot].has_room() {
                break;
            }
            let session = self.connections[slot].session;
            let held = if session == 0 { self.held.pop_front() } else { self.next_of_session(session) };
            let Some(exchange) = held else { break };
            self.begin(slot, Exchange { opened: true, ..exchange });
        }
        self.go_on(slot);
        self.touch(slot);
    }

    /// How many of the requests that are held fall to a connection that is being made: those of its session, or an equal
    /// share.
    fn share_of(&self, slot: usize) -> usize {
        if let Some(users) = &self.users {
            return users.waiting(self.connections[slot].session);
        }
        self.held.len().div_ceil(self.connecting.max(1) as usize)
    }

    fn tell_connection(&mut self, slot: usize, failed: bool) {
        if !self.events.recorded() {
            return;
        }
        let connection = &self.connections[slot];
        let local = connection.stream.as_ref().and_then(|stream| self.kernel.local_address(stream.fd()));
        self.events.connection(ClientConnection {
            connection: connection.number,
            connect_start_ns: connection.connect_start_ns,
            connected_ns: self.now_ns,
            failed,
            local: local.unwrap_or_else(weir_wire::socket::unknown_address),
            remote: self.host.route.endpoints[connection.address].told(),
        });
    }

    /// A connection could not be made: with the next of the host's addresses if none ever was, else it counts.
    fn connect_failed(&mut self, slot: usize, error: io::Error) {
        self.now_ns = monotonic_ns();
        self.tell_connection(slot, true);
        let address = self.connections[slot].address;
        let outcome = outcome_of_connect(&error);
        if outcome.is_ours() {
            // Asking again at once could only fail again: nothing more is opened until others had time to give back.
            self.hold_until_ns = self.now_ns + REOPEN_NS;
        }
        let was_there = outcome == Outcome::Reset && self.host.route.proxy.is_none();
        if outcome.is_ours() || was_there || self.host.reached.load(Ordering::Relaxed) {
            if outcome.is_ours() || outcome == Outcome::ConnectFailed {
                self.tally.reasons.note(outcome, &error.to_string(), self.share_of(slot) as u64);
            }
            self.not_made(slot, outcome);
            // Tried again by the sweep: at once would be in a tight loop.
            self.next_sweep_ns = self.next_sweep_ns.min(self.now_ns + REOPEN_NS);
            return;
        }
        let session = self.connections[slot].session;
        self.close(slot);
        if address + 1 < self.host.route.endpoints.len() {
            self.address = self.address.max(address + 1);
            return self.open(session);
        }
        self.fatal = Some(self.host.route.unreachable(address, error));
    }

    fn handshake_failed(&mut self, slot: usize, error: &io::Error) {
        self.now_ns = monotonic_ns();
        self.tell_connection(slot, true);
        let in_tunnel = self.connections[slot].stream.as_ref().is_some_and(Stream::in_tunnel);
        let (outcome, words) = match Refusal::of(error) {
            Some(refusal) => (Outcome::Proxy, refusal.0.clone()),
            None if in_tunnel && error.kind() == io::ErrorKind::TimedOut => {
                (Outcome::Proxy, "the proxy did not answer in time".to_owned())
            }
            None => (Outcome::Tls, tls_words::words(error)),
        };
        // RFC 7301 3.2: what a server says that knows none of the protocols that it was offered.
        let refused = matches!(
            tls_error(error),
            Some(rustls::Error::AlertReceived(rustls::AlertDescription::NoApplicationProtocol))
        );
        if !self.host.agreed.load(Ordering::Relaxed) {
            let host = self.host.url.host.clone();
            self.fatal = Some(match (outcome, &self.host.route.proxy) {
                (Outcome::Proxy, Some(proxy)) => LoadError::Proxy { proxy: proxy.clone(), cause: words.clone() },
                _ if refused => LoadError::NotHttp2 { host, cause: "in the TLS handshake it refused".to_owned() },
                _ => LoadError::Tls { host, cause: words.clone() },
            });
        }
        self.tally.reasons.note(outcome, &words, self.share_of(slot) as u64);
        self.not_made(slot, outcome);
        self.next_sweep_ns = self.next_sweep_ns.min(self.now_ns + REOPEN_NS);
    }

    /// The requests that a connection was to be made for fail with it.
    fn not_made(&mut self, slot: usize, outcome: Outcome) {
        let session = self.connections[slot].session;
        for _ in 0..self.share_of(slot) {
            let held = if session == 0 { self.held.pop_front() } else { self.next_of_session(session) };
            let Some(exchange) = held else { break };
            self.count_failure(0, &exchange, outcome);
            self.session_failed(session);
        }
        self.close(slot);
        // The next one is begun by the sweep: at once would be in a tight loop.
        self.end_burst(session);
    }

    /// No request begins on a connection any more; another may be opened in its place.
    ///
    /// That of a session counts as open as long as it is: its session has one at a time.
    pub(super) fn leave(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        connection.phase = Phase::Leaving;
        if connection.counted && connection.session == 0 && self.free.len() > (self.live_max - self.live) as usize {
            connection.counted = false;
            self.live -= 1;
            self.tally.clients.leave(connection.client);
        }
        if connection.active == 0 {
            self.left(slot);
        }
        self.replace();
    }

    /// The last request of a connection that is left is over.
    ///
    /// The server has said that it will close, or is told that it may: it is given the time to do so first, which keeps
    /// the port free here.
    pub(super) fn left(&mut self, slot: usize) {
        let connection = &self.connections[slot];
        let mut at_once = connection.counted || connection.hung_up;
        if !self.wire.keep_alive && !connection.hung_up && !connection.broken {
            at_once |= !self.say_farewell(slot);
        }
        let connection = &mut self.connections[slot];
        if at_once {
            let session = connection.session;
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
        connection.broken = true;
        connection.say_goodbye();
        let Some(stream) = &mut connection.stream else { return false };
        // Whether it arrives changes nothing: the connection is closed either way.
        let _ = stream.write_last(&mut self.kernel, &connection.out[connection.out_at..]);
        if !self.encrypted && !self.plan.hang_up {
            self.kernel.reset_at_close(stream.fd());
        }
        self.encrypted && !self.plan.hang_up
    }

    /// Closes a connection and frees its slot.
    pub(super) fn close(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        self.events.closes(connection.number);
        let received = connection.stream.as_ref().map_or(0, |stream| stream.received);
        self.tally.clients.add(connection.client, received, connection.responses);
        if std::mem::take(&mut connection.counted) {
            self.live -= 1;
            self.tally.clients.leave(connection.client);
        }
        self.connecting -= u32::from(matches!(connection.phase, Phase::Connecting | Phase::Handshaking));
        connection.phase = Phase::Closed;
        connection.generation = connection.generation.wrapping_add(1);
        let (session, jar) = (connection.session, std::mem::take(&mut connection.jar));
        connection.reset();
        if let Some(stream) = connection.stream.take() {
            self.kernel.close(stream.into_fd());
        }
        if session != 0 {
            self.session_closes(session, jar);
        } else if self.wire.cookie_jar {
            self.jars.push(jar);
        }
        self.free.push(slot as u32);
    }

    /// Opens another connection if there is something to send that those being made are not for.
    pub(super) fn replace(&mut self) {
        if self.users.is_some() {
            return self.begin_sessions();
        }
        if self.live >= self.live_max || self.fatal.is_some() || self.now_ns < self.hold_until_ns {
            return;
        }
        if self.arrivals.is_some() {
            let (waiting, streams) = (self.held.len() + self.queue.len(), self.wire.streams as usize);
            if waiting <= self.connecting as usize * streams {
                return;
            }
            for _ in self.held.len()..waiting.min((self.connecting as usize + 1) * streams) {
                let Some(exchange) = self.next_queued() else { break };
                self.held.push_back(exchange);
            }
        } else if self.held.len() <= self.connecting as usize {
            // Each connection is opened for a request at least.
            let Some(exchange) = self.next_new() else { return };
            self.held.push_back(exchange);
        }
        self.open(0);
    }

    /// Looks at everything that no event tells of.
    pub(super) fn sweep(&mut self) {
        let now_ns = self.now_ns;
        self.slices.hand_out(&mut self.tally, self.live, now_ns);
        self.next_sweep_ns = (now_ns + SWEEP_NS.min(self.plan.timeout_ns / 10 + 1)).min(self.slices.next_ns());
        if now_ns < self.give_up_ns {
            self.next_sweep_ns = self.next_sweep_ns.min(self.give_up_ns);
        }
        if self.control.is_stopped() && !self.stopped {
            self.stopped = true;
            self.end_ns = self.end_ns.min(now_ns);
            self.limit = self.issued;
            self.next_arrival_ns = NEVER;
            self.tally.abandoned += self.queue.drain(..).count() as u64;
            // An end that was said before is kept.
            self.give_up_ns = self.give_up_ns.min(now_ns + STOP_GRACE_NS.min(self.plan.timeout_ns));
        }
        if now_ns >= self.give_up_ns {
            self.tally.abandoned += self.queue.drain(..).count() as u64;
        }
        let timeout_ns = self.plan.timeout_ns;
        while let Some(exchange) = self.held.front().copied()
            && now_ns.saturating_sub(exchange.started_ns) >= timeout_ns
        {
            self.held.pop_front();
            self.tally.reasons.note(Outcome::TimedOut, NO_STREAM, 1);
            self.count_failure(0, &exchange, Outcome::TimedOut);
        }
        for slot in 0..self.connections.len() {
            self.look_at(slot, now_ns, timeout_ns);
        }
        self.look_at_sessions(now_ns, timeout_ns);
        // Bounded by the connections: each turn opens one, or makes `live` no smaller by failing.
        for _ in self.live..self.live_max {
            self.replace();
        }
        self.flush_touched();
        // What began in time was given its time above: what is left began too late for it.
        self.gave_up = now_ns >= self.give_up_ns;
        self.control.add(&mut self.published, self.tally.published(self.live));
    }

    /// What of a connection is overdue.
    fn look_at(&mut self, slot: usize, now_ns: u64, timeout_ns: u64) {
        let connection = &self.connections[slot];
        let is_overdue = |since_ns: u64| now_ns.saturating_sub(since_ns) >= timeout_ns;
        match connection.phase {
            Phase::Connecting | Phase::Handshaking if is_overdue(connection.connect_start_ns) => {
                self.connect_timed_out(slot);
            }
            Phase::Connecting if connection.stream.is_none() => self.connect_again(slot),
            Phase::Leaving if connection.active == 0 && now_ns >= connection.linger_until_ns => {
                self.close(slot);
                self.replace();
            }
            Phase::Open | Phase::Leaving => {
                // One that says nothing at all is gone; of one that goes on only the request is given up.
                let silent = connection.active > 0 && is_overdue(connection.heard_ns);
                let (mut overdue, generation) = (false, connection.generation);
                for place in 0..connection.places() {
                    let connection = &mut self.connections[slot];
                    let exchange = *connection.at(place);
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

    fn connect_timed_out(&mut self, slot: usize) {
        let error = io::ErrorKind::TimedOut.into();
        if self.connections[slot].phase == Phase::Handshaking && !self.host.agreed.load(Ordering::Relaxed) {
            self.handshake_failed(slot, &error);
        } else {
            self.connect_failed(slot, error);
        }
    }

    /// Whether nothing is under way and nothing more will be, or is waited for.
    pub(super) fn is_over(&self) -> bool {
        if self.gave_up {
            return true;
        }
        let exhausted = match self.arrivals {
            Some(_) => self.next_arrival_ns == NEVER && self.queue.is_empty(),
            None => self.issued >= self.limit || self.now_ns >= self.end_ns,
        };
        exhausted && self.outstanding == 0 && self.users.as_ref().is_none_or(|users| users.under_way() == 0)
    }

    /// Hands out the tally and when nothing more was begun; what is open is closed with the loop.
    pub(super) fn finish(mut self) -> Result<(Tally, u64), LoadError> {
        self.tally.abandoned += self.outstanding;
        self.live = 0;
        self.control.add(&mut self.published, self.tally.published(self.live));
        if let Some(error) = self.fatal.take() {
            return Err(error);
        }
        self.tally.sessions = self.users.take().map(|users| (*users).tally());
        for connection in &self.connections {
            let received = connection.stream.as_ref().map(|stream| stream.received);
            if let Some(bytes) = received {
                self.tally.clients.add(connection.client, bytes, connection.responses);
            }
        }
        self.slices.close(&mut self.tally, self.now_ns);
        self.tally.over_ns = self.now_ns;
        self.tally.events_lost = self.events.lost;
        self.tally.calls = self.kernel.calls;
        Ok((self.tally, self.end_ns))
    }
}
