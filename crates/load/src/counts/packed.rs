//! A histogram in few bytes: what is kept of each interval of a run.

use crate::carried::{COUNT_MAX, Carried, CarriedError, Reader, put_number as write_number};
use crate::counts::histogram::Histogram;

/// log2 of the values that the first bucket of a histogram tells apart; 2^11 is what three digits need.
const SUB_BUCKET_BITS: u32 = 11;
/// Buckets of equal width in each further doubling.
const HALF: u64 = 1 << (SUB_BUCKET_BITS - 1);
/// The last bucket of a histogram up to an hour.
const LAST_BUCKET: u64 = 33 * HALF - 1;

/// The counts of a histogram from 1 ns to an hour with three digits, as pairs of the distance from the last bucket that
/// holds something and the count in this one, both in base 128. Nothing is lost: [`Packed::add_to`] gives it all back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Packed {
    bytes: Box<[u8]>,
    count: u64,
}

impl Packed {
    /// Packs a histogram of the report's bounds, 1 ns to an hour with three digits.
    #[must_use]
    pub fn of(histogram: &Histogram) -> Self {
        let filled =
            histogram.iter_recorded().map(|value| (bucket_of(value.value_iterated_to()), value.count_at_value()));
        Self::of_buckets(filled)
    }

    fn of_buckets(filled: impl Iterator<Item = (u64, u64)>) -> Self {
        let (mut bytes, mut last, mut total) = (Vec::new(), 0, 0);
        for (bucket, count) in filled {
            write_number(&mut bytes, bucket - last);
            write_number(&mut bytes, count);
            last = bucket;
            total += count;
        }
        Self { bytes: bytes.into_boxed_slice(), count: total }
    }

    /// Values in it.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether it holds nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The memory that it takes beside its own fixed size, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Both together.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let (mut ours, mut theirs) = (self.buckets().peekable(), other.buckets().peekable());
        Self::of_buckets(std::iter::from_fn(|| match (ours.peek(), theirs.peek()) {
            (Some((mine, count)), Some((other, more))) if mine == other => {
                let both = (*mine, count + more);
                ours.next();
                theirs.next();
                Some(both)
            }
            (Some((mine, _)), Some((other, _))) if mine > other => theirs.next(),
            (None, _) => theirs.next(),
            _ => ours.next(),
        }))
    }

    /// Adds what it holds to a histogram of the report's bounds, 1 ns to an hour with three digits.
    pub fn add_to(&self, histogram: &mut Histogram) {
        for (bucket, count) in self.buckets() {
            // What was packed lay within the same bounds.
            histogram.saturating_record_n(highest_of(bucket), count);
        }
    }

    /// What it holds, as a histogram.
    #[must_use]
    pub fn histogram(&self) -> Histogram {
        let mut histogram = crate::counts::histogram::histogram();
        self.add_to(&mut histogram);
        histogram
    }

    /// (bucket, count) of the buckets that hold something, upwards.
    fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let (mut rest, mut bucket) = (&*self.bytes, 0);
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            bucket += read_number(&mut rest);
            Some((bucket, read_number(&mut rest)))
        })
    }
}

/// The number of a value's bucket: 1 ns each up to 2^11, from there 2^10 for each doubling.
fn bucket_of(value: u64) -> u64 {
    let doubling = u64::from(64 - (value | (2 * HALF - 1)).leading_zeros() - SUB_BUCKET_BITS);
    doubling * HALF + (value >> doubling)
}

/// The largest value of a bucket.
fn highest_of(bucket: u64) -> u64 {
    if bucket < 2 * HALF {
        return bucket;
    }
    let doubling = bucket / HALF - 1;
    ((bucket - doubling * HALF + 1) << doubling) - 1
}

fn read_number(bytes: &mut &[u8]) -> u64 {
    let (mut number, mut shift) = (0, 0);
    while let Some((byte, rest)) = bytes.split_first() {
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
        shift += 7;
    }
    number
}

impl Carried for Packed {
    fn put(&self, to: &mut Vec<u8>) {
        write_number(to, self.bytes.len() as u64);
        to.extend_from_slice(&self.bytes);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CarriedError> {
        let length = from.number(from.left() as u64)? as usize;
        let bytes = from.bytes(length)?;
        let mut reader = Reader::new(bytes);
        let (mut bucket, mut total, mut is_first) = (0u64, 0u64, true);
        while reader.left() > 0 {
            let distance = reader.number(LAST_BUCKET)?;
            let count = u64::take(&mut reader)?;
            bucket += distance;
            total += count;
            let ascends = is_first || distance > 0;
            if !ascends || count == 0 || bucket > LAST_BUCKET || total > COUNT_MAX {
                return Err(CarriedError::Histogram);
            }
            is_first = false;
        }
        Ok(Self { bytes: bytes.into(), count: total })
    }
}

impl Carried for Histogram {
    fn put(&self, to: &mut Vec<u8>) {
        Packed::of(self).put(to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CarriedError> {
        Ok(Packed::take(from)?.histogram())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn histogram(values: &[u64]) -> Histogram {
        let mut histogram = crate::counts::histogram::histogram();
        for value in values {
            histogram.saturating_record(*value);
        }
        histogram
    }

    /// Values of every size, not only large ones.
    fn values() -> impl Strategy<Value = Vec<u64>> {
        proptest::collection::vec((0..42u32, any::<u64>()).prop_map(|(bits, value)| value >> (63 - bits)), 0..300)
    }

    #[test]
    fn buckets_are_those_of_the_histogram() {
        let histogram = crate::counts::histogram::histogram();
        assert_eq!(histogram.distinct_values() as u64, LAST_BUCKET + 1);
        for value in (0..3000).chain((0..41).flat_map(|bits| [(1u64 << bits) - 1, 1 << bits, (1 << bits) + 1])) {
            assert_eq!(highest_of(bucket_of(value)), histogram.highest_equivalent(value), "{value}");
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost(values in values()) {
            let whole = histogram(&values);
            let packed = Packed::of(&whole);
            prop_assert_eq!(packed.len(), values.len() as u64);
            let again = packed.histogram();
            prop_assert_eq!(&again, &whole);
            prop_assert_eq!((again.min(), again.max()), (whole.min(), whole.max()));
        }

        #[test]
        fn any_bytes_are_a_histogram_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(packed) = Packed::take(&mut Reader::new(&bytes)) {
                prop_assert_eq!(Packed::of(&packed.histogram()), packed);
            }
        }

        #[test]
        fn a_histogram_comes_as_it_went(values in values()) {
            let whole = histogram(&values);
            let mut bytes = Vec::new();
            whole.put(&mut bytes);
            prop_assert!(Histogram::take(&mut Reader::new(&bytes)) == Ok(whole));
        }

        #[test]
        fn two_packed_are_both_together(one in values(), two in values()) {
            let both = Packed::of(&histogram(&one)).and(&Packed::of(&histogram(&two)));
            prop_assert_eq!(both, Packed::of(&histogram(&[one, two].concat())));
        }
    }
}
