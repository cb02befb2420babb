//! A connection of HTTP/2 with an upstream that the requests of one loop share, with its socket.
//!
//! It has turns of its own: an event for its socket has it receive and send, and wakes the requests that something came
//! for. These take it from their streams in turns of theirs.

use super::common::Common;
use super::http2::connection::{Asked, Connection};
use super::http2::stream::StreamFault;
use super::links::{Link, Links, RECEIVED_BYTES_MAX, Turns};
use super::message::Said;
use super::secure::{TlsFailure, Why};
use super::settings::Speaks;
use super::trouble::Trouble;
use crate::exchange::wakes::Address;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A connection that requests share.
pub(super) struct Shared {
    pub(super) server: usize,
    address: Address,
    links: Rc<Links>,
    common: Arc<Common>,
    state: RefCell<State>,
    /// When something has come last, and when its last request was over, by the loop's clock.
    received_ms: Cell<u64>,
    idle_since_ms: Cell<u64>,
}

enum State {
    /// It is being made; these requests wait for it.
    Opening { link: Link, waiting: Vec<Address> },
    /// Requests are on it.
    Open { link: Link, http2: Connection<Address>, waiting: Vec<Address> },
    /// It has ended, and some of its responses may still be taken.
    Ended { http2: Connection<Address>, why: Option<Cause> },
    /// The server chose HTTP/1.1: the first request that comes takes it.
    Http1(Option<Link>),
    /// It could not be made.
    Failed(Cause),
}

/// An error that several requests are told.
#[derive(Debug, Clone)]
enum Cause {
    Late,
    System(i32),
    Other(io::ErrorKind, String),
}

impl Cause {
    fn of(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(code) => Self::System(code),
            None => Self::Other(error.kind(), error.to_string()),
        }
    }

    fn error(&self) -> io::Error {
        match self {
            Self::Late => io::ErrorKind::TimedOut.into(),
            Self::System(code) => io::Error::from_raw_os_error(*code),
            Self::Other(kind, text) => io::Error::new(*kind, text.clone()),
        }
    }
}

/// What becomes of a request that comes to a connection.
pub(super) enum Joined {
    Stream(SharedStream),
    /// It is woken when there is more to be said.
    Waiting,
    /// The server speaks HTTP/1.1; over this connection, or over one of the request's own.
    Http1(Option<Link>),
    /// There is no place, now or any more.
    Full,
    /// The server has no tunnels (RFC 8441).
    NoTunnels,
    Failed(Trouble),
}

/// A request on a shared connection; dropped, it is over there.
pub(super) struct SharedStream {
    shared: Rc<Shared>,
    id: u32,
}

impl fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Shared").field("address", &self.address).finish_non_exhaustive()
    }
}

