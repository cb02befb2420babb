//! What the loops of two servers do so that one goes on making responses which the other one sends.

use super::client::Client;
use super::client::relaying::{Relay, Relaying};
use super::driver::EventLoop;
use super::sessions::set_nonblocking;
use crate::exchange::application::{Continued, PassedOn};
use crate::exchange::life::Exchange;
use crate::exchange::wakes::Address;
use crate::policy::sessions::{AdoptError, TakeError, TakenRelay};
use crate::process::session::Session;
use crate::upstream::relayed::Relayed;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

/// A pair of sockets: its own end, and the other server's.
pub(super) type Ends = (OwnedFd, OwnedFd);

/// Pairs of sockets that do not block.
///
/// # Errors
///
/// What the system says, as when descriptors have run out.
pub(super) fn sockets(count: usize) -> io::Result<Vec<Ends>> {
    let pair = |_| {
        let (own, other) = UnixStream::pair()?;
        let (own, other) = (own.into(), other.into());
        // By fcntl(2), as the confined server makes no other call for it.
        set_nonblocking(&own)?;
        set_nonblocking(&other)?;
        Ok((own, other))
    };
    (0..count).map(pair).collect()
}

impl EventLoop {
    /// Takes a connection out; `stays` says that its place is kept, for what calls it there.
    pub(super) fn take_out(&mut self, token: u64, stays: bool) -> Option<Client> {
        if !stays {
            return self.connections.remove(token);
        }
        let place = self.connections.get(token)?;
        let peer = place.peer;
        Some(std::mem::replace(place, Client::to_come(peer)))
    }

    /// Goes on making responses in the place of their connection, which is counted still; the other ends.
    ///
    /// # Errors
    ///
    /// What the system says of the sockets; the responses are broken off then.
    pub(super) fn relay(
        &mut self,
        (token, peer): (u64, IpAddr),
        exchanges: Vec<Exchange>,
        sockets: Vec<Ends>,
    ) -> Result<Vec<TakenRelay>, TakeError> {
        let (mut relays, mut others) = (Vec::new(), Vec::new());
        for (exchange, (own, other)) in exchanges.into_iter().zip(sockets) {
            // What a third server makes need not come through this one.
            let exchange = match exchange.pass_on() {
                Ok(PassedOn { socket, before }) => {
                    others.push(TakenRelay { socket, before });
                    continue;
                }
                Err(exchange) => *exchange,
            };
            let user = Address { token: Some(token), connection: 0 };
            match self.links.enter(own, user, true) {
                Ok(link) => relays.push(Relay::new(exchange, link)),
                Err(source) => {
                    self.close(token);
                    return Err(TakeError::System { source });
                }
            }
            others.push(other.into());
        }
        self.state.counts().relays_begun.add(relays.len() as u64);
        if relays.is_empty() {
            self.open.leave(peer);
            self.connections.discard(token);
            return Ok(others);
        }
        if let Some(place) = self.connections.get(token) {
            *place = Client::relaying(Relaying::new(relays), peer);
        }
        // What is made already goes out in this round.
        self.again.push(token);
        Ok(others)
    }

    /// What gives the responses that another server makes, in their order.
    ///
    /// # Errors
    ///
    /// [`AdoptError`], if the sockets are not those of the session.
    pub(super) fn handlers(
        &self,
        token: u64,
        session: &Session,
        relays: Vec<TakenRelay>,
    ) -> Result<Vec<Box<dyn Continued>>, AdoptError> {
        if session.relays() != relays.len() {
            return Err(AdoptError::Malformed { part: "the sockets of its responses" });
        }
        let user = Address { token: Some(token), connection: 0 };
        let handler = |TakenRelay { socket, before }| {
            Ok(Box::new(Relayed::new(PassedOn { socket, before }, user, &self.links)?) as Box<dyn Continued>)
        };
        let handlers: io::Result<_> = relays.into_iter().map(handler).collect();
        handlers.map_err(|source| AdoptError::Socket { source })
    }
}
