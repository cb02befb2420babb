//! Ways to servers that are found while a run is under way: which ones are asked, only the director's users know.

use crate::{LoadError, Url};
use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The most servers of a run.
const WAYS_MAX: usize = 256;

/// Finds the way to a server, or to the address that stands for it, and keeps it at a place; the error is in words.
pub(crate) type Seek = dyn Fn(u32, &Url, Option<SocketAddr>) -> Result<(), LoadError> + Send + Sync;

/// The servers of a director: each is looked up when it is first asked for, in a thread of its own.
///
/// Connections that cannot be made to them are failures of their requests and end no run.
#[derive(Debug, Clone)]
pub struct Ways(Arc<Inner>);

/// Servers by what tells them apart: whether it is encrypted, host, port, and the address that stands for these.
type Known = HashMap<(bool, String, u16, Option<SocketAddr>), (u32, Way)>;

struct Inner {
    most: usize,
    seek: OnceLock<Box<Seek>>,
    known: Mutex<Known>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Inner").field("known", &self.known).finish_non_exhaustive()
    }
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

impl Ways {
    /// Room for so many servers, between 1 and 256.
    #[must_use]
    pub fn new(most: usize) -> Self {
        let most = most.clamp(1, WAYS_MAX);
        Self(Arc::new(Inner { most, seek: OnceLock::new(), known: Mutex::default() }))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The way to the server of a URL; looked up when it is first asked for, while the run is under way.
    ///
    /// With `at`, connections go to that address in the place of those that the name has; a certificate is still to be
    /// the name's.
    #[must_use]
    pub fn find(&self, url: &Url, at: Option<SocketAddr>) -> Way {
        let key = match at {
            // Without a certificate the name makes no difference: names that lead to one address are one server.
            Some(at) if !url.encrypted => (false, String::new(), 0, Some(at)),
            at => (url.encrypted, url.host.to_ascii_lowercase(), url.port, at),
        };
        let mut known = self.known();
        if let Some((_, way)) = known.get(&key) {
            return way.clone();
        }
        let place = known.len() as u32;
        if known.len() >= self.0.most {
            return Way::None(format!("requests go to more than {place} servers: give fewer"));
        }
        known.insert(key.clone(), (place, Way::Sought));
        drop(known);
        let (ways, url, own_key) = (self.clone(), url.clone(), key.clone());
        let named = std::thread::Builder::new().name("weir-load-names".to_owned());
        let begun = named.spawn(move || {
            let way = match ways.0.seek.get().map(|seek| seek(place, &url, at)) {
                Some(Ok(())) => Way::Known(place),
                Some(Err(error)) => Way::None(error.to_string()),
                None => Way::None("the run has not begun".to_owned()),
            };
            ways.known().insert(own_key, (place, way));
        });
        match begun {
            Ok(_) => Way::Sought,
            Err(cause) => {
                let way = Way::None(format!("no thread can be made that looks the name up ({cause})"));
                self.known().insert(key, (place, way.clone()));
                way
            }
        }
    }

    /// The place in [`crate::Requests::list`] that stands for requests to a server, with or without a body in the answer.
    #[must_use]
    pub fn request(place: u32, is_head: bool) -> u32 {
        place * 2 + u32::from(is_head)
    }

    /// A run begins, which finds servers so.
    pub(crate) fn begin(&self, seek: Box<Seek>) -> Result<(), LoadError> {
        self.0.seek.set(seek).map_err(|_| LoadError::Options("ways are of one run: make others for another"))
    }

    /// How many there may be.
    pub(crate) fn most(&self) -> usize {
        self.0.most
    }
}
