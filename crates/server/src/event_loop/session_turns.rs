//! What a loop does for sessions that move: it stops connections and gives them away, opens files, and goes on with
//! connections that come.

use crate::event_loop::client::Client;
use crate::event_loop::driver::EventLoop;
use crate::event_loop::relays;
use crate::event_loop::sessions::{Adopted, Order, Refused, Seen, SocketEnds, Stopped};
use crate::files::held::Held;
use crate::files::resource::Resource;
use crate::http::response::Digest;
use crate::io::clock::now_ms;
use crate::io::epoll::Readiness;
use crate::io::open::Entry;
use crate::policy::codec_swap::StreamPlace;
use crate::policy::popularity::{AskedPath, merged, rate};
use crate::policy::sessions::{AdoptError, OpenSession, TakeError};
use crate::process::session::ContentName;
use crate::quic;
use crate::transport::Lane;
use std::io;
use std::os::fd::RawFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How long a connection that came may stay in repair mode.
const REPAIR_MAX: Duration = Duration::from_secs(2);

/// Entries of a loop's caches that it looks at for a question, in some 0.1 ms.
const USES_MAX: usize = 8_192;

/// What became of an order.
enum Done {
    Yes,
    /// It is to be tried again after another round of the loop.
    NotYet(Order),
}

/// Whether a connection can be taken out of the loop now.
enum Halt {
    /// It is out.
    Stopped(Box<Stopped>),
    /// The ring has to do with it still.
    NotYet,
}

impl EventLoop {
    /// Carries out what other threads have ordered about sessions.
    #[inline]
    pub(super) fn move_sessions(&mut self) {
        let orders = self.sessions.take_orders(self.state.index);
        if !orders.is_empty() {
            self.carry_out_sessions(orders);
        }
    }

    #[cold]
    fn carry_out_sessions(&mut self, orders: Vec<Order>) {
        for order in orders {
            if let Done::NotYet(order) = self.carry_out_session(order) {
                // It wakes this loop, so that the ring has its turn before.
                if let Some(order) = self.sessions.post(self.state.index, order) {
                    order.pass();
                }
            }
        }
    }

    fn carry_out_session(&mut self, order: Order) -> Done {
        match order {
            Order::List(answer) => drop(answer.give(self.open_sessions())),
            Order::Http3(answer) => {
                let under_way = self.quic.iter().map(quic::Endpoint::under_way).sum();
                drop(answer.give(vec![under_way]));
            }
            Order::Asked(answer) => drop(answer.give(self.asked())),
            Order::Look(ends, answer) => match self.find(ends) {
                None => answer.pass(Err(no_connection(ends))),
                Some(token) => drop(answer.give(self.look_at(token))),
            },
            Order::Take(_, answer) if answer.is_left() => {}
            Order::Take(ends, answer) => match self.find(ends) {
                None => answer.pass(Err(no_connection(ends))),
                Some(token) => match self.halt(token) {
                    Ok(Halt::NotYet) => return Done::NotYet(Order::Take(ends, answer)),
                    Ok(Halt::Stopped(stopped)) => {
                        // The thread that asked has left meanwhile.
                        if let Some(Ok(stopped)) = answer.give(Ok(*stopped)) {
                            self.go_on(stopped);
                        }
                    }
                    Err(error) => drop(answer.give(Err(error))),
                },
            },
            Order::Open(key, answer) => {
                let opened = self.state.router.open_moved(key.site, &key.path);
                let path = String::from_utf8_lossy(&key.path).into_owned();
                drop(answer.give(opened.map_err(|source| AdoptError::NoContent { path, site: key.site, source })));
            }
            Order::Adopt(_, answer) if answer.is_left() => {}
            Order::Adopt(adopted, answer) => match self.adopt(adopted) {
                Err(refused) => drop(answer.give(Err(refused))),
                // Before anything is sent: where the thread that asked has left, the connection is another's.
                Ok(token) => match answer.give(Ok(())) {
                    Some(_) => self.forget(token),
                    None => return self.begin_adopted(token, Instant::now() + REPAIR_MAX),
                },
            },
            Order::Copy(.., answer) if answer.is_left() => {}
            Order::Copy(keys, round, answer) => drop(answer.give(self.copy_sessions(keys, round))),
            Order::Connected(_, answer) if answer.is_left() => {}
            Order::Connected(of, answer) => drop(answer.give(self.connected(of))),
            Order::Stop(what, answer) => drop(answer.give(self.stop(what))),
            Order::Begin { token, until } => return self.begin_adopted(token, until),
        }
        Done::Yes
    }

    fn asked(&mut self) -> Vec<AskedPath> {
        let told = self.state.router.uses(USES_MAX, now_ms());
        let told = told
            .iter()
            .map(|uses| AskedPath { path: uses.path.to_vec(), requests_per_s: rate(uses.uses, uses.over_ms) });
        merged(told)
    }

    fn open_sessions(&self) -> Vec<OpenSession> {
        self.connections.each(Client::open_session).into_iter().map(|(session, _)| session).collect()
    }

    fn find(&self, ends: SocketEnds) -> Option<u64> {
        let found = self.connections.each(|client| client.is_between(ends.peer, ends.local).then_some(()));
        found.first().map(|&(_, token)| token)
    }

    /// What the responses of a connection that can move are taken from.
    fn look_at(&mut self, token: u64) -> Result<Seen, TakeError> {
        let Self { connections, state, .. } = self;
        let Some(client) = connections.get(token) else { return Err(TakeError::Ending) };
        client.check_movable()?;
        let held = |(resource, swapped): (Rc<Resource>, Option<StreamPlace>)| {
            let place = state.router.place_of(&resource).ok_or(TakeError::Content)?;
            Ok((Held::of(&resource, place).map_err(|source| TakeError::System { source })?, swapped))
        };
        let contents: Result<_, TakeError> = client.contents().into_iter().map(held).collect();
        Ok(Seen { contents: contents?, relays: client.relays() })
    }

