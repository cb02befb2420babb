//! What a configuration says of upstreams.

use crate::http::target::{self, Target};
use crate::upstream::php_pool::PhpPool;
use crate::upstream::script_pool::ScriptPool;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Servers of one upstream; more are refused when the configuration is read.
pub(crate) const SERVERS_MAX: usize = 64;
/// The largest weight of a server.
pub(crate) const WEIGHT_MAX: u32 = 1000;

/// Servers that answer for each other, and how they are asked. A reload keeps the connections of rules that equal
/// those before it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct UpstreamRules {
    /// How messages and logs call it: its first server as the configuration writes it.
    pub(crate) name: String,
    /// At least one.
    pub(crate) servers: Vec<UpstreamServer>,
    pub(crate) speaks: Speaks,
    pub(crate) balance: Balance,
    pub(crate) timeouts: UpstreamTimeouts,
    pub(crate) pool: PoolBounds,
    pub(crate) retries: RetryRules,
    pub(crate) health: HealthRules,
    pub(crate) forwarding: ForwardingFields,
    /// The value of Host (`:authority`) in place of the client's.
    pub(crate) host: Option<String>,
    /// Of the servers that have a `tls_name`.
    pub(crate) tls: UpstreamTls,
    /// Requests that are under way at once on one connection of HTTP/2.
    pub(crate) streams_max: u32,
    /// Each connection begins with a header of the PROXY protocol, and is of one request.
    pub(crate) proxy_header: Option<ProxyHeader>,
    /// What of the path stands for what, before it is sent.
    pub(crate) path: PathRule,
    /// What a script is told; None for HTTP.
    pub(crate) gateway: Option<Gateway>,
    /// How long the addresses of a name hold until it is looked up again.
    pub(crate) resolve_every: Duration,
    /// Whether it may hand a request over to a file or a path of the server.
    pub(crate) accel: bool,
    /// Directories with files that it may hand over by their names; none without `accel`.
    pub(crate) send_from: Vec<PathBuf>,
    /// The pool that the server runs for it; none if others run what it asks.
    pub(crate) php: Option<PhpPool>,
    /// The processes that the server runs for it, which run scripts of other kinds.
    pub(crate) scripts: Option<ScriptPool>,
}

impl UpstreamRules {
    /// As many workers as a rule may have it use; none if others run what it asks.
    pub(crate) fn workers_max(&self) -> Option<u32> {
        let of_scripts = || self.scripts.as_ref().map(|pool| pool.workers_max);
        self.php.as_ref().map(|pool| pool.workers_max).or_else(of_scripts)
    }

    /// Whether both are for the same workers of FastCGI, each of which serves one connection at a time: all is equal but
    /// how paths and parameters of a request are made, and what the workers may hand over.
    pub(crate) fn shares_workers(&self, other: &Self) -> bool {
        let own = |rules: &Self| {
            let accel = (false, Vec::new());
            Self { path: PathRule::Unchanged, gateway: None, accel: accel.0, send_from: accel.1, ..rules.clone() }
        };
        self.speaks == Speaks::FastCgi && own(self) == own(other)
    }
}

/// What is spoken with an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaks {
    Http1,
    /// HTTP/2 from the first byte, in the clear or over TLS.
    Http2,
    /// HTTP/2 or HTTP/1.1 as a server chooses in the handshake of TLS (ALPN, RFC 7301).
    Negotiated,
    FastCgi,
    Scgi,
    Uwsgi,
}

/// Where an upstream listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    Address(SocketAddr),
    /// A name that is looked up again and again, and a port.
    Name(String, u16),
    Unix(PathBuf),
}

impl std::fmt::Display for Place {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address(address) => address.fmt(out),
            Self::Name(name, port) => write!(out, "{name}:{port}"),
            Self::Unix(path) => write!(out, "unix:{}", path.display()),
        }
    }
}

/// One server of an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UpstreamServer {
    pub(crate) place: Place,
    /// Its share among the others, from 1 to [`WEIGHT_MAX`].
    pub(crate) weight: u32,
    /// TLS is spoken, and the certificate is for this name.
    pub(crate) tls_name: Option<String>,
}

impl UpstreamServer {
    /// The address, if it needs no look-up.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        if let Place::Address(address) = &self.place { Some(address.ip()) } else { None }
    }
}

/// Which server gets a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Balance {
    /// The one with the fewest requests under way for its weight.
    Waiting,
    /// Each in turn, as often as its weight says.
    RoundRobin,
    /// The same one for the same value.
    Hash(HashOf),
    /// The one that a cookie of this name says; it is set when it is missing.
    Sticky(String),
}

