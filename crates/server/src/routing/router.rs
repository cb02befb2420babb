//! What a loop serves: one directory, or the hosts of a configuration.

use super::rules::Rules;
use crate::certificates::presented::PresentedByClients;
use crate::counters::LoopCounters;
use crate::exchange::life::Exchange;
use crate::files::cache::Uses;
use crate::files::head::Persistence;
use crate::files::root::Root;
use crate::files::watcher::Watcher;
use crate::http::pattern::Pattern;
use crate::http::request::Request;
use crate::io::clock::Clock;
use crate::policy::client_peer::ClientPeer;
use crate::policy::control::Orders;
use crate::policy::throttle::User;
use crate::routing::hosts::Hosts;
use crate::site::Site;
use crate::site::assembly;
use crate::site::settings::{SiteBounds, SiteWord};
use crate::upstream::PROBES_MAX;
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

/// Entries of each cache that are looked at for a question, however many caches there are.
const USES_MIN: usize = 16;

/// What a loop serves.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one for each loop, and a box would be a way more to go")]
pub(crate) enum Router {
    /// One directory.
    Plain(Site),
    /// The hosts of a configuration.
    Hosts(Box<Hosts>),
}

impl Router {
    /// Makes the response to any request.
    #[inline(always)]
    pub(crate) fn respond(
        &mut self,
        request: &Request<'_>,
        peer: &ClientPeer<'_>,
        persistence: Persistence,
        clock: &Clock,
        counters: &LoopCounters,
        out: &mut Exchange,
    ) {
        match self {
            Self::Plain(site) => {
                if let Some(page) = site.respond(request, peer, persistence, clock, counters, out) {
                    assembly::respond_from_one_site(site, page, request, persistence, clock, counters, out);
                }
            }
            Self::Hosts(hosts) => hosts.respond(request, peer, persistence, clock, counters, out),
        }
    }

    /// Whether connections of others may come from this address: any, unless the configuration names the proxies.
    pub(crate) fn may_pass_on(&self, peer: IpAddr) -> bool {
        match self {
            Self::Hosts(hosts) if hosts.trusts_proxies() => hosts.rules.trusted.holds(peer),
            _ => true,
        }
    }

    /// What connections have shown in their handshakes, where hosts ask clients for certificates.
    #[inline]
    pub(crate) fn presented(&self) -> Option<&PresentedByClients> {
        match self {
            Self::Hosts(hosts) if hosts.asks_certificates => Some(&hosts.presented),
            _ => None,
        }
    }

    /// Takes a trusted proxy's word for who the client of a request is; whether there is one to be believed.
    #[inline]
    pub(crate) fn see(&self, request: &Request<'_>, peer: &mut ClientPeer<'_>) -> bool {
        match self {
            Self::Hosts(hosts) if hosts.trusts_proxies() => hosts.see(request, peer),
            _ => false,
        }
    }

    /// Whether the request must wait for the thread that checks its password. The caller parses it again after
    /// [`take_mail`](Self::take_mail) has returned that there are results.
    #[inline]
    pub(crate) fn must_wait(
        &mut self,
        request: &Request<'_>,
        socket: IpAddr,
        is_secure: impl FnOnce() -> bool,
        clock: &Clock,
    ) -> bool {
        match self {
            Self::Hosts(hosts) if request.authorization.is_some() => {
                hosts.must_wait(request, (socket, is_secure()), clock)
            }
            _ => false,
        }
    }

    /// For whom a request is: a user whose password is known to be right, else the client's address.
    #[cold]
    pub(crate) fn user(&mut self, request: &Request<'_>, peer: &ClientPeer<'_>, clock: &Clock) -> User {
        let named = match self {
            Self::Hosts(hosts) if request.authorization.is_some() => hosts.known_user(request, clock),
            _ => None,
        };
        named.map_or(User::At(peer.client), |name| User::Named(name.into()))
    }

    /// Whether something was found out about passwords.
    pub(crate) fn take_mail(&mut self, clock: &Clock) -> bool {
        match self {
            Self::Hosts(hosts) => hosts.credentials.take_mail(clock.now_ms),
            Self::Plain(_) => false,
        }
    }

    /// Takes note of files that have changed.
    pub(crate) fn apply_changes(&mut self, watcher: &Watcher, counters: &LoopCounters) {
        let events = match self {
            Self::Plain(site) => {
                let events = watcher.read_events(|event| site.note_event(event));
                site.apply_changes(counters);
                events
            }
            Self::Hosts(hosts) => {
                // Several hosts may serve the same directory.
                let events =
                    watcher.read_events(|event| hosts.sites.iter_mut().for_each(|(_, site)| site.note_event(event)));
                hosts.sites.iter_mut().for_each(|(_, site)| site.apply_changes(counters));
                events
            }
        };
        counters.watch_events.add(events);
    }

