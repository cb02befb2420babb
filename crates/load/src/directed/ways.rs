//! Ways to servers that are found while a run is under way: which ones are asked, only the director's users know.

use crate::options::settings::Options;
use crate::plan::host::Host;
use crate::{LoadError, Protocol, Reach, Trust, Url};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The most servers of a run.
const WAYS_MAX: usize = 256;

/// The servers of a director: each is looked up when it is first asked for, in a thread of its own.
///
/// Connections that cannot be made to them are failures of their requests and end no run.
#[derive(Debug, Clone)]
pub struct Ways(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// What a way depends on beside its URL.
    means: OnceLock<Means>,
    hosts: Box<[OnceLock<Host>]>,
    known: Mutex<Known>,
}

#[derive(Debug, Clone)]
pub(crate) struct Means {
    pub(crate) reach: Reach,
    pub(crate) protocol: Protocol,
    pub(crate) trust: Trust,
    pub(crate) connections: u32,
}

#[derive(Debug, Default)]
struct Known {
    places: HashMap<(bool, String, u16), u32>,
    failures: HashMap<u32, String>,
}

/// What is known of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// Requests can be ordered for it, by the number of this place.
    Known(u32),
    /// Its name is being looked up: ask again.
    Sought,
    /// There is none, for this reason.
    None(String),
}

impl Means {
    pub(crate) fn of(options: &Options) -> Self {
        Self {
            reach: options.reach.clone(),
            protocol: options.protocol,
            trust: options.trust.clone(),
            connections: options.connections,
        }
    }
}

impl Ways {
    /// Room for so many servers, between 1 and 256.
    #[must_use]
    pub fn new(most: usize) -> Self {
        let most = most.clamp(1, WAYS_MAX);
        Self(Arc::new(Inner {
            means: OnceLock::new(),
            hosts: std::iter::repeat_with(OnceLock::new).take(most).collect(),
            known: Mutex::default(),
        }))
    }

    /// The way to the server of a URL; looked up when it is first asked for, while the run is under way.
    #[must_use]
    pub fn find(&self, url: &Url) -> Way {
        let key = (url.encrypted, url.host.to_ascii_lowercase(), url.port);
        let mut known = self.0.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = known.places.get(&key).copied() {
            return match known.failures.get(&place) {
                Some(words) => Way::None(words.clone()),
                None if self.0.hosts[place as usize].get().is_some() => Way::Known(place),
                None => Way::Sought,
            };
        }
        let place = known.places.len();
        if place == self.0.hosts.len() {
            return Way::None(format!("requests go to more than {place} servers: give fewer"));
        }
        known.places.insert(key, place as u32);
        drop(known);
        let (ways, url) = (self.clone(), url.clone());
        let named = std::thread::Builder::new().name("weir-load-names".to_owned());
        if let Err(cause) = named.spawn(move || ways.look_up(place as u32, &url)) {
            self.failed(place as u32, format!("no thread can be made that looks the name up ({cause})"));
        }
        Way::Sought
    }

    /// The place in [`crate::Requests::list`] that stands for requests to a server, with or without a body in the answer.
    #[must_use]
    pub fn request(place: u32, is_head: bool) -> u32 {
        place * 2 + u32::from(is_head)
    }

    fn look_up(&self, place: u32, url: &Url) {
        let Some(means) = self.0.means.get() else {
            return self.failed(place, "the run has not begun".to_owned());
        };
        match Host::new(means, url) {
            Ok(host) => drop(self.0.hosts[place as usize].set(host)),
            Err(error) => self.failed(place, error.to_string()),
        }
    }

    fn failed(&self, place: u32, words: String) {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner).failures.insert(place, words);
    }

    /// A run begins with these.
    pub(crate) fn begin(&self, means: Means) -> Result<(), LoadError> {
        self.0.means.set(means).map_err(|_| LoadError::Options("ways are of one run: make others for another"))
    }

    /// A host that was found.
    pub(crate) fn host(&self, place: usize) -> Option<&Host> {
        self.0.hosts.get(place)?.get()
    }

    /// How many there may be.
    pub(crate) fn most(&self) -> usize {
        self.0.hosts.len()
    }
}
