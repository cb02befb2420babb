//! The header by which a request says of which trace it is (W3C Trace Context), with ids of our own.
//!
//! Ids are computed from a seed, the loop and the request's number: the same run gives the same ids again.

/// The header's name.
pub(crate) const NAME: &str = "traceparent";
/// A value of the header's form, of which each request gets its own: version, trace, parent, sampled.
pub(crate) const PLACEHOLDER: &str = "00-00000000000000000000000000000000-0000000000000000-01";
/// Where the two ids stand in it, and how many digits each has.
const TRACE_AT: usize = 3;
const TRACE_DIGITS: usize = 32;
const PARENT_AT: usize = TRACE_AT + TRACE_DIGITS + 1;
const PARENT_DIGITS: usize = 16;

/// The ids of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TraceIds {
    pub(crate) trace: u128,
    pub(crate) parent: u64,
}

/// Gives each request of a loop its ids.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tracer {
    seed: u64,
    lane: u32,
    next: u64,
}

impl Tracer {
    pub(crate) fn new(seed: u64, lane: u32) -> Self {
        Self { seed, lane, next: 0 }
    }

    /// The number of the next request.
    pub(crate) fn take(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }

    /// The ids of a request.
    pub(crate) fn ids(&self, number: u64) -> TraceIds {
        // The upper half is the loop's, the lower half is another for each number: no two traces are the same.
        let upper = mixed(mixed(self.seed) ^ u64::from(self.lane));
        let lower = mixed(upper.wrapping_add(number));
        let trace = u128::from(upper) << 64 | u128::from(lower);
        // Zeros mean that there is no id.
        TraceIds { trace: trace.max(1), parent: mixed(lower ^ upper).max(1) }
    }
}

impl TraceIds {
    /// The header's value.
    pub(crate) fn value(self) -> [u8; PLACEHOLDER.len()] {
        let mut value = [0; PLACEHOLDER.len()];
        value.copy_from_slice(PLACEHOLDER.as_bytes());
        let digit = |number: u128, place: usize| b"0123456789abcdef"[(number >> (4 * place)) as usize & 15];
        for place in 0..TRACE_DIGITS {
            value[TRACE_AT + TRACE_DIGITS - 1 - place] = digit(self.trace, place);
        }
        for place in 0..PARENT_DIGITS {
            value[PARENT_AT + PARENT_DIGITS - 1 - place] = digit(u128::from(self.parent), place);
        }
        value
    }
}

/// Steele, Lea and Flood's SplitMix64 at one place: another number for each number.
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        #[test]
        fn values_have_the_form_that_the_recommendation_asks_for(seed: u64, lane in 0..256u32, number: u64) {
            let ids = Tracer::new(seed, lane).ids(number);
            let value = String::from_utf8(ids.value().to_vec()).expect("digits");
            let parts: Vec<_> = value.split('-').collect();
            prop_assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [2, 32, 16, 2]);
            prop_assert_eq!((parts[0], parts[3]), ("00", "01"));
            prop_assert_eq!(u128::from_str_radix(parts[1], 16), Ok(ids.trace));
            prop_assert_eq!(u64::from_str_radix(parts[2], 16), Ok(ids.parent));
            prop_assert!(ids.trace != 0 && ids.parent != 0 && value == value.to_lowercase());
        }
    }

    #[test]
    fn no_two_requests_have_the_same_trace() {
        let mut seen = HashSet::new();
        for (seed, lane) in [(1, 0), (1, 1), (2, 0)] {
            let mut tracer = Tracer::new(seed, lane);
            for _ in 0..10_000 {
                let number = tracer.take();
                assert!(seen.insert(tracer.ids(number).trace), "seed {seed}, loop {lane}, request {number}");
            }
        }
        assert_eq!(Tracer::new(7, 3).ids(9), Tracer::new(7, 3).ids(9));
    }
}
