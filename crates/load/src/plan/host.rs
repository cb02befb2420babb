//! The servers of a run.

use crate::connect::names::Names;
use crate::connect::route::Route;
use crate::directed::ways::Ways;
use crate::options::means::Means;
use crate::reach::resolve::Place;
use crate::{LoadError, Url};
use std::collections::BTreeMap;
use std::ops::Index;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// One of the servers that are loaded.
#[derive(Debug)]
pub(crate) struct Host {
    /// What cookies are judged by.
    pub(crate) url: Url,
    pub(crate) route: Route,
    /// What its name resolves to, where that is asked again.
    pub(crate) names: Option<Names>,
    /// Whether any connection was ever made: if none, the server is not there, and the run makes no sense.
    pub(crate) reached: AtomicBool,
    /// The same of each of its addresses.
    pub(crate) reached_at: Box<[AtomicBool]>,
    /// The addresses that no connection could be made to, with the reason of the first.
    left_out: Mutex<BTreeMap<usize, String>>,
    /// Whether any TLS handshake ever succeeded.
    pub(crate) agreed: AtomicBool,
}

/// All of them: those that are known from the beginning, or those that a director's users come to.
#[derive(Debug)]
pub(crate) enum Hosts {
    Listed(Vec<Host>),
    Found(Arc<[OnceLock<Host>]>),
}

impl Hosts {
    /// Those that a director's users come to, as they come.
    pub(crate) fn found(ways: &Ways, means: Means) -> Result<Self, LoadError> {
        let hosts: Arc<[OnceLock<Host>]> = std::iter::repeat_with(OnceLock::new).take(ways.most()).collect();
        let kept = Arc::clone(&hosts);
        ways.begin(Box::new(move |place, url, at| {
            let host = match at {
                Some(at) => {
                    let mut means = means.clone();
                    means.reach.connect_to = Some(Place { host: at.ip().to_string(), port: at.port() });
                    Host::new(&means, url)?
                }
                None => Host::new(&means, url)?,
            };
            // Each place is sought once.
            let _only = kept[place as usize].set(host);
            Ok(())
        }))?;
        Ok(Self::Found(hosts))
    }

    /// How many there may be.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Listed(hosts) => hosts.len(),
            Self::Found(hosts) => hosts.len(),
        }
    }

    /// Those that are known by now, with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &Host)> {
        (0..self.len()).filter_map(|place| Some((place, self.get(place)?)))
    }

    pub(crate) fn get(&self, place: usize) -> Option<&Host> {
        match self {
            Self::Listed(hosts) => hosts.get(place),
            Self::Found(hosts) => hosts.get(place)?.get(),
        }
    }

    /// How many of them may have all connections of the run at once.
    pub(crate) fn at_once(&self) -> u32 {
        match self {
            Self::Listed(hosts) => hosts.len() as u32,
            Self::Found(_) => 1,
        }
    }

    /// Whether a host that cannot be reached ends the run: it makes no sense then.
    pub(crate) fn end_the_run(&self) -> bool {
        matches!(self, Self::Listed(_))
    }
}

impl Index<usize> for Hosts {
    type Output = Host;

    /// # Panics
    /// Where the host is not known: requests are ordered for known ones only.
    #[inline]
    fn index(&self, place: usize) -> &Host {
        match self {
            Self::Listed(hosts) => &hosts[place],
            Self::Found(hosts) => hosts[place].get().expect("a host that was found"),
        }
    }
}

impl Host {
    /// Finds the way to the host of a URL.
    pub(crate) fn new(means: &Means, url: &Url) -> Result<Self, LoadError> {
        let route = Route::to(url, means)?;
        let again = means.reach.again;
        let names = route.named.clone().map(|name| Names::new(name, again, &route.endpoints)).transpose()?;
        Ok(Self {
            url: url.clone(),
            reached_at: (0..route.endpoints.most()).map(|_| AtomicBool::new(false)).collect(),
            names,
            left_out: Mutex::default(),
            route,
            reached: AtomicBool::new(false),
            agreed: AtomicBool::new(false),
        })
    }

    /// No connection can be made to one of its addresses.
    pub(crate) fn leave_out(&self, address: usize, cause: &std::io::Error) {
        let mut left_out = self.left_out.lock().unwrap_or_else(PoisonError::into_inner);
        left_out.entry(address).or_insert_with(|| cause.to_string());
    }

    /// What is to be known of its addresses at the end, in words.
    pub(crate) fn told(&self) -> Vec<String> {
        let names = self.names.as_ref().and_then(|names| names.words(&self.url.host));
        self.left_out().into_iter().chain(names).collect()
    }

    /// What is to be known of addresses that no connection went to, in words. That none went to those of one version of
    /// IP, as of a server that listens to the other only, is no news.
    fn left_out(&self) -> Vec<String> {
        let kind = |address: usize| self.route.endpoints[address].address().map(|address| address.is_ipv4());
        let reached = |address: usize| self.reached_at[address].load(Ordering::Relaxed);
        let used: Vec<_> = (0..self.reached_at.len()).filter(|address| reached(*address)).map(kind).collect();
        let left_out = self.left_out.lock().unwrap_or_else(PoisonError::into_inner);
        let missed = left_out.iter().filter(|(address, _)| used.contains(&kind(**address)) && !reached(**address));
        let words = missed.map(|(address, cause)| {
            let (endpoint, host) = (&self.route.endpoints[*address], &self.url.host);
            format!("{endpoint} of {host} cannot be reached ({cause}): connections went to its other addresses only")
        });
        words.collect()
    }
}
