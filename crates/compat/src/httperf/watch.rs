//! What httperf counts of a run, call by call.

use crate::reply::Reply;
use crate::system::monotonic_ns;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weir_load::{ClientRequest, Observer, Outcome};

/// Bins of the histogram of connection times, 1 ms each; the last takes what is longer.
const BINS: usize = 100_001;
/// How long a sample of a rate takes.
pub(super) const SAMPLE_NS: u64 = 5_000_000_000;
/// The most samples that are kept one by one: two months.
const SAMPLES_MAX: usize = 1 << 20;
/// Connections that are made within this time, with nothing between them, are one burst.
const BURST_NS: u64 = 1_000_000;
/// A session with more replies is counted as one with this many.
const LENGTH_MAX: usize = 100_000;

/// The counts of httperf's report.
#[derive(Debug)]
pub(super) struct Counts {
    /// When the first sample of a rate ends, from the begin on: clients together take them at different times.
    pub(super) first_sample_ns: u64,
    /// The most connections that were begun at once.
    pub(super) burst_max: u32,
    pub(super) footer_bytes: u64,
    pub(super) socket_timeouts: u64,
    pub(super) sessions: SessionCounts,
    pub(super) begin_ns: u64,
    pub(super) last_ns: u64,
    pub(super) connections: u64,
    pub(super) open: u64,
    pub(super) open_max: u64,
    pub(super) requests: u64,
    pub(super) replies: u64,
    /// By hundreds, from 1xx on.
    pub(super) status: [u64; 6],
    pub(super) sent_bytes: u64,
    pub(super) head_bytes: u64,
    pub(super) content_bytes: u64,
    pub(super) connected: u64,
    pub(super) connect_ns: u128,
    pub(super) responses: u64,
    pub(super) response_ns: u128,
    pub(super) transfer_ns: u128,
    /// Connections with one whole call or more, and their times.
    pub(super) lifetimes: u64,
    pub(super) lifetime_ns: u128,
    pub(super) lifetime_s2: f64,
    pub(super) lifetime_min_ns: u64,
    pub(super) lifetime_max_ns: u64,
    pub(super) bins: Vec<u32>,
    /// Replies of each sample.
    pub(super) samples: Vec<u32>,
    pub(super) client_timeouts: u64,
    pub(super) refused: u64,
    pub(super) reset: u64,
    pub(super) no_descriptors: u64,
    pub(super) no_ports: u64,
    pub(super) other_errors: u64,
}

/// What became of sessions.
#[derive(Debug, Default)]
pub(super) struct SessionCounts {
    pub(super) completed: u64,
    pub(super) failed: u64,
    /// Connections of completed ones.
    pub(super) connections: u64,
    pub(super) lifetime_ns: u128,
    pub(super) failtime_ns: u128,
    /// Completed ones of each sample.
    pub(super) samples: Vec<u32>,
    /// How many had so many replies.
    pub(super) lengths: Vec<u64>,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            first_sample_ns: SAMPLE_NS,
            burst_max: 0,
            footer_bytes: 0,
            socket_timeouts: 0,
            sessions: SessionCounts::default(),
            begin_ns: 0,
            last_ns: 0,
            connections: 0,
            open: 0,
            open_max: 0,
            requests: 0,
            replies: 0,
            status: [0; 6],
            sent_bytes: 0,
            head_bytes: 0,
            content_bytes: 0,
            connected: 0,
            connect_ns: 0,
            responses: 0,
            response_ns: 0,
            transfer_ns: 0,
            lifetimes: 0,
            lifetime_ns: 0,
            lifetime_s2: 0.0,
            lifetime_min_ns: u64::MAX,
            lifetime_max_ns: 0,
            bins: vec![0; BINS],
            samples: Vec::new(),
            client_timeouts: 0,
            refused: 0,
            reset: 0,
            no_descriptors: 0,
            no_ports: 0,
            other_errors: 0,
        }
    }
}

