//! Whether options can go together.

use crate::LoadError;
use crate::checks::CHECKS_MAX;
use crate::error::request::RequestError;
use crate::options::settings::{Io, Options};
use crate::reach::protocol::Protocol;
use crate::reach::proxy::ProxyKind;
use crate::reach::tls::{Tls, TlsVersion};
use crate::requests::SCOPES_MAX;
use crate::requests::Version;
use crate::requests::listed::{HOSTS_MAX, Order, REQUESTS_MAX};
use crate::requests::traceparent;
use crate::schedule::{Schedule, StopRule};
use crate::sessions::session::{BURST_MAX, Session, Sessions, Think};
use crate::slow::SlowClient;
use crate::workload::fileset::FileSet;
use crate::workload::mix::Mix;
use crate::workload::requests::Requests;
use std::time::Duration;

/// The lowest and the highest limit, bytes a second.
const LIMITS: (f64, f64) = (0.1, 1e10);
/// The longest added latency.
const LATENCY_MAX: Duration = Duration::from_secs(3600);
/// The longest patience where many requests are under way on a connection.
const PATIENCE_MAX: Duration = Duration::from_secs(3600);
/// How soon a connection of HTTP/3 may move again: as often as a loop looks at its connections.
const MIGRATE_MIN: Duration = Duration::from_millis(100);
/// The most streams of a connection that can be asked for.
const STREAMS_MAX: u32 = 10_000;
/// The most streams of all connections together: each has a place in memory from the start.
const STREAMS_IN_ALL_MAX: u64 = 4_000_000;

