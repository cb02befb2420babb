//! How popular content is, in steps: rates are known only roughly.

/// Requests in a second below which content does not count as asked for.
pub(super) const RATE_MIN: f64 = 0.1;

/// How popular a content is that is asked for so often in a second: 0 below 0.1, then one more each time that the rate
/// doubles. Rates are known only roughly, and differ from node to node by some seconds.
#[must_use]
pub fn level_of(requests_per_s: f64) -> u8 {
    if requests_per_s.is_nan() || requests_per_s < RATE_MIN {
        return 0;
    }
    1 + (requests_per_s.min(1e12) / RATE_MIN).log2().floor() as u8
}

/// The lowest rate of a level, in a second.
pub(super) fn rate_of(level: u8) -> f64 {
    if level == 0 { 0.0 } else { RATE_MIN * f64::from(level - 1).exp2() }
}