impl Counts {
    /// Which sample a time belongs to.
    fn sample(&self, at_ns: u64) -> usize {
        let ns = at_ns.saturating_sub(self.begin_ns);
        ns.checked_sub(self.first_sample_ns).map_or(0, |behind| 1 + (behind / SAMPLE_NS) as usize)
    }

    /// How many samples are whole after a time.
    pub(super) fn whole_samples(&self, elapsed_ns: u64) -> usize {
        self.sample(self.begin_ns.saturating_add(elapsed_ns))
    }

    /// How long a sample takes, in seconds.
    pub(super) fn sample_s(&self, sample: usize) -> f64 {
        (if sample == 0 { self.first_sample_ns } else { SAMPLE_NS }) as f64 / 1e9
    }
}

/// A connection that is open.
#[derive(Debug, Default)]
struct Open {
    begin_ns: u64,
    /// When it was closed; 0 = it is open.
    closed_ns: u64,
    calls: u64,
    connected: bool,
    reply: Reply,
}

/// What is known of a run.
#[derive(Debug, Default)]
pub(super) struct Inner {
    pub(super) counts: Counts,
    open: HashMap<u64, Open>,
    /// Whether contents are kept until the reply was looked at.
    pub(super) keep_content: bool,
    /// The burst of connections that is under way, and when its last one was begun.
    burst: u32,
    burst_ns: u64,
}

/// The same, shared by the loop and the report.
pub(super) type Shared = Arc<Mutex<Inner>>;

impl Inner {
    /// The reply that came on a connection.
    pub(super) fn reply(&mut self, connection: u64) -> Option<&Reply> {
        self.open.get(&connection).map(|open| &open.reply)
    }

    /// A connection ended before all its calls were answered, or was never made.
    pub(super) fn connection_failed(&mut self, outcome: Outcome) {
        let counts = &mut self.counts;
        *match outcome {
            Outcome::TimedOut => &mut counts.client_timeouts,
            Outcome::ConnectTimedOut => &mut counts.socket_timeouts,
            Outcome::Refused => &mut counts.refused,
            Outcome::Reset | Outcome::Closed | Outcome::ShortBody => &mut counts.reset,
            Outcome::NoDescriptors => &mut counts.no_descriptors,
            Outcome::NoPorts => &mut counts.no_ports,
            _ => &mut counts.other_errors,
        } += 1;
        counts.last_ns = monotonic_ns();
    }

    /// A session completed or failed.
    pub(super) fn session_over(&mut self, failed: bool, replies: u32, connections: u32, begin_ns: u64) {
        let now_ns = monotonic_ns();
        let sample = self.counts.sample(now_ns);
        self.counts.last_ns = self.counts.last_ns.max(now_ns);
        let sessions = &mut self.counts.sessions;
        let took_ns = u128::from(now_ns.saturating_sub(begin_ns));
        if failed {
            sessions.failed += 1;
            sessions.failtime_ns += took_ns;
        } else {
            sessions.completed += 1;
            sessions.lifetime_ns += took_ns;
            sessions.connections += u64::from(connections);
            count_in(&mut sessions.samples, sample);
        }
        let length = (replies as usize).min(LENGTH_MAX);
        sessions.lengths.resize(sessions.lengths.len().max(length + 1), 0);
        sessions.lengths[length] += 1;
    }

    /// The time of a connection counts if it had one whole call or more.
    fn over(&mut self, connection: u64) {
        let Some(open) = self.open.remove(&connection).filter(|open| open.calls > 0) else { return };
        lifetime(&mut self.counts, open.closed_ns.saturating_sub(open.begin_ns));
    }
}

fn count_in(samples: &mut Vec<u32>, sample: usize) {
    if sample < SAMPLES_MAX {
        samples.resize(samples.len().max(sample + 1), 0);
        samples[sample] += 1;
    }
}

/// Looks at every call for httperf's report.
#[derive(Debug)]
pub(super) struct Watch {
    shared: Shared,
}

