//! A histogram of durations that is small where they are alike: only the buckets that hold something take room.
//!
//! Buckets are 1/32 of their octave wide, so a quantile is within 1.6 % of the true one.
//! Thousands of these, one for each minute, transaction and user, take as much memory as a few of fixed size.

/// Buckets of an octave, as a power of two.
const OCTAVE_BITS: u32 = 5;
/// The same as a number.
const OCTAVE: u64 = 1 << OCTAVE_BITS;
/// Buckets that there can be: up to the longest duration of 64 bits.
pub const BUCKETS: usize = (64 - OCTAVE_BITS as usize + 1) << OCTAVE_BITS;
/// The first byte of its encoding.
const VERSION: u8 = 1;

/// Durations in nanoseconds, by buckets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Durations {
    /// Bucket and count, by ascending bucket, no count is 0.
    counts: Vec<(u16, u64)>,
    sum_ns: u64,
    min_ns: u64,
    max_ns: u64,
}

/// The bucket of a duration.
fn bucket(duration_ns: u64) -> u16 {
    if duration_ns < OCTAVE {
        return duration_ns as u16;
    }
    let shift = duration_ns.ilog2() - OCTAVE_BITS;
    (u64::from(shift) * OCTAVE + (duration_ns >> shift)) as u16
}

/// The shortest duration of a bucket, and how many nanoseconds it is wide.
fn bounds(bucket: u16) -> (u64, u64) {
    let bucket = u64::from(bucket);
    if bucket < OCTAVE {
        return (bucket, 1);
    }
    let shift = bucket / OCTAVE - 1;
    ((OCTAVE + bucket % OCTAVE) << shift, 1 << shift)
}

impl Durations {
    /// Takes one duration.
    pub fn push(&mut self, duration_ns: u64) {
        self.push_many(duration_ns, 1);
    }

    /// Takes the same duration so many times.
    pub fn push_many(&mut self, duration_ns: u64, times: u64) {
        if times == 0 {
            return;
        }
        self.min_ns = if self.counts.is_empty() { duration_ns } else { self.min_ns.min(duration_ns) };
        self.max_ns = self.max_ns.max(duration_ns);
        self.sum_ns = self.sum_ns.saturating_add(duration_ns.saturating_mul(times));
        self.add(bucket(duration_ns), times);
    }

    fn add(&mut self, bucket: u16, times: u64) {
        match self.counts.binary_search_by_key(&bucket, |count| count.0) {
            Ok(at) => self.counts[at].1 = self.counts[at].1.saturating_add(times),
            Err(at) => self.counts.insert(at, (bucket, times)),
        }
    }

    /// Adds another's.
    pub fn merge(&mut self, other: &Self) {
        if other.counts.is_empty() {
            return;
        }
        self.min_ns = if self.counts.is_empty() { other.min_ns } else { self.min_ns.min(other.min_ns) };
        self.max_ns = self.max_ns.max(other.max_ns);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        // Both ascend, and mostly hold the same buckets: so each is found where the last one was, or just behind.
        let mut at = 0;
        for &(bucket, times) in &other.counts {
            while self.counts.get(at).is_some_and(|count| count.0 < bucket) {
                at += 1;
            }
            match self.counts.get_mut(at) {
                Some(count) if count.0 == bucket => count.1 = count.1.saturating_add(times),
                _ => self.counts.insert(at, (bucket, times)),
            }
        }
    }

