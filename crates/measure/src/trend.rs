//! How steady a mean was: batch means over slices of time.

use std::collections::BTreeMap;

/// Slices that are kept; beyond, neighbours are put together.
const MOST_SLICES: usize = 256;
/// Batches that the interval is computed from.
const BATCHES: usize = 16;
/// Student's t for 95 % and 15 degrees of freedom.
const T_95: f64 = 2.131;

/// Sums of a value by slice of time.
///
/// Two folds merge to what one would be that had taken all values: exactly where these are whole numbers whose sums
/// stay below 2^53 (in nanoseconds, 104 days), elsewhere but for the order in which they are summed.
#[derive(Debug, Clone, PartialEq)]
pub struct TrendFold {
    slice_ns: u64,
    slices: BTreeMap<u64, (u64, f64)>,
}

impl Default for TrendFold {
    fn default() -> Self {
        Self { slice_ns: 10_000_000, slices: BTreeMap::new() }
    }
}

impl TrendFold {
    /// Takes a value that belongs to a time.
    pub fn push(&mut self, at_ns: u64, value: f64) {
        let (count, sum) = self.slices.entry(at_ns / self.slice_ns).or_default();
        *count += 1;
        *sum += value;
        self.keep_bound();
    }

    /// Adds what another fold has taken.
    pub fn merge(&mut self, other: &Self) {
        // Widths are powers of two times one width, so the coarser one's slices are made of whole slices of the other.
        while self.slice_ns < other.slice_ns {
            self.coarsen();
        }
        for (slice, (count, sum)) in &other.slices {
            let entry = self.slices.entry(slice / (self.slice_ns / other.slice_ns)).or_default();
            entry.0 += count;
            entry.1 += sum;
        }
        self.keep_bound();
    }

    fn keep_bound(&mut self) {
        while self.slices.len() > MOST_SLICES {
            self.coarsen();
        }
    }

    /// Puts each two neighbours together.
    fn coarsen(&mut self) {
        self.slice_ns *= 2;
        for (slice, (count, sum)) in std::mem::take(&mut self.slices) {
            let entry = self.slices.entry(slice / 2).or_default();
            entry.0 += count;
            entry.1 += sum;
        }
    }

    /// Half the width of the 95 % interval of the mean, as a share of the mean: what a difference must exceed to be
    /// more than this run's own unsteadiness. `None` with fewer than 16 slices.
    ///
    /// Batch means (Law and Kelton): 16 batches of equal time, their means taken as independent.
    #[must_use]
    pub fn noise(&self) -> Option<f64> {
        if self.slices.len() < BATCHES {
            return None;
        }
        let first = *self.slices.keys().next()?;
        let span = self.slices.keys().next_back()? + 1 - first;
        let mut batches = [(0u64, 0.0f64); BATCHES];
        for (slice, (count, sum)) in &self.slices {
            let batch = &mut batches[((slice - first) * BATCHES as u64 / span) as usize];
            batch.0 += count;
            batch.1 += sum;
        }
        let means: Vec<f64> =
            batches.iter().filter(|batch| batch.0 > 0).map(|(count, sum)| sum / *count as f64).collect();
        let count = means.len() as f64;
        let mean = means.iter().sum::<f64>() / count;
        let variance = means.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
        (mean > 0.0 && count > 2.0).then(|| T_95 * (variance / count).sqrt() / mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// However the values are dealt out to folds, and whenever these grow coarser, merged they are the one fold.
        #[test]
        fn merged_parts_are_the_whole(
            values in proptest::collection::vec((0u64..4, 0u64..60, any::<u64>(), 0u32..1 << 20), 0..600),
            order in 0usize..24,
        ) {
            let mut whole = TrendFold::default();
            let mut parts = vec![TrendFold::default(); 4];
            for (part, shift, time, value) in values {
                // Times of all magnitudes, so that the parts differ in their slices' width.
                let (at_ns, value) = (time >> shift, f64::from(value));
                whole.push(at_ns, value);
                parts[part as usize].push(at_ns, value);
            }
            let mut merged = parts.swap_remove(order % 4);
            while !parts.is_empty() {
                merged.merge(&parts.swap_remove(order % parts.len()));
            }
            prop_assert_eq!(&merged, &whole);
            prop_assert_eq!(merged.noise(), whole.noise());
        }
    }

    #[test]
    fn a_steady_value_has_no_noise_and_a_drifting_one_has() {
        let (mut steady, mut drifting) = (TrendFold::default(), TrendFold::default());
        for step in 0..100_000u64 {
            steady.push(step * 100_000, 5.0);
            drifting.push(step * 100_000, 5.0 + step as f64 / 10_000.0);
        }
        assert!(steady.noise().expect("enough slices") < 1e-9);
        assert!(drifting.noise().expect("enough slices") > 0.1);
        assert!(steady.slices.len() <= MOST_SLICES);
    }

    #[test]
    fn the_interval_covers_the_truth_at_about_its_level() {
        // Independent values with mean 10: the interval of 95 % must hold it in about 95 of 100 runs.
        let mut chance = fastrand::Rng::with_seed(5);
        let mut covered = 0;
        for _ in 0..400 {
            let (mut trend, mut sum) = (TrendFold::default(), 0.0);
            for step in 0..3_000u64 {
                let value = -10.0 * (1.0 - chance.f64()).ln();
                sum += value;
                trend.push(step * 1_000_000, value);
            }
            let half = trend.noise().expect("enough slices");
            let mean = sum / 3_000.0;
            covered += u32::from((mean - 10.0).abs() <= half * mean);
        }
        assert!((360..=396).contains(&covered), "{covered} of 400");
    }

    #[test]
    fn slices_are_put_together_at_any_times() {
        let mut trend = TrendFold::default();
        for step in 0..1_000u64 {
            trend.push(step.wrapping_mul(0x9e37_79b9_7f4a_7c15), 1.0);
        }
        assert!(trend.slices.len() <= MOST_SLICES);
        assert_eq!(trend.slices.values().map(|(count, _)| count).sum::<u64>(), 1_000);
        assert!(trend.noise().is_some_and(|noise| noise < 1e-9));
    }

    #[test]
    fn too_little_says_nothing() {
        let mut short = TrendFold::default();
        short.push(1, 1.0);
        assert_eq!(short.noise(), None);
    }
}
