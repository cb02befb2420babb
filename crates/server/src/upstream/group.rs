//! An upstream as one loop has it: its servers, and the connections that are kept for the next requests.

use crate::counters::upstream_counts::UpstreamCounts;
use crate::exchange::wakes::Address;
use crate::http::client_address::ClientField;
use crate::io::epoll;
use crate::upstream::address::{Reading, Resolved};
use crate::upstream::balance::Balancer;
use crate::upstream::common::Common;
use crate::upstream::http1::request::Believed;
use crate::upstream::links::{Link, Links, Turns};
use crate::upstream::probe::{PROBES_MAX, Probe};
use crate::upstream::scripts::Scripts;
use crate::upstream::secure::{Offer, Session};
use crate::upstream::settings::{Place, Speaks, UpstreamServer};
use crate::upstream::shared::Shared;
use crate::upstream::trust;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// An upstream as one loop has it.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(super) common: Arc<Common>,
    pub(super) links: Rc<Links>,
    pub(super) scripts: Scripts,
    pub(super) balancer: RefCell<Balancer>,
    pub(super) probes: RefCell<[Option<Probe>; PROBES_MAX]>,
    /// Its place among the upstreams of the loop.
    pub(super) number: Cell<usize>,
    /// Which fields of trusted proxies tell of their clients.
    pub(super) believed: Cell<Believed>,
    /// Connections without a request, by server; the one that has been idle longest is in front.
    idle: RefCell<Vec<VecDeque<Idle>>>,
    /// Connections of HTTP/2, which requests share.
    shared: RefCell<Vec<Rc<Shared>>>,
    /// Servers that chose HTTP/1.1 when they could choose, so that each request makes a connection of its own.
    chose_http1: RefCell<Vec<bool>>,
    /// Addresses of servers that have a name, with what was read of them last.
    names: Vec<Option<(Arc<Resolved>, RefCell<Reading>)>>,
}

/// What a connection is made for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Opening<'h> {
    /// The request that waits for it.
    pub(super) user: Address,
    pub(super) offer: Offer,
    /// What goes before all else: a header of the PROXY protocol.
    pub(super) header: &'h [u8],
}

/// A connection without a request.
#[derive(Debug)]
struct Idle {
    link: Link,
    until_ms: u64,
}

impl Upstream {
    pub(crate) fn new(common: Arc<Common>, links: Rc<Links>) -> Rc<Self> {
        let servers = &common.rules.servers;
        let idle = servers.iter().map(|_| VecDeque::new()).collect();
        let name = |server: &UpstreamServer| {
            let (Place::Name(name, port), Some(resolver)) = (&server.place, &links.context.resolver) else {
                return None;
            };
            Some((resolver.name(name, *port, common.rules.resolve_every)?, RefCell::default()))
        };
        let names = servers.iter().map(name).collect();
        let chose_http1 = RefCell::new(vec![false; servers.len()]);
        links.wake_of_kept().into_iter().for_each(|wake| common.gate.note_keeper(wake));
        let balancer = Balancer::new(common.rules.balance.clone(), servers, &secret());
        Rc::new(Self {
            common,
            links,
            scripts: Scripts::default(),
            balancer: RefCell::new(balancer),
            probes: RefCell::default(),
            number: Cell::new(0),
            believed: Cell::default(),
            idle: RefCell::new(idle),
            shared: RefCell::default(),
            chose_http1,
            names,
        })
    }

    /// Whether it is what these rules say, so that a reload leaves it as it is.
    pub(crate) fn is_of(&self, common: &Common) -> bool {
        self.common.rules == common.rules
    }

    /// Closes idle connections whose peers have closed them, or sent what nothing has asked for.
    pub(crate) fn drop_stale(&self) {
        for idle in self.idle.borrow_mut().iter_mut() {
            let before = idle.len();
            idle.retain(|idle| idle.link.is_quiet());
            self.count_closed(before - idle.len());
        }
    }

    /// Whether its servers are asked for their health.
    pub(crate) fn has_probes(&self) -> bool {
        self.common.rules.health.probe.is_some()
    }

