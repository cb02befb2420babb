//! What httperf counts of a run, call by call.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use weir_load::{ClientRequest, Observer, Outcome};

/// Bins of the histogram of connection times, 1 ms each; the last takes what is longer.
const BINS: usize = 100_001;
/// How long a sample of the reply rate takes.
pub(super) const SAMPLE_NS: u64 = 5_000_000_000;
/// The most samples that are kept one by one: two months.
const SAMPLES_MAX: usize = 1 << 20;
/// A head that is longer is counted as content from there on.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// The counts of httperf's report.
#[derive(Debug)]
pub(super) struct Counts {
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
    /// Replies of each sample of 5 s.
    pub(super) samples: Vec<u32>,
    pub(super) client_timeouts: u64,
    pub(super) refused: u64,
    pub(super) reset: u64,
    pub(super) no_descriptors: u64,
    pub(super) no_ports: u64,
    pub(super) other_errors: u64,
}

/// The counts, shared by the loop and by whoever reports them.
pub(super) type Shared = Arc<Mutex<Counts>>;

/// A connection that is open.
#[derive(Debug, Default)]
struct Open {
    begin_ns: u64,
    last_ns: u64,
    calls: u64,
    head: Vec<u8>,
    head_bytes: Option<u64>,
    bytes: u64,
    closed: bool,
}

/// Looks at every call for httperf's report.
#[derive(Debug)]
pub(super) struct Watch {
    shared: Shared,
    open: HashMap<u64, Open>,
}

impl Watch {
    pub(super) fn new() -> (Self, Shared) {
        let shared = Arc::new(Mutex::new(Counts {
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
        }));
        (Self { shared: Arc::clone(&shared), open: HashMap::new() }, shared)
    }
}

impl Observer for Watch {
    fn begins(&mut self, at_ns: u64) {
        let mut counts = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        (counts.begin_ns, counts.last_ns) = (at_ns, at_ns);
    }

    fn opens(&mut self, connection: u64) {
        self.open.insert(connection, Open::default());
        let mut counts = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        counts.connections += 1;
        counts.open += 1;
        counts.open_max = counts.open_max.max(counts.open);
    }

    fn closes(&mut self, connection: u64) {
        let mut counts = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        counts.open = counts.open.saturating_sub(1);
        drop(counts);
        match self.open.get_mut(&connection) {
            // A connection is closed before its last call is told, so its time is known only with that.
            Some(open) if open.bytes > 0 => open.closed = true,
            _ => self.over(connection),
        }
    }

    fn received(&mut self, connection: u64, bytes: &[u8]) {
        let Some(open) = self.open.get_mut(&connection) else { return };
        open.bytes += bytes.len() as u64;
        if open.head_bytes.is_none() && open.head.len() < HEAD_BYTES_MAX {
            let before = open.head.len().saturating_sub(3);
            open.head.extend_from_slice(bytes);
            let end = open.head[before..].windows(4).position(|part| part == b"\r\n\r\n");
            open.head_bytes = end.map(|at| (before + at + 4) as u64);
        }
    }

    fn request(&mut self, request: &ClientRequest) {
        let mut counts = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        counts.last_ns = counts.last_ns.max(request.done_ns);
        count(&mut counts, request);
        let Some(open) = self.open.get_mut(&request.connection) else { return };
        if request.outcome == Outcome::Done {
            let head_bytes = open.head_bytes.unwrap_or(open.bytes);
            counts.head_bytes += head_bytes;
            counts.content_bytes += open.bytes - head_bytes;
            open.begin_ns = if open.calls == 0 { request.started_ns } else { open.begin_ns };
            open.last_ns = request.done_ns;
            open.calls += 1;
        }
        open.head.clear();
        (open.head_bytes, open.bytes) = (None, 0);
        let closed = open.closed;
        drop(counts);
        if closed {
            self.over(request.connection);
        }
    }
}

impl Watch {
    /// The time of a connection counts if it had one whole call or more.
    fn over(&mut self, connection: u64) {
        let Some(open) = self.open.remove(&connection).filter(|open| open.calls > 0) else { return };
        let mut counts = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        lifetime(&mut counts, open.last_ns.saturating_sub(open.begin_ns));
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let left: Vec<u64> = self.open.keys().copied().collect();
        left.into_iter().for_each(|connection| self.over(connection));
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
    if request.sent_ns > 0 {
        counts.requests += 1;
        counts.sent_bytes += u64::from(request.request_bytes);
        if request.opened_connection {
            counts.connected += 1;
            counts.connect_ns += u128::from(request.sent_ns.saturating_sub(request.started_ns));
        }
    }
    if request.first_byte_ns > 0 {
        counts.responses += 1;
        counts.response_ns += u128::from(request.first_byte_ns.saturating_sub(request.sent_ns));
    }
    match request.outcome {
        Outcome::Done => {
            counts.replies += 1;
            counts.transfer_ns += u128::from(request.done_ns.saturating_sub(request.first_byte_ns));
            if let Some(count) = counts.status.get_mut(usize::from(request.status / 100)) {
                *count += 1;
            }
            let sample = (request.done_ns.saturating_sub(counts.begin_ns) / SAMPLE_NS) as usize;
            if sample < SAMPLES_MAX {
                counts.samples.resize(counts.samples.len().max(sample + 1), 0);
                counts.samples[sample] += 1;
            }
        }
        Outcome::TimedOut | Outcome::ConnectTimedOut => counts.client_timeouts += 1,
        Outcome::Refused => counts.refused += 1,
        Outcome::Reset | Outcome::Closed | Outcome::ShortBody => counts.reset += 1,
        Outcome::NoDescriptors => counts.no_descriptors += 1,
        Outcome::NoPorts => counts.no_ports += 1,
        _ => counts.other_errors += 1,
    }
}
