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
    /// Whole responses, whatever their status.
    pub requests: u64,
    /// Whole responses a second.
    pub rate_per_s: f64,
    /// Bytes received.
    pub bytes: u64,
    /// Arrivals that the generator had no room for.
    pub dropped: u64,
    /// Failed requests by kind.
    pub errors: Vec<(String, u64)>,
    /// Responses by status.
    pub status: Vec<(String, u64)>,
    /// The latencies in figures; `None` where nothing was answered.
    pub latency: Option<Summary>,
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
    /// Whole responses.
    pub requests: u64,
    /// Failed requests.
    pub failures: u64,
    /// Arrivals that the generator had no room for.
    pub dropped: u64,
    /// The latencies in figures; `None` where nothing was answered.
    pub latency: Option<Summary>,
}

/// What was found at one rate.
#[derive(Debug, Clone, Default)]
pub struct LoadedRate {
    /// Arrivals a second that were wanted.
    pub rate_per_s: f64,
    /// Responses a second that came.
    pub achieved_per_s: f64,
    /// The median.
    pub p50_ns: u64,
    /// The value that 99 % do not exceed.
    pub p99_ns: u64,
    /// Share of the requests that missed the objective, 0 to 1.
    pub bad_share: f64,
    /// Tries.
    pub trials: u32,
}
