//! What a run found.

use crate::counts::calls::Calls;
use crate::counts::checks::CheckReport;
use crate::counts::clients::Fairness;
use crate::counts::codes::{code_words, http3_code_words};
use crate::counts::grpc::GrpcReport;
use crate::counts::http3::Http3Counts;
use crate::counts::mix::MixReport;
use crate::counts::reasons::Reason;
use crate::counts::remarks::{CodeCounts, Remark};
use crate::counts::scopes::ScopeReport;
use crate::counts::series::Series;
use crate::counts::sessions::SessionReport;
use crate::counts::slowest::Slowest;
use crate::counts::streams::StreamReport;
use crate::counts::tally::{Handshakes, Tally};
use crate::counts::traced::SlowTrace;
use crate::counts::websocket::WebSocketReport;
use crate::options::settings::{Io, Options};
use crate::reach::protocol::Protocol;
use crate::report::generator::Generator;
use crate::report::health::Health;
use crate::report::workers::WorkerReport;
use crate::requests::{Request, Statuses, Url, grpc_status};
use crate::schedule::StopRule;
use hdrhistogram::Histogram;
use std::time::Duration;
use weir_wire::client::Outcome;

/// What a run found; durations are in nanoseconds.
///
/// A success is a whole response whose status is expected ([`Options::expected`]) and that is as all its checks ask
/// ([`Options::checks`]). What is said of latencies is said of
/// successes, where it is not named otherwise.
#[derive(Debug, Clone)]
pub struct LoadReport {
    /// Whole responses of any status.
    pub requests: u64,
    /// Those of them that are successes.
    pub successes: u64,
    /// The others: their status is another one, or they failed a check.
    pub unexpected: u64,
    /// Whole responses that failed a check, of any status.
    pub unfit: u64,
    /// What came of the checks, in the order of [`Options::checks`].
    pub checks: Vec<CheckReport>,
    /// How long the generator looked at responses for checks, over all threads.
    pub checks_took: Duration,
    /// What came of the requests that are counted apart, in the order of [`Options::scopes`].
    pub scopes: Vec<ScopeReport>,
    /// Which statuses are expected.
    pub expected: Statuses,
    /// Arrivals that found the generator's queue full, and were never sent.
    pub dropped: u64,
    /// Requests that were queued or under way when the run ended for good: the end of the duration that was asked for and
    /// one timeout, or a second after the user ended it.
    pub abandoned: u64,
    /// Requests whose users did not wait for the whole response ([`crate::SlowClient::patience`]).
    pub stopped: u64,
    /// Failed requests by kind, those that occurred.
    pub errors: Vec<(Outcome, u64)>,
    /// Whole responses by status code, those that occurred; of calls of gRPC by its statuses.
    pub status: Vec<(u16, u64)>,
    /// Bytes received: heads and bodies, decrypted.
    pub bytes: u64,
    /// Those of them that came within `duration`.
    pub bytes_in_time: u64,
    /// Whole responses of any status that came within `duration`.
    pub requests_in_time: u64,
    /// Those of them whose status is expected.
    pub successes_in_time: u64,
    /// From the start to the end of the duration that was asked for, or to the last response of a number of requests.
    pub duration: Duration,
    /// From the start until nothing was under way any more, or was given up.
    pub took: Duration,
    /// Whole responses of any status within `duration`, a second.
    pub rate_per_s: f64,
    /// Successes within `duration`, a second.
    pub successes_per_s: f64,
    /// Bytes within `duration`, a second.
    pub bytes_per_s: f64,
    /// Kept-alive connections that the server closed under requests, which went out again over another.
    pub reconnects: u64,
    /// Requests that were sent again: of such connections, and those that a server of HTTP/2 refused unseen.
    pub resent: u64,
    /// Arrivals that waited in the generator for a connection.
    pub queued: u64,
    /// From the intended time to the last byte of the response, of successes.
    pub latency: Histogram<u64>,
    /// The same of the responses that are no success.
    pub unexpected_latency: Histogram<u64>,
    /// From the intended time until the request failed, of those that did.
    pub failure_time: Histogram<u64>,
    /// From just before the request was written (for the first on a connection: from the connect call) to the last byte,
    /// of successes.
    pub latency_uncorrected: Histogram<u64>,
    /// From just before the request was written to the first byte of its response, of successes.
    pub first_byte: Histogram<u64>,
    /// From the connect call until the connection could carry a request, the TLS handshake included.
    pub connect: Histogram<u64>,
    /// How long after its intended time the generator took each arrival of an open loop up: sent its request, began to
    /// open a connection for it, or queued it where none was free. Empty in a closed loop.
    pub schedule_lag: Histogram<u64>,
    /// The same over time.
    pub series: Series,
    /// How the generator itself fared.
    pub generator: Generator,
    /// How much of the slowest requests' time was the generator's own; `None` where none succeeded.
    pub slowest: Option<Slowest>,
    /// The slowest whole responses by the traces that their requests said, at most ten, the slowest first; `None` where
    /// requests say none ([`crate::Requests::traces`]).
    pub slow_traces: Option<Vec<SlowTrace>>,
    /// What makes the figures mean something else than they seem to, in words.
    pub warnings: Vec<String>,
    /// Whether the user ended the run.
    pub interrupted: bool,
    /// Events that found their ring full.
    pub events_lost: u64,
    /// What became of the sessions, if those were run.
    pub sessions: Option<SessionReport>,
    /// What was found of answers that come bit by bit, if they were looked at ([`Options::streaming`]).
    pub streams: Option<StreamReport>,
    /// What was found of WebSockets, if these were loaded ([`Options::websocket`]).
    pub websocket: Option<WebSocketReport>,
    /// What was found of calls of gRPC, if these were made ([`Options::grpc`]).
    pub grpc: Option<GrpcReport>,
    /// System calls of all loops.
    pub calls: Calls,
    /// TLS handshakes that succeeded.
    pub handshakes: Handshakes,
    /// The workers that made the run together, in their order; empty where this process made it alone.
    pub workers: Vec<WorkerReport>,
    /// Why requests failed, in words, where there is more to say than the name of the outcome; the most frequent first.
    pub reasons: Vec<Reason>,
    /// What was odd about responses that were taken all the same, and in how many; the most frequent first.
    pub tolerated: Vec<Remark>,
    /// The codes by which servers of HTTP/2 (GOAWAY) and of HTTP/3 (CONNECTION_CLOSE) ended connections, but for those
    /// that say that nothing is wrong; the most frequent first.
    pub goaways: Vec<Remark>,
    /// What is counted of HTTP/3 alone, if that was spoken.
    pub http3: Option<Http3Counts>,
    /// What came of the requests of a mix, if one was asked.
    pub mix: Option<MixReport>,
    /// How evenly the clients were served; `None` where the generator rather than the server decides it: in an open loop, or
    /// with several hosts, unless the connections come from several source addresses.
    pub fairness: Option<Fairness>,
}

