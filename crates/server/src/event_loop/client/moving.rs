//! A client's connection that moves to another server, or comes from one.

use super::{Client, Protocol};
use crate::files::resource::Resource;
use crate::http1::connection::Connection;
use crate::http2;
use crate::io::ends::Ends;
use crate::loop_state::LoopState;
use crate::policy::sessions::{AdoptError, OpenSession, TakeError};
use crate::process::session::{ContentName, Session};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::rc::Rc;

impl Client {
    /// Whether its socket is between these addresses.
    pub(crate) fn is_between(&self, peer: SocketAddr, local: SocketAddr) -> bool {
        let own = self.proxy.as_ref().map_or(self.peer, |proxy| **proxy);
        let same = |one: SocketAddr, other: SocketAddr| {
            (one.ip().to_canonical(), one.port()) == (other.ip().to_canonical(), other.port())
        };
        same(own, peer) && Ends::of(self.fd).local.is_some_and(|own| same(own, local))
    }

    /// What is to be known of it from outside; none where its socket has no address.
    pub(crate) fn open_session(&self) -> Option<OpenSession> {
        let peer = self.proxy.as_ref().map_or(self.peer, |proxy| **proxy);
        let is_sending = self.is_sending();
        let path = is_sending.then(|| self.first_path()).flatten();
        Some(OpenSession { peer, local: Ends::of(self.fd).local?, is_sending, path })
    }

    /// The path of the file that its first response is taken from.
    fn first_path(&self) -> Option<String> {
        let path = |resource: &Rc<Resource>| {
            str::from_utf8(&resource.path).ok().map(|path| format!("/{}", path.trim_start_matches('/')))
        };
        match &self.protocol {
            Protocol::Http1(connection) => connection.contents().next().and_then(path),
            Protocol::Http2(connection) => connection.contents().next().and_then(path),
            Protocol::PassedOn(_) | Protocol::Changing => None,
        }
    }

    /// As [`Connection::check_movable`].
    pub(crate) fn check_movable(&self) -> Result<(), TakeError> {
        match &self.protocol {
            Protocol::Http1(connection) => connection.check_movable(),
            Protocol::Http2(connection) => connection.check_movable(),
            Protocol::PassedOn(_) => Err(TakeError::Beginning),
            Protocol::Changing => Err(TakeError::Ending),
        }
    }

    /// As [`Connection::make_movable`].
    pub(crate) fn make_movable(&mut self) -> Result<(), TakeError> {
        match &mut self.protocol {
            Protocol::Http1(connection) => connection.make_movable(),
            Protocol::Http2(connection) => connection.make_movable(),
            Protocol::PassedOn(_) | Protocol::Changing => Ok(()),
        }
    }

    /// The contents of its responses, in their order.
    pub(crate) fn contents(&self) -> Vec<Rc<Resource>> {
        match &self.protocol {
            Protocol::Http1(connection) => connection.contents().map(Rc::clone).collect(),
            Protocol::Http2(connection) => connection.contents().map(Rc::clone).collect(),
            Protocol::PassedOn(_) | Protocol::Changing => Vec::new(),
        }
    }

    /// As [`Connection::into_session`]; none for what cannot move.
    pub(crate) fn into_session(
        self,
        names: impl IntoIterator<Item = ContentName>,
        state: &LoopState,
    ) -> Option<(OwnedFd, Session)> {
        let (peer, client) = match self.proxy {
            Some(proxy) => (*proxy, Some(self.peer)),
            None => (self.peer, None),
        };
        match self.protocol {
            Protocol::Http1(connection) => Some(connection.into_session((peer, client), names, state)),
            Protocol::Http2(connection) => Some(connection.into_session((peer, client), names, state)),
            Protocol::PassedOn(_) | Protocol::Changing => None,
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
        state: &LoopState,
    ) -> Result<Self, AdoptError> {
        let (fd, peer) = (socket.as_raw_fd(), session.client.unwrap_or(session.peer));
        let proxy = session.client.map(|_| Box::new(session.peer));
        let protocol = match session.http2.take() {
            Some(http2) => {
                let session = (session, *http2);
                let connection = http2::Connection::of_session(socket, peer, session, contents, state)?;
                Protocol::Http2(Box::new(connection))
            }
            None => Protocol::Http1(Connection::of_session(socket, peer, session, contents, state)?),
        };
        Ok(Self { protocol, fd, peer, proxy, registered: None, before_joining: 0 })
    }
}
