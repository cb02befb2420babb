//! A connection's way from the connect call to its end: made, agreed on, failed, closed.

use crate::LoadError;
use crate::connect::connection::Phase;
use crate::connect::connector::REOPEN_NS;
use crate::connect::kernel::{BROKEN, monotonic_ns};
use crate::connect::names::Looked;
use crate::connect::spread::Spread;
use crate::connect::stream::{Handshake, Stream};
use crate::engine::protocol::ProtocolLoop;
use crate::engine::state::{Engine, Version};
use crate::error::outcomes::outcome_of_connect;
use crate::error::tls_words;
use crate::plan::host::Host;
use crate::reach::refusal::Refusal;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;
use weir_wire::client::{ClientConnection, Outcome};

/// How soon the answer of a resolver is looked for.
const LOOK_NS: u64 = 1_000_000;

impl<V: Version> Engine<'_, V>
where
    Self: ProtocolLoop,
{
    /// Begins to open a connection; the caller makes sure that there is room for it.
    pub(crate) fn open(&mut self, purpose: <Self as ProtocolLoop>::Purpose) {
        let slot = self.connector.begin();
        self.now_ns = monotonic_ns();
        let host = self.host_of(&purpose);
        let of_lane = self.connector.numbered;
        let number = self.network_of(&purpose).unwrap_or(of_lane);
        if self.connector.addresses[host as usize].is_empty() {
            let endpoints = &self.plan.hosts[host as usize].route.endpoints;
            self.connector.addresses[host as usize] = Spread::new(endpoints, self.plan.select, self.connector.lane);
        }
        let connection = &mut self.connections[slot];
        connection.phase = Phase::Connecting;
        connection.counted = true;
        connection.number = u64::from(self.connector.lane) << 40 | of_lane;
        connection.client = self.tally.clients.enter(number);
        connection.host = host;
        if self.plan.hosts[host as usize].names.is_none() {
            connection.address = self.connector.addresses[host as usize].next();
        }
        connection.encrypted = self.plan.hosts[host as usize].route.tls.is_some();
        connection.connect_start_ns = self.now_ns;
        connection.responses = 0;
        connection.hung_up = false;
        connection.linger_until_ns = 0;
        self.opening(slot, purpose);
        self.events.opens(self.connections[slot].number);
        self.connect(slot, number);
    }

    /// Calls the address of a connection, which comes from the source address of this number.
    fn connect(&mut self, slot: usize, number: u64) {
        if !self.finds_address(slot) {
            return;
        }
        let connection = &mut self.connections[slot];
        let route = &self.plan.hosts[connection.host as usize].route;
        let endpoint = &route.endpoints[connection.address];
        let token = connection.token(slot);
        match self.connector.kernel.connect(endpoint, route.source(endpoint, number), token) {
            Ok(fd) => connection.stream = Some(Stream::new(fd)),
            // A Unix socket whose queue is full says so at once, where TCP asks again by itself: the sweep does it here.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.scheduler.sweep_by(self.now_ns + REOPEN_NS);
            }
            Err(error) => self.connect_failed(slot, error),
        }
    }

    /// Finds the address of a connection where names are resolved again; tells whether it is known. One that is not is
    /// waited for, and the loop goes on meanwhile.
    #[inline]
    fn finds_address(&mut self, slot: usize) -> bool {
        let connection = &mut self.connections[slot];
        let host = &self.plan.hosts[connection.host as usize];
        let Some(names) = &host.names else { return true };
        match names.look(connection.connect_start_ns) {
            Looked::Known(answer) => {
                let addresses = &mut self.connector.addresses[connection.host as usize];
                if addresses.answer != answer {
                    addresses.take(&host.route.endpoints, names.in_use(), answer);
                }
                connection.address = addresses.next();
                true
            }
            Looked::Awaited => {
                self.scheduler.sweep_by(self.now_ns + LOOK_NS);
                false
            }
            Looked::Failed(words) => {
                self.tell_connection(slot, true);
                self.not_made(slot, Outcome::Unresolved, Some(&words));
                self.scheduler.sweep_by(self.now_ns + REOPEN_NS);
                false
            }
        }
    }

    /// Tries again to connect where there was no room for it, or the address was not known.
    pub(crate) fn connect_again(&mut self, slot: usize) {
        self.connect(slot, self.connections[slot].number);
    }

    /// An event of a connection that is being made.
    pub(crate) fn on_connect_event(&mut self, slot: usize, flags: u32) {
        if self.connections[slot].phase == Phase::Handshaking {
            return self.handshake(slot);
        }
        let fd = self.connections[slot].stream.as_ref().map(|stream| stream.fd().as_raw_fd());
        let error = match fd {
            Some(fd) if flags & BROKEN != 0 => self.connector.kernel.socket_error(fd),
            _ => None,
        };
        match error {
            Some(error) => self.connect_failed(slot, error),
            None => self.connected(slot),
        }
    }

    fn connected(&mut self, slot: usize) {
        let host = &self.plan.hosts[self.connections[slot].host as usize];
        host.reached.store(true, Ordering::Relaxed);
        host.reached_at[self.connections[slot].address].store(true, Ordering::Relaxed);
        let route = &host.route;
        if route.is_plain() {
            return self.made(slot);
        }
        self.events.reached(self.connections[slot].number);
        let own = self.own_encryption(slot);
        let connection = &mut self.connections[slot];
        connection.phase = Phase::Handshaking;
        let Some(stream) = &mut connection.stream else { return };
        match stream.prepare(route, own) {
            Ok(()) => self.handshake(slot),
            Err(error) => self.handshake_failed(slot, &error),
        }
    }

    fn handshake(&mut self, slot: usize) {
        let Some(stream) = &mut self.connections[slot].stream else { return };
        match stream.handshake(&mut self.connector.kernel) {
            Ok(Handshake::Pending) => {}
            Ok(Handshake::Ready) => {
                if !self.agrees(slot) {
                    return;
                }
                match self.connections[slot].stream.as_ref().and_then(Stream::resumed) {
                    Some(true) => self.tally.handshakes.resumed += 1,
                    Some(false) => self.tally.handshakes.full += 1,
                    None => {}
                }
                self.host(slot).agreed.store(true, Ordering::Relaxed);
                self.made(slot);
            }
            Err(error) => self.handshake_failed(slot, &error),
        }
    }

    /// A connection can carry its first requests.
    pub(crate) fn made(&mut self, slot: usize) {
        self.now_ns = monotonic_ns();
        let connection = &self.connections[slot];
        let start_ns = connection.connect_start_ns;
        self.tally.connect.saturating_record(self.now_ns.saturating_sub(start_ns));
        self.events.connected(connection.number, start_ns, self.now_ns);
        self.tell_connection(slot, false);
        self.ready(slot);
    }

    /// Tells the ring of events that a connection was made, or could not be.
    pub(crate) fn tell_connection(&mut self, slot: usize, failed: bool) {
        if !self.events.recorded() {
            return;
        }
        let connection = &self.connections[slot];
        let local = connection.stream.as_ref().and_then(|stream| self.connector.kernel.local_address(stream.fd()));
        self.events.connection(ClientConnection {
            connection: connection.number,
            connect_start_ns: connection.connect_start_ns,
            connected_ns: self.now_ns,
            failed,
            local: local.unwrap_or_else(weir_wire::socket::unknown_address),
            remote: self.host(slot).route.endpoints[connection.address].told(),
        });
    }

    /// A connection could not be made: with another of the host's addresses if none ever was to this one, else it counts.
    pub(crate) fn connect_failed(&mut self, slot: usize, error: io::Error) {
        self.now_ns = monotonic_ns();
        self.tell_connection(slot, true);
        let (address, host) = (self.connections[slot].address, self.connections[slot].host as usize);
        let to = &self.plan.hosts[host];
        let outcome = outcome_of_connect(&error);
        if outcome.is_ours() {
            // Asking again at once could only fail again: nothing more is opened until others had time to give back.
            self.connector.hold_until_ns = self.now_ns + REOPEN_NS;
        }
        let was_there = outcome == Outcome::Reset && to.route.proxy.is_none();
        let is_new = !was_there && !outcome.is_ours() && !to.reached_at[address].load(Ordering::Relaxed);
        let goes_on = is_new && self.connector.addresses[host].leave_out(address);
        if is_new {
            to.leave_out(address, &error);
        }
        let ends_run = is_new && !to.reached.load(Ordering::Relaxed) && self.plan.hosts.end_the_run();
        if !goes_on && !ends_run {
            let says_more = outcome.is_ours() || outcome == Outcome::ConnectFailed;
            let words = says_more.then(|| error.to_string());
            self.not_made(slot, outcome, words.as_deref());
            // Tried again by the sweep: at once would be in a tight loop.
            self.scheduler.sweep_by(self.now_ns + REOPEN_NS);
            return;
        }
        let purpose = self.take_purpose(slot);
        self.close(slot);
        if goes_on {
            return self.open(purpose);
        }
        self.fatal = Some(to.route.unreachable(address, error));
    }

    /// A connection could not be agreed on, with a proxy or in the TLS handshake.
    pub(crate) fn handshake_failed(&mut self, slot: usize, error: &io::Error) {
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
        let host = self.host(slot);
        if !host.agreed.load(Ordering::Relaxed) && self.plan.hosts.end_the_run() {
            self.fatal = Some(match (outcome, &host.route.proxy) {
                (Outcome::Proxy, Some(proxy)) => LoadError::Proxy { proxy: proxy.clone(), cause: words.clone() },
                _ => self.no_handshake(host.url.host.clone(), words.clone(), error),
            });
        }
        self.not_made(slot, outcome, Some(&words));
        self.scheduler.sweep_by(self.now_ns + REOPEN_NS);
    }

    /// A connection is being made for too long.
    pub(crate) fn connect_timed_out(&mut self, slot: usize) {
        let is_handshaking = self.connections[slot].phase == Phase::Handshaking;
        if is_handshaking && !self.host(slot).agreed.load(Ordering::Relaxed) {
            self.handshake_failed(slot, &io::ErrorKind::TimedOut.into());
        } else {
            self.not_made_in_time(slot);
        }
    }

    /// A connection no longer counts among those that are open; tells whether it did.
    pub(crate) fn uncount(&mut self, slot: usize) -> bool {
        let connection = &mut self.connections[slot];
        let was_counted = std::mem::take(&mut connection.counted);
        if was_counted {
            self.connector.live -= 1;
            self.tally.clients.leave(connection.client);
        }
        was_counted
    }

    /// Closes a connection and frees its slot.
    pub(crate) fn close(&mut self, slot: usize) {
        let connection = &self.connections[slot];
        let received = connection.stream.as_ref().map_or(0, |stream| stream.received);
        self.tally.clients.add(connection.client, received, connection.responses);
        let was_counted = self.uncount(slot);
        self.closing(slot, was_counted);
        let connection = &mut self.connections[slot];
        connection.phase = Phase::Closed;
        connection.generation = connection.generation.wrapping_add(1);
        self.closed(slot);
        if let Some(stream) = self.connections[slot].stream.take() {
            self.connector.kernel.close(stream.into_fd());
        }
        self.connector.free.push(slot as u32);
    }
}

impl<'a, V: Version> Engine<'a, V> {
    /// The host that a connection goes to.
    pub(crate) fn host(&self, slot: usize) -> &'a Host {
        &self.plan.hosts[self.connections[slot].host as usize]
    }
}