/// What of a request is hashed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HashOf {
    /// The value of a cookie.
    Cookie(String),
    /// The value of a field, its name in lower case.
    Header(String),
    /// The client's address; of IPv6 its /64.
    Client,
    /// The path without its query.
    Path,
}

/// How long each phase of a request may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UpstreamTimeouts {
    /// Until it is connected, TLS included.
    pub(crate) connect: Duration,
    /// Until it takes more of the request.
    pub(crate) send: Duration,
    /// From the request's last byte to the head of the response.
    pub(crate) head: Duration,
    /// Between two pieces of the body.
    pub(crate) body: Duration,
    /// Without a byte in either direction, behind an upgrade.
    pub(crate) tunnel: Duration,
    /// A connection that is kept without a request.
    pub(crate) idle: Duration,
    /// In the queue for a connection.
    pub(crate) queue: Duration,
}

impl Default for UpstreamTimeouts {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            connect: seconds(5),
            send: seconds(60),
            head: seconds(60),
            body: seconds(60),
            tunnel: seconds(3600),
            idle: seconds(60),
            queue: seconds(10),
        }
    }
}

/// Bounds on connections, for each server of an upstream and all loops together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PoolBounds {
    /// Connections that are kept without a request.
    pub(crate) idle_max: usize,
    /// Requests under way.
    pub(crate) connections_max: usize,
    /// Requests of the whole upstream that wait; more get 503.
    pub(crate) queue_max: usize,
    /// So long a request may have to wait for its turn; one that would have to wait for longer is refused at once. None
    /// bounds that.
    pub(crate) queue_wait: Option<Duration>,
    pub(crate) limit: LimitBy,
}

impl PoolBounds {
    /// `queue_wait` in nanoseconds; the most there is if it is none.
    pub(crate) fn wait_max_ns(&self) -> u64 {
        self.queue_wait.map_or(u64::MAX, |wait| u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Default for PoolBounds {
    fn default() -> Self {
        Self {
            idle_max: 64,
            connections_max: 1024,
            queue_max: 1024,
            queue_wait: Some(Duration::from_millis(500)),
            limit: LimitBy::Rule,
        }
    }
}

/// What bounds the requests under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LimitBy {
    /// `connections_max` alone.
    Rule,
    /// What is measured, up to `connections_max` (`upstream/concurrency.rs`).
    Measured,
}

/// When a request is sent once more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RetryRules {
    /// How often a request is sent at most, the first time included.
    pub(crate) tries_max: u32,
    /// Requests sent again among all of the last ten seconds, in percent.
    pub(crate) budget_percent: u32,
    /// So many in ten seconds are allowed beside it.
    pub(crate) budget_min: u32,
    /// Statuses with which a safe or idempotent request is sent again, such as 502 and 503; none if it is empty.
    pub(crate) statuses: Vec<u16>,
}

impl Default for RetryRules {
    fn default() -> Self {
        Self { tries_max: 3, budget_percent: 20, budget_min: 10, statuses: Vec::new() }
    }
}

/// When a server counts as out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HealthRules {
    pub(crate) passive: PassiveRules,
    pub(crate) probe: Option<ProbeRules>,
    /// How long a server's share grows after it has come back; zero = at once.
    pub(crate) slow_start: Duration,
}

impl Default for HealthRules {
    fn default() -> Self {
        Self { passive: PassiveRules::default(), probe: None, slow_start: Duration::ZERO }
    }
}

/// What requests tell of a server's health.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PassiveRules {
    /// Failures one after the other that put it out; 0 = none do.
    pub(crate) failures: u32,
    /// Failures among the requests of a window that put it out, in percent; 0 = none do.
    pub(crate) percent: u32,
    /// A window with fewer requests says nothing.
    pub(crate) requests_min: u32,
    pub(crate) window: Duration,
    /// How long it is out at first; each time it doubles, up to `back_off_max`.
    pub(crate) back_off: Duration,
    pub(crate) back_off_max: Duration,
}

impl Default for PassiveRules {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            failures: 3,
            percent: 50,
            requests_min: 20,
            window: seconds(10),
            back_off: seconds(2),
            back_off_max: seconds(60),
        }
    }
}

/// How a server is asked for its health.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProbeRules {
    /// The target of a GET.
    pub(crate) path: String,
    pub(crate) every: Duration,
    pub(crate) timeout: Duration,
    /// Good answers one after the other that bring it back.
    pub(crate) rise: u32,
    /// Bad ones that put it out.
    pub(crate) fall: u32,
    /// The first and the last status of a good answer.
    pub(crate) statuses: (u16, u16),
}