impl Watch {
    pub(super) fn new(shared: &Shared) -> Self {
        Self { shared: Arc::clone(shared) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Watch {
    fn begins(&mut self, at_ns: u64) {
        let counts = &mut self.inner().counts;
        (counts.begin_ns, counts.last_ns) = (at_ns, at_ns);
    }

    fn opens(&mut self, connection: u64) {
        let inner = &mut *self.inner();
        let now_ns = monotonic_ns();
        inner.open.insert(connection, Open { begin_ns: now_ns, ..Open::default() });
        inner.burst = if now_ns.saturating_sub(inner.burst_ns) < BURST_NS { inner.burst + 1 } else { 1 };
        inner.burst_ns = now_ns;
        let counts = &mut inner.counts;
        counts.burst_max = counts.burst_max.max(inner.burst);
        counts.connections += 1;
        counts.open += 1;
        counts.open_max = counts.open_max.max(counts.open);
    }

    fn closes(&mut self, connection: u64) {
        let inner = &mut *self.inner();
        inner.counts.open = inner.counts.open.saturating_sub(1);
        inner.burst_ns = 0;
        let Some(open) = inner.open.get_mut(&connection) else { return };
        open.closed_ns = monotonic_ns();
        // The close is reported before the end of the last call; the connection counts once that call has ended.
        if open.reply.bytes == 0 {
            inner.over(connection);
        }
    }

    fn received(&mut self, connection: u64, bytes: &[u8]) {
        let inner = &mut *self.inner();
        inner.burst_ns = 0;
        if let Some(open) = inner.open.get_mut(&connection) {
            open.reply.take(bytes, inner.keep_content);
        }
    }

    fn request(&mut self, request: &ClientRequest) {
        let inner = &mut *self.inner();
        let counts = &mut inner.counts;
        counts.last_ns = counts.last_ns.max(request.done_ns);
        count(counts, request);
        let Some(open) = inner.open.get_mut(&request.connection) else { return };
        if request.sent_ns > 0 && !open.connected {
            open.connected = true;
            counts.connected += 1;
            counts.connect_ns += u128::from(request.sent_ns.saturating_sub(open.begin_ns));
        }
        if request.outcome == Outcome::Done {
            counts.head_bytes += open.reply.head.len() as u64;
            counts.content_bytes += open.reply.content_bytes;
            counts.footer_bytes += open.reply.footer_bytes;
            open.calls += 1;
        }
        open.reply.clear();
        if open.closed_ns > 0 {
            inner.over(request.connection);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let inner = &mut *self.inner();
        let left: Vec<u64> = inner.open.keys().copied().collect();
        let now_ns = monotonic_ns();
        for connection in left {
            if let Some(open) = inner.open.get_mut(&connection).filter(|open| open.closed_ns == 0) {
                open.closed_ns = now_ns;
            }
            inner.over(connection);
        }
    }
}

fn lifetime(counts: &mut Counts, ns: u64) {
    counts.lifetimes += 1;
    counts.lifetime_ns += u128::from(ns);
    counts.lifetime_s2 += (ns as f64 / 1e9).powi(2);
    counts.lifetime_min_ns = counts.lifetime_min_ns.min(ns);
    counts.lifetime_max_ns = counts.lifetime_max_ns.max(ns);
    counts.bins[((ns / 1_000_000) as usize).min(BINS - 1)] += 1;
}

fn count(counts: &mut Counts, request: &ClientRequest) {
    if request.sent_ns > 0 && request.request_bytes > 0 {
        counts.requests += 1;
        counts.sent_bytes += u64::from(request.request_bytes);
    }
    if request.first_byte_ns > 0 {
        counts.responses += 1;
        counts.response_ns += u128::from(request.first_byte_ns.saturating_sub(request.sent_ns));
    }
    if request.outcome == Outcome::Done {
        counts.replies += 1;
        counts.transfer_ns += u128::from(request.done_ns.saturating_sub(request.first_byte_ns));
        if let Some(count) = counts.status.get_mut(usize::from(request.status / 100)) {
            *count += 1;
        }
        let sample = counts.sample(request.done_ns);
        count_in(&mut counts.samples, sample);
    }
}
