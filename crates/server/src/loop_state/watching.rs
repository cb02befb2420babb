//! A loop's part in watching requests: it learns of watchers by an order, and answers requests that may be watched by a
//! way of their own.

use super::refusal::refuse_full;
use crate::counters::LoopCounters;
use crate::exchange::life::Exchange;
use crate::files::head::Persistence;
use crate::files::resource::{Content, Resource};
use crate::http::request::Request;
use crate::io::clock::Clock;
use crate::policy::client_peer::ClientPeer;
use crate::policy::throttle::{Aside, Place};
use crate::routing::{Router, host_name};
use crate::telemetry::watching::{
    Beginning, CacheSeen, FileSeen, Hub, Network, RulesSeen, Watch, path_shown, text_shown,
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
        Some(self.watch.is_some())
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
    (watching, router): (&mut Watching, &mut Router),
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
    let before = cache_of(counts);
    match full {
        Some(seconds) => refuse_full(seconds, request, persistence, clock, exchange),
        None => router.respond(request, peer, persistence, clock, counts, exchange),
    }
    underway.answered(between(before, cache_of(counts)), exchange.resource().map(file));
    // Behind the answer: the functions that tell the routes look files up, and would find them for it.
    let since = Instant::now();
    let names = router.watch_routes(request, (asked.socket.ip(), peer.is_secure), clock, &mut underway);
    underway.ruled(rules(names, waited_ms, exchange));
    underway.resume_since(since);
    exchange.watch(underway);
}

/// What rules did.
fn rules(mut names: Vec<String>, waited_ms: u64, exchange: &Exchange) -> RulesSeen {
    let (advised, by_lease) = (&exchange.record.advised, exchange.record.again.is_some());
    let asked = advised.is_some() || by_lease;
    if asked {
        names.push("policy".to_owned());
    }
    let (chosen, stale) = (exchange.record.is_chosen(), advised.as_ref().is_some_and(|advised| advised.is_stale));
    RulesSeen { names, asked, by_lease, chosen, stale, waited_ms }
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
        let protocol = match self.request.minor {
            0 => "HTTP/1.0",
            1 => "HTTP/1.1",
            2 => "HTTP/2",
            _ => "HTTP/3",
        };
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