    /// Stops a connection and takes it out.
    fn halt(&mut self, token: u64) -> Result<Halt, TakeError> {
        let Some(client) = self.connections.get(token) else { return Err(TakeError::Ending) };
        client.check_movable()?;
        if client.lane() != Lane::Socket || client.is_staged(&self.state.ring) {
            self.leave_ring(token);
            return Ok(Halt::NotYet);
        }
        let Seen { contents, relays } = self.look_at(token)?;
        let contents: Vec<Held> = contents.into_iter().map(|(held, _)| held).collect();
        let sockets = relays::sockets(relays).map_err(|source| TakeError::System { source })?;
        if let Some(client) = self.connections.get(token) {
            client.make_movable()?;
        }
        let Some(client) = self.take_out(token, relays > 0) else { return Err(TakeError::Ending) };
        if client.registered.is_some() {
            // The socket stays open elsewhere, and epoll would tell of it as long as that is so.
            let _ = self.epoll.remove(client.fd());
        }
        let peer = client.socket_peer();
        if relays == 0 {
            self.open.leave(peer);
        }
        let names = contents.iter().map(|held| ContentName {
            site: held.key.site,
            path: held.key.path.clone(),
            digest: Digest([0; 32]),
            is_made: held.key.is_made,
        });
        let mut made_here = Vec::new();
        let session = client.into_session(names, &mut made_here, &self.state);
        let (socket, session) = session.ok_or(TakeError::Ending)?;
        let relays = if relays > 0 { self.relay((token, peer), made_here, sockets)? } else { Vec::new() };
        self.state.counts().sessions_given.add(1);
        Ok(Halt::Stopped(Box::new(Stopped { socket, session, contents, relays })))
    }

    /// Goes on with what was stopped for a thread that has left.
    fn go_on(&mut self, stopped: Stopped) {
        let Stopped { socket, session, contents, relays } = stopped;
        let contents = contents.into_iter().map(|held| (held, None)).collect();
        if let Ok(token) = self.adopt(Box::new(Adopted { socket, session, contents, relays, comes_back: true })) {
            self.turn(token, Readiness::INPUT.with(Readiness::ROOM, true));
        }
    }

    /// Takes a connection in, which has its first turn later.
    fn adopt(&mut self, adopted: Box<Adopted>) -> Result<u64, Refused> {
        let peer = adopted.session.peer.ip();
        if adopted.comes_back {
            self.open.enter_again(peer);
        } else {
            if self.state.stopping || !self.role.serves() {
                return Err(Refused { error: AdoptError::Stopping, adopted: Some(adopted) });
            }
            let entry = match self.open.enter(peer) {
                Entry::Full if self.make_room() => self.open.enter(peer),
                entry => entry,
            };
            if entry != Entry::Counted {
                self.state.counts().connections_refused.add(1);
                return Err(Refused { error: AdoptError::Full, adopted: None });
            }
        }
        let Adopted { socket, session, contents, relays, comes_back } = *adopted;
        let resources: io::Result<Vec<_>> =
            contents.iter().map(|(held, digest)| self.adopted.resource(held, *digest)).collect();
        let resources = resources.map_err(|source| AdoptError::Socket { source });
        // Its place is known before it is made: what gives its responses is to call it there.
        let token = self.connections.insert(Client::to_come(session.peer));
        let handlers = self.handlers(token, &session, relays);
        let client =
            resources.and_then(|resources| Client::of_session(socket, session, resources, handlers?, &self.state));
        match client {
            Ok(mut client) => {
                // Another process may still have a descriptor of it.
                client.is_held_elsewhere = comes_back;
                let counts = self.state.counts();
                if comes_back { &counts.sessions_given_back } else { &counts.sessions_adopted }.add(1);
                if let Some(place) = self.connections.get(token) {
                    *place = client;
                }
                Ok(token)
            }
            Err(error) => {
                self.connections.discard(token);
                self.open.leave(peer);
                Err(Refused { error, adopted: None })
            }
        }
    }

    /// Drops a connection that has not begun here.
    fn forget(&mut self, token: u64) {
        if let Some(client) = self.connections.get(token) {
            let peer = client.socket_peer();
            self.open.leave(peer);
            self.connections.discard(token);
        }
    }

    /// Gives a connection that came its first turn, once its socket has left repair mode: until then the kernel takes
    /// nothing for it.
    fn begin_adopted(&mut self, token: u64, until: Instant) -> Done {
        let Some(client) = self.connections.get(token) else { return Done::Yes };
        if is_in_repair(client.fd()) && Instant::now() < until {
            return Done::NotYet(Order::Begin { token, until });
        }
        self.turn(token, Readiness::INPUT.with(Readiness::ROOM, true));
        Done::Yes
    }
}

fn no_connection(ends: SocketEnds) -> TakeError {
    TakeError::NoConnection { peer: ends.peer, local: ends.local }
}

/// Whether a socket of TCP is in repair mode (tcp(7)); false where the kernel does not say.
fn is_in_repair(socket: RawFd) -> bool {
    let mut value: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    let at = (&raw mut value).cast();
    // SAFETY: the kernel writes at most `len` bytes into `value`; both live over the call.
    let asked = unsafe { libc::getsockopt(socket, libc::IPPROTO_TCP, libc::TCP_REPAIR, at, &raw mut len) };
    asked == 0 && value != 0
}
