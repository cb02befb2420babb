//! How often each value came.

/// Values of one page: a page is made when a value of it comes.
const PAGE: usize = 1024;

/// Counts of whole values, as they come.
#[derive(Debug, Default)]
pub(super) struct Counted {
    pages: Vec<Option<Box<[u64; PAGE]>>>,
}

impl Counted {
    pub(super) fn record(&mut self, value: u64) {
        self.add(value, 1);
    }

    fn add(&mut self, value: u64, count: u64) {
        let (page, place) = ((value / PAGE as u64) as usize, (value % PAGE as u64) as usize);
        if self.pages.len() <= page {
            self.pages.resize_with(page + 1, || None);
        }
        self.pages[page].get_or_insert_with(|| Box::new([0; PAGE]))[place] += count;
    }

    pub(super) fn merge(&mut self, other: &Self) {
        other.values().for_each(|(value, count)| self.add(value, count));
    }

    fn values(&self) -> impl Iterator<Item = (u64, u64)> {
        let pages = self.pages.iter().enumerate().filter_map(|(page, counts)| Some((page, counts.as_ref()?)));
        pages.flat_map(|(page, counts)| {
            let all = counts.iter().enumerate().filter(|(_, count)| **count > 0);
            all.map(move |(place, count)| ((page * PAGE + place) as u64, *count))
        })
    }
}

/// The values that came, each once and in order, with how often it came.
#[derive(Debug, Default)]
pub(super) struct Distribution {
    pub(super) values: Vec<(u64, u64)>,
    count: u64,
}

impl Distribution {
    pub(super) fn of(counted: &Counted) -> Self {
        let values: Vec<_> = counted.values().collect();
        let count = values.iter().map(|(_, count)| count).sum();
        Self { values, count }
    }

    pub(super) fn min(&self) -> u64 {
        self.values.first().map_or(0, |(value, _)| *value)
    }

    pub(super) fn max(&self) -> u64 {
        self.values.last().map_or(0, |(value, _)| *value)
    }

    pub(super) fn mean(&self) -> f64 {
        let sum: f64 = self.values.iter().map(|(value, count)| *value as f64 * *count as f64).sum();
        if self.count == 0 { 0.0 } else { sum / self.count as f64 }
    }

    /// The standard deviation of a sample.
    pub(super) fn stdev(&self) -> f64 {
        if self.count < 2 {
            return 0.0;
        }
        let mean = self.mean();
        let sum: f64 = self.values.iter().map(|(value, count)| (*value as f64 - mean).powi(2) * *count as f64).sum();
        (sum / (self.count - 1) as f64).sqrt()
    }

    /// The share of values within one standard deviation of the mean, in percent.
    pub(super) fn within_stdev_percent(&self) -> f64 {
        let (mean, stdev) = (self.mean(), self.stdev());
        let is_within = |value: u64| (value as f64 - mean).abs() <= stdev;
        let within: u64 = self.values.iter().filter(|(value, _)| is_within(*value)).map(|(_, count)| count).sum();
        if self.count == 0 { 0.0 } else { within as f64 / self.count as f64 * 100.0 }
    }

    /// The value below or at which so many percent of all lie; 0 if there are none.
    pub(super) fn percentile(&self, percent: f64) -> u64 {
        // The original's rank goes one too far at 100 percent, and finds no value there.
        let rank = ((percent / 100.0 * self.count as f64 + 0.5).round() as u64).min(self.count);
        let mut seen = 0;
        let at = |(value, count): &(u64, u64)| {
            seen += count;
            (seen >= rank).then_some(*value)
        };
        self.values.iter().find_map(at).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[u64]) -> Distribution {
        let mut counted = Counted::default();
        values.iter().for_each(|value| counted.record(*value));
        Distribution::of(&counted)
    }

    #[test]
    fn figures_are_those_of_the_values() {
        let some = of(&[3, 1, 3, 5000, 1]);
        assert_eq!((some.min(), some.max(), some.values.as_slice()), (1, 5000, &[(1, 2), (3, 2), (5000, 1)][..]));
        assert!((some.mean() - 1001.6).abs() < 1e-9 && (some.stdev() - 2235.2).abs() < 0.1, "{}", some.stdev());
        assert!((some.within_stdev_percent() - 80.0).abs() < 1e-9);
        assert_eq!([0.0, 50.0, 99.0, 100.0].map(|percent| some.percentile(percent)), [1, 3, 5000, 5000]);
        let none = of(&[]);
        assert_eq!((none.min(), none.max(), none.percentile(50.0)), (0, 0, 0));
        assert_eq!((none.mean(), none.stdev(), none.within_stdev_percent()), (0.0, 0.0, 0.0));
    }

    proptest! {
        #[test]
        fn two_together_are_all_of_them(
            first in prop::collection::vec(0u64..5000, 0..50),
            second in prop::collection::vec(0u64..5000, 0..50),
        ) {
            let mut counted = Counted::default();
            first.iter().for_each(|value| counted.record(*value));
            let mut other = Counted::default();
            second.iter().for_each(|value| other.record(*value));
            counted.merge(&other);
            let (both, mut all) = (Distribution::of(&counted), [first, second].concat());
            all.sort_unstable();
            prop_assert_eq!(&both.values, &of(&all).values);
            prop_assert_eq!(both.max(), all.last().copied().unwrap_or(0));
            for percent in [0.0, 12.5, 50.0, 99.0, 100.0] {
                let value = both.percentile(percent);
                prop_assert!(all.is_empty() || all.contains(&value));
            }
        }
    }
}
