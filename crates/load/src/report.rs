//! What a run found.

use crate::clients::Fairness;
use crate::health::Health;
use crate::kernel::Calls;
use crate::options::{Io, Options};
use crate::protocol::Protocol;
use crate::reach::Reason;
use crate::schedule::StopRule;
use crate::series::Series;
use crate::sessions::SessionReport;
use crate::tally::{Handshakes, Tally};
use crate::workload::MixReport;
use hdrhistogram::Histogram;
use std::time::Duration;
use weir_wire::client::Outcome;

/// What a run found; durations are in nanoseconds, of successful exchanges only.
#[derive(Debug, Clone)]
pub struct LoadReport {
    /// Whole responses, whatever their status.
    pub requests: u64,
    /// Arrivals that found the generator's queue full, and were never sent.
    pub dropped: u64,
    /// Requests that were queued or under way when the run ended for good.
    pub abandoned: u64,
    /// Requests whose users did not wait for the whole response ([`crate::SlowClient::patience`]).
    pub stopped: u64,
    /// Failed requests by kind, those that occurred.
    pub errors: Vec<(Outcome, u64)>,
    /// Whole responses by status code, those that occurred.
    pub status: Vec<(u16, u64)>,
    /// Bytes received: heads and bodies, decrypted.
    pub bytes: u64,
    /// From the start to the end of the duration that was asked for, or to the last response of a number of requests.
    pub duration: Duration,
    /// Whole responses within `duration`, a second.
    pub rate_per_s: f64,
    /// Requests sent again on a fresh connection, because the server had closed the kept-alive one.
    pub reconnects: u64,
    /// Arrivals that waited in the generator for a connection.
    pub queued: u64,
    /// From the intended time to the last byte of the response.
    pub latency: Histogram<u64>,
    /// From just before the request was written (for the first on a connection: from the connect call) to the last byte.
    pub latency_uncorrected: Histogram<u64>,
    /// From just before the request was written to the first byte of its response.
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
    /// What makes the figures mean something else than they seem to, in words.
    pub warnings: Vec<String>,
    /// Whether the user ended the run.
    pub interrupted: bool,
    /// Events that found their ring full.
    pub events_lost: u64,
    /// What became of the sessions, if those were run.
    pub sessions: Option<SessionReport>,
    /// System calls of all loops.
    pub calls: Calls,
    /// TLS handshakes that succeeded.
    pub handshakes: Handshakes,
    /// Why requests failed, in words, where there is more to say than the name of the outcome; the most frequent first.
    pub reasons: Vec<Reason>,
    /// What came of the requests of a mix, if one was asked.
    pub mix: Option<MixReport>,
    /// How evenly the clients were served; `None` where the generator rather than the server decides it: in an open loop, or
    /// with several hosts, unless the connections come from several source addresses.
    pub fairness: Option<Fairness>,
}

/// How the generator itself fared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Generator {
    /// Share of the time that its busiest thread ran, 0 to 1.
    pub cpu_share: f64,
    /// Share of the time that this thread could have run but waited for the CPU, 0 to 1.
    pub runnable_share: f64,
    /// Arrivals that were taken up more than 1 ms after their time.
    pub late: u64,
    /// Whether the generator rather than the server may have set the figures.
    pub bottleneck: bool,
    /// How bytes came and went: [`Io::Uring`] if they did so on any connection, else [`Io::Epoll`].
    pub io: Io,
}

