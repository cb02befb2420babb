//! Hands finished transactions on: to an OpenTelemetry receiver, to Prometheus, to agents of other hosts, and as phases
//! into a run that `weir explain` reads.
//!
//! The agent gives each finished transaction to [`Exports::push`], which never blocks. A transaction that an exporter
//! does not fetch in time is dropped and counted.

mod classes;
mod delivery;
mod error;
mod families;
mod hosts;
mod metrics;
mod outbox;
mod phases;
mod prometheus;
mod protobuf;
mod resource;
mod spans;
#[cfg(test)]
mod testing;

pub use delivery::{OtlpOptions, rejected};
pub use error::ExportError;
pub use phases::{Phases, Take};
pub use prometheus::request_line;
pub use protobuf::{Content, fields};

use crate::outlet::Outlet;
use crate::protocol::AgentStatus;
use crate::transaction::Transaction;
use classes::Classes;
use delivery::{Counts, Delivery};
use families::{Data, Family};
use hosts::{Acceptor, Key, MOST_PEERS, Peer};
use outbox::Outbox;
use prometheus::Endpoint;
use serde::{Deserialize, Serialize};
use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use weir_wire::arm::Token;

/// Processes of this host that are remembered, gone ones included: by their tokens it is known which traces are its own.
const MOST_TOKENS: usize = 1 << 16;

/// Where transactions go. The default is nowhere.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// An OpenTelemetry receiver.
    pub otlp: Option<OtlpOptions>,
    /// An address where Prometheus finds `/metrics`.
    pub prometheus: Option<SocketAddr>,
    /// Agents of other hosts, `HOST:PORT`: they are told of transactions whose traces did not begin here.
    pub forward: Vec<String>,
    /// An address where agents of other hosts tell of such transactions.
    pub accept: Option<SocketAddr>,
    /// The secret that the agents of all hosts share, 16 to 4096 bytes.
    pub key: Option<Vec<u8>>,
}

/// How the agent is, asked when metrics are told.
pub type Health = Box<dyn Fn() -> AgentStatus + Send + Sync>;

/// Counts of all exports since the start.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// The OpenTelemetry receiver, where there is one.
    pub otlp: Option<OtlpReport>,
    /// Where Prometheus may ask.
    pub prometheus: Option<SocketAddr>,
    /// The other agents that are told.
    pub forward: Vec<PeerReport>,
    /// What other agents told, where they may.
    pub accept: Option<AcceptReport>,
}

/// What became of spans.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct OtlpReport {
    /// Taken by the receiver.
    pub sent: u64,
    /// They wait, or are under way.
    pub waiting: u64,
    /// Found no room, because the receiver was too slow or not there.
    pub dropped: u64,
    /// Refused by the receiver.
    pub refused: u64,
    /// Given up after several tries.
    pub given_up: u64,
    /// Tries that failed, of spans and of metrics.
    pub failures: u64,
    /// So many times metrics were taken.
    pub metrics_sent: u64,
    /// Why the last try failed, if it did.
    pub error: Option<String>,
}

/// What became of transactions for another agent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PeerReport {
    /// The agent.
    pub address: String,
    /// Whether it is connected.
    pub connected: bool,
    /// Transactions that it has acknowledged.
    pub sent: u64,
    /// Found no room.
    pub dropped: u64,
    /// In flight when a connection broke: the peer may or may not have received them.
    pub lost: u64,
    /// Why there is no connection.
    pub error: Option<String>,
}

/// Counts of what other agents sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptReport {
    /// The address where the agent listens for them.
    pub address: SocketAddr,
    /// Agents that are connected.
    pub connected: u64,
    /// Transactions that came.
    pub received: u64,
    /// Transactions that found no room here.
    pub dropped: u64,
    /// Connections that were closed, as their peer sent something invalid or nothing in time.
    pub refused: u64,
}

/// All exporters of an agent.
#[derive(Debug)]
pub struct Exports {
    shared: Arc<Shared>,
    delivery: Mutex<Option<Delivery>>,
    endpoint: Mutex<Option<Endpoint>>,
    listens: Option<SocketAddr>,
}

