//! A client's connection over TCP or a Unix socket: HTTP/1 or HTTP/2.

pub(crate) mod copying;
mod moving;
mod now;
pub(crate) mod relaying;

use self::relaying::Relaying;
use crate::counters::census::Census;
use crate::event_loop::passed_on::{Began, PassedOn};
use crate::exchange::eviction::Yields;
use crate::http::limits::Timeouts;
use crate::http1::connection::{Connection, Turn};
use crate::http2;
use crate::io::clock::now_ms;
use crate::io::epoll::{Interest, Readiness};
use crate::loop_state::LoopState;
use crate::telemetry::arm_requests::Owed;
use crate::transport::ring::Ring;
use crate::transport::{Lane, Transport};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;

/// What was accepted.
#[derive(Debug)]
pub(crate) struct Client {
    protocol: Protocol,
    fd: RawFd,
    pub(crate) peer: SocketAddr,
    /// The other end of the socket, where that is a proxy that passes connections on.
    proxy: Option<Box<SocketAddr>>,
    /// What the event queue was told.
    pub(crate) registered: Option<Interest>,
    /// When it came, by the loop's clock.
    began_ms: u64,
    /// Turns that do not wait for room before it joins the ring.
    pub(crate) before_joining: u8,
    /// Whether another process may have a descriptor of the socket: to close it here does not end the connection.
    pub(crate) is_held_elsewhere: bool,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all are of HTTP/1, for which a box would be an allocation")]
enum Protocol {
    Http1(Connection),
    Http2(Box<http2::Connection>),
    /// The header that says whose it is has not come.
    PassedOn(PassedOn),
    /// Its client is at another node by now, which gets what is made here of its responses.
    Relaying(Box<Relaying>),
    /// While one takes over from the other.
    Changing,
}

impl Client {
    pub(crate) fn new(transport: Transport, peer: SocketAddr, state: &LoopState) -> Self {
        let fd = transport.fd();
        Self {
            protocol: Protocol::Http1(Connection::new(transport, peer, state)),
            fd,
            peer,
            proxy: None,
            registered: None,
            began_ms: state.clock.now_ms,
            before_joining: 0,
            is_held_elsewhere: false,
        }
    }

    /// The address at the other end of the socket.
    #[inline]
    pub(crate) fn socket_peer(&self) -> IpAddr {
        self.proxy.as_ref().map_or(self.peer, |proxy| **proxy).ip()
    }

    #[inline]
    pub(crate) fn fd(&self) -> RawFd {
        self.fd
    }

    /// Does what can be done now.
    #[inline]
    pub(crate) fn turn(&mut self, state: &mut LoopState, readiness: Readiness) -> Turn {
        match &mut self.protocol {
            Protocol::Http1(connection) => match connection.turn(state, readiness) {
                Turn::Upgrade => self.upgrade(state, readiness),
                turn => turn,
            },
            Protocol::Http2(connection) => connection.turn(state, readiness),
            Protocol::PassedOn(_) => self.begin(state, readiness),
            Protocol::Relaying(relaying) => relaying.turn(state),
            Protocol::Changing => Turn::Close,
        }
    }

    /// One that a proxy passes on.
    pub(crate) fn passed_on(passed_on: PassedOn, peer: SocketAddr) -> Self {
        let fd = passed_on.fd();
        Self {
            protocol: Protocol::PassedOn(passed_on),
            fd,
            peer,
            proxy: Some(Box::new(peer)),
            registered: None,
            began_ms: now_ms(),
            before_joining: 0,
            is_held_elsewhere: false,
        }
    }

    /// Reads the header that says whose connection it is, and goes on with what follows.
    #[cold]
    fn begin(&mut self, state: &mut LoopState, readiness: Readiness) -> Turn {
        let Protocol::PassedOn(passed_on) = std::mem::replace(&mut self.protocol, Protocol::Changing) else {
            return Turn::Close;
        };
        match passed_on.begin(state) {
            Began::NotYet(passed_on) => {
                self.protocol = Protocol::PassedOn(passed_on);
                if readiness.has(Readiness::END) { Turn::Close } else { Turn::Wait }
            }
            Began::Ended => Turn::Close,
            Began::Connection(transport, client) => {
                self.peer = client.unwrap_or(self.peer);
                self.protocol = Protocol::Http1(Connection::new(transport, self.peer, state));
                self.turn(state, readiness.with(Readiness::INPUT, true))
            }
        }
    }

    #[cold]
    fn upgrade(&mut self, state: &mut LoopState, readiness: Readiness) -> Turn {
        if let Protocol::Http1(connection) = std::mem::replace(&mut self.protocol, Protocol::Changing) {
            let (transport, received) = connection.into_parts();
            let connection = http2::Connection::new(transport, self.peer, received, state);
            self.protocol = Protocol::Http2(Box::new(connection));
        }
        // There may be more input than what was received so far.
        self.turn(state, readiness.with(Readiness::INPUT, true))
    }