impl Options {
    /// Whether these options can be run; [`crate::run`] asks it too.
    ///
    /// # Errors
    /// [`LoadError::Options`] or [`LoadError::Request`].
    pub fn check(&self) -> Result<(), LoadError> {
        self.request.bytes(&self.url, self.keep_alive)?;
        match self.requests.hosts() {
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
        self.requests.check(self)?;
        self.check_directed()?;
        self.check_checks()?;
        self.check_streams()?;
        if self.io == Io::Uring && !self.requests.are_ready_made(self.pipeline) {
            return wrong(
                "io_uring sends no requests that are put together as they go: leave it out with sessions, a cookie jar, or a \
                 pipeline of different requests",
            );
        }
        let hosts = self.requests.hosts();
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

    /// Whether what comes bit by bit fits the other options.
    fn check_streams(&self) -> Result<(), LoadError> {
        self.websocket.as_ref().map_or(Ok(()), |websocket| websocket.check(self))?;
        self.grpc.as_ref().map_or(Ok(()), |grpc| grpc.check(self))?;
        self.streaming.as_ref().map_or(Ok(()), |streaming| streaming.check(self))
    }

    /// Whether what is looked at of responses fits the other options.
    fn check_checks(&self) -> Result<(), LoadError> {
        let wrong = |what| Err(LoadError::Options(what));
        if self.checks.len() > CHECKS_MAX {
            return wrong("there are more than 64 checks");
        }
        if self.scopes.len() > SCOPES_MAX {
            return wrong("objectives are of more than 64 different requests");
        }
        if self.checks.is_empty() {
            return Ok(());
        }
        if self.io == Io::Uring {
            return wrong(
                "io_uring brings responses of many connections at once, and checks would hold them up: leave it out",
            );
        }
        if self.directed.is_some() {
            return wrong("a director looks at responses itself: leave checks out");
        }
        Ok(())
    }

    /// Whether a director fits the other options.
    fn check_directed(&self) -> Result<(), LoadError> {
        let wrong = |what| Err(LoadError::Options(what));
        let Some(directed) = &self.directed else { return Ok(()) };
        if self.threads != 1 || self.io == Io::Uring || self.protocol != Protocol::Http1 {
            return wrong("a director has one loop, over HTTP/1.1 and without io_uring");
        }
        let decides = self.requests.sessions.is_some() || self.requests.mix.is_some();
        if decides || self.requests.cookie_jar || self.verbatim.is_some() || self.pipeline > 1 {
            return wrong("a director decides itself what is asked, in which order, and with which cookies");
        }
        if !self.keep_alive || directed.at_a_time == 0 {
            return wrong("a director closes connections itself, and has at least one arrival under way at a time");
        }
        Ok(())
    }
}

impl Protocol {
    /// Whether it can do what else is asked for.
    pub(crate) fn check(self, options: &Options) -> Result<(), LoadError> {
        let Some(streams) = self.streams() else { return Ok(()) };
        let wrong = |what| Err(LoadError::Options(what));
        if streams == 0 || streams > STREAMS_MAX {
            return wrong("the number of streams of a connection lies between 1 and 10000");
        }
        if u64::from(streams) * u64::from(options.connections) > STREAMS_IN_ALL_MAX {
            return wrong("the streams of all connections together are at most 4000000");
        }
        if options.pipeline > 1 {
            return wrong("HTTP/2 and HTTP/3 have no pipeline: their streams (--streams) take the place");
        }
        let listed = options.requests.list.iter().map(|listed| (&listed.url, &listed.request));
        let mut all = listed.chain([(&options.url, &options.request)]);
        if all.clone().any(|(_, request)| request.version == Version::Http10) {
            return wrong("a request has one version: HTTP/1.0, HTTP/2 or HTTP/3");
        }
        if let Self::Http3 { early_data, migrate_every, .. } = self {
            check_http3(options, early_data, migrate_every)?;
        }
        if !options.keep_alive && streams > 1 {
            return wrong("a new connection for each request has one stream: several need connections that are kept");
        }
        let by_proxy = options.reach.proxy.as_ref().is_some_and(|proxy| proxy.kind == ProxyKind::Http);
        if by_proxy && all.any(|(url, _)| !url.encrypted) {
            return wrong("an HTTP proxy passes HTTP/2 on only if it is encrypted: https://, or a SOCKS proxy");
        }
        if options.requests.hosts().len() > 1 {
            return wrong("requests to several hosts are made over HTTP/1.1 only");
        }
        if options.io == Io::Uring {
            return wrong("io_uring carries HTTP/1.1 only: leave it out");
        }
        if options.verbatim.is_some() {
            return wrong("a request word for word can be sent over HTTP/1.1 only");
        }
        let (alpn, name) = (&options.reach.tls.alpn, self.name_in_tls());
        if *alpn != Tls::default().alpn && !alpn.iter().any(|offered| offered == name) {
            return wrong(
                "HTTP/2 is agreed on as h2 in the TLS handshake, HTTP/3 as h3: it must be among those offered",
            );
        }
        Ok(())
    }
}

/// Whether what HTTP/3 can do is all that is asked for.
fn check_http3(options: &Options, early_data: bool, migrate_every: Option<Duration>) -> Result<(), LoadError> {
    let wrong = |what| Err(LoadError::Options(what));
    let reach = &options.reach;
    let listed = options.requests.list.iter().map(|listed| &listed.url);
    let one = options.requests.list.is_empty().then_some(&options.url);
    if listed.chain(one).any(|url| !url.encrypted) {
        return wrong("HTTP/3 is always encrypted: give an https:// URL");
    }
    if reach.unix.is_some() {
        return wrong("HTTP/3 goes over UDP, not over a Unix socket: leave --unix out");
    }
    if reach.proxy.is_some() {
        return wrong("HTTP/3 goes over UDP, which proxies do not pass on here: leave --proxy out, or speak HTTP/2");
    }
    if reach.tls.version == Some(TlsVersion::Tls12) {
        return wrong("QUIC is encrypted by TLS 1.3 only (RFC 9001 4.2): leave --tls out");
    }
    if options.requests.sessions.is_some() {
        return wrong("sessions (--sessions) are run over HTTP/1.1 and HTTP/2, not over HTTP/3");
    }
    if options.sockets.reset {
        return wrong("a connection over UDP cannot be reset by its socket: leave that out with HTTP/3");
    }
    if early_data && !reach.tls.resume {
        return wrong("0-RTT (--early-data) needs sessions that are resumed: give --resume, too");
    }
    if migrate_every.is_some_and(|every| every < MIGRATE_MIN) {
        return wrong("a connection moves at most each 100 ms (--migrate-every)");
    }
    if migrate_every.is_some() && !options.keep_alive {
        return wrong("a connection for one request does not move: leave --migrate-every out");
    }
    Ok(())
}

impl SlowClient {
    /// Whether these can be honoured with the other options.
    pub(crate) fn check(&self, options: &Options) -> Result<(), LoadError> {
        let wrong = |what| Err(LoadError::Options(what));
        let fits = |rate: Option<f64>| rate.is_none_or(|rate| (LIMITS.0..=LIMITS.1).contains(&rate));
        if !fits(self.link.read_bytes_per_s) || !fits(self.link.write_bytes_per_s) {
            return wrong("a client's limit lies between 0.1 B/s and 10 GB/s");
        }
        if self.link.latency > LATENCY_MAX {
            return wrong("the added latency is at most an hour");
        }
        if !self.is_slow() {
            return Ok(());
        }
        let longest = self.patience.map_or(Duration::ZERO, Think::longest_or_mean);
        if options.protocol != Protocol::Http1 && longest > PATIENCE_MAX {
            return wrong("over HTTP/2 and HTTP/3 users wait for at most an hour before they click stop");
        }
        if options.directed.is_some() {
            return wrong("clients that a director drives are not slowed down: leave limits, latency and patience out");
        }
        if options.io == Io::Uring {
            return wrong(
                "io_uring receives as soon as something comes, which a slow client must not: leave it out with limits, \
                 latency and patience",
            );
        }
        Ok(())
    }
}

impl Sessions {
    /// Whether they can be run with the other options.
    pub(crate) fn check(&self, requests: &Requests, options: &Options) -> Result<(), LoadError> {
        let wrong = |what| Err(LoadError::Options(what));
        let known = requests.list.len().max(1);
        let bursts = || self.list.iter().flat_map(Session::bursts);
        if self.list.is_empty() || self.list.iter().any(|session| session.bursts().is_empty()) {
            return wrong("there are no sessions, or one without requests");
        }
        if bursts().any(|burst| burst.requests.is_empty() || burst.requests.len() > BURST_MAX) {
            return wrong("a burst has between 1 and 1024 requests");
        }
        if bursts().any(|burst| burst.requests.iter().any(|request| *request as usize >= known)) {
            return wrong("a session asks a request that is not there");
        }
        if options.pipeline > 1 || !options.keep_alive || options.verbatim.is_some() {
            return wrong("sessions say themselves what goes out together, over connections that are kept");
        }
        let host = |listed: u32| requests.list.get(listed as usize).map(|listed| &listed.url);
        let is_split = |session: &Session| {
            let first = session.bursts().first().and_then(|burst| host(burst.requests[0]));
            let mut all = session.bursts().iter().flat_map(|burst| &burst.requests);
            first.is_some_and(|first| all.any(|request| host(*request).is_some_and(|other| !first.is_same_host(other))))
        };
        if requests.hosts().len() > 1 && self.list.iter().any(is_split) {
            return wrong("all requests of one session go to one host: its connection is its own");
        }
        Ok(())
    }
}

impl Requests {
    /// Whether these requests can be asked with the other options.
    pub(crate) fn check(&self, options: &Options) -> Result<(), LoadError> {
        let wrong = |what| Err(LoadError::Options(what));
        if self.list.len() > REQUESTS_MAX {
            return wrong("there are more than 1000000 different requests");
        }
        let hosts = self.hosts().len();
        if hosts > HOSTS_MAX {
            return wrong("the requests go to more than 256 hosts");
        }
        if hosts as u64 * u64::from(options.connections) > 1_000_000 {
            return wrong("the number of connections, times that of the hosts, is at most 1000000");
        }
        if hosts > 1 && options.pipeline > 1 {
            return wrong("pipelining needs one host: the requests go to several");
        }
        if options.verbatim.is_some() && (!self.list.is_empty() || !self.cookies.is_empty() || self.cookie_jar) {
            return wrong("a request that is given byte for byte is the only one, and has no cookies put in");
        }
        if self.list.iter().any(|listed| listed.weight == 0) {
            return wrong("the weight of a request is at least 1");
        }
        if let Order::Listed(order) = &self.order
            && (order.is_empty() || order.iter().any(|request| *request as usize >= self.list.len().max(1)))
        {
            return wrong("the order of the requests is empty, or names one that is not there");
        }
        if let Some(mix) = &self.mix {
            mix.check(self, options)?;
        }
        if let Some(sessions) = &self.sessions {
            sessions.check(self, options)?;
        }
        if self.traces.is_some() {
            self.check_traces(options)?;
        }
        for (name, value) in &self.cookies {
            if !is_cookie(name, value) {
                return Err(RequestError::Cookie { cookie: name.clone() }.into());
            }
        }
        Ok(())
    }
}

impl Requests {
    /// Whether the requests can say of which trace they are.
    fn check_traces(&self, options: &Options) -> Result<(), LoadError> {
        let wrong = |what| Err(LoadError::Options(what));
        if options.verbatim.is_some() || options.directed.is_some() {
            return wrong("a request that is given byte for byte, or by a director, says itself of which trace it is");
        }
        let requests = self.list.iter().map(|listed| &listed.request).chain([&options.request]);
        let mut names = requests.flat_map(|request| &request.headers).map(|(name, _)| name);
        if names.any(|name| name.eq_ignore_ascii_case(traceparent::NAME)) {
            return wrong("the header traceparent is set for each request: leave your own out");
        }
        Ok(())
    }
}

impl Mix {
    /// Whether the mix can be asked with the other options.
    pub(crate) fn check(&self, requests: &Requests, options: &Options) -> Result<(), LoadError> {
        let wrong = |what| Err(LoadError::Options(what));
        self.files.check()?;
        if requests.list.len() != self.files.kinds() as usize {
            return wrong("a mix asks for the files of its set, and for nothing else");
        }
        if requests.order != Order::InTurn {
            return wrong("a mix says itself in which order files are asked for");
        }
        if options.protocol != Protocol::Http1 {
            return wrong("a mix (--mix) is asked for over HTTP/1.1 only");
        }
        if requests.cookie_jar {
            return wrong("files set no cookies: leave the cookie jar (--cookie-jar) out with a mix (--mix)");
        }
        if self.directories_zipf.is_some() && !matches!(self.files, FileSet::SpecWeb96 { .. }) {
            return wrong("only the directories of specweb96 can be asked for by Zipf's law (--directory-zipf)");
        }
        if self.has_users() && requests.sessions.is_some() {
            return wrong("the users of a mix are all the users there are: leave the sessions out");
        }
        if self.has_users() && (options.pipeline > 1 || !options.keep_alive) {
            return wrong("users ask for one file after the other, over connections that are kept");
        }
        if let Some(crowd) = &self.crowd {
            if let Some(problem) = crowd.problem() {
                return wrong(problem);
            }
            if !matches!(&options.schedule, Schedule::Changing { profile, .. } if *profile == crowd.profile) {
                return wrong("a flash crowd says itself when its clients come: leave rates and arrivals out");
            }
        } else if self.has_users() && options.schedule != Schedule::Closed {
            return wrong("the users of surge are as many as there are connections (-c): leave rates and arrivals out");
        }
        if self.directories_zipf.is_some_and(|exponent| !(exponent > 0.0 && exponent <= 10.0)) {
            return wrong("the exponent of Zipf's law lies above 0 and at most at 10");
        }
        Ok(())
    }
}

/// Whether a name and a value may stand in a Cookie header (RFC 6265 4.1.1; values more widely, as they are in use).
fn is_cookie(name: &str, value: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b';';
    !name.is_empty() && name.bytes().all(|byte| is_plain(byte) && byte != b'=') && value.bytes().all(is_plain)
}