/// What is said where the server answers that it wants TLS.
const WANTS_TLS: &str = "the server answers (400) that this port speaks TLS, not plain HTTP; ask with https://";
/// The share of time from which on a thread counts as fully used.
const BUSY_SHARE: f64 = 0.9;
/// The share of time without a CPU that bends the figures.
const CONTENDED_SHARE: f64 = 0.05;
/// The share of late arrivals that bends the figures.
const LATE_SHARE: f64 = 0.01;
/// Fewer late arrivals are accidents, however large their share.
const LATE_MIN: u64 = 5;
/// The part of the latencies that lateness may be before it bends them.
const LATE_PART: f64 = 0.1;
/// A clock that takes longer is no longer read by the CPU alone.
const SLOW_CLOCK_NS: f64 = 200.0;

impl LoadReport {
    pub(crate) fn new(
        options: &Options,
        tally: Tally,
        health: &[Health],
        start_ns: u64,
        end_ns: u64,
        interrupted: bool,
    ) -> Self {
        let is_counted = matches!(options.stop, StopRule::Requests(_)) && !interrupted;
        let [duration, took] = durations(&tally, start_ns, if is_counted { tally.last_done_ns } else { end_ns });
        let (streams_allowed, wants_tls, is_late) = (tally.streams_allowed, tally.wants_tls, is_late(&tally));
        let generator = Generator::of(&tally, health, is_late);
        let mut report = Self {
            requests: tally.requests(),
            successes: tally.successes(),
            unexpected: tally.unexpected,
            unfit: tally.checks.unfit(),
            checks: tally.checks.report(&options.checks),
            checks_took: Duration::from_nanos(tally.checks.took_ns),
            scopes: tally.scopes.report(&options.scopes, duration),
            expected: options.expected.clone(),
            dropped: tally.dropped,
            abandoned: tally.abandoned,
            stopped: tally.stopped(),
            errors: errors(&tally),
            status: (0..).zip(tally.status.iter().copied()).filter(|(_, count)| *count > 0).collect(),
            bytes: tally.bytes,
            bytes_in_time: tally.bytes - tally.bytes_late,
            requests_in_time: tally.requests_in_time(),
            successes_in_time: tally.successes_in_time(),
            duration,
            took,
            rate_per_s: tally.requests_in_time() as f64 / duration.as_secs_f64(),
            successes_per_s: tally.successes_in_time() as f64 / duration.as_secs_f64(),
            bytes_per_s: (tally.bytes - tally.bytes_late) as f64 / duration.as_secs_f64(),
            reconnects: tally.reconnects,
            resent: tally.resent,
            queued: tally.queued,
            slowest: tally.slow.slowest(&tally.latency),
            slow_traces: tally.traces.as_ref().map(|traces| traces.slowest(|request| asked(options, request))),
            latency: tally.latency,
            unexpected_latency: tally.unexpected_latency,
            failure_time: tally.failure_time,
            latency_uncorrected: tally.uncorrected,
            first_byte: tally.first_byte,
            connect: tally.connect,
            schedule_lag: tally.schedule_lag,
            series: Series::default(),
            generator,
            warnings: Vec::new(),
            interrupted,
            workers: Vec::new(),
            events_lost: tally.events_lost,
            sessions: tally.sessions.as_ref().map(|sessions| sessions.report(duration)),
            websocket: tally.websocket.as_ref().map(|websocket| websocket.report()),
            grpc: tally.grpc.as_ref().map(|grpc| grpc.report()),
            streams: tally.streams.as_ref().map(|streams| streams.report(took)),
            calls: tally.calls,
            handshakes: tally.handshakes,
            reasons: tally.reasons.sorted(),
            tolerated: tally.oddities.remarks(),
            goaways: goaways(options.protocol, &tally.goaways, &tally.http3.closes),
            http3: matches!(options.protocol, Protocol::Http3 { .. }).then_some(tally.http3.counts),
            mix: options.requests.mix.as_ref().map(|mix| tally.mix.report(mix)),
            fairness: tally.clients.fairness(),
        };
        report.warnings = report.judge(options, health, streams_allowed, is_late);
        report.warnings.extend(wants_tls.then(|| WANTS_TLS.to_owned()));
        report
    }

