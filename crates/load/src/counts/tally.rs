//! What one loop counts.

use crate::carried::{COUNT_MAX, Carried, CarriedError, Reader, carried};
use crate::counts::answered::Answered;
use crate::counts::calls::Calls;
use crate::counts::checks::CheckTally;
use crate::counts::clients::Clients;
use crate::counts::durations::Durations;
use crate::counts::grpc::GrpcTally;
use crate::counts::histogram::{Histogram, histogram};
use crate::counts::http3::Http3Tally;
use crate::counts::mix::MixTally;
use crate::counts::reasons::Reasons;
use crate::counts::remarks::{CodeCounts, OddityCounts};
use crate::counts::scopes::ScopeTally;
use crate::counts::series::Counts;
use crate::counts::sessions::SessionTally;
use crate::counts::slowest::SlowTally;
use crate::counts::streams::StreamTally;
use crate::counts::traced::TraceTally;
use crate::counts::websocket::WebSocketTally;
use crate::requests::{STATUS_CODES, Statuses};
use weir_wire::client::Outcome;

/// An arrival that is taken up later than this after its time is a late one.
const LATE_NS: u64 = 1_000_000;

/// Counts and histograms of a loop; loops' tallies add up.
#[derive(Debug)]
pub(crate) struct Tally {
    /// Which statuses count as success.
    pub(crate) expected: Statuses,
    /// Whole responses that are no success: their status is not expected, or they failed a check.
    pub(crate) unexpected: u64,
    /// Those of them that came after the run's end: seldom any, so that these are counted and not the others.
    pub(crate) successes_late: u64,
    pub(crate) unexpected_late: u64,
    pub(crate) errors: [u64; Outcome::ALL.len()],
    pub(crate) status: Box<[u64; STATUS_CODES]>,
    pub(crate) bytes: u64,
    /// Those of them that came after the run's end: seldom any, so that these are counted and not the others.
    pub(crate) bytes_late: u64,
    pub(crate) dropped: u64,
    /// Connections whose requests went to another one, and those requests.
    pub(crate) reconnects: u64,
    pub(crate) resent: u64,
    pub(crate) late: u64,
    /// Arrivals that had to wait for a connection.
    pub(crate) queued: u64,
    pub(crate) abandoned: u64,
    pub(crate) events_lost: u64,
    pub(crate) last_done_ns: u64,
    /// When the loop ended.
    pub(crate) over_ns: u64,
    /// Of successes; of the interval that is under way: those before were handed out.
    pub(crate) latency: Histogram,
    /// Of successes, as the first byte's.
    pub(crate) uncorrected: Histogram,
    pub(crate) first_byte: Histogram,
    /// Latencies of responses with another status, and times until requests failed.
    pub(crate) unexpected_latency: Histogram,
    pub(crate) failure_time: Histogram,
    pub(crate) connect: Histogram,
    /// What the slow ones spent in the generator.
    pub(crate) slow: SlowTally,
    /// The traces of the slowest, where requests say of which they are.
    pub(crate) traces: Option<Box<TraceTally>>,
    /// How long after its time each arrival was taken up: sent, or queued where no connection was free.
    pub(crate) schedule_lag: Histogram,
    pub(crate) calls: Calls,
    /// The fewest streams of HTTP/2 that a server allowed on a connection.
    pub(crate) streams_allowed: u32,
    /// Whether a connection's bytes went through io_uring.
    pub(crate) through_ring: bool,
    pub(crate) handshakes: Handshakes,
    pub(crate) reasons: Reasons,
    /// What was odd about responses that were taken all the same.
    pub(crate) oddities: OddityCounts,
    /// Whether a response said that the server wants TLS where it was asked in the clear.
    pub(crate) wants_tls: bool,
    /// The codes by which servers of HTTP/2 ended connections, but for the one that says that nothing is wrong.
    pub(crate) goaways: CodeCounts,
    pub(crate) http3: Http3Tally,
    pub(crate) mix: MixTally,
    pub(crate) clients: Clients,
    pub(crate) checks: CheckTally,
    pub(crate) scopes: ScopeTally,
    /// Of answers that come bit by bit, where these are looked at.
    pub(crate) streams: Option<Box<StreamTally>>,
    /// Of WebSockets, where these are loaded.
    pub(crate) websocket: Option<Box<WebSocketTally>>,
    /// Of calls of gRPC, where these are made.
    pub(crate) grpc: Option<Box<GrpcTally>>,
    /// Handed in when the loop is over.
    pub(crate) sessions: Option<SessionTally>,
}

