//! All metrics of a run, each whole and in the parts that are asked for by tags.

use crate::metrics::checks::Checks;
use crate::metrics::sink::{Contains, Kind, Sink};
use crate::metrics::tagged::Tagged;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most metrics, and the most parts of one.
const METRICS_MAX: usize = 1000;
/// The most parts of a metric.
const PARTS_MAX: usize = 1000;

/// A metric by its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MetricId(u32);

/// The tags that a part's values have: names and values, in ascending order of names.
pub type Selector = Vec<(String, String)>;

/// A metric.
#[derive(Debug)]
pub struct Metric {
    /// Its name.
    pub name: String,
    /// What becomes of its values.
    pub kind: Kind,
    /// What they are.
    pub contains: Contains,
    /// All values.
    pub whole: Sink,
    /// Those with certain tags.
    pub parts: Vec<Part>,
}

/// The values of a metric that have certain tags.
#[derive(Debug)]
pub struct Part {
    /// The tags.
    pub selector: Selector,
    /// The values.
    pub sink: Sink,
}

/// Why there is no such metric.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MetricError {
    /// Its name cannot be one.
    #[error("{name:?}: a metric's name has up to 128 letters, digits and _, and begins with no digit")]
    Name {
        /// The name.
        name: String,
    },
    /// One of that name is of another kind.
    #[error("{name}: a metric of that name has another type: take another name")]
    Other {
        /// The name.
        name: String,
    },
    /// There are too many.
    #[error("{name}: there are {METRICS_MAX} metrics, or {PARTS_MAX} parts of one already: tell fewer apart")]
    Many {
        /// The name.
        name: String,
    },
}

/// The metrics that every run has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
#[expect(missing_docs, reason = "each is the metric of its name in Builtin::ALL")]
pub enum Builtin {
    HttpReqs,
    HttpReqDuration,
    HttpReqLatency,
    HttpReqBlocked,
    HttpReqConnecting,
    HttpReqTlsHandshaking,
    HttpReqSending,
    HttpReqWaiting,
    HttpReqReceiving,
    HttpReqFailed,
    Iterations,
    IterationDuration,
    DroppedIterations,
    Vus,
    VusMax,
    DataSent,
    DataReceived,
    Checks,
    GroupDuration,
    WsSessions,
    WsConnecting,
    WsSessionDuration,
    WsMsgsSent,
    WsMsgsReceived,
    WsPing,
}

impl Builtin {
    /// All, in their order: name, kind, what their values are.
    const ALL: [(&'static str, Kind, Contains); 25] = [
        ("http_reqs", Kind::Counter, Contains::Default),
        ("http_req_duration", Kind::Trend, Contains::Time),
        ("http_req_latency", Kind::Trend, Contains::Time),
        ("http_req_blocked", Kind::Trend, Contains::Time),
        ("http_req_connecting", Kind::Trend, Contains::Time),
        ("http_req_tls_handshaking", Kind::Trend, Contains::Time),
        ("http_req_sending", Kind::Trend, Contains::Time),
        ("http_req_waiting", Kind::Trend, Contains::Time),
        ("http_req_receiving", Kind::Trend, Contains::Time),
        ("http_req_failed", Kind::Rate, Contains::Default),
        ("iterations", Kind::Counter, Contains::Default),
        ("iteration_duration", Kind::Trend, Contains::Time),
        ("dropped_iterations", Kind::Counter, Contains::Default),
        ("vus", Kind::Gauge, Contains::Default),
        ("vus_max", Kind::Gauge, Contains::Default),
        ("data_sent", Kind::Counter, Contains::Data),
        ("data_received", Kind::Counter, Contains::Data),
        ("checks", Kind::Rate, Contains::Default),
        ("group_duration", Kind::Trend, Contains::Time),
        ("ws_sessions", Kind::Counter, Contains::Default),
        ("ws_connecting", Kind::Trend, Contains::Time),
        ("ws_session_duration", Kind::Trend, Contains::Time),
        ("ws_msgs_sent", Kind::Counter, Contains::Default),
        ("ws_msgs_received", Kind::Counter, Contains::Default),
        ("ws_ping", Kind::Trend, Contains::Time),
    ];

    /// Its place.
    #[must_use]
    pub fn id(self) -> MetricId {
        MetricId(self as u32)
    }
}

/// Takes each value as it is counted; users wait meanwhile.
pub trait Points: Send + std::fmt::Debug {
    /// A value of a metric, with its tags.
    fn point(&mut self, metric: &Metric, value: f64, tags: &dyn Tagged);
}

/// All metrics of a run.
#[derive(Debug)]
pub struct Metrics {
    list: Vec<Metric>,
    by_name: HashMap<String, MetricId>,
    /// Checks.
    pub checks: Checks,
    /// What takes each value, beside the metrics.
    pub points: Option<Box<dyn Points>>,
}

/// The metrics, shared between the loop and the behaviours.
#[derive(Debug, Clone, Default)]
pub struct Shared(Arc<Mutex<Metrics>>);

impl Shared {
    /// The metrics, for as long as the guard lives.
    pub fn lock(&self) -> MutexGuard<'_, Metrics> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self { list: Vec::new(), by_name: HashMap::new(), checks: Checks::default(), points: None };
        for (name, kind, contains) in Builtin::ALL {
            metrics.push(name, kind, contains);
        }
        metrics
    }
}

