//! How long requests took, counted by classes of a sixteenth of their size: one loop counts, the keeper reads.

use crate::counters::Counter;

/// Classes for each doubling, as a power of two.
const CLASS_BITS: u32 = 4;
/// Classes of all: up to 2^32 microseconds, more than an hour.
const CLASSES: usize = ((32 - CLASS_BITS as usize) + 1) << CLASS_BITS;

/// The times of one loop's requests.
#[derive(Debug)]
pub(crate) struct Durations(Box<[Counter]>);

impl Default for Durations {
    fn default() -> Self {
        Self((0..CLASSES).map(|_| Counter::default()).collect())
    }
}

impl Durations {
    /// Counts a request that took so many microseconds.
    #[inline]
    pub(crate) fn count(&self, us: u64) {
        if let Some(counter) = self.0.get(class(us)) {
            counter.add(1);
        }
    }

    /// Adds what was counted so far.
    pub(crate) fn add_to(&self, sums: &mut DurationSums) {
        sums.0.iter_mut().zip(&self.0).for_each(|(sum, counter)| *sum += counter.read());
    }
}

/// The class of a time: below 16 us each has its own.
#[inline]
fn class(us: u64) -> usize {
    let us = us.min(u64::from(u32::MAX));
    let shift = (64 - us.leading_zeros()).saturating_sub(CLASS_BITS + 1);
    // The shifted time is below twice the classes of a doubling.
    ((shift as usize) << CLASS_BITS) + (us >> shift) as usize
}

/// The largest time of a class, microseconds.
fn most(class: usize) -> u32 {
    let shift = (class >> CLASS_BITS).saturating_sub(1) as u32;
    let within = class as u64 - (u64::from(shift) << CLASS_BITS);
    u32::try_from(((within + 1) << shift) - 1).unwrap_or(u32::MAX)
}

/// Counts of all loops by class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DurationSums(Vec<u64>);

impl Default for DurationSums {
    fn default() -> Self {
        Self(vec![0; CLASSES])
    }
}

impl DurationSums {
    /// What came since the counts of before.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self(self.0.iter().zip(&before.0).map(|(now, before)| now.saturating_sub(*before)).collect())
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The time that this share of them is within, microseconds; at most a sixteenth too large.
    pub(crate) fn quantile_us(&self, share: f64) -> u32 {
        let wanted = (self.count() as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        let found = self.0.iter().position(|&count| {
            seen += count;
            seen >= wanted
        });
        found.map_or(0, most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn a_class_holds_its_times_and_is_narrow(us in 0_u64..=u64::from(u32::MAX)) {
            let class = class(us);
            proptest::prop_assert!(class < CLASSES);
            let most = u64::from(most(class));
            proptest::prop_assert!(most >= us && most <= us + us / 16, "{} for {}", most, us);
        }
    }

    #[test]
    fn quantiles_are_those_of_the_times() {
        let (durations, mut sums) = (Durations::default(), DurationSums::default());
        (1..=1000).for_each(|us| durations.count(us));
        durations.add_to(&mut sums);
        assert_eq!(sums.count(), 1000);
        for (share, exact) in [(0.5, 500), (0.99, 990), (1.0, 1000)] {
            let found = sums.quantile_us(share);
            assert!(found >= exact && found <= exact + exact / 16, "{share}: {found}");
        }
        assert_eq!(DurationSums::default().quantile_us(0.99), 0);
        assert_eq!(sums.since(&sums).count(), 0);
    }
}
