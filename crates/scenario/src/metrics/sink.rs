//! Where the values of a metric go.

use hdrhistogram::Histogram;

/// What becomes of a metric's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// They are added up.
    Counter,
    /// The last one counts.
    Gauge,
    /// How many are not zero.
    Rate,
    /// Their distribution.
    Trend,
}

/// What a metric's values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contains {
    /// Numbers.
    Default,
    /// Times in milliseconds.
    Time,
    /// Bytes.
    Data,
}

/// The resolution of trends: values are kept in thousandths.
const SCALE: f64 = 1000.0;
/// The largest value of a trend that is told apart.
const VALUE_MAX: f64 = 1e15;

/// The values of a metric, so far.
#[derive(Debug, Clone)]
pub enum Sink {
    /// See [`Kind::Counter`].
    Counter {
        /// All values together.
        sum: f64,
    },
    /// See [`Kind::Gauge`].
    Gauge {
        /// The last value.
        value: f64,
        /// The smallest.
        min: f64,
        /// The largest.
        max: f64,
        /// Whether there is one.
        count: u64,
    },
    /// See [`Kind::Rate`].
    Rate {
        /// Values that are not zero.
        passes: u64,
        /// All values.
        total: u64,
    },
    /// See [`Kind::Trend`].
    Trend(Box<Trend>),
}

/// A distribution: exact sums and ends, percentiles within 0.1 % and a thousandth.
#[derive(Debug, Clone)]
pub struct Trend {
    histogram: Histogram<u64>,
    sum: f64,
    min: f64,
    max: f64,
}

impl Sink {
    /// An empty one.
    #[must_use]
    pub fn new(kind: Kind) -> Self {
        match kind {
            Kind::Counter => Self::Counter { sum: 0.0 },
            Kind::Gauge => Self::Gauge { value: 0.0, min: 0.0, max: 0.0, count: 0 },
            Kind::Rate => Self::Rate { passes: 0, total: 0 },
            Kind::Trend => {
                // Three digits are within the limits of the library.
                let histogram = Histogram::new(3).expect("three digits");
                Self::Trend(Box::new(Trend { histogram, sum: 0.0, min: 0.0, max: 0.0 }))
            }
        }
    }

    /// Takes a value; what is no number is passed over.
    pub fn add(&mut self, given: f64) {
        if !given.is_finite() {
            return;
        }
        match self {
            Self::Counter { sum } => *sum += given,
            Self::Gauge { value, min, max, count } => {
                *value = given;
                *min = if *count == 0 { given } else { min.min(given) };
                *max = if *count == 0 { given } else { max.max(given) };
                *count += 1;
            }
            Self::Rate { passes, total } => {
                *passes += u64::from(given != 0.0);
                *total += 1;
            }
            Self::Trend(trend) => trend.add(given),
        }
    }

    /// Takes all values of another sink of the same kind; one of another kind is passed over.
    pub fn merge(&mut self, other: &Self) {
        match (self, other) {
            (Self::Counter { sum }, Self::Counter { sum: more }) => *sum += more,
            (Self::Rate { passes, total }, Self::Rate { passes: more_passes, total: more }) => {
                *passes += more_passes;
                *total += more;
            }
            (own @ Self::Gauge { .. }, Self::Gauge { value, min, max, count }) if *count > 0 => {
                for given in [min, max, value] {
                    own.add(*given);
                }
            }
            (Self::Trend(own), Self::Trend(other)) => own.merge(other),
            _ => {}
        }
    }

    /// How many values there were; for counters, whether anything was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Counter { sum } => *sum == 0.0,
            Self::Gauge { count, .. } => *count == 0,
            Self::Rate { total, .. } => *total == 0,
            Self::Trend(trend) => trend.count() == 0,
        }
    }

    /// The distribution, of a trend.
    #[must_use]
    pub fn trend(&self) -> Option<&Trend> {
        match self {
            Self::Trend(trend) => Some(trend),
            _ => None,
        }
    }
}

impl Trend {
    fn add(&mut self, given: f64) {
        let first = self.histogram.is_empty();
        self.min = if first { given } else { self.min.min(given) };
        self.max = if first { given } else { self.max.max(given) };
        self.sum += given;
        // A histogram holds no negative values: they are told by the smallest value, and by the sum.
        let scaled = (given.clamp(0.0, VALUE_MAX) * SCALE).round() as u64;
        // It grows by itself, so there is room for each value.
        self.histogram.record(scaled).expect("a histogram that grows");
    }

    fn merge(&mut self, other: &Self) {
        if other.count() == 0 {
            return;
        }
        let first = self.histogram.is_empty();
        self.min = if first { other.min } else { self.min.min(other.min) };
        self.max = if first { other.max } else { self.max.max(other.max) };
        self.sum += other.sum;
        // It grows by itself, so there is room for all values.
        self.histogram.add(&other.histogram).expect("a histogram that grows");
    }

    /// How many values there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// All values together.
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// The smallest value, 0 if there is none.
    #[must_use]
    pub fn min(&self) -> f64 {
        self.min
    }

    /// The largest value, 0 if there is none.
    #[must_use]
    pub fn max(&self) -> f64 {
        self.max
    }

    /// The mean, 0 if there is no value.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.count() == 0 { 0.0 } else { self.sum / self.count() as f64 }
    }

    /// How many values lie above one.
    #[must_use]
    pub fn above(&self, value: f64) -> u64 {
        let scaled = (value.clamp(0.0, VALUE_MAX) * SCALE).round() as u64;
        // Values of one bucket are not told apart: those of the bound's own count as not above.
        self.count() - self.histogram.count_between(0, scaled)
    }

    /// The value that so many percent of all do not exceed.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> f64 {
        if self.count() == 0 {
            return 0.0;
        }
        let value = self.histogram.value_at_quantile((percent / 100.0).clamp(0.0, 1.0)) as f64 / SCALE;
        value.clamp(self.min, self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_kind_keeps_what_it_says() {
        let mut gauge = Sink::new(Kind::Gauge);
        [3.0, 1.0, f64::NAN, 2.0].into_iter().for_each(|value| gauge.add(value));
        assert!(matches!(gauge, Sink::Gauge { value: 2.0, min: 1.0, max: 3.0, count: 3 }));
        let mut rate = Sink::new(Kind::Rate);
        [1.0, 0.0, 1.0, 1.0].into_iter().for_each(|value| rate.add(value));
        assert!(matches!(rate, Sink::Rate { passes: 3, total: 4 }));
        let mut other = rate.clone();
        other.merge(&rate);
        assert!(matches!(other, Sink::Rate { passes: 6, total: 8 }));
    }

    proptest! {
        // Each case has a histogram of half a megabyte.
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn percentiles_are_near_those_of_the_sorted_values(mut values in prop::collection::vec(0.0..1e6f64, 1..200)) {
            let mut sink = Sink::new(Kind::Trend);
            values.iter().for_each(|value| sink.add(*value));
            let trend = sink.trend().expect("a trend");
            values.sort_by(f64::total_cmp);
            for percent in [50.0, 90.0, 99.0, 100.0] {
                let place = ((percent / 100.0 * values.len() as f64).ceil() as usize).max(1) - 1;
                let (told, right) = (trend.percentile(percent), values[place]);
                prop_assert!((told - right).abs() <= right * 0.002 + 0.001, "{percent}: {told} {right}");
            }
            prop_assert!((trend.mean() - values.iter().sum::<f64>() / values.len() as f64).abs() < 1e-6 * 1e6);
        }
    }
}
