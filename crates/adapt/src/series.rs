//! The latest values of one resource at one place, and what comes of them over a time.

use crate::forecast::{HoltWinters, Method};
use crate::language::syntax::Aggregate;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Values of a series at most. Where a window would hold more, they are thinned out evenly.
const SAMPLES_MAX: usize = 512;

/// Why a test is neither true nor false.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum Unknown {
    /// There is no reading.
    Missing,
    /// The latest reading is older than it holds.
    Stale {
        /// Its age in milliseconds.
        age_ms: u64,
    },
    /// Readings began too late to speak for the time that is asked about: at least half of it is needed.
    Short {
        /// The milliseconds that they go back.
        seen_ms: u64,
        /// The milliseconds that were asked for.
        asked_ms: u64,
    },
    /// A forecast fits the past too badly.
    Unfit {
        /// Its R2.
        fit: f64,
        /// The least that was asked for.
        asked: f64,
    },
    /// There are too few readings for a forecast.
    NoForecast,
}

/// A measured value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) at_ms: u64,
    #[serde(with = "crate::exact")]
    pub(crate) value: f64,
}

/// Values in the order of their times, as far back as the longest window of a rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Series {
    samples: VecDeque<Sample>,
    /// How long the last one holds.
    valid_ms: u64,
    /// How far back is asked; 0 = the last one only.
    window_ms: u64,
    season: Option<Box<HoltWinters>>,
}

impl Series {
    pub(crate) fn new(window_ms: u64, method: Method) -> Self {
        let season = match method {
            Method::Seasonal { period_ms } if window_ms > 0 => Some(Box::new(HoltWinters::new(period_ms))),
            _ => None,
        };
        Self { samples: VecDeque::with_capacity(1), valid_ms: 0, window_ms, season }
    }

    /// Takes a value; `false`: it is older than the last one, and passed over.
    pub(crate) fn push(&mut self, at_ms: u64, value: f64, valid_ms: u64) -> bool {
        let last = self.samples.len().wrapping_sub(1);
        if self.samples.back().is_some_and(|last| at_ms < last.at_ms) {
            return false;
        }
        let sample = Sample { at_ms, value };
        let apart = self.window_ms / SAMPLES_MAX as u64;
        // Close to the one before the last, this takes the place of the last: so the latest is always there.
        let close = last > 0 && last < SAMPLES_MAX && at_ms - self.samples[last - 1].at_ms < apart;
        let same = self.samples.back().is_some_and(|last| last.at_ms == at_ms);
        if close || same || (self.window_ms == 0 && last == 0) {
            self.samples[last] = sample;
        } else {
            // One that is just outside stays, so that the window is known to be covered.
            let outside = at_ms.saturating_sub(self.window_ms);
            while self.samples.len() >= SAMPLES_MAX || self.samples.get(1).is_some_and(|next| next.at_ms < outside) {
                self.samples.pop_front();
            }
            self.samples.push_back(sample);
        }
        self.valid_ms = valid_ms;
        if let Some(season) = &mut self.season {
            season.push(at_ms, value);
        }
        true
    }

    pub(crate) fn season(&self) -> Option<&HoltWinters> {
        self.season.as_deref()
    }

    /// Goes on with what repeated before, where it is forecast by that and the period is the same.
    pub(crate) fn take_season(&mut self, season: &HoltWinters) {
        if let Some(own) = self.season.as_deref_mut().filter(|own| own.is_like(season)) {
            own.clone_from(season);
        }
    }

    /// The values that are kept, the oldest first.
    pub(crate) fn samples(&self) -> impl ExactSizeIterator<Item = Sample> + '_ {
        self.samples.iter().copied()
    }

    /// The same, as they lie in memory.
    pub(crate) fn parts(&self) -> (&[Sample], &[Sample]) {
        self.samples.as_slices()
    }

    pub(crate) fn valid_ms(&self) -> u64 {
        self.valid_ms
    }

    /// The latest value, unless it is too old.
    pub(crate) fn latest(&self, now_ms: u64) -> Result<Sample, Unknown> {
        let last = *self.samples.back().ok_or(Unknown::Missing)?;
        let age_ms = now_ms.saturating_sub(last.at_ms);
        if age_ms > self.valid_ms { Err(Unknown::Stale { age_ms }) } else { Ok(last) }
    }

    /// The values of the last so many milliseconds, if they speak for these.
    pub(crate) fn window(
        &self,
        now_ms: u64,
        over_ms: u64,
    ) -> Result<impl ExactSizeIterator<Item = Sample> + Clone + '_, Unknown> {
        self.latest(now_ms)?;
        let since = now_ms.saturating_sub(over_ms);
        let first = self.samples.partition_point(|sample| sample.at_ms < since);
        // The one before the window shows that nothing is missing at its begin.
        let oldest = self.samples[first.saturating_sub(1)].at_ms;
        let seen_ms = now_ms.saturating_sub(oldest);
        if seen_ms < over_ms / 2 || first == self.samples.len() {
            return Err(Unknown::Short { seen_ms, asked_ms: over_ms });
        }
        Ok(self.samples.range(first..).copied())
    }
}

