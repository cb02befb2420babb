//! The hosts of a configuration as one loop serves them.

use super::auth::Credentials;
use super::routes::route::Route;
use super::rules::Rules;
use super::settings::Settings;
use super::tables::Tables;
use crate::certificates::presented::PresentedByClients;
use crate::counters::LoopCounters;
use crate::counters::host_counts::HostCounts;
use crate::files::root::Root;
use crate::http::client_address::client_address;
use crate::http::request::Request;
use crate::io::epoll::Waker;
use crate::policy::client_peer::ClientPeer;
use crate::site::settings::{SiteBounds, SiteKind, SiteWord};
use crate::site::{Share, Site};
use crate::upstream::background::Background;
use crate::upstream::cache::lookup::Front;
use crate::upstream::cache::store::Cache;
use crate::upstream::group::Upstream;
use crate::upstream::links::Links;
use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

/// The hosts of a configuration as one loop serves them.
#[derive(Debug)]
pub(crate) struct Hosts {
    pub(super) rules: Arc<Rules>,
    /// What each host says before its tables, for this loop alone: an expression is no good to several threads at once.
    routes: Vec<Option<Rc<[Route]>>>,
    /// How often others were taken up.
    pub(super) reloads: u64,
    /// What each host has answered, in the order of the rules.
    pub(super) counts: Vec<Arc<HostCounts>>,
    /// In the order of the rules.
    pub(super) sites: Vec<(SiteKind, Site)>,
    /// In the order of the rules.
    pub(super) upstreams: Vec<Rc<Upstream>>,
    /// In the order of the rules; none for a cache that could not be opened.
    pub(super) fronts: Vec<Option<Rc<RefCell<Front>>>>,
    pub(super) background: Rc<Background>,
    pub(super) links: Rc<Links>,
    pub(super) share: Share,
    /// Whether some host asks clients for certificates.
    pub(super) asks_certificates: bool,
    pub(super) presented: PresentedByClients,
    /// What holds, by the host and its tables.
    pub(super) known: HashMap<(u16, Tables), Rc<Settings>>,
    /// The host of the last request, by the name that it gave.
    last_name: Vec<u8>,
    last_host: Option<u16>,
    pub(super) credentials: Credentials,
    /// Counts what is looked at before the request is answered, which counts it again.
    pub(super) trial: Rc<LoopCounters>,
    pub(super) decoded: Vec<u8>,
    pub(super) text: Vec<u8>,
}

impl Hosts {
    pub(crate) fn new(
        rules: Arc<Rules>,
        waker: Arc<Waker>,
        shared: &SiteBounds,
        word: &SiteWord,
        (share, links): (Share, Rc<Links>),
    ) -> io::Result<Self> {
        let mut hosts = Self {
            rules: Arc::default(),
            routes: Vec::new(),
            reloads: 0,
            counts: Vec::new(),
            credentials: Credentials::new(waker).ok_or(io::ErrorKind::Other)?,
            sites: Vec::new(),
            upstreams: Vec::new(),
            fronts: Vec::new(),
            background: Background::new(Rc::clone(&links)),
            links,
            share,
            asks_certificates: false,
            presented: PresentedByClients::default(),
            known: HashMap::new(),
            last_name: Vec::new(),
            last_host: None,
            trial: Rc::default(),
            decoded: Vec::new(),
            text: Vec::new(),
        };
        hosts.reload(rules, shared, word)?;
        Ok(hosts)
    }