    /// What the client must be told about next.
    #[inline]
    pub(crate) fn interest(&self) -> Interest {
        match &self.protocol {
            // It takes no input while it has something to send; what comes meanwhile is told when that is over, as to
            // register again asks for the present state. Only the directions of a tunnel do not wait for each other.
            Protocol::Http1(connection) if connection.waits_for_room() && connection.is_tunnel() => {
                Interest::InputAndRoom
            }
            Protocol::Http1(connection) if connection.waits_for_room() => Interest::Room,
            Protocol::Http2(connection)
                if connection.is_blocked() || self.registered == Some(Interest::InputAndRoom) =>
            {
                Interest::InputAndRoom
            }
            _ => Interest::Input,
        }
    }

    #[inline]
    pub(crate) fn lane(&self) -> Lane {
        self.transport().map_or(Lane::Socket, Transport::lane)
    }

    /// Whether it may join the ring after a turn in which it did not have to wait for room.
    #[inline]
    pub(crate) fn fits_ring(&mut self) -> bool {
        let Protocol::Http1(connection) = &self.protocol else { return false };
        let fits = connection.fits_ring();
        if fits && self.before_joining > 0 {
            self.before_joining -= 1;
            return false;
        }
        fits
    }

    /// Whether responses of it wait for the ring's next call.
    #[inline]
    pub(crate) fn is_staged(&self, ring: &Option<Ring>) -> bool {
        self.transport().is_some_and(|transport| transport.is_staged(ring))
    }

    /// Whether output waits for room, or may come to: of what speaks HTTP/2 the ring takes none.
    #[inline(always)]
    pub(crate) fn is_blocked(&self) -> bool {
        match &self.protocol {
            Protocol::Http1(connection) => connection.is_sending() && !connection.waits_for_application(),
            Protocol::Http2(_) | Protocol::PassedOn(_) | Protocol::Relaying(_) | Protocol::Changing => true,
        }
    }

    /// Whether it holds input that it has not taken.
    #[inline]
    pub(crate) fn keeps_input(&self) -> bool {
        self.transport().is_some_and(Transport::keeps_input)
    }

    /// Takes input that came when it took none.
    pub(crate) fn keep_input(&mut self, bytes: &[u8]) {
        if let Some(transport) = self.transport_mut() {
            transport.keep_input(bytes);
        }
    }

    pub(crate) fn join(&mut self, token: u64) {
        if let Some(transport) = self.transport_mut() {
            transport.join(token);
        }
    }

    pub(crate) fn leave(&mut self, to: Lane) {
        if let Some(transport) = self.transport_mut() {
            transport.leave(to);
        }
    }

    /// Takes back output that the ring was given and that the socket had no room for.
    pub(crate) fn block(&mut self, output: &[u8], state: &LoopState) {
        match &mut self.protocol {
            Protocol::Http1(connection) => connection.block(output, state),
            Protocol::Http2(connection) => connection.transport_mut().keep_output(output),
            Protocol::PassedOn(_) | Protocol::Relaying(_) | Protocol::Changing => {}
        }
    }

    /// Takes what is to be told once that output has gone.
    pub(crate) fn owe(&mut self, owed: Owed) {
        // An `Owed` that no transport takes is reported to ARM as aborted.
        if let Some(transport) = self.transport_mut() {
            transport.owe(owed);
        }
    }

    // Each request by the ring asks it, and a call takes as long as the answer.
    #[inline(always)]
    fn transport(&self) -> Option<&Transport> {
        match &self.protocol {
            Protocol::Http1(connection) => Some(connection.transport()),
            Protocol::Http2(connection) => Some(connection.transport()),
            Protocol::PassedOn(_) | Protocol::Relaying(_) | Protocol::Changing => None,
        }
    }

    fn transport_mut(&mut self) -> Option<&mut Transport> {
        match &mut self.protocol {
            Protocol::Http1(connection) => Some(connection.transport_mut()),
            Protocol::Http2(connection) => Some(connection.transport_mut()),
            Protocol::PassedOn(_) | Protocol::Relaying(_) | Protocol::Changing => None,
        }
    }

    /// Adds itself to a census.
    pub(crate) fn count(&self, census: &mut Census) {
        match &self.protocol {
            Protocol::Http1(connection) => {
                census.count(connection.state(), None);
                let is_tunnel = connection.is_tunnel();
                census.count_under_way(is_tunnel.into(), (connection.is_sending() && !is_tunnel).into());
            }
            Protocol::Http2(connection) => {
                let (state, streams) = connection.state();
                census.count(state, Some(streams));
                let tunnels = connection.tunnels();
                census.count_under_way(tunnels, streams - tunnels);
            }
            Protocol::PassedOn(_) | Protocol::Relaying(_) | Protocol::Changing => {}
        }
    }

