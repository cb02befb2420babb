//! Orders to a running server from other threads: what its caches pin, what they load beforehand, how many loops run.
//!
//! An order sets a state (pins, number of loops) or asks for one action (loading). It wakes the loops, and each loop
//! carries it out between two events.

use crate::http::pattern::Pattern;
use crate::io::epoll::Waker;
use crate::policy::insight::UpstreamAccess;
use crate::policy::popularity::AskedPath;
use crate::policy::session_copies::{CopyRound, SessionCopies, TlsKeys};
use crate::policy::sessions::{AdoptError, OpenSession, SessionAccess, TakeError, TakenRelay, TakenSession};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Globs that can be pinned; one more is refused.
const PINS_MAX: usize = 256;
/// Orders to load something that are kept for loops which have not taken them up; older ones are dropped for newer.
const WARMS_MAX: usize = 64;

/// Gives orders to a running server; see [`crate::Server::control`].
#[derive(Debug, Clone)]
pub struct Control(pub(crate) Arc<Controls>, pub(crate) Arc<dyn UpstreamAccess>, pub(crate) Arc<dyn SessionAccess>);

/// The orders that hold.
#[derive(Debug, Default)]
pub(crate) struct Controls {
    generation: AtomicU64,
    orders: Mutex<Orders>,
    wakers: Mutex<Vec<Arc<Waker>>>,
    is_over: AtomicBool,
}

/// What is ordered.
#[derive(Debug, Default, Clone)]
pub(crate) struct Orders {
    pins: Vec<(String, Pattern)>,
    /// With the generation from which on it is ordered, the oldest first.
    warms: VecDeque<(u64, String)>,
    /// Reserve loops that are to serve.
    pub(crate) loops_more: u32,
    /// Whether clients of HTTP/3 are told to go.
    pub(crate) leaves_http3: bool,
}

impl Control {
    /// Keeps what is in the cache, or comes into it, of the paths that a glob matches (`*` within a segment, `**`
    /// anything, `?` one character), and never evicts it. Paths are those from the root of a site. Returns whether the
    /// glob can be used: it is refused if it is too large, or if 256 others are in use.
    pub fn pin(&self, glob: &str) -> bool {
        let Some(pattern) = Pattern::glob(glob) else { return false };
        let mut orders = self.0.orders();
        let is_known = orders.pins.iter().any(|(known, _)| known == glob);
        if !is_known && orders.pins.len() == PINS_MAX {
            return false;
        }
        if !is_known {
            orders.pins.push((glob.to_owned(), pattern));
        }
        self.0.say(orders);
        true
    }

    /// Takes a glob back; what it kept is as all else from then on.
    pub fn unpin(&self, glob: &str) {
        let mut orders = self.0.orders();
        orders.pins.retain(|(known, _)| known != glob);
        self.0.say(orders);
    }

    /// Has every loop load the files that a glob matches, some at a time between its requests, as far as its cache has
    /// room. Whether the glob can be used.
    pub fn warm(&self, glob: &str) -> bool {
        if Pattern::glob(glob).is_none() {
            return false;
        }
        let mut orders = self.0.orders();
        if orders.warms.len() == WARMS_MAX {
            orders.warms.pop_front();
        }
        let generation = self.0.generation.load(Ordering::Acquire) + 1;
        orders.warms.push_back((generation, glob.to_owned()));
        self.0.say(orders);
        true
    }

    /// Has so many of the reserve loops serve (`Options::reserve_loops`, more are as all of them), and the others give
    /// back their part: they take what waits for them, finish what is under way, and rest.
    pub fn spread(&self, loops_more: u32) {
        let mut orders = self.0.orders();
        orders.loops_more = loops_more;
        self.0.say(orders);
    }

    /// Has clients of HTTP/3 told by GOAWAY to make new connections, which end with the responses that are under way; or
    /// not any more, but those that were told end all the same. Other connections go on.
    pub fn leave_http3(&self, leaves: bool) {
        let mut orders = self.0.orders();
        orders.leaves_http3 = leaves;
        self.0.say(orders);
    }

    /// Has an upstream whose PHP this server runs use so many workers, at most its `workers_max`; with `None` as many as
    /// the configuration says. It is by its name; another upstream, or none, is left alone. After a reload it is to be
    /// said again.
    pub fn workers(&self, upstream: &str, workers: Option<u32>) {
        self.1.order_workers(upstream, workers);
    }

    /// The connections over TCP that are open now, those of all loops; it waits until the loops answer, so it is not for a
    /// loop's thread. What a loop does not say within five seconds is missing.
    pub fn sessions(&self) -> Vec<OpenSession> {
        self.2.list()
    }

