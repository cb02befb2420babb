//! What to run, and how it is watched and ended.

use crate::directed::Directed;
use crate::protocol::Protocol;
use crate::reach::Reach;
use crate::series::{Sampling, Series};
use crate::slices::locked;
use crate::{Asks, LoadError, Observer, Request, Schedule, SlowClient, Sockets, Statuses, StopRule, Url};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use weir_wire::Producer;

/// What a run does.
#[derive(Debug)]
pub struct Options {
    /// What is loaded.
    pub url: Url,
    /// What is asked.
    pub request: Request,
    /// What else is asked, where that is more than one constant request.
    pub asks: Asks,
    /// The most connections open at a time, over all threads and to each host; at least 1. A closed loop uses at most
    /// so many at a time.
    pub connections: u32,
    /// Threads, each with a loop and its share of connections and arrivals; at least 1.
    pub threads: u32,
    /// When requests are sent.
    pub schedule: Schedule,
    /// When the run ends.
    pub stop: StopRule,
    /// Whether a connection carries more than one request.
    pub keep_alive: bool,
    /// Requests written in one go; more than 1 only in a closed loop with keep-alive.
    pub pipeline: u32,
    /// How long a connection or a response may take from the moment the generator began with it.
    pub timeout: Duration,
    /// Which statuses count as success: the times that are reported are those of successes.
    pub expected: Statuses,
    /// The most arrivals of an open loop that wait in the generator for a connection, over all threads.
    pub queue: usize,
    /// The CPU that the first thread is pinned to; further threads take the CPUs behind it.
    pub cpu: Option<usize>,
    /// How the server's certificate is judged.
    pub trust: Trust,
    /// Which version of HTTP is spoken.
    pub protocol: Protocol,
    /// How bytes come and go.
    pub io: Io,
    /// How the server is reached.
    pub reach: Reach,
    /// What slows each connection's client down.
    pub slow: SlowClient,
    /// A ring for the events of each thread, or none at all.
    pub events: Vec<Producer>,
    /// An observer for each thread, or none at all.
    pub observers: Vec<Box<dyn Observer>>,
    /// The bytes of each request as they are to go out, in place of those that [`Options::request`] would become; its
    /// method still says whether a response has a body.
    pub verbatim: Option<Vec<u8>>,
    /// Whether a connection that is done with is closed at once by this side; otherwise the server is given a second to
    /// close it first, which keeps the port free here. Over HTTP/2 a server in the clear does not close first: what was
    /// made for a single request is then reset.
    pub hang_up: bool,
    /// How finely the run is told over time.
    pub sampling: Sampling,
    /// How sockets are made.
    pub sockets: Sockets,
    /// Who decides what is asked, in place of [`Asks::order`] and sessions; arrivals are then arrivals of what it does.
    pub directed: Option<Directed>,
}

/// How bytes come and go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Io {
    /// By io_uring where the kernel has it (6.1 and later) and it is cheaper: plain connections that are kept, until a
    /// response comes that is longer than 16 KiB.
    #[default]
    Auto,
    /// A call for each reception and each transmission, told by epoll when there is something to do.
    Epoll,
    /// By io_uring, or not at all.
    Uring,
}

impl Io {
    /// Its name, as options and reports have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Epoll => "epoll",
            Self::Uring => "io_uring",
        }
    }
}

/// How the server's certificate is judged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Trust {
    /// By the roots that the system trusts.
    #[default]
    System,
    /// By the certificates of this PEM file, or of all such files in this directory.
    File(PathBuf),
    /// Not at all.
    Anything,
}

impl Options {
    /// A closed loop of 10 connections for 10 seconds.
    #[must_use]
    pub fn new(url: Url) -> Self {
        Self {
            url,
            request: Request::default(),
            asks: Asks::default(),
            connections: 10,
            threads: 1,
            schedule: Schedule::Closed,
            stop: StopRule::Duration(Duration::from_secs(10)),
            keep_alive: true,
            pipeline: 1,
            timeout: Duration::from_secs(30),
            expected: Statuses::default(),
            queue: 100_000,
            cpu: None,
            trust: Trust::System,
            protocol: Protocol::default(),
            io: Io::Auto,
            reach: Reach::default(),
            slow: SlowClient::default(),
            events: Vec::new(),
            observers: Vec::new(),
            verbatim: None,
            hang_up: false,
            sampling: Sampling::default(),
            sockets: Sockets::default(),
            directed: None,
        }
    }

