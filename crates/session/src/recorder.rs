//! A recording reverse proxy: what a user does at its address is passed to a server, and kept.

mod passing;

use crate::client::{Trust, TrustError};
use crate::recording::{Entry, Recording};
use crate::secrets::Masks;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use url::Url;
use weir_endpoint::{Endpoint, Limits};

/// What it takes on: requests that are passed on at the same time are as many as handlers, more wait.
const LIMITS: Limits = Limits { connections: 1024, handlers: 32, body_bytes: 64 << 20, head: Duration::from_secs(60) };
/// How long requests that are under way may take at the end.
const AT_THE_END: Duration = Duration::from_secs(2);

/// What is recorded, and how much of it.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where to listen.
    pub listen: String,
    /// The server that is recorded.
    pub to: Url,
    /// The cookie that tells users apart; all are one recording without.
    pub session_cookie: Option<String>,
    /// Whether secrets are kept as they are.
    pub keep_secrets: bool,
    /// Entries that are kept; further ones are passed on and counted.
    pub entries_max: usize,
    /// Bytes that are kept, of all entries together.
    pub bytes_max: u64,
    /// A body that is longer is kept by its size only.
    pub body_bytes_max: usize,
    /// Which certificates of the server are believed.
    pub trust: Trust,
}

/// Why recording does not begin.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address.
    #[error(transparent)]
    Listen(#[from] weir_endpoint::StartError),
    /// The file of certificates.
    #[error(transparent)]
    Trust(#[from] TrustError),
}

/// What has been counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Requests that are kept.
    pub kept: u64,
    /// Requests that were passed on and not kept, because of the limits.
    pub dropped: u64,
    /// Requests that were refused: another protocol, a body that is too large.
    pub refused: u64,
    /// Requests for which the server gave no response.
    pub failed: u64,
    /// Secrets that are masked.
    pub secrets: u64,
}

#[derive(Debug, Default)]
struct Store {
    /// Entries with the number of their session; 0 has none.
    entries: Vec<(usize, Entry)>,
    bytes: u64,
    masks: Masks,
    /// Values of the session's cookie, as the server gave them, and the session's number.
    sessions: BTreeMap<String, usize>,
    sessions_seen: usize,
    /// Changes since the begin: the writer of the file compares it.
    version: u64,
}

#[derive(Debug)]
struct Shared {
    options: Options,
    agent: ureq::Agent,
    /// The origin by which a browser that names no host knows us: known once the endpoint listens.
    own: OnceLock<String>,
    store: Mutex<Store>,
    dropped: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
}

/// A proxy that runs.
#[derive(Debug)]
pub struct Recorder {
    shared: Arc<Shared>,
    endpoint: Endpoint,
}

impl Recorder {
    /// Begins to listen.
    ///
    /// # Errors
    /// An address that cannot be listened at, a file of certificates that is none.
    pub fn start(options: Options) -> Result<Self, StartError> {
        let agent = passing::agent(&options.trust)?;
        let listen = options.listen.clone();
        let shared = Arc::new(Shared {
            options,
            agent,
            own: OnceLock::new(),
            store: Mutex::default(),
            dropped: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        });
        let passed_on = Arc::clone(&shared);
        let handler = Arc::new(move |request| passing::pass(request, &passed_on));
        let endpoint = Endpoint::start(&listen, LIMITS, handler)?;
        shared.own.get_or_init(|| format!("http://{}", endpoint.address()));
        Ok(Self { shared, endpoint })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.endpoint.address()
    }

    /// A number that changes with the recording.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.shared.store().version
    }

    /// What has been counted up to now.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let store = self.shared.store();
        Counts {
            kept: store.entries.len() as u64,
            dropped: self.shared.dropped.load(Ordering::Relaxed),
            refused: self.shared.refused.load(Ordering::Relaxed),
            failed: self.shared.failed.load(Ordering::Relaxed),
            secrets: store.masks.count() as u64,
        }
    }

    /// What has been recorded, by the number of the session; 0 is for requests without one.
    #[must_use]
    pub fn recordings(&self) -> BTreeMap<usize, Recording> {
        let entries = self.shared.store().entries.clone();
        let mut recordings: BTreeMap<usize, Recording> = BTreeMap::new();
        for (session, entry) in entries {
            recordings.entry(session).or_default().entries.push(entry);
        }
        for recording in recordings.values_mut() {
            recording.entries.sort_by_key(|entry| entry.started_us);
        }
        recordings
    }

    /// Ends it: requests that are under way get a moment.
    pub fn stop(&mut self) {
        self.endpoint.stop(AT_THE_END);
    }
}

impl Shared {
    fn store(&self) -> std::sync::MutexGuard<'_, Store> {
        // A worker that panicked has left the entries as they were.
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps an entry, masked, unless the limits are reached.
    fn keep(&self, mut entry: Entry) {
        let mut store = self.store();
        let session = self.session(&mut store, &entry);
        if !self.options.keep_secrets && store.masks.entry(&mut entry) {
            // A secret may have been on an earlier page before it was posted.
            let Store { entries, masks, .. } = &mut *store;
            entries.iter_mut().for_each(|(_, earlier)| masks.sweep(earlier));
        }
        let size = size(&entry);
        if store.entries.len() >= self.options.entries_max || store.bytes + size > self.options.bytes_max {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        store.bytes += size;
        store.version += 1;
        store.entries.push((session, entry));
    }

    /// The session of an entry: by the cookie that was sent, else by the one that is set.
    fn session(&self, store: &mut Store, entry: &Entry) -> usize {
        let Some(name) = &self.options.session_cookie else { return 0 };
        let sent = entry.request.headers.iter().filter(|(field, _)| field.eq_ignore_ascii_case("cookie"));
        let sent = sent.flat_map(|(_, value)| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let sent = sent.filter(|(own, _)| own == name).map(|(_, value)| value.to_owned()).next();
        let headers = entry.response.as_ref().map_or(&[][..], |response| &response.headers);
        let set = headers.iter().filter(|(field, _)| field.eq_ignore_ascii_case("set-cookie"));
        let set = set.filter_map(|(_, value)| value.split(';').next()?.trim().split_once('='));
        let mut set = set.filter(|(own, value)| own == name && !value.is_empty()).map(|(_, value)| value.to_owned());
        let set = set.next_back();
        let Some(first) = sent.as_ref().or(set.as_ref()) else { return 0 };
        let number = match store.sessions.get(first) {
            Some(number) => *number,
            None if store.sessions.len() >= self.options.entries_max => return 0,
            None => {
                store.sessions_seen += 1;
                store.sessions.insert(first.clone(), store.sessions_seen);
                store.sessions_seen
            }
        };
        // Servers give a new value when a user signs in: it is the same user.
        if let Some(set) = set
            && store.sessions.len() < self.options.entries_max
        {
            store.sessions.insert(set, number);
        }
        number
    }
}

/// What an entry takes, roughly.
fn size(entry: &Entry) -> u64 {
    let pairs =
        |pairs: &[(String, String)]| pairs.iter().map(|(name, value)| name.len() + value.len() + 64).sum::<usize>();
    let bytes = |body: &crate::recording::Body| body.bytes.as_ref().map_or(0, Vec::len);
    let request =
        entry.request.url.len() + pairs(&entry.request.headers) + entry.request.body.as_ref().map_or(0, bytes);
    let response = entry.response.as_ref().map_or(0, |response| pairs(&response.headers) + bytes(&response.body));
    (request + response + 512) as u64
}
