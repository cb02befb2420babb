//! A forecast, and how well a formula fits the past.

use serde::{Deserialize, Serialize};

/// What is expected, and how well the past fits the same formula.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Forecast {
    /// The value that is expected; never negative, as no resource is.
    pub value: f64,
    /// R2: the share of the past's variance that the formula explains; 1 is all of it, and a formula that is worse
    /// than the mean has less than 0.
    pub fit: f64,
}

/// R2 of values and what a formula says of them.
pub(super) fn fit(pairs: impl Iterator<Item = (f64, f64)> + Clone) -> f64 {
    let (count, sum) = pairs.clone().fold((0.0, 0.0), |(count, sum), (value, _)| (count + 1.0, sum + value));
    let mean = sum / count;
    let (left, all) = pairs.fold((0.0, 0.0), |(left, all), (value, said)| {
        (left + (value - said) * (value - said), all + (value - mean) * (value - mean))
    });
    still_of(left, all, count, mean).unwrap_or(1.0 - left / all)
}

/// R2 of a series that does not move, which any line explains that does not move either; `None` of one that does. `left`
/// and `all` are the sums of the squares of what is left, and of the distances from the mean.
pub(super) fn still_of(left: f64, all: f64, count: f64, mean: f64) -> Option<f64> {
    let nothing = 1e-9 * (1.0 + mean * mean);
    (all <= nothing * count).then_some(if left <= nothing * count { 1.0 } else { 0.0 })
}