/// The share of time from which on a thread counts as fully used.
const BUSY_SHARE: f64 = 0.9;
/// The share of time without a CPU that bends the figures.
const CONTENDED_SHARE: f64 = 0.05;
/// The share of late arrivals that bends the figures.
const LATE_SHARE: f64 = 0.01;
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
        let end_ns = match options.stop {
            StopRule::Requests(_) if !interrupted => tally.last_done_ns,
            _ => end_ns,
        };
        let duration = Duration::from_nanos(end_ns.saturating_sub(start_ns).max(1));
        let busiest = health.iter().max_by(|one, other| one.demand().total_cmp(&other.demand()));
        let (cpu_share, runnable_share) =
            busiest.map_or((0.0, 0.0), |health| (health.cpu_share, health.runnable_share));
        let late_share = tally.late as f64 / tally.schedule_lag.len().max(1) as f64;
        let generator = Generator {
            cpu_share,
            runnable_share,
            late: tally.late,
            bottleneck: cpu_share + runnable_share > BUSY_SHARE || late_share > LATE_SHARE,
            io: if tally.through_ring { Io::Uring } else { Io::Epoll },
        };
        let streams_allowed = tally.streams_allowed;
        let mut report = Self {
            requests: tally.requests,
            dropped: tally.dropped,
            abandoned: tally.abandoned,
            stopped: tally.stopped(),
            errors: Outcome::ALL
                .into_iter()
                .zip(tally.errors)
                .filter(|(outcome, count)| outcome.is_error() && *count > 0)
                .collect(),
            status: (0..).zip(tally.status.iter().copied()).filter(|(_, count)| *count > 0).collect(),
            bytes: tally.bytes,
            duration,
            rate_per_s: tally.requests_in_time as f64 / duration.as_secs_f64(),
            reconnects: tally.reconnects,
            queued: tally.queued,
            latency: tally.latency,
            latency_uncorrected: tally.uncorrected,
            first_byte: tally.first_byte,
            connect: tally.connect,
            schedule_lag: tally.schedule_lag,
            series: Series::default(),
            generator,
            warnings: Vec::new(),
            interrupted,
            events_lost: tally.events_lost,
            sessions: tally.sessions.as_ref().map(|sessions| sessions.report(duration)),
            calls: tally.calls,
            handshakes: tally.handshakes,
            reasons: tally.reasons.sorted(),
            mix: options.asks.mix.as_ref().map(|mix| tally.mix.report(mix)),
            fairness: tally.clients.fairness(),
        };
        report.warnings = report.judge(options, health, streams_allowed);
        report
    }

    /// All failed requests.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.errors.iter().map(|(_, count)| count).sum()
    }

    fn judge(&self, options: &Options, health: &[Health], streams_allowed: u32) -> Vec<String> {
        let mut warnings = options.asks.notes.clone();
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
        if generator.late as f64 > LATE_SHARE * self.schedule_lag.len().max(1) as f64 {
            warnings.push(format!(
                "the generator was the bottleneck: it took {} arrivals up over 1 ms after their time, the last of each \
                 hundred {:.1} ms; its lateness is in the latencies",
                generator.late,
                self.schedule_lag.value_at_quantile(0.99) as f64 / 1e6
            ));
        }
        if self.dropped > 0 {
            warnings.push(format!(
                "{} arrivals found the generator's queue full and were dropped: the percentiles lack them",
                self.dropped
            ));
        }
        if self.abandoned > 0 {
            warnings.push(format!(
                "{} requests were not over when the run ended: the percentiles lack them",
                self.abandoned
            ));
        }
        if self.queued > 0 && self.queued * 100 > begun {
            warnings.push(format!(
                "{} arrivals ({:.0} %) waited in the generator because all {} connections were busy; users would have \
                 opened more (-c)",
                self.queued,
                percent(self.queued as f64 / (begun + self.dropped + self.abandoned).max(1) as f64),
                options.connections
            ));
        }
        if let Protocol::Http2 { streams } = options.protocol
            && streams_allowed < streams
        {
            warnings.push(format!(
                "the server allows {streams_allowed} streams on a connection: no more of the {streams} that were asked \
                 for were under way at a time; more connections (-c) make up for it"
            ));
        }
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
}

impl Health {
    /// The share of time that the thread ran or wanted to.
    fn demand(&self) -> f64 {
        self.cpu_share + self.runnable_share
    }
}
