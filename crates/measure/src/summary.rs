//! The summary of a histogram, by the names that every report uses.

use hdrhistogram::Histogram;

/// A distribution of durations in figures, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// Values in it.
    pub count: u64,
    /// The smallest.
    pub min: u64,
    /// The arithmetic mean.
    pub mean: f64,
    /// The standard deviation.
    pub stdev: f64,
    /// The median.
    pub p50: u64,
    /// The value that 90 % do not exceed.
    pub p90: u64,
    /// The value that 99 % do not exceed.
    pub p99: u64,
    /// The value that 99.9 % do not exceed.
    pub p99_9: u64,
    /// The largest.
    pub max: u64,
}

impl Summary {
    /// Sums up a histogram; `None` if it is empty.
    ///
    /// Values are as exact as the histogram's digits; a percentile is never above the maximum.
    #[must_use]
    pub fn of(histogram: &Histogram<u64>) -> Option<Self> {
        if histogram.is_empty() {
            return None;
        }
        let max = histogram.max();
        let quantile = |quantile| histogram.value_at_quantile(quantile).min(max);
        Some(Self {
            count: histogram.len(),
            min: histogram.min(),
            mean: histogram.mean(),
            stdev: histogram.stdev(),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p99_9: quantile(0.999),
            max,
        })
    }

    /// Names and values in the order of reports, the count apart.
    ///
    /// Nanoseconds below 2^53 (104 days) are exact as `f64`.
    #[must_use]
    pub fn fields(&self) -> [(&'static str, f64); 8] {
        [
            ("min", self.min as f64),
            ("mean", self.mean),
            ("stdev", self.stdev),
            ("p50", self.p50 as f64),
            ("p90", self.p90 as f64),
            ("p99", self.p99 as f64),
            ("p99_9", self.p99_9 as f64),
            ("max", self.max as f64),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_of_one_to_a_thousand() {
        let mut histogram = Histogram::<u64>::new(3).expect("three digits");
        assert_eq!(Summary::of(&histogram), None);
        for value in 1..=1000 {
            histogram.record(value).expect("it grows");
        }
        let summary = Summary::of(&histogram).expect("it has values");
        assert_eq!((summary.count, summary.min, summary.max), (1000, 1, 1000));
        assert_eq!((summary.p50, summary.p90, summary.p99, summary.p99_9), (500, 900, 990, 999));
        assert!((summary.mean - 500.5).abs() < 0.01);
        assert!((summary.stdev - 288.675).abs() < 0.01);
        assert_eq!(
            summary.fields().map(|(name, _)| name),
            ["min", "mean", "stdev", "p50", "p90", "p99", "p99_9", "max"]
        );
    }

    #[test]
    fn percentiles_stay_within_the_extremes() {
        let mut histogram = Histogram::<u64>::new(2).expect("two digits");
        histogram.record(100_001).expect("it grows");
        let summary = Summary::of(&histogram).expect("it has a value");
        assert!(summary.p50 <= summary.max && summary.p99_9 <= summary.max);
    }
}