    /// Takes up these rules; what was open already stays, with all that it has in memory.
    pub(super) fn reload(&mut self, rules: Arc<Rules>, shared: &SiteBounds, word: &SiteWord) -> io::Result<()> {
        // All that can fail comes first, so that after a failure everything is as it was.
        let roots = rules.sites.iter().map(|site| Ok(Root::of(site.place.directory().try_clone()?)));
        let roots = roots.collect::<io::Result<Vec<Root>>>()?;
        let mut before = std::mem::take(&mut self.sites);
        // Each has an equal part of the memory, the descriptors and the watches.
        let parts = rules.sites.len().max(1);
        let share = Share { files_max: (self.share.files_max / parts).max(1), ..self.share.clone() };
        let bounds = shared.shared_by(parts);
        for (wanted, root) in rules.sites.iter().zip(roots) {
            // The same path may be another directory by now.
            if let Some(at) = before.iter().position(|(kind, site)| *kind == wanted.how && site.is_same_root(&root)) {
                let mut kept = before.swap_remove(at);
                kept.1.limit_watches(bounds.watches_max);
                self.sites.push(kept);
                continue;
            }
            let site = Site::new(root, &wanted.how.clone().under(word), &bounds, &share);
            self.sites.push((wanted.how.clone(), site));
        }
        let mut before = std::mem::take(&mut self.upstreams);
        for wanted in &rules.upstreams {
            // Its connections stay where nothing has changed.
            let known = before.iter().position(|upstream| upstream.is_of(wanted));
            self.upstreams.push(match known {
                Some(at) => before.swap_remove(at),
                None => Upstream::new(Arc::clone(wanted), Rc::clone(&self.links)),
            });
        }
        for (number, upstream) in self.upstreams.iter().enumerate() {
            upstream.set_place(number, rules.trusted.field);
        }
        self.reload_fronts(&rules);
        self.counts =
            self.share.hosts.enter(&rules.hosts.iter().map(|host| Arc::clone(&host.name)).collect::<Vec<_>>());
        let routes = rules.hosts.iter().map(|host| (!host.routes.is_empty()).then(|| host.routes.clone().into()));
        self.routes = routes.collect();
        self.asks_certificates = rules.hosts.iter().any(|host| host.client_authorities.is_some());
        self.rules = rules;
        self.reloads += 1;
        self.known.clear();
        self.last_name.clear();
        self.last_host = self.rules.names.find(b"");
        Ok(())
    }

    /// What is known of caches that stay is kept.
    fn reload_fronts(&mut self, rules: &Rules) {
        let before: Vec<_> = std::mem::take(&mut self.fronts).into_iter().flatten().collect();
        let front = |cache: &Arc<Cache>| {
            let known = before.iter().find(|front| front.borrow().is_of(cache));
            known.map_or_else(|| Rc::new(RefCell::new(Front::new(Arc::clone(cache)))), Rc::clone)
        };
        self.fronts = rules.caches.iter().map(|cache| cache.cache().map(front)).collect();
    }

    /// Whether some proxy is believed about its clients.
    #[inline]
    pub(super) fn trusts_proxies(&self) -> bool {
        !self.rules.trusted.networks.is_empty()
    }

    /// The address of a request's client and whether it has come over TLS, by the same of its socket.
    pub(super) fn client_of(&self, request: &Request<'_>, (socket, is_secure): (IpAddr, bool)) -> (IpAddr, bool) {
        if !self.rules.trusted.holds(socket) {
            return (socket, is_secure);
        }
        let told = client_address(socket, request.fields(), &self.rules.trusted);
        (told.address, told.is_secure.unwrap_or(is_secure))
    }

    /// The client of a request that may have come by a trusted proxy. What its connection was advised is not for it, as
    /// requests of other clients come over the same one.
    #[cold]
    pub(super) fn see(&self, request: &Request<'_>, peer: &mut ClientPeer<'_>) -> bool {
        let is_trusted = self.rules.trusted.holds(peer.client);
        if is_trusted {
            (peer.client, peer.is_secure) = self.client_of(request, (peer.client, peer.is_secure));
            peer.leased = None;
        }
        is_trusted
    }

    /// The routes of a host, if it has any.
    #[inline]
    pub(super) fn routes(&self, host: u16) -> Option<Rc<[Route]>> {
        self.routes[usize::from(host)].clone()
    }

    pub(super) fn host(&mut self, name: &[u8]) -> Option<u16> {
        if *name != *self.last_name {
            self.text.clear();
            self.text.extend(name.iter().map(u8::to_ascii_lowercase));
            self.last_host = self.rules.names.find(&self.text);
            self.last_name.clear();
            self.last_name.extend_from_slice(name);
        }
        self.last_host
    }
}
