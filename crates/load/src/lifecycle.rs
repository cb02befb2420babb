//! What happens to connections outside the way of a request: made, lost, timed out, retired.

use crate::LoadError;
use crate::connection::{Batch, Phase};
use crate::cookies::CookieJar;
use crate::engine::{Engine, NEVER};
use crate::kernel::{BROKEN, HANGUP, READABLE, monotonic_ns};
use crate::reach::{Refusal, tls_words};
use crate::tally::Tally;
use crate::transport::{Handshake, Stream};
use std::io;
use std::sync::atomic::Ordering;
use weir_client::Oddity;
use weir_wire::client::{ClientConnection, Outcome};

/// How often timeouts and the stop flag are looked at, and the live counters brought up to date.
const SWEEP_NS: u64 = 100_000_000;
/// How soon a connection that could not be made is tried again.
const REOPEN_NS: u64 = 10_000_000;
/// How long a server that is to close may take for it before we do.
const LINGER_NS: u64 = 1_000_000_000;
/// How long requests under way may still take after the user ended the run.
const STOP_GRACE_NS: u64 = 1_000_000_000;

impl Engine<'_> {
    /// An event of a connection that has no request under way.
    pub(crate) fn on_rare_event(&mut self, slot: usize, flags: u32) {
        match self.connections[slot].phase {
            Phase::Connecting => {
                let fd =
                    self.connections[slot].stream.as_ref().map(|stream| std::os::fd::AsRawFd::as_raw_fd(stream.fd()));
                let error = match fd {
                    Some(fd) if flags & BROKEN != 0 => self.kernel.socket_error(fd),
                    _ => None,
                };
                match error {
                    Some(error) => self.connect_failed(slot, error),
                    None => self.connected(slot),
                }
            }
            Phase::Handshaking => self.handshake(slot),
            Phase::Idle if flags & READABLE != 0 => self.idle_readable(slot),
            Phase::Lingering if flags & HANGUP != 0 => self.close(slot),
            Phase::Closed | Phase::Idle | Phase::Lingering | Phase::Busy => {}
        }
    }

    /// Begins to open a connection for a batch.
    pub(crate) fn open(&mut self, mut batch: Batch) {
        // `live` is below its maximum wherever this is called, and `retire` keeps a free slot for each such one.
        let slot = self.free.pop().expect("a free slot for each connection that may be opened") as usize;
        let host = self.plan.asks.entry(batch.ask).host;
        let pool = &mut self.pools[host as usize];
        pool.live += 1;
        self.live += 1;
        self.numbered += 1;
        self.now_ns = monotonic_ns();
        if batch.intended_ns == 0 {
            batch.intended_ns = self.now_ns;
        }
        if batch.started_ns == 0 {
            batch.started_ns = self.now_ns;
        }
        let route = &self.plan.hosts[host as usize].route;
        let endpoint = &route.endpoints[pool.address];
        let network = self.courses.as_ref().and_then(|courses| courses.network(batch.session));
        let number = network.unwrap_or(self.numbered);
        let source = route.source(endpoint, number);
        let connection = &mut self.connections[slot];
        connection.phase = Phase::Connecting;
        connection.number = u64::from(self.lane) << 40 | self.numbered;
        connection.client = self.tally.clients.enter(number);
        connection.host = host;
        connection.address = pool.address;
        connection.encrypted = route.tls.is_some();
        if self.plan.asks.cookie_jar {
            let jar = match (&mut self.courses, batch.session) {
                (Some(courses), 1..) => courses.take_jar(batch.session),
                _ => pool.jars.pop(),
            };
            connection.jar = jar.unwrap_or_else(|| CookieJar::new(&self.plan.asks.cookies));
        }
        if let Some(courses) = &mut self.courses {
            courses.tally.connections += 1;
        }
        if !self.plan.asks.is_constant {
            connection.take_chosen(&mut self.chosen, batch.ask);
        }
        connection.connect_start_ns = self.now_ns;
        connection.responses = 0;
        connection.unsent = 0;
        connection.hung_up = false;
        connection.was_reset = false;
        connection.batch = Batch {
            opened: true,
            answered: 0,
            sent_ns: 0,
            request_offset: 0,
            first_byte_ns: 0,
            response_offset: 0,
            ..batch
        };
        self.events.opens(connection.number);
        self.slow_opens(slot);
        let connection = &mut self.connections[slot];
        let token = u64::from(connection.generation) << 32 | slot as u64;
        match self.kernel.connect(endpoint, source, token) {
            Ok(fd) => connection.stream = Some(Stream::new(fd)),
            // A Unix socket whose queue is full says so at once, where TCP asks again by itself: the sweep does it here.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.next_sweep_ns = self.next_sweep_ns.min(self.now_ns + REOPEN_NS);
            }
            Err(error) => self.connect_failed(slot, error),
        }
    }

    fn connected(&mut self, slot: usize) {
        let host = &self.plan.hosts[self.connections[slot].host as usize];
        host.reached.store(true, Ordering::Relaxed);
        let route = &host.route;
        if route.is_plain() {
            return self.ready(slot);
        }
        let own = self.own_encryption(slot);
        let connection = &mut self.connections[slot];
        connection.phase = Phase::Handshaking;
        let Some(stream) = &mut connection.stream else { return };
        match stream.prepare(route, own) {
            Ok(()) => self.handshake(slot),
            Err(error) => self.handshake_failed(slot, &error),
        }
    }

    /// Tries again to connect where there was no room for it.
    fn connect_again(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        let route = &self.plan.hosts[connection.host as usize].route;
        let endpoint = &route.endpoints[connection.address];
        let token = u64::from(connection.generation) << 32 | slot as u64;
        match self.kernel.connect(endpoint, route.source(endpoint, connection.number), token) {
            Ok(fd) => connection.stream = Some(Stream::new(fd)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.next_sweep_ns = self.next_sweep_ns.min(self.now_ns + REOPEN_NS);
            }
            Err(error) => self.connect_failed(slot, error),
        }
    }

    fn handshake(&mut self, slot: usize) {
        let Some(stream) = &mut self.connections[slot].stream else { return };
        match stream.handshake(&mut self.kernel) {
            Ok(Handshake::Pending) => {}
            Ok(Handshake::Ready) => {
                // What this loop cannot speak must not be agreed on, and an answer to it would be no HTTP/1.
                if let Some(other) = stream.agreed_protocol().filter(|name| !name.starts_with(b"http/1")) {
                    let words = format!("the server agreed on the protocol {}", String::from_utf8_lossy(other));
                    return self.handshake_failed(slot, &io::Error::other(words));
                }
                self.events.secured(stream.session());
                match stream.resumed() {
                    Some(true) => self.tally.handshakes.resumed += 1,
                    Some(false) => self.tally.handshakes.full += 1,
                    None => {}
                }
                self.plan.hosts[self.connections[slot].host as usize].agreed.store(true, Ordering::Relaxed);
                self.ready(slot);
            }
            Err(error) => self.handshake_failed(slot, &error),
        }
    }

    /// A connection can carry its first requests.
    fn ready(&mut self, slot: usize) {
        self.now_ns = monotonic_ns();
        let connection = &self.connections[slot];
        let start_ns = connection.connect_start_ns;
        self.tally.connect.saturating_record(self.now_ns.saturating_sub(start_ns));
        self.events.connected(connection.number, start_ns, self.now_ns);
        self.tell_connection(slot, false);
        self.move_to_ring(slot);
        self.send_batch(slot);
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
            remote: self.plan.hosts[connection.host as usize].route.endpoints[connection.address].told(),
        });
    }

    /// A connection could not be made: with the next of the host's addresses if none ever was, else it counts.
    fn connect_failed(&mut self, slot: usize, error: io::Error) {
        self.now_ns = monotonic_ns();
        self.tell_connection(slot, true);
        let connection = &mut self.connections[slot];
        let (batch, address, host) = (connection.batch, connection.address, connection.host as usize);
        let to = &self.plan.hosts[host];
        let outcome = outcome_of_connect(&error);
        if outcome.is_ours() {
            // Asking again at once could only fail again: nothing more is opened until others had time to give back.
            self.hold_until_ns = self.now_ns + REOPEN_NS;
        }
        let was_there = outcome == Outcome::Reset && to.route.proxy.is_none();
        if outcome.is_ours() || was_there || to.reached.load(Ordering::Relaxed) {
            if outcome.is_ours() || outcome == Outcome::ConnectFailed {
                self.note(slot, outcome, &error.to_string());
            }
            self.count_failures(slot, outcome);
            self.close(slot);
            self.session_failed(batch.session, outcome);
            // Tried again by the sweep: at once would be in a tight loop.
            self.next_sweep_ns = self.next_sweep_ns.min(self.now_ns + REOPEN_NS);
            return;
        }
        connection.give_back(&mut self.chosen);
        self.close(slot);
        if address + 1 < to.route.endpoints.len() {
            self.pools[host].address = self.pools[host].address.max(address + 1);
            return self.open(batch);
        }
        self.fatal = Some(to.route.unreachable(address, error));
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
        let host = &self.plan.hosts[self.connections[slot].host as usize];
        if !host.agreed.load(Ordering::Relaxed) {
            self.fatal = Some(match (outcome, &host.route.proxy) {
                (Outcome::Proxy, Some(proxy)) => LoadError::Proxy { proxy: proxy.clone(), cause: words.clone() },
                _ => LoadError::Tls { host: host.url.host.clone(), cause: words.clone() },
            });
        }
        self.note(slot, outcome, &words);
        self.count_failures(slot, outcome);
        let session = self.connections[slot].batch.session;
        self.close(slot);
        self.session_failed(session, outcome);
        self.next_sweep_ns = self.next_sweep_ns.min(self.now_ns + REOPEN_NS);
    }

    /// A connection with nothing to do waits for the next arrival.
    pub(crate) fn rest(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        connection.phase = Phase::Idle;
        self.pools[connection.host as usize].idle.push(slot as u32);
        self.resting += 1;
    }

    /// Something came on an idle connection: its end, bytes that no request asked for, or a message of TLS itself.
    pub(crate) fn idle_readable(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        if !connection.in_ring
            && let Some(stream) = &mut connection.stream
        {
            match stream.read(&mut self.kernel, &mut self.buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && connection.encrypted => return,
                Ok(1..) => connection.parser.count_odd(Oddity::Surplus),
                _ => {}
            }
        }
        let (host, session) = (connection.host, connection.batch.session);
        if let (Some(courses), 1..) = (&mut self.courses, session) {
            courses.lose_connection(session);
            return self.close(slot);
        }
        let idle = &mut self.pools[host as usize].idle;
        if let Some(place) = idle.iter().position(|idle| *idle as usize == slot) {
            idle.swap_remove(place);
            self.resting -= 1;
        }
        self.close(slot);
        self.replace(host);
    }

    /// Done with a connection that must not carry more.
    pub(crate) fn retire(&mut self, slot: usize) {
        self.live -= 1;
        let most = self.live_max * self.pools.len() as u32;
        let connection = &mut self.connections[slot];
        if !connection.hung_up && !self.plan.hang_up && self.free.len() >= (most - self.live) as usize {
            self.pools[connection.host as usize].live -= 1;
            self.leave_jar(slot);
            let connection = &mut self.connections[slot];
            self.tally.clients.leave(connection.client);
            connection.phase = Phase::Lingering;
            connection.linger_until_ns = self.now_ns + LINGER_NS;
            self.events.closes(connection.number);
        } else {
            self.live += 1;
            self.close(slot);
        }
    }

    /// Closes a connection and frees its slot.
    pub(crate) fn close(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        let received = connection.stream.as_ref().map_or(0, |stream| stream.received);
        self.tally.clients.add(connection.client, received, connection.responses);
        if connection.phase != Phase::Lingering {
            self.live -= 1;
            self.tally.clients.leave(connection.client);
            self.events.closes(connection.number);
            self.pools[connection.host as usize].live -= 1;
            self.leave_jar(slot);
        }
        let connection = &mut self.connections[slot];
        connection.phase = Phase::Closed;
        connection.generation = connection.generation.wrapping_add(1);
        connection.parser.reset();
        connection.batch = Batch::default();
        self.leave_ring(slot);
        self.slow_closes(slot);
        if let Some(stream) = self.connections[slot].stream.take() {
            self.kernel.close(stream.into_fd());
        }
        self.free.push(slot as u32);
    }

    /// Keeps the cookies of a connection for the user's next one.
    fn leave_jar(&mut self, slot: usize) {
        if !self.plan.asks.cookie_jar {
            return;
        }
        let connection = &mut self.connections[slot];
        let jar = std::mem::take(&mut connection.jar);
        match (&mut self.courses, connection.batch.session) {
            (Some(courses), session @ 1..) => courses.keep_jar(session, jar),
            _ => self.pools[connection.host as usize].jars.push(jar),
        }
    }

    /// Opens another connection in the place of one that is gone, if there is something to send.
    pub(crate) fn replace(&mut self, host: u32) {
        if self.courses.is_some() {
            return self.begin_sessions();
        }
        let at_work = match self.arrivals {
            Some(_) => self.pools[host as usize].live,
            None => self.live - self.resting,
        };
        if at_work < self.live_max
            && self.now_ns >= self.hold_until_ns
            && self.fatal.is_none()
            && let Some(batch) = self.next_batch(host)
        {
            self.issue(batch);
        }
    }

    /// Looks at everything that no event tells of.
    pub(crate) fn sweep(&mut self) {
        let now_ns = self.now_ns;
        self.slices.hand_out(&mut self.tally, self.live, now_ns);
        self.next_sweep_ns = (now_ns + SWEEP_NS.min(self.plan.timeout_ns.min(self.plan.connect_timeout_ns) / 10 + 1))
            .min(self.slices.next_ns());
        if now_ns < self.give_up_ns {
            self.next_sweep_ns = self.next_sweep_ns.min(self.give_up_ns);
        }
        if self.control.is_stopped() && !self.stopped {
            self.stopped = true;
            self.end_ns = self.end_ns.min(now_ns);
            self.limit = self.issued;
            self.next_arrival_ns = NEVER;
            self.abandon_queues();
            // An end that was said before is kept.
            self.give_up_ns = self.give_up_ns.min(now_ns + STOP_GRACE_NS.min(self.plan.timeout_ns));
        }
        if now_ns >= self.give_up_ns {
            self.abandon_queues();
        }
        for slot in 0..self.connections.len() {
            let connection = &self.connections[slot];
            let waits_ns = now_ns.saturating_sub(connection.batch.started_ns);
            let overdue = waits_ns >= self.plan.timeout_ns;
            match connection.phase {
                Phase::Connecting | Phase::Handshaking if waits_ns >= self.plan.connect_timeout_ns => {
                    self.connect_timed_out(slot);
                }
                Phase::Connecting if connection.stream.is_none() => self.connect_again(slot),
                Phase::Busy if overdue && !self.is_slowly_moving(slot) => self.fail(slot, Outcome::TimedOut),
                Phase::Lingering if now_ns >= connection.linger_until_ns => self.close(slot),
                _ => {}
            }
        }
        if self.stopped || now_ns >= self.end_ns {
            self.cut_thinking();
        }
        self.begin_sessions();
        // Bounded by the connections: each turn opens one, or makes `live` no smaller by failing.
        for host in 0..if self.courses.is_some() { 0 } else { self.pools.len() } {
            let at_work = if self.arrivals.is_some() { self.pools[host].live } else { self.live - self.resting };
            for _ in at_work..self.live_max {
                self.replace(host as u32);
            }
        }
        // What began in time was given its time above: what is left began too late for it.
        self.gave_up = now_ns >= self.give_up_ns;
        self.control.add(&mut self.published, self.tally.published(self.live));
    }

    fn abandon_queues(&mut self) {
        for pool in &mut self.pools {
            self.tally.abandoned += pool.queue.drain(..).count() as u64;
        }
        self.queued = 0;
    }

    fn connect_timed_out(&mut self, slot: usize) {
        let host = &self.plan.hosts[self.connections[slot].host as usize];
        if self.connections[slot].phase == Phase::Handshaking && !host.agreed.load(Ordering::Relaxed) {
            self.handshake_failed(slot, &io::ErrorKind::TimedOut.into());
        } else if host.reached.load(Ordering::Relaxed) {
            self.tell_connection(slot, true);
            self.fail(slot, Outcome::ConnectTimedOut);
        } else {
            self.connect_failed(slot, io::ErrorKind::TimedOut.into());
        }
    }

    /// Whether nothing is under way and nothing more will be, or is waited for.
    pub(crate) fn is_over(&self) -> bool {
        if self.gave_up {
            return true;
        }
        let exhausted = match self.arrivals {
            Some(_) => self.next_arrival_ns == NEVER && self.queued == 0,
            None => self.issued >= self.limit || self.now_ns >= self.end_ns,
        };
        let sessions = self.courses.as_ref().map_or(0, |courses| courses.under_way());
        exhausted && self.outstanding == 0 && sessions == 0
    }

    /// Hands out the tally and when nothing more was begun; what is open is closed with the loop.
    pub(crate) fn finish(mut self) -> Result<(Tally, u64), LoadError> {
        self.tally.abandoned += self.outstanding;
        self.live = 0;
        self.control.add(&mut self.published, self.tally.published(self.live));
        if let Some(error) = self.fatal.take() {
            return Err(error);
        }
        self.tally.sessions = self.courses.take().map(|mut courses| {
            self.tally.mix.came = courses.came();
            courses.tally.unfinished += courses.under_way() as u64;
            courses.tally
        });
        if self.plan.directed {
            self.tally.sessions = None;
        }
        for connection in &self.connections {
            self.tally.oddities.add(connection.parser.odd_responses());
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

/// How a connect call that failed counts.
pub(crate) fn outcome_of_connect(error: &io::Error) -> Outcome {
    match error.raw_os_error() {
        Some(libc::ECONNREFUSED) => Outcome::Refused,
        // It was made, and reset before anybody here had looked: a host that does not accept refuses.
        Some(libc::ECONNRESET) => Outcome::Reset,
        Some(libc::ETIMEDOUT) => Outcome::ConnectTimedOut,
        Some(libc::EMFILE | libc::ENFILE) => Outcome::NoDescriptors,
        Some(libc::EADDRNOTAVAIL) => Outcome::NoPorts,
        None if error.kind() == io::ErrorKind::TimedOut => Outcome::ConnectTimedOut,
        _ => Outcome::ConnectFailed,
    }
}