    /// Whether these options can be run; [`crate::run`] asks it too.
    ///
    /// # Errors
    /// [`LoadError::Options`] or [`LoadError::Request`].
    pub fn check(&self) -> Result<(), LoadError> {
        self.request.bytes(&self.url, self.keep_alive)?;
        match self.asks.hosts() {
            none if none.is_empty() => self.reach.check(&[&self.url])?,
            hosts => self.reach.check(&hosts)?,
        }
        self.protocol.check(self)?;
        self.sampling.check()?;
        self.slow.check(self)?;
        let wrong = |what| Err(LoadError::Options(what));
        if self.connections == 0 || self.connections > 1_000_000 {
            return wrong("the number of connections lies between 1 and 1000000");
        }
        self.asks.check(self)?;
        self.check_directed()?;
        if self.io == Io::Uring && !self.asks.are_ready_made(self.pipeline) {
            return wrong(
                "io_uring sends no requests that are put together as they go: leave it out with sessions, a cookie jar, or a \
                 pipeline of different requests",
            );
        }
        let hosts = self.asks.hosts();
        let encrypted = if hosts.is_empty() { self.url.encrypted } else { hosts.iter().any(|url| url.encrypted) };
        if self.io == Io::Uring && encrypted {
            return wrong("io_uring carries no TLS here: leave it out");
        }
        if self.threads == 0 || self.threads > self.connections {
            return wrong("each thread needs a connection: there are more threads than connections, or none");
        }
        if self.threads > 256 {
            return wrong("the number of threads is at most 256");
        }
        if self.queue > 100_000_000 {
            return wrong("the queue holds at most 100000000 arrivals");
        }
        if self.pipeline == 0 || self.pipeline > 1024 {
            return wrong("the pipeline's depth lies between 1 and 1024");
        }
        if self.pipeline > 1 && (self.schedule.rate_per_s().is_some() || !self.keep_alive) {
            return wrong("pipelining needs a closed loop and kept-alive connections");
        }
        if let Some(problem) = self.schedule.problem() {
            return wrong(problem);
        }
        if self.timeout.is_zero() {
            return wrong("the timeout is longer than nothing");
        }
        match self.stop {
            StopRule::Requests(0) | StopRule::Either { requests: 0, .. } => {
                wrong("the number of requests is at least 1")
            }
            StopRule::Duration(time) | StopRule::Either { time, .. } if time.is_zero() => {
                wrong("the duration is longer than nothing")
            }
            _ if !self.events.is_empty() && self.events.len() != self.threads as usize => {
                wrong("events need one ring for each thread")
            }
            _ if !self.observers.is_empty() && self.observers.len() != self.threads as usize => {
                wrong("observers: one is needed for each thread")
            }
            _ if self.verbatim.as_ref().is_some_and(Vec::is_empty) => wrong("a request has at least one byte"),
            _ => Ok(()),
        }
    }
}

impl Options {
    /// Whether a director fits the other options.
    fn check_directed(&self) -> Result<(), LoadError> {
        let wrong = |what| Err(LoadError::Options(what));
        let Some(directed) = &self.directed else { return Ok(()) };
        if self.threads != 1 || self.io == Io::Uring || self.protocol != Protocol::Http1 {
            return wrong("a director has one loop, over HTTP/1.1 and without io_uring");
        }
        let decides = self.asks.sessions.is_some() || self.asks.mix.is_some();
        if decides || self.asks.cookie_jar || self.verbatim.is_some() || self.pipeline > 1 {
            return wrong("a director decides itself what is asked, in which order, and with which cookies");
        }
        if !self.keep_alive || directed.at_a_time == 0 {
            return wrong("a director closes connections itself, and has at least one arrival under way at a time");
        }
        Ok(())
    }
}

/// The live side of a run: shared with the code that shows its progress or ends it early.
///
/// The counters are brought up to date about ten times a second.
#[derive(Debug, Default)]
pub struct Control {
    stop: AtomicBool,
    pub(crate) requests: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) connections: AtomicU64,
    pub(crate) unexpected: AtomicU64,
    pub(crate) series: Mutex<Series>,
}

/// What one loop has of the shared counters: requests, errors, drops, connections, unexpected statuses.
pub(crate) type Published = [u64; 5];

impl Control {
    /// Brings the shared counters up to date with one loop, of which they hold `published`.
    pub(crate) fn add(&self, published: &mut Published, now: Published) {
        let counters = [&self.requests, &self.errors, &self.dropped, &self.connections, &self.unexpected];
        for ((counter, now), before) in counters.into_iter().zip(now).zip(published) {
            counter.fetch_add(now.wrapping_sub(*before), Ordering::Relaxed);
            *before = now;
        }
    }

    /// Ends the run: nothing more is begun, what is under way has a second to finish.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether the run was asked to end.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whole responses of any status so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Whole responses so far whose status is not expected.
    #[must_use]
    pub fn unexpected(&self) -> u64 {
        self.unexpected.load(Ordering::Relaxed)
    }

    /// Failed requests so far.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// Arrivals so far that found the generator's queue full.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Looks at the intervals that are over.
    ///
    /// The loops never wait for it: what they hand out meanwhile is added afterwards.
    pub fn look<R>(&self, at: impl FnOnce(&Series) -> R) -> R {
        at(&locked(&self.series))
    }

    /// Connections that are open now.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }
}