/// What one loop has of the shared counters: requests, errors, drops, connections, unexpected statuses.
pub(crate) type Published = [u64; 5];

/// How many TLS handshakes succeeded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Handshakes {
    /// Those that began from nothing.
    pub full: u64,
    /// Those that resumed the session of a former connection.
    pub resumed: u64,
}

impl Tally {
    pub(crate) fn new(expected: Statuses) -> Self {
        Self {
            expected,
            unexpected: 0,
            successes_late: 0,
            unexpected_late: 0,
            errors: [0; Outcome::ALL.len()],
            status: Box::new([0; STATUS_CODES]),
            bytes: 0,
            bytes_late: 0,
            dropped: 0,
            reconnects: 0,
            resent: 0,
            late: 0,
            queued: 0,
            abandoned: 0,
            events_lost: 0,
            last_done_ns: 0,
            over_ns: 0,
            latency: histogram(),
            uncorrected: histogram(),
            first_byte: histogram(),
            unexpected_latency: histogram(),
            failure_time: histogram(),
            connect: histogram(),
            slow: SlowTally::new(),
            traces: None,
            schedule_lag: histogram(),
            calls: Calls::default(),
            streams_allowed: u32::MAX,
            through_ring: false,
            handshakes: Handshakes::default(),
            reasons: Reasons::default(),
            oddities: OddityCounts::default(),
            wants_tls: false,
            goaways: CodeCounts::default(),
            http3: Http3Tally::default(),
            mix: MixTally::default(),
            clients: Clients::default(),
            checks: CheckTally::default(),
            scopes: ScopeTally::default(),
            streams: None,
            websocket: None,
            grpc: None,
            sessions: None,
        }
    }

    /// A whole response came.
    #[inline]
    pub(crate) fn answered(&mut self, answered: Answered, in_time: bool, durations: Durations) {
        let at = answered.place();
        if at >= STATUS_CODES || !self.expected.contains(answered.status()) {
            return self.answered_otherwise(answered.status(), in_time, durations.latency_ns);
        }
        self.status[at] += 1;
        if !in_time {
            self.successes_late += 1;
        }
        self.latency.saturating_record(durations.latency_ns);
        self.uncorrected.saturating_record(durations.uncorrected_ns);
        self.first_byte.saturating_record(durations.first_byte_ns);
    }

    /// A whole response came that is no success.
    #[inline(never)]
    fn answered_otherwise(&mut self, status: u16, in_time: bool, latency_ns: u64) {
        if let Some(count) = self.status.get_mut(usize::from(status)) {
            *count += 1;
        }
        self.unexpected += 1;
        self.unexpected_late += u64::from(!in_time);
        self.unexpected_latency.saturating_record(latency_ns);
    }

    /// So many requests failed, or their users clicked stop, so long after the time that was intended for them.
    pub(crate) fn failed(&mut self, outcome: Outcome, count: u64, after_ns: u64) {
        self.errors[outcome as usize] += count;
        if outcome.is_error() {
            self.failure_time.saturating_record_n(after_ns, count);
        }
    }

    /// Bytes were received.
    #[inline]
    pub(crate) fn received(&mut self, bytes: u64, in_time: bool) {
        self.bytes += bytes;
        if !in_time {
            self.bytes_late += bytes;
        }
    }

    /// Whole responses with a status that is expected, which failed no check.
    pub(crate) fn successes(&self) -> u64 {
        // Each is recorded there, and nothing else is.
        self.first_byte.len()
    }

    /// Whole responses of any status.
    pub(crate) fn requests(&self) -> u64 {
        self.successes() + self.unexpected
    }

    /// Successes that came before the run's end.
    pub(crate) fn successes_in_time(&self) -> u64 {
        self.successes() - self.successes_late
    }

