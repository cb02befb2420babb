//! A client's connection, whichever version of HTTP it speaks.

use crate::census::Census;
use crate::connection::{Connection, Turn};
use crate::epoll::{Interest, Readiness};
use crate::http2;
use crate::transport::Transport;
use crate::workbench::Workbench;
use std::net::SocketAddr;
use std::os::fd::RawFd;

/// What was accepted.
#[derive(Debug)]
pub(crate) struct Client {
    protocol: Protocol,
    fd: RawFd,
    pub(crate) peer: SocketAddr,
    /// What the event queue was told.
    pub(crate) registered: Option<Interest>,
}

#[derive(Debug)]
enum Protocol {
    Http1(Connection),
    Http2(Box<http2::Connection>),
    /// While one takes over from the other.
    Changing,
}

impl Client {
    pub(crate) fn new(transport: Transport, peer: SocketAddr, bench: &Workbench) -> Self {
        let fd = transport.fd();
        Self { protocol: Protocol::Http1(Connection::new(transport, peer, bench)), fd, peer, registered: None }
    }

    #[inline]
    pub(crate) fn fd(&self) -> RawFd {
        self.fd
    }

    /// Does what can be done now.
    #[inline]
    pub(crate) fn turn(&mut self, bench: &mut Workbench, readiness: Readiness) -> Turn {
        match &mut self.protocol {
            Protocol::Http1(connection) => match connection.turn(bench, readiness) {
                Turn::Upgrade => self.upgrade(bench, readiness),
                turn => turn,
            },
            Protocol::Http2(connection) => connection.turn(bench, readiness),
            Protocol::Changing => Turn::Close,
        }
    }

    #[cold]
    fn upgrade(&mut self, bench: &mut Workbench, readiness: Readiness) -> Turn {
        if let Protocol::Http1(connection) = std::mem::replace(&mut self.protocol, Protocol::Changing) {
            let (transport, received) = connection.into_parts();
            let connection = http2::Connection::new(transport, self.peer, received, bench);
            self.protocol = Protocol::Http2(Box::new(connection));
        }
        // There may be more input than what was received so far.
        self.turn(bench, Readiness { readable: true, ..readiness })
    }

    /// What the client must be told about next.
    #[inline]
    pub(crate) fn interest(&self) -> Interest {
        let blocked = self.registered == Some(Interest::InputAndRoom)
            || match &self.protocol {
                Protocol::Http1(connection) => connection.is_sending(),
                Protocol::Http2(connection) => connection.is_blocked(),
                Protocol::Changing => false,
            };
        if blocked { Interest::InputAndRoom } else { Interest::Input }
    }

    /// Adds itself to a census.
    pub(crate) fn count(&self, census: &mut Census) {
        match &self.protocol {
            Protocol::Http1(connection) => census.count(connection.state(), None),
            Protocol::Http2(connection) => {
                let (state, streams) = connection.state();
                census.count(state, Some(streams));
            }
            Protocol::Changing => {}
        }
    }

    pub(crate) fn is_due(&self, now_ms: u64) -> bool {
        match &self.protocol {
            Protocol::Http1(connection) => connection.is_due(now_ms),
            Protocol::Http2(connection) => connection.is_due(now_ms),
            Protocol::Changing => true,
        }
    }

    /// Whether a response is being sent.
    pub(crate) fn is_sending(&self) -> bool {
        match &self.protocol {
            Protocol::Http1(connection) => connection.is_sending(),
            Protocol::Http2(connection) => connection.is_sending(),
            Protocol::Changing => false,
        }
    }

    /// Whether it waits for a password to be checked.
    pub(crate) fn is_parked(&self) -> bool {
        match &self.protocol {
            Protocol::Http1(connection) => connection.is_parked(),
            Protocol::Http2(connection) => connection.is_parked(),
            Protocol::Changing => false,
        }
    }

    /// Looks at its requests again at its next turn.
    pub(crate) fn resume(&mut self) {
        match &mut self.protocol {
            Protocol::Http1(connection) => connection.resume(),
            Protocol::Http2(connection) => connection.resume(),
            Protocol::Changing => {}
        }
    }

    /// Ends a connection whose deadline has passed.
    pub(crate) fn expire(&mut self, bench: &mut Workbench) {
        match &mut self.protocol {
            Protocol::Http1(connection) => connection.expire(bench),
            Protocol::Http2(connection) => connection.expire(bench),
            Protocol::Changing => {}
        }
    }

    /// Logs what was sent of unfinished responses, before the connection is closed.
    pub(crate) fn give_up(&mut self, bench: &mut Workbench) {
        match &mut self.protocol {
            Protocol::Http1(connection) => connection.give_up(bench),
            Protocol::Http2(connection) => connection.give_up(bench),
            Protocol::Changing => {}
        }
    }
}