impl fmt::Debug for SharedStream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SharedStream").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Shared {
    /// Begins with a connection that is being made.
    pub(super) fn new(
        (server, address): (usize, Address),
        link: Link,
        links: &Rc<Links>,
        common: &Arc<Common>,
    ) -> Rc<Self> {
        let now_ms = links.now_ms();
        let shared = Rc::new(Self {
            server,
            address,
            links: Rc::clone(links),
            common: Arc::clone(common),
            state: RefCell::new(State::Opening { link, waiting: Vec::new() }),
            received_ms: Cell::new(now_ms),
            idle_since_ms: Cell::new(now_ms),
        });
        let turns: Rc<dyn Turns> = Rc::<Self>::clone(&shared);
        links.share(address, Rc::downgrade(&turns));
        shared
    }

    /// Whether further requests may come to it.
    pub(super) fn has_place(&self) -> bool {
        let places = self.common.rules.streams_max;
        match &*self.state.borrow() {
            State::Opening { waiting, .. } => waiting.len() < places as usize,
            State::Open { http2, .. } => http2.has_place(places),
            State::Ended { .. } | State::Http1(_) | State::Failed(_) => false,
        }
    }

    /// Whether it is over: no request comes to it any more.
    pub(super) fn is_over(&self) -> bool {
        !matches!(&*self.state.borrow(), State::Opening { .. } | State::Open { .. })
    }

    /// Has a request begin on it.
    pub(super) fn join(self: &Rc<Self>, asked: Asked<'_, Address>, is_tunnel: bool) -> Joined {
        let mut state = self.state.borrow_mut();
        let (http2, waiting) = match &mut *state {
            State::Opening { waiting, .. } => {
                // It may be woken for something else, and come again.
                if !waiting.contains(&asked.user) {
                    waiting.push(asked.user);
                }
                return Joined::Waiting;
            }
            State::Open { http2, waiting, .. } => (http2, waiting),
            State::Ended { .. } => return Joined::Full,
            State::Http1(link) => return Joined::Http1(link.take()),
            State::Failed(Cause::Late) => return Joined::Failed(Trouble::ConnectLate),
            State::Failed(cause) => return Joined::Failed(Trouble::Connect(cause.error())),
        };
        if is_tunnel && !http2.peer().is_known {
            if !waiting.contains(&asked.user) {
                waiting.push(asked.user);
            }
            return Joined::Waiting;
        }
        if is_tunnel && !http2.peer().takes_tunnels {
            return Joined::NoTunnels;
        }
        if !http2.has_place(self.common.rules.streams_max) {
            return Joined::Full;
        }
        match http2.open(asked) {
            Ok(id) => Joined::Stream(SharedStream { shared: Rc::clone(self), id }),
            Err(_) => Joined::Failed(Trouble::Unsendable(400)),
        }
    }

    /// A request got no answer in time: if nothing at all has come since then, the connection may be dead, and is used
    /// for no other request.
    pub(super) fn suspect(&self, since_ms: u64) {
        if self.received_ms.get() <= since_ms
            && let State::Open { http2, .. } = &mut *self.state.borrow_mut()
        {
            http2.leave();
        }
    }

    /// Closes it if it has had no request for too long, or at once.
    pub(super) fn sweep(&self, now_ms: u64, is_unwanted: bool) {
        let idle_ms = u64::try_from(self.common.rules.timeouts.idle.as_millis()).unwrap_or(u64::MAX);
        let is_late = self.idle_since_ms.get().saturating_add(idle_ms) <= now_ms;
        let mut state = self.state.borrow_mut();
        if let State::Open { link, http2, .. } = &mut *state
            && http2.streams() == 0
            && (is_late || is_unwanted || http2.is_leaving())
        {
            http2.leave();
            // What the socket does not take of the farewell is not waited for.
            let _ = push(link, http2);
            self.end(&mut state, None);
        }
    }

    /// Closes the socket; streams keep what has come for them.
    fn end(&self, state: &mut State, why: Option<Cause>) {
        let before = std::mem::replace(state, State::Http1(None));
        if let State::Open { link, mut http2, waiting } = before {
            http2.lose();
            self.drop_link(link);
            waiting.into_iter().chain(http2.take_told()).for_each(|user| self.links.wake(user));
            *state = State::Ended { http2, why };
        }
    }

    fn drop_link(&self, link: Link) {
        drop(link);
        self.common.counts().open.fetch_sub(1, Ordering::Relaxed);
    }

    /// Goes on with making it.
    fn open(&self, state: &mut State) {
        let State::Opening { link, .. } = state else { return };
        let opened = match link.opened() {
            Ok(None) if link.is_due() => Err(Cause::Late),
            Ok(None) => return,
            Ok(Some(agreed)) => {
                let speaks = self.common.rules.speaks;
                let is_http2 = !link.is_secure() || agreed.is_http2;
                if is_http2 || speaks == Speaks::Negotiated {
                    Ok(is_http2)
                } else {
                    let server = self.common.rules.servers[self.server].place.to_string();
                    let failure = TlsFailure { server, why: Why::NotHttp2 };
                    Err(Cause::Other(io::ErrorKind::InvalidData, failure.to_string()))
                }
            }
            Err(error) => Err(Cause::of(&error)),
        };
        let State::Opening { link, waiting } = std::mem::replace(state, State::Http1(None)) else { return };
        link.set_deadline(u64::MAX);
        match opened {
            Ok(true) => {
                let http2 = Connection::new(self.links.now_ms());
                *state = State::Open { link, http2, waiting: Vec::new() };
            }
            Ok(false) => *state = State::Http1(Some(link)),
            Err(cause) => {
                self.drop_link(link);
                *state = State::Failed(cause);
            }
        }
        waiting.into_iter().for_each(|user| self.links.wake(user));
    }

    /// Receives and sends.
    fn exchange(&self, state: &mut State) {
        let State::Open { link, http2, waiting } = state else { return };
        let was_known = http2.peer().is_known;
        let outcome = link.flush().map_err(|error| Cause::of(&error)).and_then(|()| self.receive(link, http2));
        if !was_known && http2.peer().is_known {
            waiting.drain(..).for_each(|user| self.links.wake(user));
        }
        // After an error, too: it is told to the upstream.
        let pushed = push(link, http2).map_err(|error| Some(Cause::of(&error)));
        http2.take_told().into_iter().for_each(|user| self.links.wake(user));
        let is_done = http2.is_leaving() && http2.streams() == 0;
        match outcome {
            Ok(true) if !is_done && pushed.is_ok() => {}
            Ok(true) => self.end(state, pushed.err().flatten()),
            Ok(false) => self.end(state, None),
            Err(cause) => self.end(state, Some(cause)),
        }
    }

    /// Receives what there is; false at the end of what the upstream sends.
    fn receive(&self, link: &Link, http2: &mut Connection<Address>) -> Result<bool, Cause> {
        let now_ms = self.links.now_ms();
        while link.has_input() {
            let received = link.receive(RECEIVED_BYTES_MAX, |bytes| {
                if bytes.is_empty() { None } else { Some(http2.receive(bytes, now_ms)) }
            });
            match received.map_err(|error| Cause::of(&error))? {
                None => break,
                Some(None) => return Ok(false),
                Some(Some(Ok(()))) => self.received_ms.set(now_ms),
                Some(Some(Err(fault))) => return Err(Cause::Other(io::ErrorKind::InvalidData, fault.to_string())),
            }
        }
        Ok(true)
    }

    /// Sends what there is.
    fn flush(&self) {
        let mut state = self.state.borrow_mut();
        let State::Open { link, http2, .. } = &mut *state else { return };
        let pushed = push(link, http2);
        http2.take_told().into_iter().for_each(|user| self.links.wake(user));
        if let Err(error) = pushed {
            // What came before may be there to be read.
            link.look();
            let is_over = !matches!(self.receive(link, http2), Ok(true));
            tracing::debug!(%error, is_over, "a shared connection takes nothing more");
            self.end(&mut state, Some(Cause::of(&error)));
        }
    }

    fn http2<T>(&self, what: impl FnOnce(&mut Connection<Address>) -> T) -> Option<T> {
        match &mut *self.state.borrow_mut() {
            State::Open { http2, .. } | State::Ended { http2, .. } => Some(what(http2)),
            State::Opening { .. } | State::Http1(_) | State::Failed(_) => None,
        }
    }

    /// Why it has ended.
    fn cause(&self) -> Trouble {
        match &*self.state.borrow() {
            State::Ended { why: Some(cause), .. } => Trouble::Broken(cause.error()),
            _ => Trouble::Closed,
        }
    }
}