    /// Connections of HTTP/3 that have requests under way now, those of all loops. These connections do not move: clients
    /// that were told to go elsewhere ([`Self::leave_http3`]) have their requests answered here still. It waits as
    /// [`Self::sessions`] does.
    pub fn http3_under_way(&self) -> u64 {
        self.2.http3_under_way()
    }

    /// Which files were asked for since an earlier call told them, the most asked first: at most 400. Of large caches a
    /// call tells a part, and the next one another. Files are counted that a cache holds, and no responses of upstreams
    /// and applications. It waits until the loops answer, so it is not for a loop's thread.
    pub fn asked(&self) -> Vec<AskedPath> {
        self.2.asked()
    }

    /// What the connection between these two addresses has under way, while it goes on: a session without its keys and its
    /// input. Given to [`Control::session_bytes`] of another server, with a length of 0, it has that one look for the files
    /// and make their digests before the connection is stopped.
    ///
    /// # Errors
    ///
    /// As for [`Control::take_session`].
    pub fn session_preview(&self, peer: SocketAddr, local: SocketAddr) -> Result<Vec<u8>, TakeError> {
        self.2.preview(peer, local)
    }

    /// Stops the connection between these two addresses, which are those of its socket, and takes it out of the server:
    /// nothing is read from it or written to it any more. It waits until the loop that has the connection answers, and
    /// reads files for their digests before that, so it is not for a loop's thread.
    ///
    /// # Errors
    ///
    /// Everything in [`TakeError`]; the connection goes on here then.
    pub fn take_session(&self, peer: SocketAddr, local: SocketAddr) -> Result<TakenSession, TakeError> {
        self.2.take(peer, local)
    }

    /// Copies connections whose response takes more than 20 ms, each once, while they go on: what another node needs to go
    /// on with them should this one die. It is to be called by one thread that is not a loop's, which keeps what it gets
    /// until it hears that the response is over: each 10 ms or so, or when it is told by [`Self::tell_of_copies_by`].
    pub fn copy_sessions(&self, keys: TlsKeys) -> SessionCopies {
        self.2.copy(keys, CopyRound::Changed)
    }

    /// As [`Control::copy_sessions`], with connections that were copied before as well: for a caller that has lost what it
    /// had.
    pub fn copy_all_sessions(&self, keys: TlsKeys) -> SessionCopies {
        self.2.copy(keys, CopyRound::All)
    }

    /// Has the loops write to an eventfd(2), in place of the one before, whenever [`Self::copy_sessions`] has something to
    /// say, each at most once in 10 ms. It must not block. Only loops of a server with `Options::moves_sessions` do so.
    pub fn tell_of_copies_by(&self, eventfd: OwnedFd) {
        self.2.tell_of_copies_by(eventfd);
    }

    /// Goes on with a connection that was taken from this server and has not moved. It does so also where all places
    /// are taken and while the server stops; only a server that has ended closes the connection.
    pub fn give_session_back(&self, taken: TakenSession) {
        self.2.give_back(taken);
    }

    /// `len` bytes of what a session's server gave to the kernel last, from the byte `from` on, where byte 0 is the
    /// first of the session's `known_bytes`: made of this server's own files. Whether all files of the session are here
    /// with the same content is found out first, also with a `len` of 0. It reads files, so it is not for a loop's
    /// thread.
    ///
    /// # Errors
    ///
    /// Those of [`AdoptError`] that concern the session and its files; never are other bytes the answer.
    pub fn session_bytes(&self, session: &[u8], from: u64, len: u64) -> Result<Vec<u8>, AdoptError> {
        self.2.bytes(session, from, len)
    }

    /// Goes on with a connection that another server has given away; `peer` is the client's end of the socket, and by
    /// `relays` comes what that server goes on making of it ([`TakenSession::relays`]): stream sockets of the Unix domain. The
    /// server waits with its first call while the socket is in repair mode (TCP_REPAIR, tcp(7)).
    ///
    /// # Errors
    ///
    /// Everything in [`AdoptError`]. The socket is closed then, and nothing was written to it.
    pub fn adopt_session(
        &self,
        session: &[u8],
        fd: OwnedFd,
        relays: Vec<TakenRelay>,
        peer: SocketAddr,
    ) -> Result<(), AdoptError> {
        self.2.adopt(session, fd, relays, peer)
    }
}

