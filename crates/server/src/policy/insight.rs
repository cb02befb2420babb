//! What a running server knows of its clients' links and of the content that is asked for most, for another thread of
//! the program to read.

use crate::counters::upstream_counts::UpstreamReading;
use crate::files::resource::{Content, Resource};
use crate::files::shared_content::{Shared, SharedContent};
use crate::files::stamp::Stamp;
use crate::http::response::Digest;
use crate::io::clock::now_ms;
use crate::policy::link_prior::{Expected, Priors};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Paths whose content is described at most.
const WANTED_MAX: usize = 32;
/// Files above this get no digest: the thread that makes it has forms to make, too.
const DIGESTED_BYTES_MAX: u64 = 64 << 20;
/// After so long loops are asked again for what is not known yet.
const ASK_AGAIN: Duration = Duration::from_secs(2);

/// A look into a server; see [`crate::Server::insight`].
#[derive(Debug, Clone)]
pub struct Insight {
    pub(crate) priors: Arc<Priors>,
    pub(crate) contents: Arc<Contents>,
    /// Whether addresses of clients are shown whole, as in the access log.
    pub(crate) is_whole: bool,
    /// The key for the names that replace them otherwise: the same for the same address, as long as this server runs.
    pub(crate) key: RandomState,
    pub(crate) upstreams: Arc<dyn UpstreamAccess>,
}

/// What knows how upstreams are, and tells them how many workers to use.
pub(crate) trait UpstreamAccess: std::fmt::Debug + Send + Sync {
    /// Each of them as of now.
    fn readings(&self) -> Vec<UpstreamReading>;

    /// Has those of a name use so many workers of PHP; with `None` as many as the configuration says.
    fn order_workers(&self, name: &str, workers: Option<u32>);
}

/// An upstream as of a moment, or all of one name together. What is called a count grows only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpstreamNow {
    /// Its name in the configuration, or its first server.
    pub name: String,
    /// Requests that may be under way.
    pub places: u32,
    /// Requests under way.
    pub under_way: u32,
    /// Requests that wait for a place.
    pub waiting: u32,
    /// Nanoseconds that the request has waited so far which has waited longest of these.
    pub oldest_wait_ns: u64,
    /// A count of all requests.
    pub requests: u64,
    /// A count of attempts that failed.
    pub failed: u64,
    /// A count of requests that were refused for want of a place.
    pub refused: u64,
    /// Nanoseconds that requests have waited in all.
    pub waited_ns: u64,
    /// A count of requests that have given their place back.
    pub served: u64,
    /// Nanoseconds that these held it in all.
    pub served_ns: u64,
}

impl UpstreamNow {
    fn add(&mut self, other: &UpstreamReading) {
        self.places = self.places.saturating_add(other.places);
        self.under_way += other.under_way;
        self.waiting += other.waiting;
        self.oldest_wait_ns = self.oldest_wait_ns.max(other.oldest_wait_ns);
        self.requests += other.requests;
        self.failed += other.failed;
        self.refused += other.refused;
        self.waited_ns += other.waited_ns;
        self.served += other.served;
        self.served_ns += other.served_ns;
    }
}

/// Content of a path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Described {
    /// Bytes of the file.
    pub bytes: u64,
    /// Of these bytes, once that is made: of files of at most 64 MiB.
    pub digest: Option<Digest>,
}

impl Insight {
    /// What is expected of clients by their addresses, and by their networks, with at most so many of each: those of
    /// which something was learnt last. It is not to be asked often, as loops may have to wait for it.
    pub fn expected(&self, most: usize) -> [Expected; 2] {
        self.priors.expected(most, now_ms(), |addr| self.name(addr))
    }

    /// The upstreams by their names, as of now.
    pub fn upstreams(&self) -> Vec<UpstreamNow> {
        let mut all: Vec<UpstreamNow> = Vec::new();
        for reading in self.upstreams.readings() {
            let known = all.iter().position(|one| one.name == reading.name);
            let at = known.unwrap_or_else(|| {
                all.push(UpstreamNow { name: reading.name.clone(), ..UpstreamNow::default() });
                all.len() - 1
            });
            all[at].add(&reading);
        }
        all
    }

