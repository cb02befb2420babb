//! A client's connection that moves to another server, or comes from one.

use super::relaying::Relaying;
use super::{Client, Protocol};
use crate::exchange::application::Continued;
use crate::exchange::life::Exchange;
use crate::files::resource::Resource;
use crate::http1::connection::Connection;
use crate::http2;
use crate::io::clock::now_ms;
use crate::io::ends::Ends;
use crate::io::epoll::Interest;
use crate::loop_state::LoopState;
use crate::policy::codec_swap::StreamPlace;
use crate::policy::sessions::{AdoptError, OpenSession, TakeError};
use crate::process::session::{ContentName, Session};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::rc::Rc;

impl Client {
    /// Whether its socket is between these addresses.
    pub(crate) fn is_between(&self, peer: SocketAddr, local: SocketAddr) -> bool {
        let own = self.proxy.as_ref().map_or(self.peer, |proxy| **proxy);
        let same = |one: SocketAddr, other: SocketAddr| {
            (one.ip().to_canonical(), one.port()) == (other.ip().to_canonical(), other.port())
        };
        same(own, peer) && self.local().is_some_and(|own| same(own, local))
    }

    /// What is to be known of it from outside; none where its socket has no address.
    pub(crate) fn open_session(&self) -> Option<OpenSession> {
        let peer = self.proxy.as_ref().map_or(self.peer, |proxy| **proxy);
        let is_sending = self.is_sending();
        let path = is_sending.then(|| self.first_path()).flatten();
        Some(OpenSession { peer, local: self.local()?, is_sending, path })
    }

    /// The server's end of its socket; none where it has no address, or where its client is at another node.
    fn local(&self) -> Option<SocketAddr> {
        let has_socket = !matches!(self.protocol, Protocol::Relaying(_) | Protocol::Changing);
        has_socket.then(|| Ends::of(self.fd).local).flatten()
    }

    /// The path of the file that its first response is taken from.
    fn first_path(&self) -> Option<String> {
        let path = |resource: &Rc<Resource>| {
            str::from_utf8(&resource.path).ok().map(|path| format!("/{}", path.trim_start_matches('/')))
        };
        match &self.protocol {
            Protocol::Http1(connection) => connection.contents().next().and_then(path),
            Protocol::Http2(connection) => connection.contents().next().and_then(path),
            Protocol::PassedOn(_) | Protocol::Relaying(_) | Protocol::Changing => None,
        }
    }

    /// As [`Connection::check_movable`].
    pub(crate) fn check_movable(&self) -> Result<(), TakeError> {
        match &self.protocol {
            Protocol::Http1(connection) => connection.check_movable(),
            Protocol::Http2(connection) => connection.check_movable(),
            Protocol::PassedOn(_) => Err(TakeError::Beginning),
            Protocol::Relaying(_) | Protocol::Changing => Err(TakeError::Ending),
        }
    }

    /// As [`Connection::make_movable`].
    pub(crate) fn make_movable(&mut self) -> Result<(), TakeError> {
        match &mut self.protocol {
            Protocol::Http1(connection) => connection.make_movable(),
            Protocol::Http2(connection) => connection.make_movable(),
            Protocol::PassedOn(_) | Protocol::Relaying(_) | Protocol::Changing => Ok(()),
        }
    }

    /// The contents of its responses, in their order, and how far those came that are made in pieces.
    pub(crate) fn contents(&self) -> Vec<(Rc<Resource>, Option<StreamPlace>)> {
        let plain = |resource: &Rc<Resource>| (Rc::clone(resource), None);
        match &self.protocol {
            Protocol::Http1(connection) => connection.contents_seen().collect(),
            Protocol::Http2(connection) => connection.contents().map(plain).collect(),
            Protocol::PassedOn(_) | Protocol::Relaying(_) | Protocol::Changing => Vec::new(),
        }
    }

    /// How many of its responses this server would go on making.
    pub(crate) fn relays(&self) -> usize {
        match &self.protocol {
            Protocol::Http1(connection) => connection.relays(),
            Protocol::Http2(connection) => connection.relays(),
            Protocol::PassedOn(_) | Protocol::Relaying(_) | Protocol::Changing => 0,
        }
    }

    /// As [`Connection::into_session`]; none for what cannot move.
    pub(crate) fn into_session(
        self,
        names: impl IntoIterator<Item = ContentName>,
        relays: &mut Vec<Exchange>,
        state: &LoopState,
    ) -> Option<(OwnedFd, Session)> {
        let (peer, client) = match self.proxy {
            Some(proxy) => (*proxy, Some(self.peer)),
            None => (self.peer, None),
        };
        match self.protocol {
            Protocol::Http1(connection) => Some(connection.into_session((peer, client), names, relays, state)),
            Protocol::Http2(connection) => Some(connection.into_session((peer, client), names, relays, state)),
            Protocol::PassedOn(_) | Protocol::Relaying(_) | Protocol::Changing => None,
        }
    }

    /// One that goes on with a session; its contents are in the order of its responses.
    ///
    /// # Errors
    ///
    /// As for [`Connection::of_session`].
    pub(crate) fn of_session(
        socket: OwnedFd,
        mut session: Session,
        contents: impl IntoIterator<Item = Rc<Resource>>,
        handlers: impl IntoIterator<Item = Box<dyn Continued>>,
        state: &LoopState,
    ) -> Result<Self, AdoptError> {
        let (fd, peer) = (socket.as_raw_fd(), session.client.unwrap_or(session.peer));
        let proxy = session.client.map(|_| Box::new(session.peer));
        let protocol = match session.http2.take() {
            Some(http2) => {
                let session = (session, *http2);
                let connection = http2::Connection::of_session(socket, peer, session, contents, handlers, state)?;
                Protocol::Http2(Box::new(connection))
            }
            None => Protocol::Http1(Connection::of_session(socket, peer, session, contents, handlers, state)?),
        };
        let began_ms = state.clock.now_ms;
        Ok(Self { protocol, fd, peer, proxy, registered: None, began_ms, before_joining: 0, is_held_elsewhere: false })
    }

    /// What stands in the place of one until that is made.
    pub(crate) fn to_come(peer: SocketAddr) -> Self {
        Self {
            protocol: Protocol::Changing,
            fd: -1,
            peer,
            proxy: None,
            registered: None,
            began_ms: now_ms(),
            before_joining: 0,
            is_held_elsewhere: false,
        }
    }

    /// What goes on making responses of a connection that has moved; it is counted as that was.
    pub(crate) fn relaying(relaying: Relaying, peer: IpAddr) -> Self {
        // Its sockets have tokens of their own.
        let registered = Some(Interest::Input);
        let (protocol, peer) = (Protocol::Relaying(Box::new(relaying)), SocketAddr::new(peer, 0));
        let began_ms = now_ms();
        Self { protocol, fd: -1, peer, proxy: None, registered, began_ms, before_joining: 0, is_held_elsewhere: false }
    }
}