    /// The requests whose end is known to be none of a user's: answered, failed, dropped, or cut by the run's own end. What
    /// the user cut by ending the run, and what its users stopped, might still have succeeded.
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.requests + self.failures() + self.dropped + if self.interrupted { 0 } else { self.abandoned }
    }

    /// The share of successes of [`LoadReport::ended`], 0 to 1; `None` where there was none of any kind.
    #[must_use]
    pub fn success_rate(&self) -> Option<f64> {
        let all = self.ended();
        (all > 0).then(|| self.successes as f64 / all as f64)
    }

    /// All failed requests.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.errors.iter().map(|(_, count)| count).sum()
    }

    /// Whole responses whose status is not expected.
    #[must_use]
    pub fn other_statuses(&self) -> u64 {
        self.status.iter().filter(|(code, _)| !self.expected.contains(*code)).map(|(_, count)| count).sum()
    }

    /// What a status is called: its number, or its name where it is one of gRPC.
    #[must_use]
    pub fn status_name(&self, status: u16) -> String {
        if self.grpc.is_some() { grpc_status::name(status) } else { status.to_string() }
    }

    /// Which statuses are expected, as they are named.
    #[must_use]
    pub fn expected_names(&self) -> String {
        if self.grpc.is_some() { self.expected.grpc_names() } else { self.expected.to_string() }
    }

    /// What the statuses say against taking the latencies for those of the whole run.
    fn failing(&self) -> Option<String> {
        if self.successes == 0 {
            return Some("no request succeeded: there are no latencies of successes".to_owned());
        }
        let others = self.status.iter().filter(|(code, _)| !self.expected.contains(*code));
        let others: Vec<_> = others.map(|(code, count)| format!("{}: {count}", self.status_name(*code))).collect();
        let count = self.other_statuses();
        (count > 0).then(|| {
            format!(
                "{count} of {} responses had a status other than {} ({}): the latencies are those of the others",
                self.requests,
                self.expected_names(),
                others.join(", ")
            )
        })
    }

    /// What checks took of the generator's time, where that is much.
    fn held_up(&self, options: &Options) -> Option<String> {
        let time_s = self.took.as_secs_f64() * f64::from(options.threads);
        let share = self.checks_took.as_secs_f64() / time_s.max(f64::MIN_POSITIVE);
        (share > CONTENDED_SHARE).then(|| {
            format!(
                "checks took {:.0} % of the generator's time: responses that came meanwhile were read later, which is in \
                 their latencies; fewer checks, more threads (-t) or a lower rate keep it small",
                share * 100.0
            )
        })
    }

    /// What was cut of the requests.
    fn cut(&self, options: &Options) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.dropped > 0 {
            warnings.push(format!(
                "{} arrivals found the generator's queue full and were dropped: the percentiles lack them",
                self.dropped
            ));
        }
        if self.abandoned > 0 {
            let when = match options.stop {
                StopRule::Duration(_) if !self.interrupted => {
                    format!("within {:?} after the run's time", options.timeout)
                }
                _ => "when the run ended".to_owned(),
            };
            warnings.push(format!(
                "{} requests were not over {when} and were cut: the percentiles lack them",
                self.abandoned
            ));
        }
        warnings
    }

    fn judge(&self, options: &Options, health: &[Health], streams_allowed: u32, is_late: bool) -> Vec<String> {
        let mut warnings = options.requests.notes.clone();
        warnings.extend(self.failing());
        let generator = self.generator;
        let percent = |share: f64| share * 100.0;
        if generator.cpu_share + generator.runnable_share > BUSY_SHARE {
            warnings.push(format!(
                "the generator was the bottleneck: its busiest thread ran or wanted to {:.0} % of the time; \
                 more threads (-t), another CPU or host for it, or a lower rate show more of the server",
                percent(generator.cpu_share + generator.runnable_share)
            ));
        }
        if generator.runnable_share > CONTENDED_SHARE {
            warnings.push(format!(
                "the generator had to wait for its CPU {:.0} % of the time, which is in the latencies; keep others off it (--cpu)",
                percent(generator.runnable_share)
            ));
        }
        let begun = self.requests + self.failures();
        if is_late {
            warnings.push(format!(
                "the generator was the bottleneck: it took {} of {} arrivals up over 1 ms after their time, the last of \
                 each hundred {:.1} ms; its lateness is in the latencies",
                generator.late,
                self.schedule_lag.len(),
                self.schedule_lag.value_at_quantile(0.99) as f64 / 1e6
            ));
        }
        warnings.extend(self.held_up(options));
        warnings.extend(self.cut(options));
        if self.queued > 0 && self.queued * 100 > begun {
            warnings.push(format!(
                "{} arrivals ({:.0} %) waited in the generator because all {} connections were busy; users would have \
                 opened more (-c)",
                self.queued,
                percent(self.queued as f64 / (begun + self.dropped + self.abandoned).max(1) as f64),
                options.connections
            ));
        }
        if let Some(streams) = options.protocol.streams()
            && streams_allowed < streams
        {
            warnings.push(format!(
                "the server allows {streams_allowed} streams on a connection: no more of the {streams} that were asked \
                 for were under way at a time; more connections (-c) make up for it"
            ));
        }
        warnings.extend(self.exhausted());
        if let Some(mix) = self.mix.as_ref().filter(|mix| mix.wrong_sizes > 0) {
            warnings.push(format!(
                "{} responses were not as long as the files of {} are: the server serves another file set, or changes it",
                mix.wrong_sizes, mix.name
            ));
        }
        if self.events_lost > 0 {
            warnings.push(format!("{} events found no room and are missing from the run's record", self.events_lost));
        }
        let clock_ns = health.iter().map(|health| health.clock_read_ns).fold(0.0, f64::max);
        if clock_ns > SLOW_CLOCK_NS {
            warnings.push(format!("reading the clock takes {clock_ns:.0} ns here, which is in all figures"));
        }
        warnings
    }

    /// What this host had no more of.
    fn exhausted(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for (outcome, words) in [
            (
                Outcome::NoDescriptors,
                "descriptors left for connections; raise the limit (ulimit -n) or open fewer (-c)",
            ),
            (Outcome::NoPorts, "port left for connections to this address; more source addresses (--source) have more"),
        ] {
            if let Some((_, count)) = self.errors.iter().find(|(kind, _)| *kind == outcome) {
                warnings.push(format!("{count} requests failed because this host, not the server, had no {words}"));
            }
        }
        warnings
    }
}

