//! The state and the counts of the server as one value, which the page, the JSON and the Prometheus metrics are made
//! of.

use super::adaptation::Adaptation;
use super::connected::Connected;
use super::former::{FormerReading, FormerServers};
use super::pages::AdminPages;
use super::process::{Process, Usage};
use super::reloads::Reloading;
use super::response_cache::ResponseCaches;
use super::rights::AdminRights;
use crate::certificates::Keys;
use crate::certificates::challenges::{Challenges, ObtainedStatus};
use crate::counters::census::{Census, State};
use crate::counters::host_counts::HostTable;
use crate::counters::php_watch::{PhpReading, PhpWatch};
use crate::counters::upstream_counts::UpstreamReading;
use crate::counters::{Counters, Counts};
use crate::io::open::Open;
use crate::policy::link_prior::Priors;
use crate::telemetry::activity::durations::Durations;
use crate::telemetry::activity::keeper::ActivityKept;
use crate::telemetry::recent::Recent;
use crate::telemetry::watching::Hub;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Names of the classes of statuses, in the order of [`crate::Counts::classes`].
pub(super) const CLASSES: [&str; 4] = ["2xx", "3xx", "4xx", "5xx"];

/// The sources of the status.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) counters: Counters,
    pub(crate) open: Arc<Open>,
    pub(crate) hosts: Arc<HostTable>,
    pub(crate) reloads: Arc<dyn Reloading>,
    pub(crate) former: Arc<dyn FormerServers>,
    pub(crate) connected: Arc<dyn Connected>,
    pub(crate) rights: AdminRights,
    /// The last requests; none without a history.
    pub(crate) recent: Option<Arc<Recent>>,
    /// None where no activity is kept.
    pub(crate) activity: Option<Arc<ActivityKept>>,
    /// How far hosts are whose certificates are obtained.
    pub(crate) challenges: Challenges,
    /// The certificates in use; none without TLS.
    pub(crate) keys: Option<Arc<Keys>>,
    pub(crate) process: Process,
    pub(crate) started: (Instant, SystemTime),
    pub(crate) listen: Vec<String>,
    /// `io_uring` or `epoll`.
    pub(crate) io: &'static str,
    pub(crate) connections_max: usize,
    pub(crate) cache_bytes_max: u64,
    pub(crate) has_log: bool,
    pub(crate) has_arm: bool,
    /// Adds metrics and JSON of another part of the program.
    pub(crate) teller: Option<Arc<dyn super::teller::Teller>>,
    /// Serves further pages.
    pub(crate) pages: Option<Arc<dyn AdminPages>>,
    /// How long requests took, of each loop; nothing is counted without a history.
    pub(crate) durations: Vec<Arc<Durations>>,
    /// What is expected of clients.
    pub(crate) priors: Arc<Priors>,
    pub(crate) loops_reserve: usize,
    /// What is known of our own PHP.
    pub(crate) php: PhpWatch,
    /// What is known of our own scripts of other kinds.
    pub(crate) scripts: PhpWatch,
    /// Requests that are watched.
    pub(crate) watching: Arc<Hub>,
}

/// The server as it is now. Names end with their unit; what is called a count grows only.
#[derive(Debug, Serialize)]
pub(super) struct Status {
    pub(super) version: &'static str,
    pub(super) pid: u32,
    pub(super) started_unix_s: f64,
    pub(super) uptime_ms: u64,
    pub(super) listen: Vec<String>,
    pub(super) loops: usize,
    pub(super) io: Ways,
    pub(super) requests: Requests,
    pub(super) connections: Connections,
    pub(super) tls: Option<Tls>,
    pub(super) http2: Http2,
    pub(super) http3: Http3,
    pub(super) applications: Applications,
    pub(super) cache: Cache,
    /// None without a cache of upstreams' responses.
    pub(super) response_cache: Option<ResponseCaches>,
    pub(super) log: Option<Log>,
    /// Requests told as business transactions; none if none are.
    pub(super) arm_told: Option<u64>,
    pub(super) adaptation: Adaptation,
    /// Whether there are rules, which /environment.json describes.
    pub(super) has_rules: bool,
    pub(super) reloads: Reload,
    /// Servers before this one that live on until their tunnels end, the oldest first.
    pub(super) former_servers: Vec<FormerReading>,
    pub(super) hosts: Vec<Host>,
    pub(super) upstreams: Vec<UpstreamReading>,
    #[serde(flatten)]
    pub(super) programs: Programs,
    pub(super) process: Usage,
}

/// Programs of our own.
#[derive(Debug, Serialize)]
pub(super) struct Programs {
    /// PHP; none where no host has it.
    pub(super) php: Option<PhpReading>,
    /// Scripts of other kinds; none where no host has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) scripts: Option<PhpReading>,
}

#[derive(Debug, Serialize)]
pub(super) struct Requests {
    pub(super) count: u64,
    pub(super) by_class: BTreeMap<&'static str, u64>,
    /// Those of the 5xx that are no errors: refused because rules or bounds said so.
    pub(super) refused_by_choice: u64,
    pub(super) sent_bytes: u64,
    pub(super) compressed: u64,
    pub(super) rate_refused: u64,
    pub(super) rate_untracked: u64,
    pub(super) auth_busy: u64,
    pub(super) include_errors: u64,
    pub(super) pages_assembled: u64,
}

