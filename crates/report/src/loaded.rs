//! What a load found, as its page shows it.

use weir_measure::summary::Summary;

/// A load in figures; times are in nanoseconds where they are not named otherwise.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    /// What was loaded.
    pub subject: String,
    /// How, in words.
    pub manner: String,
    /// Whether the user ended it.
    pub interrupted: bool,
    /// How long it took, seconds.
    pub duration_s: f64,
    /// How long it took until nothing was under way any more, seconds, where that is longer.
    pub took_s: Option<f64>,
    /// Whole responses of any status.
    pub requests: u64,
    /// Those of them whose status is a success.
    pub successes: u64,
    /// The share of successes of all requests that ended, 0 to 1; `None` where none did.
    pub success_rate: Option<f64>,
    /// Which statuses are a success, in words.
    pub expected: String,
    /// Whole responses a second.
    pub rate_per_s: f64,
    /// Successes a second.
    pub successes_per_s: f64,
    /// Bytes received.
    pub bytes: u64,
    /// Bytes received a second.
    pub bytes_per_s: f64,
    /// Arrivals that the generator had no room for.
    pub dropped: u64,
    /// Failed requests by kind.
    pub errors: Vec<(String, u64)>,
    /// Responses by status.
    pub status: Vec<(String, u64)>,
    /// The latencies of successes in figures; `None` where there was none.
    pub latency: Option<Summary>,
    /// The latencies of responses with another status, and the times until requests failed.
    pub latency_unexpected: Option<Summary>,
    /// See `latency_unexpected`.
    pub latency_failed: Option<Summary>,
    /// What an objective says of the run, in words, and whether it was met.
    pub objective: Option<(String, bool)>,
    /// (share of requests that are slower, latency), from the fastest half on.
    pub curve: Vec<(f64, u64)>,
    /// (from, to, count) of the latencies, in ranges of equal ratio.
    pub spread: Vec<(u64, u64, u64)>,
    /// The time series.
    pub points: Vec<LoadedPoint>,
    /// What was found at each of several rates.
    pub rates: Vec<LoadedRate>,
    /// What a search for the highest rate says, in a sentence.
    pub answer: Option<String>,
    /// The rate that it found, a second, with the ends of its interval.
    pub found: Option<(f64, f64, f64)>,
    /// The limit of the objective that it searched by.
    pub limit_ns: Option<u64>,
    /// How the generator fared, in words.
    pub generator: String,
    /// Who took most of the slowest requests' time, in words; empty where that is not told.
    pub at_fault: String,
    /// The slowest requests by their traces, each in words.
    pub slow_traces: Vec<String>,
    /// What came bit by bit: events of streamed answers, messages over WebSockets; in words, empty where there was none.
    pub streams: String,
    /// What makes the figures mean something else than they seem to.
    pub warnings: Vec<String>,
}

/// One interval of a load.
#[derive(Debug, Clone, Default)]
pub struct LoadedPoint {
    /// Its begin and its length, seconds.
    pub begin_s: f64,
    /// See `begin_s`.
    pub length_s: f64,
    /// Whole responses of any status.
    pub requests: u64,
    /// Those of them whose status is no success.
    pub unexpected: u64,
    /// Failed requests.
    pub failures: u64,
    /// Arrivals that the generator had no room for.
    pub dropped: u64,
    /// The latencies of successes in figures; `None` where there was none.
    pub latency: Option<Summary>,
}

/// What was found at one rate.
#[derive(Debug, Clone, Default)]
pub struct LoadedRate {
    /// Arrivals a second that were wanted.
    pub rate_per_s: f64,
    /// Responses of any status that came, a second.
    pub achieved_per_s: f64,
    /// Successes a second.
    pub successes_per_s: f64,
    /// Requests that count, and successes among them.
    pub requests: u64,
    /// See `requests`.
    pub successes: u64,
    /// Responses by status, of whole trials.
    pub status: Vec<(String, u64)>,
    /// Failed requests by kind, of whole trials.
    pub errors: Vec<(String, u64)>,
    /// The median of successes; 0 where there was none.
    pub p50_ns: u64,
    /// The value that 99 % of successes do not exceed; 0 where there was none.
    pub p99_ns: u64,
    /// Share of the requests that missed the objective, 0 to 1.
    pub bad_share: f64,
    /// Tries.
    pub trials: u32,
}

impl LoadedRate {
    /// The share of the requests that succeeded, 0 to 1.
    #[must_use]
    pub fn success_rate(&self) -> f64 {
        self.successes as f64 / self.requests.max(1) as f64
    }
}
