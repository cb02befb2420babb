//! A configuration as the loops use it: compiled once, shared, never changed.

use super::host_names::HostNames;
use super::route_fields::RouteFields;
use super::routes::route::Route;
use super::settings::Said;
use crate::certificates::client_asking::AskedHosts;
use crate::certificates::client_authorities::ClientAuthorities;
use crate::files::root::place::Place;
use crate::http::client_address::TrustedProxies;
use crate::http::pattern::Pattern;
use crate::site::settings::SiteKind;
use crate::upstream::cache::shared::SharedCache;
use crate::upstream::common::Common;
use std::sync::Arc;

/// Tables of one host; a request's are kept as a set of so many bits.
pub(crate) const PATHS_MAX: usize = 128;

/// Everything that hosts say.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    pub(crate) hosts: Vec<Host>,
    pub(crate) names: HostNames,
    pub(crate) sites: Vec<SiteRules>,
    /// Equal ones are here once.
    pub(crate) upstreams: Vec<Arc<Common>>,
    /// Equal ones are here once.
    pub(crate) caches: Vec<Arc<SharedCache>>,
    /// Proxies whose word on the client's address counts.
    pub(crate) trusted: TrustedProxies,
}

impl Rules {
    /// The hosts that ask clients for certificates; none where no host does.
    pub(crate) fn asked_hosts(self: &Arc<Self>) -> Option<Arc<AskedHosts>> {
        self.hosts.iter().any(|host| host.client_authorities.is_some()).then(|| -> Arc<AskedHosts> {
            let rules = Arc::clone(self);
            Arc::new(move |name: Option<&str>| {
                let host = rules.names.find(name.unwrap_or_default().to_ascii_lowercase().as_bytes());
                host.is_some_and(|host| rules.hosts[usize::from(host)].client_authorities.is_some())
            })
        })
    }
}

/// A host: its first name, what it says, and what its paths say.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) name: Arc<str>,
    /// Its line in the configuration.
    pub(crate) line: usize,
    pub(crate) said: Said,
    /// They are looked at first, in this order.
    pub(crate) routes: Vec<Route>,
    /// What each of them sets.
    pub(crate) route_fields: Vec<RouteFields>,
    /// In the order of the file.
    pub(crate) paths: Vec<(Pattern, Said)>,
    /// How the configuration writes for which paths each of them is, and its line.
    pub(crate) labels: Vec<(String, usize)>,
    /// How names of files end that programs of the host run: no root of it sends them.
    pub(crate) source_endings: Box<[String]>,
    /// The authorities that clients' certificates are from, where some table wants such.
    pub(crate) client_authorities: Option<Arc<ClientAuthorities>>,
    /// Some of them may be for the compressed neighbours of files.
    pub(crate) tells_neighbours: bool,
}

/// A directory that is served, and how.
#[derive(Debug)]
pub(crate) struct SiteRules {
    pub(crate) how: SiteKind,
    /// It was opened when the configuration was read.
    pub(crate) place: Place,
}