impl Controls {
    /// The server ends and cuts off what is under way: requests that wait for a place get no turn any more.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    fn orders(&self) -> MutexGuard<'_, Orders> {
        // A thread that panicked with the lock held left whole orders.
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the loops, once the orders are not held any more.
    fn say(&self, orders: MutexGuard<'_, Orders>) {
        self.generation.fetch_add(1, Ordering::Release);
        drop(orders);
        self.wakers().iter().for_each(|waker| waker.wake());
    }

    fn wakers(&self) -> MutexGuard<'_, Vec<Arc<Waker>>> {
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the wakers of the loops, in the order of the loops, and wakes all of them for orders that were given
    /// before.
    pub(crate) fn know(&self, wakers: Vec<Arc<Waker>>) {
        *self.wakers() = wakers;
        self.wakers().iter().for_each(|waker| waker.wake());
    }

    /// Has a loop look again, after what it is about now.
    pub(crate) fn wake(&self, index: usize) {
        self.wakers().get(index).into_iter().for_each(|waker| waker.wake());
    }

    /// The orders, if they are newer than the generation, which moves on to them.
    pub(crate) fn newer(&self, generation: &mut u64) -> Option<Orders> {
        if self.generation.load(Ordering::Acquire) == *generation {
            return None;
        }
        let orders = self.orders();
        // No thread can give others while we hold the lock.
        let before = std::mem::replace(generation, self.generation.load(Ordering::Acquire));
        let mut orders = orders.clone();
        orders.warms.retain(|(since, _)| *since > before);
        Some(orders)
    }
}

impl Orders {
    /// What is kept.
    pub(crate) fn pins(&self) -> impl Iterator<Item = &Pattern> {
        self.pins.iter().map(|(_, pattern)| pattern)
    }

    /// What is to be loaded since the generation before.
    pub(crate) fn warms(&self) -> impl Iterator<Item = &str> {
        self.warms.iter().map(|(_, glob)| glob.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::upstream_counts::UpstreamReading;

    #[derive(Debug)]
    struct NoUpstreams;

    impl UpstreamAccess for NoUpstreams {
        fn readings(&self) -> Vec<UpstreamReading> {
            Vec::new()
        }

        fn order_workers(&self, _: &str, _: Option<u32>) {}
    }

    impl SessionAccess for NoUpstreams {
        fn list(&self) -> Vec<OpenSession> {
            Vec::new()
        }

        fn http3_under_way(&self) -> u64 {
            0
        }

        fn asked(&self) -> Vec<AskedPath> {
            Vec::new()
        }

        fn preview(&self, _: SocketAddr, _: SocketAddr) -> Result<Vec<u8>, TakeError> {
            Err(TakeError::NoAnswer)
        }

        fn take(&self, _: SocketAddr, _: SocketAddr) -> Result<TakenSession, TakeError> {
            Err(TakeError::NoAnswer)
        }

        fn copy(&self, _: TlsKeys, _: CopyRound) -> SessionCopies {
            SessionCopies::default()
        }

        fn tell_of_copies_by(&self, _: OwnedFd) {}

        fn give_back(&self, _: TakenSession) {}

        fn bytes(&self, _: &[u8], _: u64, _: u64) -> Result<Vec<u8>, AdoptError> {
            Err(AdoptError::NoAnswer)
        }

        fn adopt(&self, _: &[u8], _: OwnedFd, _: Vec<TakenRelay>, _: SocketAddr) -> Result<(), AdoptError> {
            Err(AdoptError::NoAnswer)
        }
    }

    #[test]
    fn orders_hold_until_others_do_and_words_are_heard_once() {
        let control = Control(Arc::default(), Arc::new(NoUpstreams), Arc::new(NoUpstreams));
        let mut generation = 0;
        assert!(control.0.newer(&mut generation).is_none());
        assert!(control.pin("/a/*") && control.pin("/a/*") && control.warm("/b"));
        control.spread(2);
        let orders = control.0.newer(&mut generation).expect("orders");
        assert_eq!((orders.pins().count(), orders.warms().count(), orders.loops_more), (1, 1, 2));
        assert!(control.0.newer(&mut generation).is_none());
        control.unpin("/a/*");
        let orders = control.0.newer(&mut generation).expect("orders");
        assert_eq!((orders.pins().count(), orders.warms().count(), orders.loops_more), (0, 0, 2));
        assert!((0..1000).all(|number| control.warm(&format!("/{number}"))));
        assert_eq!(control.0.newer(&mut generation).expect("orders").warms().count(), WARMS_MAX);
        assert_eq!((0..1000).filter(|number| control.pin(&format!("/{number}"))).count(), PINS_MAX);
    }
}
