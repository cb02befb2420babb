//! The console while it listens.

use crate::cluster::{ClusterCalls, LiveCluster};
use crate::guard::Guard;
use crate::live::{Live, MOST_SERVERS, MOST_WATCHES};
use crate::refusal::ConsoleError;
use crate::replay::{LiveReplay, ReplayCalls};
use crate::server::LiveServer;
use crate::site::{Now, Site};
use crate::transactions::{LiveAgent, TransactionCalls};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use weir_endpoint::{Answer, Endpoint, Limits, Request};

/// What the page may do: load its own scripts, styles and data, nothing else from anywhere.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// As many handlers as servers that are silent and watches that go on hold at a time, the questions to a cluster and an
/// agent, and some for runs.
const LIMITS: Limits = Limits {
    connections: 256,
    handlers: MOST_SERVERS + MOST_WATCHES + 8,
    body_bytes: 64 << 10,
    head: Duration::from_secs(30),
    body_within: Some(Duration::from_secs(30)),
};

/// What the console shows, and where.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Runs, or directories that hold runs.
    pub directories: Vec<PathBuf>,
    /// The port on 127.0.0.1; 0 is any free one.
    pub port: u16,
    /// The version that the page shows.
    pub version: String,
    /// Running servers, which get rooms of their own; at most 8.
    pub servers: Vec<Arc<dyn LiveServer>>,
    /// A member of a cluster, which gets a room of its own.
    pub cluster: Option<Arc<dyn LiveCluster>>,
    /// An agent of business transactions, which gets rooms of its own.
    pub agent: Option<Arc<dyn LiveAgent>>,
    /// What a server recorded of its rules, on which others are replayed in a room of its own.
    pub replay: Option<Arc<dyn LiveReplay>>,
}

/// A console that listens as long as it lives.
#[derive(Debug)]
pub struct Console {
    endpoint: Endpoint,
    address: String,
    runs: usize,
    stop: Arc<AtomicBool>,
}

impl Console {
    /// Looks for runs and begins to listen.
    ///
    /// # Errors
    /// [`ConsoleError`].
    pub fn begin(settings: Settings) -> Result<Self, ConsoleError> {
        let stop = Arc::new(AtomicBool::new(false));
        let port = settings.port;
        if settings.servers.len() > MOST_SERVERS {
            return Err(ConsoleError::Servers { given: settings.servers.len(), most: MOST_SERVERS });
        }
        let now = Now {
            live: Live::new(settings.servers),
            cluster: settings.cluster.map(ClusterCalls::new),
            transactions: settings.agent.map(TransactionCalls::new),
            replay: settings.replay.map(ReplayCalls::new),
        };
        let site = Site::new(settings.directories, settings.version, now, Arc::clone(&stop))?;
        let runs = site.count();
        // The guard needs the port, which is known once the endpoint listens: until then requests get 503.
        let shared: Arc<OnceLock<(Guard, Site)>> = Arc::default();
        let handled = Arc::clone(&shared);
        let handler = move |request: Request| {
            with_policy(match handled.get() {
                Some((guard, site)) => answered(guard, site, &request),
                None => Answer::line(503, "weir console is about to begin"),
            })
        };
        let endpoint = Endpoint::start(&format!("127.0.0.1:{port}"), LIMITS, Arc::new(handler))?;
        let port = endpoint.address().port();
        let guard = Guard::new(port)?;
        let address = format!("http://127.0.0.1:{port}{}", guard.path());
        let _first = shared.set((guard, site));
        Ok(Self { endpoint, address, runs, stop })
    }

    /// The address of the page, with its word.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Runs that were found.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.runs
    }

    /// Takes no more requests, stops reading, and gives answers that are under way a while to end.
    pub fn stop(&mut self, patience: Duration) {
        self.stop.store(true, Ordering::Relaxed);
        self.endpoint.stop(patience);
    }
}

fn answered(guard: &Guard, site: &Site, request: &Request) -> Answer {
    match guard.admit(request).and_then(|rest| site.answer(rest, request)) {
        Ok(answer) => answer,
        Err(refusal) => refusal.answer(),
    }
}

/// Adds the header fields that each answer has.
pub(crate) fn with_policy(mut answer: Answer) -> Answer {
    let fixed = [
        ("Content-Security-Policy", POLICY),
        ("Cross-Origin-Opener-Policy", "same-origin"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        ("Referrer-Policy", "no-referrer"),
        ("X-Content-Type-Options", "nosniff"),
        ("X-Frame-Options", "DENY"),
        ("Cache-Control", "no-store"),
    ];
    answer.headers.extend(fixed.map(|(name, value)| (name.to_owned(), value.to_owned())));
    answer
}