/// What the exporters' threads and those who push have in common.
struct Shared {
    host: String,
    begun_unix_ns: u64,
    health: OnceLock<Health>,
    hasher: RandomState,
    /// Absent where no exporter tells metrics.
    classes: Option<Mutex<Classes>>,
    spans: Option<(Arc<Outbox>, Arc<Counts>)>,
    peers: Vec<Peer>,
    acceptor: Option<Acceptor>,
    tokens: Mutex<Tokens>,
    forwarded: AtomicU64,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Shared").field("host", &self.host).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Tokens {
    known: HashSet<u64>,
    order: VecDeque<u64>,
}

impl Tokens {
    fn add(&mut self, token: u64) {
        if !self.known.insert(token) {
            return;
        }
        self.order.push_back(token);
        if self.order.len() > MOST_TOKENS
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What a panic could leave half done under these locks are counts.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Exports {
    /// Starts what the options name.
    ///
    /// # Errors
    /// [`ExportError`] says which of them cannot be done, and what to do.
    pub fn start(options: Options, host: &str) -> Result<Self, ExportError> {
        let Options { otlp, prometheus, forward, accept, key } = options;
        if forward.len() > MOST_PEERS {
            return Err(ExportError::Peers { most: MOST_PEERS });
        }
        let key = if forward.is_empty() && accept.is_none() { None } else { Some(Key::new(key.as_deref())?) };
        let (mut peers, mut acceptor) = (Vec::new(), None);
        if let Some(key) = key {
            for address in forward {
                peers.push(Peer::start(&address, key.clone())?);
            }
            acceptor = accept.map(|address| Acceptor::start(address, key)).transpose()?;
        }
        let shared = Arc::new(Shared {
            host: host.to_owned(),
            begun_unix_ns: unix_ns(),
            health: OnceLock::new(),
            hasher: RandomState::new(),
            classes: (otlp.is_some() || prometheus.is_some()).then(Mutex::default),
            spans: otlp.is_some().then(Default::default),
            peers,
            acceptor,
            tokens: Mutex::default(),
            forwarded: AtomicU64::new(0),
        });
        let delivery = match (otlp, &shared.spans) {
            (Some(options), Some((outbox, counts))) => {
                let told = Arc::clone(&shared);
                let metrics = Box::new(move || told.metrics());
                Some(Delivery::start(options, Arc::clone(outbox), Arc::clone(counts), metrics)?)
            }
            _ => None,
        };
        let told = Arc::clone(&shared);
        let page = Arc::new(move || prometheus::text(&told.families(false)));
        let endpoint = prometheus.map(|address| Endpoint::start(address, page)).transpose()?;
        let listens = endpoint.as_ref().map(|endpoint| endpoint.address);
        Ok(Self { shared, delivery: Mutex::new(delivery), endpoint: Mutex::new(endpoint), listens })
    }

    /// Sets the source of the agent's status, for its own metrics; later calls have no effect.
    pub fn ask_for_health(&self, health: Health) {
        let _ = self.shared.health.set(health);
    }

    /// A process of this host has this token: traces that begin in it are this host's own.
    pub fn knows(&self, token: u64) {
        if !self.shared.peers.is_empty() {
            // As it stands in trace ids, which are never 0.
            locked(&self.shared.tokens).add(token.max(1));
        }
    }

    /// Hands on a transaction of this host that is over. Never waits.
    pub fn push(&self, transaction: &Transaction) {
        let shared = &*self.shared;
        if let Some(classes) = &shared.classes {
            locked(classes).push(transaction);
        }
        if let Some((outbox, _)) = &shared.spans {
            let Transaction { application, group, instance, process, .. } = transaction;
            let key = shared.hasher.hash_one((application, group, instance, process.pid));
            let here = |parent: u64| Token::is_same(parent, transaction.id.span);
            let parent_here = transaction.parent.is_some_and(|parent| here(parent.span));
            // What was dropped is counted by the outbox.
            outbox.push(
                key,
                || resource::of_transaction(transaction),
                |writer| spans::write(writer, transaction, parent_here),
            );
        }
        if !shared.peers.is_empty()
            && transaction.parent.is_some()
            && !locked(&shared.tokens).known.contains(&transaction.id.trace[0])
        {
            shared.forwarded.fetch_add(1, Ordering::Relaxed);
            let frame = hosts::frame(transaction);
            shared.peers.iter().for_each(|peer| peer.push(frame.as_ref()));
        }
    }

    /// The next transaction of another host that its agent told, if there is one. It is not to be pushed.
    #[must_use]
    pub fn received(&self) -> Option<Transaction> {
        self.shared.acceptor.as_ref()?.next()
    }

    /// Whether nothing is handed on; transactions of other hosts may come all the same.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let shared = &*self.shared;
        shared.classes.is_none() && shared.spans.is_none() && shared.peers.is_empty()
    }

    /// What became of everything so far.
    #[must_use]
    pub fn report(&self) -> Report {
        self.shared.report(self.listens)
    }

    /// Ends it: what waits gets one more try, which takes some seconds at most. What comes afterwards is dropped.
    pub fn finish(&self) -> Report {
        drop(locked(&self.endpoint).take());
        drop(locked(&self.delivery).take());
        self.shared.peers.iter().for_each(Peer::finish);
        self.report()
    }
}

/// The agent's own thread calls it, so nothing here waits. The holder of the other handle ends the export.
impl Outlet for Arc<Exports> {
    fn knows(&mut self, token: u64) {
        Exports::knows(self, token);
    }