/// The mean of values, of which there is one at least. It is made of their distances from the first, so that the mean of
/// values that stay is that value to the last bit, however many there are.
pub(crate) fn mean(values: impl ExactSizeIterator<Item = f64> + Clone) -> f64 {
    let count = values.len() as f64;
    let first = values.clone().next().unwrap_or(f64::NAN);
    first + values.map(|value| value - first).sum::<f64>() / count
}

/// What of several values counts; `None` where there are none. The values are put into another order.
pub(crate) fn aggregate(values: &mut [f64], aggregate: Aggregate) -> Option<f64> {
    let count = values.len();
    let share = |values: &mut [f64], share: f64| {
        // The smallest value that at least this share is not above.
        let rank = ((share * count as f64).ceil() as usize).clamp(1, count) - 1;
        *values.select_nth_unstable_by(rank, f64::total_cmp).1
    };
    (count > 0).then(|| match aggregate {
        Aggregate::Avg => mean(values.iter().copied()),
        Aggregate::Max => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        Aggregate::Min => values.iter().copied().fold(f64::INFINITY, f64::min),
        Aggregate::P95 => share(values, 0.95),
        Aggregate::P99 => share(values, 0.99),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(series: &Series, now_ms: u64, over_ms: u64) -> Result<Vec<f64>, Unknown> {
        series.window(now_ms, over_ms).map(|window| window.map(|sample| sample.value).collect())
    }

    #[test]
    fn a_window_holds_what_is_not_too_old() {
        let mut series = Series::new(4000, Method::LeastSquares);
        assert_eq!(series.latest(0), Err(Unknown::Missing));
        assert!(series.push(1000, 1.0, 2500));
        assert_eq!(values(&series, 2000, 4000), Err(Unknown::Short { seen_ms: 1000, asked_ms: 4000 }));
        for second in 2..20 {
            assert!(series.push(second * 1000, second as f64, 2500));
        }
        assert!(!series.push(18_999, 5.0, 2500));
        assert_eq!(values(&series, 20_000, 4000), Ok(vec![16.0, 17.0, 18.0, 19.0]));
        assert_eq!(series.latest(21_600), Err(Unknown::Stale { age_ms: 2600 }));
        assert!(series.samples.len() <= 6, "{}", series.samples.len());
    }

    #[test]
    fn a_series_is_bounded_and_covers_its_window() {
        let mut series = Series::new(3_600_000, Method::LeastSquares);
        for second in 0..10_000 {
            series.push(second * 1000, second as f64, 5000);
        }
        assert!(series.samples.len() <= SAMPLES_MAX);
        let window = values(&series, 9_999_000, 3_600_000).expect("covered");
        assert!(window.len() > SAMPLES_MAX * 8 / 10 && window.last() == Some(&9999.0), "{}", window.len());
        let mut one = Series::new(0, Method::LeastSquares);
        (0..100).for_each(|n| assert!(one.push(n, 1.0, 1)));
        assert_eq!(one.samples.len(), 1);
    }

    #[test]
    fn aggregates_are_of_the_values() {
        let of = |which| aggregate(&mut (1..=100).rev().map(f64::from).collect::<Vec<_>>(), which);
        assert_eq!(of(Aggregate::Avg), Some(50.5));
        assert_eq!(of(Aggregate::Max), Some(100.0));
        assert_eq!(of(Aggregate::Min), Some(1.0));
        assert_eq!(of(Aggregate::P95), Some(95.0));
        assert_eq!(of(Aggregate::P99), Some(99.0));
        assert_eq!(aggregate(&mut [], Aggregate::P99), None);
        // A sum of three would be more than thrice the value.
        assert_eq!(aggregate(&mut [0.2; 3], Aggregate::Avg), Some(0.2));
    }
}