    /// Does as it is ordered: what caches keep, what they load.
    pub(crate) fn carry_out(&mut self, orders: &Orders) {
        let pins: Vec<Pattern> = orders.pins().cloned().collect();
        self.each_site(|site| {
            site.pin(&pins);
            orders.warms().for_each(|glob| site.warm(glob));
        });
    }

    /// Closes idle connections with upstreams that their peers have closed.
    #[cold]
    pub(crate) fn drop_stale_links(&self) {
        if let Self::Hosts(hosts) = self {
            hosts.upstreams.iter().for_each(|upstream| upstream.drop_stale());
        }
    }

    /// Goes on with a probe of an upstream, by the number that its link has.
    #[cold]
    pub(crate) fn go_on_probe(&self, number: u64) {
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        if let Self::Hosts(hosts) = self
            && let Some(upstream) = hosts.upstreams.get(number / PROBES_MAX)
        {
            upstream.go_on_probe(number % PROBES_MAX);
        }
    }

    /// Whether servers of upstreams are asked for their health now and then.
    pub(crate) fn has_probes(&self) -> bool {
        matches!(self, Self::Hosts(hosts) if hosts.upstreams.iter().any(|upstream| upstream.has_probes()))
    }

    /// Lets a request without a client go on.
    #[cold]
    pub(crate) fn go_on_in_background(&self, number: u64) {
        if let Self::Hosts(hosts) = self {
            hosts.background.go_on(number);
        }
    }

    /// Whether there are requests without a client.
    pub(crate) fn has_background(&self) -> bool {
        matches!(self, Self::Hosts(hosts) if hosts.background.is_busy())
    }

    /// Closes connections with upstreams that were idle for too long.
    pub(crate) fn sweep_upstreams(&self, now_ms: u64) {
        if let Self::Hosts(hosts) = self {
            hosts.upstreams.iter().for_each(|upstream| upstream.sweep(now_ms));
        }
    }

    /// Has caches ask anew what rules are for, where there are others.
    pub(crate) fn ask_again(&mut self, counters: &LoopCounters) {
        self.each_site(|site| site.ask_again(counters));
    }

    /// Loads some of what was ordered; whether there is more.
    pub(crate) fn warm_some(&mut self, clock: &Clock, counters: &LoopCounters) -> bool {
        let mut has_more = false;
        self.each_site(|site| has_more |= site.warm_some(clock, counters));
        has_more
    }

    fn each_site(&mut self, mut what: impl FnMut(&mut Site)) {
        match self {
            Self::Plain(site) => what(site),
            Self::Hosts(hosts) => hosts.sites.iter_mut().for_each(|(_, site)| what(site)),
        }
    }

    /// What caches were asked for since it was told last, of about so many of their entries.
    pub(crate) fn uses(&mut self, most: usize, now_ms: u64) -> Vec<Uses> {
        let sites = if let Self::Hosts(hosts) = self { hosts.sites.len().max(1) } else { 1 };
        let mut told = Vec::new();
        self.each_site(|site| told.extend(site.uses((most / sites).max(USES_MIN), now_ms)));
        told
    }

    /// Bytes in memory, and entries, that caches keep by order.
    pub(crate) fn pinned(&mut self) -> (u64, u64) {
        let mut sum = (0, 0);
        self.each_site(|site| {
            let (bytes, entries) = site.pinned();
            sum = (sum.0 + bytes, sum.1 + entries);
        });
        sum
    }

    /// Bytes in memory, and entries, of all caches.
    pub(crate) fn fill(&self) -> (u64, u64) {
        match self {
            Self::Plain(site) => site.fill(),
            Self::Hosts(hosts) => {
                hosts.sites.iter().map(|(_, site)| site.fill()).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
            }
        }
    }

    /// Serves the directory that the root's path leads to now, where there are no hosts.
    pub(crate) fn follow(&mut self, directory: &Arc<File>, counters: &LoopCounters) -> io::Result<()> {
        let Self::Plain(site) = self else { return Ok(()) };
        let directory = directory.try_clone()?;
        if !site.is_same_root(&Root::of(directory.try_clone()?)) {
            site.move_to(directory, counters);
        }
        Ok(())
    }

    /// Takes up another configuration; what the sites have in memory stays where it is the same.
    pub(crate) fn reload(&mut self, rules: Arc<Rules>, shared: &SiteBounds, word: &SiteWord) -> io::Result<()> {
        match self {
            Self::Hosts(hosts) => hosts.reload(rules, shared, word),
            Self::Plain(_) => Ok(()),
        }
    }
}