    /// Says which of the loop's upstreams it is, and which field of trusted proxies is believed.
    pub(crate) fn set_place(&self, number: usize, believed: ClientField) {
        self.number.set(number);
        self.believed.set(match believed {
            ClientField::XForwardedFor => Believed::XForwarded,
            ClientField::Forwarded => Believed::Forwarded,
        });
    }

    /// Begins probes that are due, and closes connections that were idle for too long, and all of them where other loops lack some.
    pub(crate) fn sweep(&self, now_ms: u64) {
        self.begin_probes(now_ms);
        let is_short = self.is_short();
        for idle in self.idle.borrow_mut().iter_mut() {
            let before = idle.len();
            idle.retain(|idle| !is_short && idle.until_ms > now_ms);
            self.count_closed(before - idle.len());
            // The one in front has been idle for longest.
            idle.front().iter().for_each(|first| self.links.look_at(first.until_ms));
        }
        let shared = self.shared.borrow().clone();
        shared.iter().for_each(|shared| shared.sweep(now_ms, is_short));
        self.shared.borrow_mut().retain(|shared| !shared.is_over());
    }

    /// A connection of HTTP/2 that has a place for a request, or one that is made now.
    ///
    /// # Errors
    ///
    /// As those of [`Self::connect`].
    pub(super) fn shared(&self, server: usize) -> io::Result<Rc<Shared>> {
        // Where a server chose HTTP/1.1, each request makes its own.
        if !self.chose_http1.borrow()[server] {
            let shared = self.shared.borrow();
            let found = shared.iter().find(|shared| shared.server == server && shared.has_place());
            if let Some(found) = found {
                return Ok(Rc::clone(found));
            }
        }
        let user = self.links.shared_address();
        let offer = if self.common.rules.speaks == Speaks::Http2 { Offer::Http2 } else { Offer::Both };
        let (link, is_ready) = self.connect(server, Opening { user, offer, header: b"" })?;
        link.set_deadline(self.links.now_ms().saturating_add(self.connect_ms()));
        let shared = Shared::new((server, user), link, &self.links, &self.common);
        if is_ready {
            shared.turn();
        }
        let mut all = self.shared.borrow_mut();
        all.retain(|shared| !shared.is_over());
        all.push(Rc::clone(&shared));
        Ok(shared)
    }

    fn connect_ms(&self) -> u64 {
        u64::try_from(self.common.rules.timeouts.connect.as_millis()).unwrap_or(u64::MAX)
    }

    /// Takes note of what a server has chosen.
    pub(super) fn note_choice(&self, server: usize, chose_http1: bool) {
        self.chose_http1.borrow_mut()[server] = chose_http1;
    }

    /// Whether there are more connections than requests may be under way, so that those that are kept may keep workers
    /// from others.
    fn is_short(&self) -> bool {
        self.common.counts().open.load(Ordering::SeqCst) > self.common.places_max()
    }

    fn count_closed(&self, count: usize) {
        self.common.counts().open.fetch_sub(count as u32, Ordering::Relaxed);
    }

    /// A connection that is kept with a server, for a request.
    pub(super) fn take_kept(&self, server: usize, user: Address) -> Option<Link> {
        let mut idle = self.idle.borrow_mut();
        let kept = idle.get_mut(server)?;
        // Of servers of HTTP all connections have their turn. One of a gateway is a process: that which has worked last has
        // most in the CPU's caches, and further ones may end.
        let take = if self.common.rules.gateway.is_some() { VecDeque::pop_back } else { VecDeque::pop_front };
        while let Some(Idle { link, .. }) = take(kept) {
            if link.is_quiet() {
                link.set_user(Some(user));
                return Some(link);
            }
            self.count_closed(1);
        }
        None
    }

    /// Keeps a connection whose response was whole, or closes it.
    pub(super) fn keep(&self, server: usize, link: Link) {
        let pool = &self.common.rules.pool;
        let mut idle = self.idle.borrow_mut();
        let has_room = |kept: &VecDeque<Idle>| kept.len() < pool.idle_max;
        // Where another loop opens one after this look, it calls this one, which looks again.
        let is_enough = !self.is_short();
        match idle.get_mut(server).filter(|kept| is_enough && has_room(kept)) {
            Some(kept) => {
                link.set_user(None);
                self.links.join(&link);
                let idle_ms = u64::try_from(self.common.rules.timeouts.idle.as_millis()).unwrap_or(u64::MAX);
                let until_ms = self.links.now_ms().saturating_add(idle_ms);
                self.links.look_at(until_ms);
                kept.push_back(Idle { link, until_ms });
            }
            None => self.close(link),
        }
    }