/// The codes by which servers ended connections.
fn goaways(protocol: Protocol, http2: &CodeCounts, http3: &CodeCounts) -> Vec<Remark> {
    match protocol {
        Protocol::Http3 { .. } => http3.remarks(|code| http3_code_words(code.into())),
        Protocol::Http1 | Protocol::Http2 { .. } => http2.remarks(code_words),
    }
}

/// Method and target of one of the requests, if these are known before it is put together.
fn asked(options: &Options, request: u32) -> Option<String> {
    let words = |url: &Url, request: &Request| format!("{} {}", request.method, url.target);
    if options.requests.mix.is_some() {
        return None;
    }
    match options.requests.list.get(request as usize) {
        Some(listed) => Some(words(&listed.url, &listed.request)),
        None => Some(words(&options.url, &options.request)),
    }
}

/// How often each kind of error was, where it was.
fn errors(tally: &Tally) -> Vec<(Outcome, u64)> {
    let all = Outcome::ALL.into_iter().zip(tally.errors);
    all.filter(|(outcome, count)| outcome.is_error() && *count > 0).collect()
}

/// How long a run took until `end_ns`, and until nothing was under way any more.
fn durations(tally: &Tally, start_ns: u64, end_ns: u64) -> [Duration; 2] {
    let duration = Duration::from_nanos(end_ns.saturating_sub(start_ns).max(1));
    [duration, Duration::from_nanos(tally.over_ns.saturating_sub(start_ns)).max(duration)]
}