/// Which fields tell an upstream of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ForwardingFields {
    None,
    /// X-Forwarded-For, X-Forwarded-Proto and X-Forwarded-Host.
    XForwarded,
    /// RFC 7239.
    Forwarded,
    Both,
}

impl ForwardingFields {}

/// Versions of the PROXY protocol (<https://www.haproxy.org/download/2.9/doc/proxy-protocol.txt>).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProxyHeader {
    /// A line of text.
    V1,
    /// A block of bytes.
    V2,
}

/// How TLS is spoken with an upstream. Its certificate is always checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct UpstreamTls {
    /// Authorities that are trusted; None for those of the system.
    pub(crate) ca: Option<PathBuf>,
    /// What the server shows of itself.
    pub(crate) client: Option<ClientCertificate>,
    /// Of what these files hold (SHA-256): an upstream whose files have changed is another one.
    pub(crate) digest: [u8; 32],
}

/// A certificate with its key, both in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClientCertificate {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// The path that an upstream is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PathRule {
    /// As the client wrote it.
    Unchanged,
    /// This path stands for the first bytes of the decoded path, as a root does for its prefix.
    Instead { mount_bytes: usize, path: String },
}

impl PathRule {
    /// Writes the target that the upstream is asked for, with the query; false if it is the client's own. There is one
    /// slash between the path that is put and the rest, however both are written.
    pub(crate) fn write(&self, found: &Target<'_>, text: &mut Vec<u8>) -> bool {
        let Self::Instead { mount_bytes, path } = self else { return false };
        let (mounted, rest) = found.path.split_at((*mount_bytes).min(found.path.len()));
        text.clear();
        if rest.is_empty() && !mounted.ends_with(b"/") {
            text.extend_from_slice(path.as_bytes());
        } else {
            text.extend_from_slice(path.trim_end_matches('/').as_bytes());
            text.push(b'/');
            target::encode(rest.strip_prefix(b"/").unwrap_or(rest), text);
        }
        text.extend_from_slice(found.query);
        true
    }
}

/// What a script is told of itself (RFC 3875 section 4.1).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Gateway {
    /// Where scripts lie as the application sees it: DOCUMENT_ROOT. Without one there is no SCRIPT_FILENAME.
    pub(crate) root: Option<PathBuf>,
    /// What stands for a directory.
    pub(crate) index: Option<String>,
    /// How the names of scripts end, such as `.php`; what is behind such a name is PATH_INFO. If there are none, the
    /// application has all paths below `mount`, or each file there is a script.
    pub(crate) endings: Vec<String>,
    /// Whether each file below `mount` is a script, by any name.
    pub(crate) is_any: bool,
    /// SCRIPT_NAME where there are no endings: the beginning of all paths of the application. With `is_any` it ends with
    /// a slash.
    pub(crate) mount: String,
    /// Further parameters, which count more than those that the server makes.
    pub(crate) params: Vec<(String, String)>,
    /// Bytes of a script's path that the root stands for.
    pub(crate) alias_bytes: usize,
    /// Whether scripts get Authorization where the server has checked the password.
    pub(crate) passes_authorization: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stands_for_a_prefix() {
        for (prefix, put, path, expected) in [
            ("", "/", "/a", "/a?q"),
            ("", "/base", "/a b", "/base/a%20b?q"),
            ("", "/base/", "/", "/base/?q"),
            ("/api", "/base", "/api", "/base?q"),
            ("/api", "/base", "/api/", "/base/?q"),
            ("/api", "/base/", "/api/x", "/base/x?q"),
            ("/api/", "/base", "/api/x/", "/base/x/?q"),
            ("/api/", "/base", "/api/", "/base/?q"),
            ("/api/", "/", "/api/x", "/x?q"),
            ("/api", "/", "/api", "/?q"),
            ("/exact", "/other", "/exact", "/other?q"),
        ] {
            let rule = PathRule::Instead { mount_bytes: prefix.len(), path: put.to_owned() };
            let mut text = b"before".to_vec();
            assert!(rule.write(&Target { path: path.as_bytes(), query: b"?q" }, &mut text));
            assert_eq!(String::from_utf8_lossy(&text), expected, "{prefix} {put} {path}");
        }
        assert!(!PathRule::Unchanged.write(&Target { path: b"/", query: b"" }, &mut Vec::new()));
    }
}
