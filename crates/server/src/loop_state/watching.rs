//! A loop's part in watching requests: it learns of watchers by an order, and answers requests that may be watched by a
//! way of their own.

use super::refusal::refuse_full;
use crate::counters::LoopCounters;
use crate::exchange::life::Exchange;
use crate::files::head::Persistence;
use crate::files::resource::{Content, Resource};
use crate::files::variants::{self, FULL};
use crate::http::request::Request;
use crate::io::clock::Clock;
use crate::policy::client_peer::ClientPeer;
use crate::policy::throttle::{Aside, Place};
use crate::routing::{Router, host_name};
use crate::telemetry::arm_requests::{self, ArmRequests};
use crate::telemetry::recent::asked_of;
use crate::telemetry::watching::{
    Beginning, BegunBefore, CacheSeen, DecidedSeen, FileSeen, Hub, Network, RulesSeen, Watch, path_shown, text_shown,
};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// A loop's part.
#[derive(Debug, Default)]
pub(crate) struct Watching {
    hub: Option<Arc<Hub>>,
    generation: u64,
    watch: Option<Box<Watch>>,
    /// Watchers came of whom requests under way were not told yet.
    has_newcomers: bool,
}

/// Over which stream something came.
#[derive(Debug)]
pub(crate) struct StreamOf<'a> {
    pub(crate) peer: &'a ClientPeer<'a>,
    pub(crate) socket: SocketAddr,
    pub(crate) stream: u64,
    /// The version of HTTP: 2 or 3.
    pub(crate) version: u8,
}

/// A request that is to be answered aside, and over which connection it came.
#[derive(Debug)]
pub(crate) struct AskedAside<'a, 'r> {
    pub(crate) request: &'a Request<'r>,
    pub(crate) peer: &'a ClientPeer<'a>,
    /// The other end of the socket, which may be a proxy.
    pub(crate) socket: SocketAddr,
    /// None over HTTP/1.
    pub(crate) stream: Option<u64>,
    pub(crate) persistence: Persistence,
}

impl Watching {
    pub(crate) fn new(hub: Arc<Hub>) -> Self {
        Self { hub: Some(hub), ..Self::default() }
    }

    /// Takes up what is watched now; none if that is as before, else whether anything is.
    #[cold]
    pub(super) fn take_up(&mut self, index: usize) -> Option<bool> {
        let watch = self.hub.as_ref()?.newer(&mut self.generation, index)?;
        self.watch = watch;
        self.has_newcomers = self.watch.is_some();
        Some(self.has_newcomers)
    }

    /// Whether requests under way are to be watched from now on; asked once.
    pub(crate) fn take_newcomers(&mut self) -> bool {
        std::mem::take(&mut self.has_newcomers)
    }

    /// Begins to watch a request that began before.
    #[cold]
    pub(crate) fn adopt(&mut self, network: Network, exchange: &mut Exchange) {
        let is_under_way = exchange.status != 0 || exchange.is_awaited();
        let Some(watch) = self.watch.as_mut().filter(|_| is_under_way && exchange.record.watched.is_none()) else {
            return;
        };
        let asked = asked_of(&exchange.record.log.noted);
        if let Some(mut underway) = watch.adopt(BegunBefore { network, asked }) {
            underway.sends(exchange.resource().map(file));
            exchange.watch_rest(underway);
        }
    }

    /// Begins to watch what is no request that could be read.
    #[cold]
    pub(crate) fn see_unfit(&mut self, network: &Network, exchange: &mut Exchange) {
        let Some(watch) = &mut self.watch else { return };
        let of = (&b""[..], network.client, network.session);
        let at = Instant::now();
        let underway =
            watch.begin(None, of, |loop_index| Beginning { network: Network { loop_index, ..network.clone() }, at });
        if let Some(mut underway) = underway {
            underway.answered(CacheSeen::default(), None);
            exchange.watch(underway);
        }
    }
}