/// Whether the generator took arrivals up so late that this bends the figures: not a few of them, and late by a part of
/// what the requests took.
fn is_late(tally: &Tally) -> bool {
    let answered = if tally.latency.is_empty() { &tally.unexpected_latency } else { &tally.latency };
    let limit_ns = LATE_PART * answered.value_at_quantile(0.99) as f64;
    tally.late >= LATE_MIN
        && tally.late as f64 > LATE_SHARE * tally.schedule_lag.len() as f64
        && tally.schedule_lag.value_at_quantile(0.99) as f64 > limit_ns
}

impl Generator {
    /// How the loops of a tally fared.
    pub(crate) fn of_loops(tally: &Tally, health: &[Health]) -> Self {
        Self::of(tally, health, is_late(tally))
    }

    fn of(tally: &Tally, health: &[Health], is_late: bool) -> Self {
        let busiest = health.iter().max_by(|one, other| one.demand().total_cmp(&other.demand()));
        let (cpu_share, runnable_share) =
            busiest.map_or((0.0, 0.0), |health| (health.cpu_share, health.runnable_share));
        Self {
            cpu_share,
            runnable_share,
            cpu_ns: health.iter().map(|health| health.cpu_ns).sum(),
            late: tally.late,
            bottleneck: cpu_share + runnable_share > BUSY_SHARE || is_late,
            io: if tally.through_ring { Io::Uring } else { Io::Epoll },
        }
    }
}

impl Health {
    /// The share of time that the thread ran or wanted to.
    fn demand(&self) -> f64 {
        self.cpu_share + self.runnable_share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of so many arrivals, some of them late by so much, whose latencies are all the same.
    fn tally(arrivals: u64, late: u64, late_ns: u64, latency_ns: u64) -> Tally {
        let mut tally = Tally::new(Statuses::default());
        for number in 0..arrivals {
            let lag_ns = if number < late { late_ns } else { 30_000 };
            tally.taken_up(1_000, 1_000 + lag_ns);
            tally.latency.saturating_record(latency_ns + lag_ns);
        }
        tally
    }

    #[test]
    fn one_late_arrival_is_no_bottleneck() {
        const MS: u64 = 1_000_000;
        // 1 of 20 is 5 %, and an accident.
        assert!(!is_late(&tally(20, 1, 30 * MS, MS)));
        // 6 of 100, each 2 ms late, bend latencies of 1 ms, and are nothing beside 200 ms.
        assert!(is_late(&tally(100, 6, 2 * MS, MS)));
        assert!(!is_late(&tally(100, 6, 2 * MS, 200 * MS)));
        // Under 1 % no percentile that is shown but the last ones has them.
        assert!(!is_late(&tally(10_000, 90, 30 * MS, MS)));
        assert!(is_late(&tally(10_000, 200, 30 * MS, MS)));
        assert!(!is_late(&Tally::new(Statuses::default())));
    }
}