    pub(crate) fn is_due(&self, now_ms: u64) -> bool {
        match &self.protocol {
            Protocol::Http1(connection) => connection.is_due(now_ms),
            Protocol::Http2(connection) => connection.is_due(now_ms),
            Protocol::PassedOn(passed_on) => passed_on.is_due(now_ms),
            // What is asked has its own time, and so has the other node.
            Protocol::Relaying(_) => false,
            Protocol::Changing => true,
        }
    }

    /// Whether it may be closed for another one, and how readily.
    pub(crate) fn yields(&self, now_ms: u64, timeouts: &Timeouts) -> Option<Yields> {
        match &self.protocol {
            Protocol::Http1(connection) => connection.yields(now_ms, timeouts),
            Protocol::Http2(connection) => connection.yields(now_ms, timeouts),
            Protocol::PassedOn(_) | Protocol::Relaying(_) | Protocol::Changing => None,
        }
    }

    /// Whether it is time for the next step of the farewell, without input from the client.
    pub(crate) fn is_leaving(&self, now_ms: u64) -> bool {
        matches!(&self.protocol, Protocol::Http2(connection) if connection.is_leaving(now_ms))
    }

    /// Whether an application has kept it waiting for too long.
    pub(crate) fn is_kept_waiting(&self, now_ms: u64) -> bool {
        match &self.protocol {
            Protocol::Http1(connection) => connection.is_kept_waiting(now_ms),
            Protocol::Http2(connection) => connection.is_kept_waiting(now_ms),
            Protocol::PassedOn(_) | Protocol::Relaying(_) | Protocol::Changing => false,
        }
    }

    /// Whether a response is being sent.
    #[inline]
    pub(crate) fn is_sending(&self) -> bool {
        match &self.protocol {
            Protocol::Http1(connection) => connection.is_sending(),
            Protocol::Http2(connection) => connection.is_sending(),
            Protocol::Relaying(_) => true,
            Protocol::PassedOn(_) | Protocol::Changing => false,
        }
    }

    /// Whether it is a tunnel, or has streams that are.
    pub(crate) fn has_tunnels(&self) -> bool {
        match &self.protocol {
            Protocol::Http1(connection) => connection.is_tunnel(),
            Protocol::Http2(connection) => connection.tunnels() > 0,
            Protocol::PassedOn(_) | Protocol::Relaying(_) | Protocol::Changing => false,
        }
    }

    /// Whether it waits for a password to be checked.
    pub(crate) fn is_parked(&self) -> bool {
        match &self.protocol {
            Protocol::Http1(connection) => connection.is_parked(),
            Protocol::Http2(connection) => connection.is_parked(),
            Protocol::PassedOn(_) | Protocol::Relaying(_) | Protocol::Changing => false,
        }
    }

    /// The number by which it may be waiting for others to be over.
    pub(crate) fn number(&self) -> Option<u64> {
        match &self.protocol {
            Protocol::Http1(connection) => Some(connection.number()),
            Protocol::Http2(connection) => Some(connection.number()),
            Protocol::PassedOn(_) | Protocol::Relaying(_) | Protocol::Changing => None,
        }
    }

    /// The number under which it waits for others to be over, if it does.
    pub(crate) fn waits_as(&self) -> Option<u64> {
        match &self.protocol {
            Protocol::Http1(connection) => connection.waits_as(),
            Protocol::Http2(connection) => connection.waits_as(),
            Protocol::PassedOn(_) | Protocol::Relaying(_) | Protocol::Changing => None,
        }
    }

    /// Looks again at its request, or that of a stream, which has waited for others to be over.
    pub(crate) fn resume_waiting(&mut self, stream: Option<u64>, state: &mut LoopState) {
        match (&mut self.protocol, stream) {
            (Protocol::Http1(connection), None) => connection.resume(),
            (Protocol::Http2(connection), Some(stream)) => connection.answer_waiting(stream, state),
            _ => {}
        }
    }

    /// Looks at its requests again at its next turn, where passwords were to be checked for them.
    pub(crate) fn resume(&mut self) {
        match &mut self.protocol {
            Protocol::Http1(connection) => connection.resume(),
            Protocol::Http2(connection) => connection.resume(),
            Protocol::PassedOn(_) | Protocol::Relaying(_) | Protocol::Changing => {}
        }
    }

    /// Ends a connection whose deadline has passed.
    pub(crate) fn expire(&mut self, state: &mut LoopState) {
        match &mut self.protocol {
            Protocol::Http1(connection) => connection.expire(state),
            Protocol::Http2(connection) => connection.expire(state),
            Protocol::PassedOn(_) | Protocol::Relaying(_) | Protocol::Changing => {}
        }
    }

    /// Logs what was sent of unfinished responses, before the connection is closed.
    #[inline]
    pub(crate) fn abort(&mut self, state: &mut LoopState) {
        match &mut self.protocol {
            Protocol::Http1(connection) => connection.abort(state),
            Protocol::Http2(connection) => connection.abort(state),
            Protocol::PassedOn(_) | Protocol::Relaying(_) | Protocol::Changing => {}
        }
    }
}