impl Metrics {
    fn push(&mut self, name: &str, kind: Kind, contains: Contains) -> MetricId {
        let id = MetricId(self.list.len() as u32);
        let metric = Metric { name: name.to_owned(), kind, contains, whole: Sink::new(kind), parts: Vec::new() };
        self.list.push(metric);
        self.by_name.insert(name.to_owned(), id);
        id
    }

    /// A metric of one's own; the same again for the same name and kind.
    ///
    /// # Errors
    /// [`MetricError`].
    pub fn define(&mut self, name: &str, kind: Kind, contains: Contains) -> Result<MetricId, MetricError> {
        if let Some(id) = self.by_name.get(name) {
            let same = self[*id].kind == kind && self[*id].contains == contains;
            return if same { Ok(*id) } else { Err(MetricError::Other { name: name.to_owned() }) };
        }
        let fits = name.len() <= 128
            && name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !fits {
            return Err(MetricError::Name { name: name.to_owned() });
        }
        if self.list.len() >= METRICS_MAX {
            return Err(MetricError::Many { name: name.to_owned() });
        }
        Ok(self.push(name, kind, contains))
    }

    /// The metric of a name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<MetricId> {
        self.by_name.get(name).copied()
    }

    /// All, in the order of their definition.
    pub fn iter(&self) -> impl Iterator<Item = &Metric> {
        self.list.iter()
    }

    /// Keeps the values apart that have certain tags, from now on; gives the part's place.
    ///
    /// # Errors
    /// [`MetricError::Many`].
    pub fn keep_apart(&mut self, id: MetricId, mut selector: Selector) -> Result<usize, MetricError> {
        selector.sort();
        let metric = &mut self.list[id.0 as usize];
        if let Some(place) = metric.parts.iter().position(|part| part.selector == selector) {
            return Ok(place);
        }
        if metric.parts.len() >= PARTS_MAX {
            return Err(MetricError::Many { name: metric.name.clone() });
        }
        metric.parts.push(Part { selector, sink: Sink::new(metric.kind) });
        Ok(metric.parts.len() - 1)
    }

    /// Adds a value with its tags.
    pub fn add(&mut self, id: MetricId, value: f64, tags: &dyn Tagged) {
        let metric = &mut self.list[id.0 as usize];
        metric.whole.add(value);
        if let Some(points) = &mut self.points {
            points.point(metric, value, tags);
        }
        for part in &mut metric.parts {
            if has(tags, &part.selector) {
                part.sink.add(value);
            }
        }
    }

    /// Adds a value of a metric that every run has.
    pub fn count(&mut self, metric: Builtin, value: f64, tags: &dyn Tagged) {
        self.add(metric.id(), value, tags);
    }

    /// The values of a metric with certain tags, which are kept apart.
    #[must_use]
    pub fn part(&self, id: MetricId, selector: &[(String, String)]) -> Option<&Sink> {
        if selector.is_empty() {
            return Some(&self[id].whole);
        }
        self[id].parts.iter().find(|part| part.selector == selector).map(|part| &part.sink)
    }
}

impl std::ops::Index<MetricId> for Metrics {
    type Output = Metric;

    fn index(&self, id: MetricId) -> &Metric {
        &self.list[id.0 as usize]
    }
}

/// Whether tags hold all of a selector's.
fn has(tags: &dyn Tagged, selector: &[(String, String)]) -> bool {
    selector.iter().all(|(name, value)| tags.is(name, value))
}