    /// Forgets all of them, and keeps the room.
    pub fn clear(&mut self) {
        self.counts.clear();
        (self.sum_ns, self.min_ns, self.max_ns) = (0, 0, 0);
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |all, count| all.saturating_add(count.1))
    }

    /// Their sum, nanoseconds.
    #[must_use]
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// Their mean, nanoseconds; 0 of none.
    #[must_use]
    pub fn mean_ns(&self) -> u64 {
        self.sum_ns.checked_div(self.count()).unwrap_or(0)
    }

    /// The shortest, nanoseconds; 0 of none.
    #[must_use]
    pub fn min_ns(&self) -> u64 {
        self.min_ns
    }

    /// The longest, nanoseconds; 0 of none.
    #[must_use]
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// What a share of them (0 to 1) took at most, nanoseconds; 0 of none.
    #[must_use]
    pub fn quantile_ns(&self, share: f64) -> u64 {
        let all = self.count();
        // The smallest count that is at least the share: the first one for a share of 0.
        let wanted = ((share.clamp(0.0, 1.0) * all as f64).ceil() as u64).clamp(1, all.max(1));
        if wanted == all {
            return self.max_ns;
        }
        let mut seen = 0u64;
        for &(bucket, count) in &self.counts {
            seen = seen.saturating_add(count);
            if seen >= wanted {
                let (from, width) = bounds(bucket);
                return (from + (width - 1) / 2).clamp(self.min_ns, self.max_ns);
            }
        }
        self.max_ns
    }

    /// The buckets that hold something, by ascending durations: from (nanoseconds), up to but without, count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        self.counts.iter().map(|&(bucket, count)| {
            let (from, width) = bounds(bucket);
            (from, from.saturating_add(width), count)
        })
    }

    /// All of it as bytes, to be kept: some 2 for each bucket that holds something.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        for number in [self.sum_ns, self.min_ns, self.max_ns, self.counts.len() as u64] {
            put(&mut bytes, number);
        }
        let mut last = 0;
        for &(bucket, count) in &self.counts {
            put(&mut bytes, u64::from(bucket - last));
            put(&mut bytes, count);
            last = bucket;
        }
        bytes
    }

    /// Reads what [`Durations::to_bytes`] wrote; `None` for anything else.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (&version, mut rest) = bytes.split_first()?;
        if version != VERSION {
            return None;
        }
        let (sum_ns, min_ns, max_ns) = (take(&mut rest)?, take(&mut rest)?, take(&mut rest)?);
        let length = usize::try_from(take(&mut rest)?).ok().filter(|length| *length <= BUCKETS)?;
        let mut counts: Vec<(u16, u64)> = Vec::with_capacity(length);
        let mut last = 0u64;
        for index in 0..length {
            let step = take(&mut rest)?;
            last = last.checked_add(step).filter(|bucket| *bucket < BUCKETS as u64)?;
            let count = take(&mut rest)?;
            if count == 0 || step == 0 && index > 0 {
                return None;
            }
            counts.push((last as u16, count));
        }
        let ends = counts.first().zip(counts.last());
        let fits = ends.map_or((min_ns, max_ns) == (0, 0), |(first, last)| {
            bucket(min_ns) == first.0 && bucket(max_ns) == last.0 && min_ns <= max_ns
        });
        (rest.is_empty() && fits).then_some(Self { counts, sum_ns, min_ns, max_ns })
    }
}

/// Writes a number, 7 bits a byte, the lowest first.
fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Reads what [`put`] wrote.
fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(byte & 0x7f);
        if shift == 63 && part > 1 {
            return None;
        }
        number |= part << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(durations: &[u64]) -> Durations {
        let mut histogram = Durations::default();
        durations.iter().for_each(|duration| histogram.push(*duration));
        histogram
    }

    #[test]
    fn buckets_follow_each_other_without_gaps() {
        let mut expected = 0u64;
        for index in 0..BUCKETS as u16 {
            let (from, width) = bounds(index);
            assert_eq!(from, expected, "{index}");
            assert_eq!((bucket(from), bucket(from + (width - 1))), (index, index));
            expected = from.wrapping_add(width);
        }
        assert_eq!((expected, usize::from(bucket(u64::MAX))), (0, BUCKETS - 1));
    }

    proptest! {
        /// The formula is held against sorting.
        #[test]
        fn quantiles_are_those_of_the_sorted_durations(mut durations in proptest::collection::vec(0u64..1 << 40, 1..300), share in 0.0f64..=1.0) {
            let histogram = of(&durations);
            durations.sort_unstable();
            let at = ((share * durations.len() as f64).ceil() as usize).clamp(1, durations.len()) - 1;
            let (truth, said) = (durations[at] as f64, histogram.quantile_ns(share) as f64);
            prop_assert!((said - truth).abs() <= truth * 0.016 + 1.0, "{} is not {}", said, truth);
            prop_assert_eq!(histogram.count(), durations.len() as u64);
            prop_assert_eq!(histogram.sum_ns(), durations.iter().sum::<u64>());
            prop_assert_eq!((histogram.min_ns(), histogram.max_ns()), (durations[0], durations[durations.len() - 1]));
        }

        #[test]
        fn merging_is_the_same_as_taking_all(first in proptest::collection::vec(any::<u64>(), 0..100), second in proptest::collection::vec(any::<u64>(), 0..100)) {
            let mut merged = of(&first);
            merged.merge(&of(&second));
            prop_assert_eq!(merged, of(&[first, second].concat()));
        }

        #[test]
        fn bytes_come_back(durations in proptest::collection::vec((any::<u64>(), 0u64..1000), 0..100)) {
            let mut histogram = Durations::default();
            durations.iter().for_each(|(duration, times)| histogram.push_many(*duration, *times));
            prop_assert_eq!(Durations::from_bytes(&histogram.to_bytes()), Some(histogram));
        }

        #[test]
        fn no_bytes_break_it(mut bytes in proptest::collection::vec(any::<u8>(), 0..100), well: bool) {
            if well && !bytes.is_empty() {
                bytes[0] = VERSION;
            }
            if let Some(histogram) = Durations::from_bytes(&bytes) {
                prop_assert!(histogram.quantile_ns(0.5) <= histogram.max_ns());
            }
        }
    }
}
