//! What a run is to do.

use crate::checks::Check;
use crate::counts::series::Sampling;
use crate::directed::director::Directed;
use crate::options::call::Grpc;
use crate::options::websocket::WebSocket;
use crate::reach::{Protocol, Reach, Trust};
use crate::{Observer, Request, Requests, Schedule, Scope, SlowClient, Sockets, Statuses, StopRule, Streaming, Url};
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
    pub requests: Requests,
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
    /// What else responses must be to count as successes; at most [`crate::CHECKS_MAX`]. Their heads and bodies are looked
    /// at for these only.
    pub checks: Vec<Check>,
    /// Requests that are also counted apart, at most 64 times; a request may be in several.
    pub scopes: Vec<Scope>,
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
    /// Who decides what is asked, in place of [`Requests::order`] and sessions; arrivals are then arrivals of what it
    /// does.
    pub directed: Option<Directed>,
    /// How answers that come bit by bit are looked at, if they are.
    pub streaming: Option<Streaming>,
    /// Messages over WebSockets in place of requests, if these are loaded: [`Options::request`] then has the headers of the
    /// opening, and a message that is answered counts as a request with the status 101.
    pub websocket: Option<WebSocket>,
    /// Calls of gRPC in place of requests, if these are made; set by [`Options::call`].
    pub grpc: Option<Grpc>,
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

impl Options {
    /// A closed loop of 10 connections for 10 seconds.
    #[must_use]
    pub fn new(url: Url) -> Self {
        Self {
            url,
            request: Request::default(),
            requests: Requests::default(),
            connections: 10,
            threads: 1,
            schedule: Schedule::Closed,
            stop: StopRule::Duration(Duration::from_secs(10)),
            keep_alive: true,
            pipeline: 1,
            timeout: Duration::from_secs(30),
            expected: Statuses::default(),
            checks: Vec::new(),
            scopes: Vec::new(),
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
            streaming: None,
            websocket: None,
            grpc: None,
        }
    }
}