    /// Closes a connection.
    pub(super) fn close(&self, link: Link) {
        drop(link);
        self.count_closed(1);
    }

    /// An address of a server that has a name; each time another one of them.
    fn address(&self, server: usize) -> io::Result<SocketAddr> {
        let unknown = || io::Error::new(io::ErrorKind::NotFound, "its name has no address");
        let (resolved, reading) = self.names.get(server).and_then(Option::as_ref).ok_or_else(unknown)?;
        let mut reading = reading.borrow_mut();
        let addresses = resolved.addresses(&mut reading);
        let next = self.common.counts().open.load(Ordering::Relaxed) as usize;
        addresses.get(next % addresses.len().max(1)).copied().ok_or_else(unknown)
    }

    /// Begins to connect with a server; the connection, and whether it is ready.
    ///
    /// # Errors
    ///
    /// What the system answers; `NotFound` if the server's name has no address.
    pub(super) fn connect(&self, server: usize, opening: Opening<'_>) -> io::Result<(Link, bool)> {
        let place = &self.common.rules.servers[server].place;
        let (address, protocol) = match place {
            Place::Address(address) => (SockAddr::from(*address), Some(Protocol::TCP)),
            Place::Unix(path) => (SockAddr::unix(path)?, None),
            Place::Name(..) => (SockAddr::from(self.address(server)?), Some(Protocol::TCP)),
        };
        let kind = Type::STREAM.nonblocking().cloexec();
        let socket = Socket::new(Domain::from(i32::from(address.family())), kind, protocol)?;
        if protocol.is_some() {
            // A request goes out as soon as it is written (tcp(7)).
            socket.set_tcp_nodelay(true)?;
        }
        let socket = socket.into();
        let is_connected = epoll::connect(&socket, &address)?;
        let mut link = self.links.enter(socket, opening.user, is_connected)?;
        let session = self.session(server, opening.offer)?;
        let is_ready = is_connected && session.is_none() && opening.header.is_empty();
        link.begin_with(opening.header.to_vec(), session);
        if protocol.is_some() && self.common.rules.gateway.is_some() {
            link.acknowledge_at_once();
        }
        self.common.counts().open.fetch_add(1, Ordering::SeqCst);
        if self.common.rules.speaks == Speaks::FastCgi && self.is_short() {
            self.common.gate.call_keepers();
        }
        UpstreamCounts::add(&self.common.counts().connects);
        Ok((link, is_ready))
    }

    /// What speaks TLS with a server, if that is spoken.
    fn session(&self, server: usize, offer: Offer) -> io::Result<Option<Session>> {
        let server = &self.common.rules.servers[server];
        let (Some(name), Some(trust)) = (&server.tls_name, &self.common.trust) else { return Ok(None) };
        let offer = if self.common.rules.speaks == Speaks::FastCgi { Offer::Nothing } else { offer };
        let name = trust::server_name(name).ok_or(io::ErrorKind::InvalidInput)?;
        let session = Session::new(trust, name, server.place.to_string(), offer);
        session.map(Some).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
    }
}

/// What the cookies that keep clients with servers are made with: the same after a restart, and not known elsewhere
/// (machine-id(5)). A machine without such a number keeps no client over a restart.
fn secret() -> [u8; 32] {
    let own = std::fs::read("/etc/machine-id").unwrap_or_else(|_| std::process::id().to_ne_bytes().to_vec());
    let digest = ring::digest::digest(&ring::digest::SHA256, &[b"weir upstreams ", &*own].concat());
    let mut secret = [0; 32];
    secret.copy_from_slice(digest.as_ref());
    secret
}

impl Drop for Upstream {
    fn drop(&mut self) {
        let kept = self.idle.borrow().iter().map(VecDeque::len).sum();
        self.count_closed(kept);
    }
}