    /// Those of all whole responses that came before the run's end.
    pub(crate) fn requests_in_time(&self) -> u64 {
        self.requests() - self.successes_late - self.unexpected_late
    }

    /// An arrival was taken up.
    #[inline]
    pub(crate) fn taken_up(&mut self, intended_ns: u64, now_ns: u64) {
        let lag_ns = now_ns.saturating_sub(intended_ns);
        self.late += u64::from(lag_ns > LATE_NS);
        self.schedule_lag.saturating_record(lag_ns);
    }

    /// All requests that failed.
    pub(crate) fn failures(&self) -> u64 {
        self.errors.iter().sum::<u64>() - self.stopped()
    }

    /// Requests whose users clicked stop; they stand among the errors, as every outcome does, and are none.
    pub(crate) fn stopped(&self) -> u64 {
        self.errors[Outcome::Stopped as usize]
    }

    /// What is shown while the run goes on, with the connections that are open.
    pub(crate) fn published(&self, live: u32) -> Published {
        [self.requests(), self.failures(), self.dropped, u64::from(live), self.unexpected]
    }

    /// Everything so far that is told over time.
    pub(crate) fn counts(&self) -> Counts {
        Counts {
            requests: self.requests(),
            unexpected: self.unexpected,
            errors: self.errors,
            bytes: self.bytes,
            dropped: self.dropped,
            queued: self.queued,
            late: self.late,
        }
    }

    /// Adds another loop's tally.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.unexpected += other.unexpected;
        self.successes_late += other.successes_late;
        self.unexpected_late += other.unexpected_late;
        for (count, more) in self.errors.iter_mut().zip(other.errors) {
            *count += more;
        }
        for (count, more) in self.status.iter_mut().zip(other.status.iter()) {
            *count += more;
        }
        self.bytes += other.bytes;
        self.bytes_late += other.bytes_late;
        self.dropped += other.dropped;
        self.reconnects += other.reconnects;
        self.resent += other.resent;
        self.late += other.late;
        self.queued += other.queued;
        self.abandoned += other.abandoned;
        self.events_lost += other.events_lost;
        self.last_done_ns = self.last_done_ns.max(other.last_done_ns);
        self.over_ns = self.over_ns.max(other.over_ns);
        self.calls.add(other.calls);
        self.streams_allowed = self.streams_allowed.min(other.streams_allowed);
        self.through_ring |= other.through_ring;
        self.handshakes.full += other.handshakes.full;
        self.handshakes.resumed += other.handshakes.resumed;
        self.reasons.merge(&other.reasons);
        self.oddities.add(other.oddities.iter());
        self.wants_tls |= other.wants_tls;
        self.goaways.merge(&other.goaways);
        self.http3.merge(&other.http3);
        self.mix.merge(&other.mix);
        self.clients.merge(&other.clients);
        self.slow.merge(&other.slow);
        if let Some(more) = &other.traces {
            self.traces.get_or_insert_with(|| Box::new(TraceTally::new(0, 0))).merge(more);
        }
        self.checks.merge(&other.checks);
        self.scopes.merge(&other.scopes);
        if let Some(more) = &other.streams {
            self.streams.get_or_insert_with(|| Box::new(StreamTally::new())).merge(more);
        }
        if let Some(more) = &other.websocket {
            self.websocket.get_or_insert_with(|| Box::new(WebSocketTally::new())).merge(more);
        }
        if let Some(more) = &other.grpc {
            self.grpc.get_or_insert_with(|| Box::new(GrpcTally::new())).merge(more);
        }
        if let Some(more) = &other.sessions {
            self.sessions.get_or_insert_with(SessionTally::new).merge(more);
        }
        for (histogram, more) in [
            (&mut self.latency, &other.latency),
            (&mut self.uncorrected, &other.uncorrected),
            (&mut self.first_byte, &other.first_byte),
            (&mut self.unexpected_latency, &other.unexpected_latency),
            (&mut self.failure_time, &other.failure_time),
            (&mut self.connect, &other.connect),
            (&mut self.schedule_lag, &other.schedule_lag),
        ] {
            // All have the same bounds, so adding cannot fail.
            histogram.add(more).expect("histograms of the same bounds");
        }
    }
}