/// Gives the socket what there is for it, as far as it takes it.
fn push(link: &mut Link, http2: &mut Connection<Address>) -> io::Result<()> {
    while !http2.output().is_empty() {
        match link.send(&[IoSlice::new(http2.output())])? {
            0 => return Ok(()),
            bytes => http2.sent(bytes),
        }
    }
    Ok(())
}

impl Turns for Shared {
    fn turn(&self) {
        let mut state = self.state.borrow_mut();
        self.open(&mut state);
        self.exchange(&mut state);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.links.unshare(self.address);
        if let State::Opening { .. } | State::Open { .. } | State::Http1(Some(_)) = self.state.get_mut() {
            self.common.counts().open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl SharedStream {
    /// Whether it is not the first request of its connection.
    pub(super) fn is_kept(&self) -> bool {
        self.id > 1
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Sends some of a body; returns how many bytes there was room for.
    pub(super) fn send(&self, bytes: &[u8]) -> usize {
        self.shared.http2(|http2| http2.send(self.id, bytes)).unwrap_or(0)
    }

    /// Ends the body.
    pub(super) fn end<'t>(&self, trailers: impl Iterator<Item = (&'t str, &'t [u8])>) {
        self.shared.http2(|http2| http2.end(self.id, trailers));
    }

    /// Gives on what has come; whether that was anything.
    pub(super) fn take(&self, room: usize, say: &mut dyn FnMut(Said<'_>)) -> Result<bool, Trouble> {
        let taken = self.shared.http2(|http2| http2.take(self.id, room, say));
        match taken.unwrap_or(Err(StreamFault::Lost)) {
            Ok(has_moved) => Ok(has_moved),
            Err(StreamFault::Refused) => {
                Err(super::message::Garbled::Refused("it takes no more on this connection").into())
            }
            Err(StreamFault::Reset(code)) => Err(Trouble::Reset(code)),
            Err(StreamFault::Garbled(garbled)) => Err(garbled.into()),
            Err(StreamFault::Lost) => Err(self.shared.cause()),
        }
    }

    /// Sends what was written.
    pub(super) fn flush(&self) {
        self.shared.flush();
    }
}

impl Drop for SharedStream {
    fn drop(&mut self) {
        self.shared.http2(|http2| http2.close(self.id));
        self.shared.idle_since_ms.set(self.shared.links.now_ms());
        self.shared.flush();
        self.shared.sweep(0, self.shared.common.rules.pool.idle_max == 0);
    }
}
