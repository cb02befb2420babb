//! What wrk counts of a thread, request by request.

use super::distribution::Counted;
use crate::reply::Reply;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use weir_load::{ClientRequest, Observer, Outcome};

/// How long a rate is counted before it is a sample.
const SAMPLE_NS: u64 = 100_000_000;

/// The counts of a thread, or of all.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) complete: u64,
    pub(super) bytes: u64,
    pub(super) connect_errors: u64,
    pub(super) read_errors: u64,
    pub(super) write_errors: u64,
    /// Responses with a status above 399.
    pub(super) status_errors: u64,
    /// Responses that came after the time-out.
    pub(super) timeouts: u64,
    /// Microseconds from the first byte sent to the last response of what was sent together.
    pub(super) latency: Counted,
    /// Requests a second.
    pub(super) rates: Counted,
    /// Calls of scripts, and how long they took together.
    pub(super) calls: u64,
    pub(super) script_ns: u64,
    /// How much of that was taken out of latencies, together.
    pub(super) taken_out_ns: u64,
    /// Bodies that a script was given cut.
    pub(super) cut_bodies: u64,
}

impl Tally {
    pub(super) fn merge(&mut self, other: &Self) {
        self.complete += other.complete;
        self.bytes += other.bytes;
        self.connect_errors += other.connect_errors;
        self.read_errors += other.read_errors;
        self.write_errors += other.write_errors;
        self.status_errors += other.status_errors;
        self.timeouts += other.timeouts;
        self.latency.merge(&other.latency);
        self.rates.merge(&other.rates);
        self.calls += other.calls;
        self.script_ns += other.script_ns;
        self.taken_out_ns += other.taken_out_ns;
        self.cut_bodies += other.cut_bodies;
    }

    /// Counts a request that has no whole response.
    fn failed(&mut self, request: &ClientRequest) {
        match request.outcome {
            Outcome::Done | Outcome::Stopped => {}
            Outcome::ConnectFailed
            | Outcome::ConnectTimedOut
            | Outcome::Refused
            | Outcome::Tls
            | Outcome::Proxy
            | Outcome::NoDescriptors
            | Outcome::NoPorts => self.connect_errors += 1,
            Outcome::TimedOut => self.timeouts += 1,
            _ if request.sent_ns == 0 || request.request_bytes == 0 => self.write_errors += 1,
            _ => self.read_errors += 1,
        }
    }
}

/// A response that the driver has seen, and the observer not yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub(super) connection: u64,
    /// Whether it is the last of what was sent together, whose latency counts.
    pub(super) is_last: bool,
    /// Time of scripts during which it may have waited to be read.
    pub(super) script_ns: u64,
}

/// How responses are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// Each counts for itself, and none is kept.
    Counted,
    /// A script decides what is asked.
    Driven,
    /// Beyond that it is given each response.
    Kept,
}

/// What a thread's observer and its driver share.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) tally: Tally,
    pub(super) manner: Manner,
    pub(super) seen: Vec<Seen>,
    replies: HashMap<u64, Reply>,
    /// From when to when it is counted.
    begin_ns: u64,
    end_ns: u64,
    duration_ns: u64,
    timeout_us: u64,
    sample_begin_ns: u64,
    sample_requests: u64,
    /// Whether the thread was stopped by its script: what comes then is not counted.
    pub(super) stopped: bool,
    /// When the last response came that was counted.
    pub(super) last_ns: u64,
}

/// The same, shared.
#[derive(Debug, Clone)]
pub(super) struct Shared(Arc<Mutex<Inner>>);

impl Shared {
    pub(super) fn new(manner: Manner, duration: Duration, timeout: Duration) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            tally: Tally::default(),
            manner,
            seen: Vec::new(),
            replies: HashMap::new(),
            begin_ns: 0,
            end_ns: u64::MAX,
            duration_ns: u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX),
            timeout_us: u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX),
            sample_begin_ns: 0,
            sample_requests: 0,
            stopped: false,
            last_ns: 0,
        })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// The response that came over a connection.
    pub(super) fn take_reply(&mut self, connection: u64) -> Reply {
        self.replies.get_mut(&connection).map(std::mem::take).unwrap_or_default()
    }

    /// Gives what a reply has allocated back.
    pub(super) fn give_back(&mut self, connection: u64, mut reply: Reply) {
        self.tally.cut_bodies += u64::from(reply.is_cut());
        reply.clear();
        self.replies.insert(connection, reply);
    }

    /// Whether the run's time is over.
    pub(super) fn is_past_end(&self, now_ns: u64) -> bool {
        now_ns > self.end_ns
    }

    /// When the run began; 0 if it has not.
    pub(super) fn begin_ns(&self) -> u64 {
        self.begin_ns
    }

    fn count(&mut self, request: &ClientRequest) {
        let seen = match self.manner {
            Manner::Counted => Some(Seen { connection: request.connection, is_last: true, script_ns: 0 }),
            _ => {
                let place = self.seen.iter().position(|seen| seen.connection == request.connection);
                place.map(|place| self.seen.swap_remove(place))
            }
        };
        let is_late = request.done_ns > self.end_ns;
        if request.outcome != Outcome::Done {
            if !self.stopped && !is_late {
                self.tally.failed(request);
            }
            return;
        }
        // What the script has seen counts, and nothing else: so its counts are those of the report.
        if seen.is_none() || self.manner == Manner::Counted && is_late {
            return;
        }
        let tally = &mut self.tally;
        tally.complete += 1;
        tally.status_errors += u64::from(request.status > 399);
        self.last_ns = request.done_ns;
        if let Some(seen) = seen.filter(|seen| seen.is_last) {
            let whole_ns = request.done_ns.saturating_sub(request.sent_ns);
            let out_ns = seen.script_ns.min(whole_ns);
            tally.taken_out_ns += out_ns;
            match (whole_ns - out_ns) / 1000 {
                us if us < self.timeout_us => tally.latency.record(us),
                _ => tally.timeouts += 1,
            }
        }
        self.sample_requests += 1;
        let sample_ns = request.done_ns.saturating_sub(self.sample_begin_ns);
        if sample_ns >= SAMPLE_NS {
            let rate_per_s = u128::from(self.sample_requests) * 1_000_000_000 / u128::from(sample_ns);
            tally.rates.record(u64::try_from(rate_per_s).unwrap_or(u64::MAX));
            (self.sample_begin_ns, self.sample_requests) = (request.done_ns, 0);
        }
    }
}

/// Counts the requests of a thread.
#[derive(Debug)]
pub(super) struct Watch(pub(super) Shared);

impl Observer for Watch {
    fn begins(&mut self, at_ns: u64) {
        let mut inner = self.0.lock();
        (inner.begin_ns, inner.sample_begin_ns) = (at_ns, at_ns);
        inner.end_ns = at_ns.saturating_add(inner.duration_ns);
    }

    fn closes(&mut self, connection: u64) {
        self.0.lock().replies.remove(&connection);
    }

    fn received(&mut self, connection: u64, bytes: &[u8]) {
        let mut inner = self.0.lock();
        if inner.stopped {
            return;
        }
        inner.tally.bytes += bytes.len() as u64;
        if inner.manner == Manner::Kept {
            inner.replies.entry(connection).or_default().take(bytes, true);
        }
    }

    fn request(&mut self, request: &ClientRequest) {
        self.0.lock().count(request);
    }
}
