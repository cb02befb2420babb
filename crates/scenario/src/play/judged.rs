//! Whether a run held its objectives.

use crate::form::Slo;
use crate::metrics::Trend;
use crate::play::tallies::Tally;
use std::time::Duration;
use weir_measure::threshold::{Threshold, Time};

/// What is said of an objective.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// The objective as it was written.
    pub text: String,
    /// Whether it was held; without any request it was not.
    pub is_met: bool,
    /// What came instead, or how it was held.
    pub words: String,
}

/// Judges an objective; failed requests miss every limit of time.
#[must_use]
pub fn judge(slo: &Slo, tally: &Tally, duration: Duration) -> Judged {
    let text = slo.text.clone();
    if tally.requests == 0 {
        return Judged { text, is_met: false, words: "no request was made that it is of".to_owned() };
    }
    let share_of = |bad: u64| bad as f64 / tally.requests as f64;
    let told = |bad: u64, allowed: f64| {
        format!(
            "{bad} of {} requests missed it, {:.3} %, of {:.3} % allowed",
            tally.requests,
            share_of(bad) * 100.0,
            allowed * 100.0
        )
    };
    let slow =
        |time, limit_ns: u64| trend(tally, time).map_or(0, |trend| trend.above(limit_ns as f64 / 1e6)) + tally.failed;
    let (is_met, words) = match slo.threshold {
        Threshold::Percentile { time, share, limit_ns } => {
            let bad = slow(time, limit_ns);
            // A rounding of the share must not make a request of none.
            (share_of(bad) <= 1.0 - share + 1e-9, told(bad, 1.0 - share))
        }
        Threshold::Max { time, limit_ns } => {
            let bad = slow(time, limit_ns);
            (bad == 0, told(bad, 0.0))
        }
        Threshold::Mean { time, limit_ns } => {
            let mean = trend(tally, time).map_or(0.0, Trend::mean);
            let any = tally.requests > tally.failed;
            (
                any && mean < limit_ns as f64 / 1e6,
                format!("it was {mean:.3} ms over {} successes", tally.requests - tally.failed),
            )
        }
        Threshold::Errors { share } => (share_of(tally.failed) <= share, told(tally.failed, share)),
        Threshold::Rate { per_s } => {
            let rate = (tally.requests - tally.failed) as f64 / duration.as_secs_f64().max(1e-9);
            (rate > per_s, format!("{rate:.1} successes a second"))
        }
    };
    Judged { text, is_met, words }
}

fn trend(tally: &Tally, time: Time) -> Option<&Trend> {
    match time {
        Time::Latency => tally.latency.trend(),
        Time::FirstByte => tally.first_byte.trend(),
        // Refused when the objective is read.
        Time::FirstEvent | Time::Between => None,
    }
}
