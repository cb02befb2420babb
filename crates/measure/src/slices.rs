//! Sums by slices of time, to be asked for a window that is known only later.

use std::collections::BTreeMap;

/// Slices that are kept; beyond, neighbours are put together.
const MOST_SLICES: usize = 1 << 14;

/// Sums of `N` values by slice.
#[derive(Debug, Clone)]
pub struct SliceFold<const N: usize> {
    slice_ns: u64,
    slices: BTreeMap<u64, [u64; N]>,
    /// The slice that is being filled, apart: most values go where the one before went.
    current: (u64, [u64; N]),
}

impl<const N: usize> Default for SliceFold<N> {
    fn default() -> Self {
        Self { slice_ns: 1_000_000, slices: BTreeMap::new(), current: (0, [0; N]) }
    }
}

impl<const N: usize> SliceFold<N> {
    /// Adds a value, the `index`-th of a slice's sums.
    pub fn push(&mut self, at_ns: u64, index: usize, value: u64) {
        let slice = at_ns / self.slice_ns;
        if slice != self.current.0 {
            self.flush();
            self.current.0 = at_ns / self.slice_ns;
        }
        self.current.1[index] += value;
    }

    /// The sums over the slices that begin within a window.
    #[must_use]
    pub fn between(&self, from_ns: u64, to_ns: u64) -> [u64; N] {
        let (from, to) = (from_ns / self.slice_ns, to_ns / self.slice_ns);
        let mut sums = [0; N];
        if from > to {
            return sums;
        }
        let kept = self.slices.range(from..=to).map(|(_, values)| values);
        let current = (from..=to).contains(&self.current.0).then_some(&self.current.1);
        for values in kept.chain(current) {
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum += value;
            }
        }
        sums
    }

    fn flush(&mut self) {
        let (slice, values) = std::mem::replace(&mut self.current, (0, [0; N]));
        let entry = self.slices.entry(slice).or_insert([0; N]);
        for (sum, value) in entry.iter_mut().zip(values) {
            *sum += value;
        }
        while self.slices.len() > MOST_SLICES {
            self.slice_ns *= 2;
            for (slice, values) in std::mem::take(&mut self.slices) {
                let entry = self.slices.entry(slice / 2).or_insert([0; N]);
                for (sum, value) in entry.iter_mut().zip(values) {
                    *sum += value;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_summed_and_memory_is_bounded() {
        let mut fold = SliceFold::<2>::default();
        for second in 0..100_000u64 {
            fold.push(second * 1_000_000_000, 0, 1);
            fold.push(second * 1_000_000_000, 1, second);
        }
        assert!(fold.slices.len() <= MOST_SLICES + 1);
        assert_eq!(fold.between(0, u64::MAX), [100_000, 99_999 * 100_000 / 2]);
        let [some, _] = fold.between(1_000_000_000_000, 2_000_000_000_000);
        // Slices have grown to a few seconds: the window's edges are that coarse.
        assert!((990..=1020).contains(&some), "{some}");
    }
}