/// Answers a request that does not take the usual way: it is watched, or refused.
#[cold]
#[inline(never)]
pub(crate) fn respond_aside(
    aside: Aside,
    asked: &AskedAside<'_, '_>,
    (watching, router, arm): (&mut Watching, &mut Router, &mut Option<ArmRequests>),
    (clock, counts): (&Clock, &LoopCounters),
    exchange: &mut Exchange,
) {
    let (place, full) = match aside {
        Aside::Full { seconds } => return refuse_full(seconds, asked.request, asked.persistence, clock, exchange),
        Aside::Watched(place) => (place, None),
        Aside::WatchedFull { seconds } => (None, Some(seconds)),
    };
    let waited_ms = place.as_ref().map_or(0, Place::waited_ms);
    exchange.record.place = place;
    let AskedAside { request, peer, persistence, .. } = *asked;
    let of = (host_name(request), peer.client, peer.connection);
    let at = Instant::now();
    let beginning = |loop_index| Beginning { network: asked.network(loop_index), at };
    let underway = watching.watch.as_mut().and_then(|watch| watch.begin(Some(request), of, beginning));
    let Some(mut underway) = underway else {
        return match full {
            Some(seconds) => refuse_full(seconds, request, persistence, clock, exchange),
            None => router.respond(request, peer, persistence, clock, counts, exchange),
        };
    };
    let (before, decisions_before) = (cache_of(counts), router.decisions());
    match full {
        Some(seconds) => refuse_full(seconds, request, persistence, clock, exchange),
        None => router.respond(request, peer, persistence, clock, counts, exchange),
    }
    underway.answered(between(before, cache_of(counts)), exchange.resource().map(file));
    let since = Instant::now();
    // At once: a tick takes decisions away.
    let mut rules = rules((waited_ms, decisions_before), exchange);
    // Behind the answer: the functions that tell the routes look files up, and would find them for it.
    let names = router.watch_routes(request, (asked.socket.ip(), peer.is_secure), clock, &mut underway);
    rules.names.splice(0..0, names);
    underway.ruled(rules);
    if let Some(arm) = arm {
        underway.transaction(arm.name_shown(request, exchange.status), arm_requests::parent_of(request));
    }
    underway.resume_since(since);
    exchange.watch(underway);
}

/// What rules did.
fn rules((waited_ms, decisions): (u64, Option<u64>), exchange: &Exchange) -> RulesSeen {
    let (advised, by_lease) = (&exchange.record.advised, exchange.record.again.is_some());
    let asked = advised.is_some() || by_lease;
    let known = advised.as_ref().map_or(Some(Vec::new()), |advised| advised.decided_by(decisions));
    let undetermined = known.is_none();
    let decided: Vec<DecidedSeen> = known.iter().flatten().map(DecidedSeen::of).collect();
    let policy = asked.then(|| "policy".to_owned());
    let names = policy.into_iter().chain(decided.iter().map(|decided| decided.rule.clone())).collect();
    let (chosen, stale) = (exchange.record.is_chosen(), advised.as_ref().is_some_and(|advised| advised.is_stale));
    let variant = exchange.resource().filter(|_| chosen).map(|resource| variant(resource));
    RulesSeen { names, decided, undetermined, variant, asked, by_lease, chosen, stale, waited_ms, swapped: Vec::new() }
}

/// The name of the variant that content is of, which was chosen for a client.
fn variant(resource: &Resource) -> String {
    let name = variants::of_tag(resource.etag.trim_matches('"').as_bytes());
    text_shown(name.unwrap_or(FULL).as_bytes())
}

fn between(before: CacheSeen, after: CacheSeen) -> CacheSeen {
    CacheSeen {
        hits: after.hits - before.hits,
        misses: after.misses - before.misses,
        fills: after.fills - before.fills,
        stale: after.stale - before.stale,
        evictions: after.evictions - before.evictions,
    }
}

fn cache_of(counts: &LoopCounters) -> CacheSeen {
    CacheSeen {
        hits: counts.cache_hits.read(),
        misses: counts.cache_misses.read(),
        fills: counts.cache_fills.read(),
        stale: counts.cache_stale.read(),
        evictions: counts.cache_evictions.read(),
    }
}

fn file(resource: &Rc<Resource>) -> FileSeen {
    FileSeen {
        path: path_shown(&resource.path),
        bytes: resource.size(),
        content_type: text_shown(resource.content_type.as_bytes()),
        in_memory: matches!(resource.content, Content::Memory(_)),
    }
}

/// A version as a request has it in `minor`.
fn protocol(minor: u8) -> &'static str {
    match minor {
        0 => "HTTP/1.0",
        1 => "HTTP/1.1",
        2 => "HTTP/2",
        _ => "HTTP/3",
    }
}

impl StreamOf<'_> {
    pub(crate) fn network(&self) -> Network {
        Network {
            client: self.socket.ip(),
            port: Some(self.socket.port()),
            session: self.peer.connection,
            stream: Some(self.stream),
            protocol: protocol(self.version),
            tls: self.peer.is_secure,
            ..Network::default()
        }
    }
}

impl<'a, 'r> AskedAside<'a, 'r> {
    /// Over a connection that has one request at a time.
    pub(crate) fn alone(
        request: &'a Request<'r>,
        peer: &'a ClientPeer<'a>,
        (socket, persistence): (SocketAddr, Persistence),
    ) -> Self {
        Self { request, peer, socket, stream: None, persistence }
    }

    fn network(&self, loop_index: usize) -> Network {
        let protocol = protocol(self.request.minor);
        let port = self.peer.address(self.socket).port();
        Network {
            client: self.peer.client,
            port: Some(port).filter(|port| *port != 0),
            session: self.peer.connection,
            stream: self.stream,
            protocol,
            tls: self.peer.is_secure,
            loop_index,
        }
    }
}
