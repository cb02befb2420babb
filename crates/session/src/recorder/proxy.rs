//! The proxy: it listens, and tells what it has recorded.

use super::kept::{Options, Shared};
use super::passing::{self, LIMITS};
use crate::recording::Recording;
use crate::trust::TrustError;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use weir_endpoint::Endpoint;

/// How long requests that are under way may take at the end.
const AT_THE_END: Duration = Duration::from_secs(2);

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