carried!(Handshakes { full, resumed });

impl Carried for Tally {
    // The statuses that count as success are the run's: all workers have the same.
    fn put(&self, to: &mut Vec<u8>) {
        self.unexpected.put(to);
        self.successes_late.put(to);
        self.unexpected_late.put(to);
        self.errors.put(to);
        self.status.put(to);
        self.bytes.put(to);
        self.bytes_late.put(to);
        self.dropped.put(to);
        self.reconnects.put(to);
        self.resent.put(to);
        self.late.put(to);
        self.queued.put(to);
        self.abandoned.put(to);
        self.events_lost.put(to);
        self.last_done_ns.put(to);
        self.over_ns.put(to);
        self.latency.put(to);
        self.uncorrected.put(to);
        self.first_byte.put(to);
        self.unexpected_latency.put(to);
        self.failure_time.put(to);
        self.connect.put(to);
        self.slow.put(to);
        self.traces.put(to);
        self.schedule_lag.put(to);
        self.calls.put(to);
        self.streams_allowed.put(to);
        self.through_ring.put(to);
        self.handshakes.put(to);
        self.reasons.put(to);
        self.oddities.put(to);
        self.wants_tls.put(to);
        self.goaways.put(to);
        self.mix.put(to);
        self.clients.put(to);
        self.checks.put(to);
        self.scopes.put(to);
        self.sessions.put(to);
        self.http3.put(to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CarriedError> {
        let tally = Self {
            expected: Statuses::default(),
            unexpected: Carried::take(from)?,
            successes_late: Carried::take(from)?,
            unexpected_late: Carried::take(from)?,
            errors: Carried::take(from)?,
            status: Carried::take(from)?,
            bytes: Carried::take(from)?,
            bytes_late: Carried::take(from)?,
            dropped: Carried::take(from)?,
            reconnects: Carried::take(from)?,
            resent: Carried::take(from)?,
            late: Carried::take(from)?,
            queued: Carried::take(from)?,
            abandoned: Carried::take(from)?,
            events_lost: Carried::take(from)?,
            last_done_ns: Carried::take(from)?,
            over_ns: Carried::take(from)?,
            latency: Carried::take(from)?,
            uncorrected: Carried::take(from)?,
            first_byte: Carried::take(from)?,
            unexpected_latency: Carried::take(from)?,
            failure_time: Carried::take(from)?,
            connect: Carried::take(from)?,
            slow: Carried::take(from)?,
            traces: Carried::take(from)?,
            schedule_lag: Carried::take(from)?,
            calls: Carried::take(from)?,
            streams_allowed: Carried::take(from)?,
            through_ring: Carried::take(from)?,
            handshakes: Carried::take(from)?,
            reasons: Carried::take(from)?,
            oddities: Carried::take(from)?,
            wants_tls: Carried::take(from)?,
            goaways: Carried::take(from)?,
            mix: Carried::take(from)?,
            clients: Carried::take(from)?,
            checks: Carried::take(from)?,
            scopes: Carried::take(from)?,
            sessions: Carried::take(from)?,
            http3: Carried::take(from)?,
            // Workers make no such loads (`workers::check_split`).
            streams: None,
            websocket: None,
            grpc: None,
        };
        tally.contradiction().map_or(Ok(tally), |what| Err(CarriedError::Contradiction { what }))
    }
}

impl Tally {
    /// Counts that cannot be together, if there are any.
    fn contradiction(&self) -> Option<&'static str> {
        let sum = |counts: &[u64]| counts.iter().fold(0, |sum: u64, count| sum.saturating_add(*count));
        // Statuses that there are not are no part of the list.
        if sum(&*self.status) > self.requests() {
            return Some("there are more statuses than responses");
        }
        if sum(&self.errors) > COUNT_MAX {
            return Some("more requests failed than a run makes");
        }
        if self.successes_late > self.successes() || self.unexpected_late > self.unexpected {
            return Some("more responses came late than came");
        }
        (self.bytes_late > self.bytes).then_some("more bytes came late than came")
    }
}
