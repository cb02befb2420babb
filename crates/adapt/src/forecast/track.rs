//! How wrong forecasts were: each is kept until its time has come.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Forecasts that wait for their time.
const PENDING_MAX: usize = 64;

/// The forecasts of one series and what came in their place.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Track {
    /// In the order of their times.
    pending: VecDeque<Pending>,
    errors: Errors,
}

/// A forecast whose time has not come.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Pending {
    for_ms: u64,
    #[serde(with = "crate::exact")]
    said: f64,
}

/// The errors of forecasts whose time has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Errors {
    /// How many.
    pub count: u64,
    #[serde(with = "crate::exact")]
    sum: f64,
    #[serde(with = "crate::exact")]
    sum_of_sizes: f64,
    #[serde(with = "crate::exact")]
    sum_of_values: f64,
}

impl Errors {
    /// The mean of forecast less value: above zero the forecasts are too high.
    pub fn bias(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }

    /// The mean size of the errors.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_of_sizes / self.count as f64)
    }

    /// The errors as a share of the values that came, 1 = as large as these; `None` where these were all zero.
    pub fn share(&self) -> Option<f64> {
        (self.sum_of_values > 0.0).then(|| self.sum_of_sizes / self.sum_of_values)
    }

    /// Those of two tracks together.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.sum_of_sizes += other.sum_of_sizes;
        self.sum_of_values += other.sum_of_values;
    }
}

impl Track {
    /// A forecast was made `ahead_ms` before its time; of very many only some are kept.
    pub fn made(&mut self, for_ms: u64, ahead_ms: u64, value: f64) {
        let apart = ahead_ms / (PENDING_MAX as u64 / 2);
        let last = self.pending.back().map(|last| last.for_ms);
        if self.pending.len() < PENDING_MAX && last.is_none_or(|last| for_ms > last + apart) {
            self.pending.push_back(Pending { for_ms, said: value });
        }
    }

    /// A value was measured: it is what came of the forecasts whose time has come, if it is not much later than
    /// they said; `late_ms` is how much.
    pub fn came(&mut self, at_ms: u64, late_ms: u64, value: f64) {
        while let Some(Pending { for_ms, said }) = self.pending.front().copied().filter(|one| one.for_ms <= at_ms) {
            self.pending.pop_front();
            if at_ms - for_ms <= late_ms {
                self.errors.count += 1;
                self.errors.sum += said - value;
                self.errors.sum_of_sizes += (said - value).abs();
                self.errors.sum_of_values += value;
            }
        }
    }

    /// The errors so far.
    pub fn errors(&self) -> Errors {
        self.errors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forecast_is_judged_when_its_time_has_come() {
        let mut track = Track::default();
        track.made(30_000, 30_000, 120.0);
        track.came(29_000, 2_000, 70.0);
        assert_eq!(track.errors().count, 0);
        track.came(31_000, 2_000, 100.0);
        assert_eq!((track.errors().bias(), track.errors().mean()), (Some(20.0), Some(20.0)));
        assert_eq!(track.errors().share(), Some(0.2));
        // Nothing was measured for long: that says nothing of the forecast.
        track.made(60_000, 30_000, 80.0);
        track.came(90_000, 2_000, 100.0);
        assert_eq!(track.errors().count, 1);
        for at in 0..1000 {
            track.made(100_000 + at, 1_000, 1.0);
        }
        assert!(track.pending.len() <= PENDING_MAX);
    }
}