    fn push(&mut self, transaction: &Transaction) {
        Exports::push(self, transaction);
    }

    fn received(&mut self) -> Option<Transaction> {
        Exports::received(self)
    }

    fn is_idle(&self) -> bool {
        Exports::is_idle(self)
    }
}

impl Shared {
    fn report(&self, prometheus: Option<SocketAddr>) -> Report {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let otlp = self.spans.as_ref().map(|(outbox, counts)| OtlpReport {
            sent: get(&counts.sent),
            waiting: outbox.waiting(),
            dropped: outbox.dropped(),
            refused: get(&counts.refused),
            given_up: get(&counts.given_up),
            failures: get(&counts.failures),
            metrics_sent: get(&counts.metrics_sent),
            error: counts.last_error(),
        });
        let forward = self.peers.iter().map(|peer| PeerReport {
            address: peer.address.clone(),
            connected: peer.counts.connected.load(Ordering::Relaxed),
            sent: get(&peer.counts.sent),
            dropped: get(&peer.counts.dropped),
            lost: get(&peer.counts.lost),
            error: peer.counts.error(),
        });
        let accept = self.acceptor.as_ref().map(|acceptor| AcceptReport {
            address: acceptor.address,
            connected: acceptor.counts.connected.load(Ordering::Relaxed) as u64,
            received: get(&acceptor.counts.received),
            dropped: get(&acceptor.counts.dropped),
            refused: get(&acceptor.counts.refused),
        });
        Report { otlp, prometheus, forward: forward.collect(), accept }
    }

    fn families(&self, take_exemplars: bool) -> Vec<Family> {
        let mut families =
            self.classes.as_ref().map(|classes| locked(classes).families(take_exemplars)).unwrap_or_default();
        families.extend(self.health.get().map(|health| classes::of_agent(&health())).unwrap_or_default());
        let report = self.report(None);
        let mut counts: Vec<(&str, u64)> = Vec::new();
        if let Some(otlp) = &report.otlp {
            let OtlpReport { sent, dropped, refused, given_up, .. } = otlp;
            counts.extend([("sent", *sent), ("dropped", *dropped), ("refused", *refused), ("given_up", *given_up)]);
        }
        let series = counts.into_iter().map(|(outcome, count)| (vec![("outcome", outcome.to_owned())], count as f64));
        families.push(Family::new(
            "arm.export.spans",
            "{span}",
            "Spans for the OpenTelemetry receiver, by what became of them.",
            Data::Sum(series.collect()),
        ));
        let told = report.forward.iter().flat_map(|peer| {
            let outcomes = [("sent", peer.sent), ("dropped", peer.dropped), ("lost", peer.lost)];
            outcomes.map(|(outcome, count)| {
                (vec![("peer", peer.address.clone()), ("outcome", outcome.to_owned())], count as f64)
            })
        });
        families.push(Family::new(
            "arm.export.forwarded",
            "{transaction}",
            "Transactions for agents of other hosts, by what became of them.",
            Data::Sum(told.collect()),
        ));
        families
    }

    fn metrics(&self) -> Vec<u8> {
        let span = metrics::Span { from_unix_ns: self.begun_unix_ns, to_unix_ns: unix_ns() };
        metrics::request(&self.families(true), &self.host, span)
    }
}