/// How bytes of plain-text connections that are kept come and go.
#[derive(Debug, Serialize)]
pub(super) struct Ways {
    /// `io_uring` or `epoll`.
    pub(super) used: &'static str,
    /// Connections that went over to io_uring, and those that went back.
    pub(super) ring_joined: u64,
    pub(super) ring_left: u64,
    /// Receptions that found all buffers in use, and responses for which a socket had no room at once.
    pub(super) ring_starved: u64,
    pub(super) ring_blocked: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct Connections {
    pub(super) open: u64,
    pub(super) open_max: u64,
    /// As of half a second ago at most.
    pub(super) by_state: BTreeMap<&'static str, u64>,
    /// Connections and streams that became tunnels, such as WebSockets, and responses under way; of the same moment.
    pub(super) tunnels: u64,
    pub(super) responses: u64,
    pub(super) accepted: u64,
    pub(super) refused: u64,
    /// Closed to make room for others.
    pub(super) displaced: u64,
    pub(super) broken: u64,
    pub(super) timeouts: u64,
    pub(super) accept_pauses: u64,
    pub(super) stop_aborted: u64,
    /// Connections and requests that were ended by order.
    pub(super) stopped_by_order: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct Tls {
    pub(super) handshakes: u64,
    pub(super) resumed: u64,
    pub(super) failed: u64,
    pub(super) certificates: Vec<Certificate>,
    /// Hosts whose certificates are obtained by ACME.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) obtained: Vec<ObtainedStatus>,
    /// Why changed certificates are not used.
    pub(super) error: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Certificate {
    pub(super) file: String,
    pub(super) names: Vec<String>,
    pub(super) not_after_unix_s: Option<i64>,
}

#[derive(Debug, Serialize)]
pub(super) struct Http2 {
    pub(super) connections: u64,
    pub(super) connections_open: u64,
    pub(super) streams: u64,
    pub(super) streams_open: u64,
    pub(super) errors: u64,
    pub(super) abuses: u64,
    pub(super) streams_broken: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct Http3 {
    pub(super) connections: u64,
    pub(super) connections_open: u64,
    pub(super) streams: u64,
    pub(super) streams_open: u64,
    pub(super) errors: u64,
    pub(super) abuses: u64,
    pub(super) streams_broken: u64,
    /// Clients that had to show first that their address is their own.
    pub(super) retries: u64,
    pub(super) datagrams_unsent: u64,
    pub(super) datagrams_handed_on: u64,
}

/// Requests that applications answered.
#[derive(Debug, Serialize)]
pub(super) struct Applications {
    /// All of them, those included that did not end well.
    pub(super) requests: u64,
    /// The application gave up, broke its response off, or kept the client waiting for too long.
    pub(super) failed: u64,
    /// The client went away, or did not do its part, before the response was over.
    pub(super) cancelled: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct Cache {
    pub(super) hits: u64,
    pub(super) misses: u64,
    pub(super) fills: u64,
    pub(super) evictions: u64,
    pub(super) stale: u64,
    /// Of all loops together; what several of them have in memory lies there once.
    pub(super) bytes: u64,
    pub(super) bytes_max: u64,
    pub(super) entries: u64,
    pub(super) forms_refused: u64,
    pub(super) watch_events: u64,
    pub(super) watch_overflows: u64,
    pub(super) watches_refused: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct Log {
    pub(super) lines: u64,
    pub(super) dropped: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct Reload {
    pub(super) done: u64,
    pub(super) failed: u64,
    pub(super) last_unix_s: Option<u64>,
    pub(super) last_error: Option<String>,
    /// Loops that could not take up a configuration for want of descriptors.
    pub(super) loops_failed: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct Host {
    pub(super) name: String,
    pub(super) by_class: BTreeMap<&'static str, u64>,
    pub(super) sent_bytes: u64,
}

impl View {
    pub(super) fn uptime_ms(&self) -> u64 {
        u64::try_from(self.started.0.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(super) fn open(&self) -> u64 {
        self.open.count.load(Ordering::Relaxed) as u64
    }

    pub(super) fn status(&self) -> Status {
        let counts = self.counters.read();
        let census = self.counters.census();
        let reloads = self.reloads.history();
        let started_unix_s = self.started.1.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
        let tls = self.keys.as_ref().map(|keys| Tls {
            handshakes: counts.tls_handshakes,
            resumed: counts.tls_resumed,
            failed: counts.tls_failed,
            certificates: keys.told().iter().map(Certificate::of).collect(),
            obtained: self.challenges.status(),
            error: reloads.certificates_error,
        });
        let host = |(name, sum): (Arc<str>, crate::counters::host_counts::HostSum)| Host {
            name: name.to_string(),
            by_class: CLASSES.into_iter().zip(sum.by_class[1..].iter().copied()).collect(),
            sent_bytes: sum.bytes,
        };
        Status {
            version: env!("CARGO_PKG_VERSION"),
            pid: std::process::id(),
            started_unix_s,
            uptime_ms: self.uptime_ms(),
            listen: self.listen.clone(),
            loops: self.counters.0.len() - self.loops_reserve,
            io: Ways {
                used: self.io,
                ring_joined: counts.ring_joined,
                ring_left: counts.ring_left,
                ring_starved: counts.ring_starved,
                ring_blocked: counts.ring_blocked,
            },
            requests: Requests {
                count: counts.requests,
                by_class: CLASSES.into_iter().zip(counts.classes()).collect(),
                refused_by_choice: counts.refused_by_choice(),
                sent_bytes: counts.bytes_sent,
                compressed: counts.coded_responses,
                rate_refused: counts.rate_refused,
                rate_untracked: counts.rate_untracked,
                auth_busy: counts.auth_busy,
                include_errors: counts.include_errors,
                pages_assembled: counts.pages_assembled,
            },
            connections: Connections::of(&counts, &census, self.open(), self.connections_max),
            tls,
            http2: Http2 {
                connections: counts.http2_connections,
                connections_open: census.http2_connections,
                streams: counts.http2_streams,
                streams_open: census.http2_streams,
                errors: counts.http2_errors,
                abuses: counts.http2_abuses,
                streams_broken: counts.http2_streams_broken,
            },
            http3: Http3 {
                connections: counts.http3_connections,
                connections_open: census.http3_connections,
                streams: counts.http3_streams,
                streams_open: census.http3_streams,
                errors: counts.http3_errors,
                abuses: counts.http3_abuses,
                streams_broken: counts.http3_streams_broken,
                retries: counts.quic_retries,
                datagrams_unsent: counts.quic_unsent,
                datagrams_handed_on: counts.quic_handed_on,
            },
            applications: Applications {
                requests: counts.applications,
                failed: counts.applications_failed,
                cancelled: counts.applications_cancelled,
            },
            cache: Cache::of(&counts, &census, self.cache_bytes_max),
            response_cache: Some(self.reloads.response_caches()).filter(|caches| caches.caches > 0),
            log: self.has_log.then_some(Log { lines: counts.log_lines, dropped: counts.log_dropped }),
            arm_told: self.has_arm.then_some(counts.arm_told),
            adaptation: self.adaptation(&counts, &census),
            has_rules: self.teller.is_some(),
            reloads: Reload {
                done: reloads.done,
                failed: reloads.failed,
                last_unix_s: reloads.last_unix_s,
                last_error: reloads.last_error,
                loops_failed: counts.reload_failed,
            },
            former_servers: self.former.readings(),
            hosts: self.hosts.read().into_iter().map(host).collect(),
            upstreams: self.reloads.upstreams(),
            programs: self.programs(),
            process: self.process.usage(),
        }
    }

    /// What is known of programs of our own.
    fn programs(&self) -> Programs {
        let known = |watch: &PhpWatch| Some(watch.read()).filter(|read| *read != PhpReading::default());
        Programs { php: known(&self.php), scripts: known(&self.scripts) }
    }

    /// What rules and bounds have done.
    fn adaptation(&self, counts: &Counts, census: &Census) -> Adaptation {
        Adaptation::of(counts, census, self.priors.fill(), &self.reloads.throttles(), self.loops_reserve)
    }
}

impl Connections {
    fn of(counts: &Counts, census: &Census, open: u64, open_max: usize) -> Self {
        Self {
            open,
            open_max: open_max as u64,
            by_state: State::ALL.iter().map(|&(state, name)| (name, census.states[state as usize])).collect(),
            tunnels: census.tunnels,
            responses: census.responses,
            accepted: counts.connections,
            refused: counts.connections_refused,
            displaced: counts.connections_displaced,
            broken: counts.connections_broken,
            timeouts: counts.timeouts,
            accept_pauses: counts.accept_pauses,
            stop_aborted: counts.stop_aborted,
            stopped_by_order: counts.stopped_by_order,
        }
    }
}

impl Cache {
    fn of(counts: &Counts, census: &Census, bytes_max: u64) -> Self {
        Self {
            hits: counts.cache_hits,
            misses: counts.cache_misses,
            fills: counts.cache_fills,
            evictions: counts.cache_evictions,
            stale: counts.cache_stale,
            bytes: census.cache_bytes,
            bytes_max,
            entries: census.cache_entries,
            forms_refused: counts.forms_refused,
            watch_events: counts.watch_events,
            watch_overflows: counts.watch_overflows,
            watches_refused: counts.watches_refused,
        }
    }
}

impl Status {
    pub(super) fn json(&self) -> String {
        // Names are texts and numbers are finite, so that nothing in it has no form in JSON.
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl Certificate {
    fn of(told: &crate::certificates::Told) -> Self {
        Self {
            file: told.file.display().to_string(),
            names: told.names.clone(),
            not_after_unix_s: told.not_after_unix_s,
        }
    }
}