    fn name(&self, addr: IpAddr) -> String {
        if self.is_whole { addr.to_string() } else { format!("c{:012x}", self.key.hash_one(addr) >> 16) }
    }

    /// Has loops describe the content of these paths when they are asked for next; of at most 32.
    pub fn want(&self, paths: &[&str]) {
        self.contents.want(paths);
    }

    /// What is known of the content of a path that is wanted.
    pub fn described(&self, path: &str) -> Option<Described> {
        self.contents.described(path)
    }
}

/// What is to be described, and what was.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// Of what is wanted: content that was looked at in this one is not looked at again.
    generation: AtomicU64,
    wanted: Mutex<Wanted>,
}

#[derive(Debug, Default)]
struct Wanted {
    by_path: HashMap<Box<str>, Option<Known>>,
    asked: Option<Instant>,
}

#[derive(Debug)]
struct Known {
    stamp: Stamp,
    /// Where the digest is made; it is gone once no loop serves this content any more.
    shared: Weak<Shared>,
    digest: Option<Digest>,
}

impl Known {
    fn digest(&mut self) -> Option<Digest> {
        if self.digest.is_none() {
            self.digest = self.shared.upgrade().and_then(|shared| shared.known_digest());
        }
        self.digest
    }

    /// Whether there is more to be known.
    fn lacks(&mut self) -> bool {
        self.stamp.size() <= DIGESTED_BYTES_MAX && self.digest().is_none()
    }
}

impl Contents {
    fn wanted(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn want(&self, paths: &[&str]) {
        let mut wanted = self.wanted();
        let mut before = std::mem::take(&mut wanted.by_path);
        let mut is_new = false;
        for path in paths.iter().copied().take(WANTED_MAX) {
            let known = before.remove(path);
            is_new |= known.is_none();
            wanted.by_path.insert(path.into(), known.flatten());
        }
        let lacks = wanted.by_path.values_mut().any(|known| known.as_mut().is_none_or(Known::lacks));
        let is_time = wanted.asked.is_none_or(|asked| asked.elapsed() >= ASK_AGAIN);
        if is_new || (lacks && is_time) {
            wanted.asked = Some(Instant::now());
            self.generation.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn described(&self, path: &str) -> Option<Described> {
        let mut wanted = self.wanted();
        let known = wanted.by_path.get_mut(path)?.as_mut()?;
        Some(Described { bytes: known.stamp.size(), digest: known.digest() })
    }

    /// A loop serves content: if its path is among the wanted ones, and was not described since they were asked for,
    /// the content is noted, and a thread beside the loops makes its digest.
    #[inline]
    pub(crate) fn look(&self, resource: &Resource, shared_content: &SharedContent) {
        let generation = self.generation.load(Ordering::Relaxed);
        if resource.described.get() != generation {
            self.describe(resource, shared_content, generation);
        }
    }

    #[cold]
    fn describe(&self, resource: &Resource, shared_content: &SharedContent, generation: u64) {
        resource.described.set(generation);
        let Some(path) = resource.asked_as.as_deref() else { return };
        let mut wanted = self.wanted();
        let Some(known) = wanted.by_path.get_mut(path) else { return };
        if known.as_ref().is_none_or(|known| known.stamp != resource.stamp || known.digest.is_none()) {
            *known = Some(Known { stamp: resource.stamp, shared: Arc::downgrade(&resource.shared), digest: None });
        }
        // Loops do not wait for each other while this one asks.
        drop(wanted);
        if resource.stamp.size() <= DIGESTED_BYTES_MAX {
            let file = if let Content::File(file) = &resource.content { Some(&**file) } else { None };
            shared_content.digest(&resource.shared, file);
        }
    }
}
