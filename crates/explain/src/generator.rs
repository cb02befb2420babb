//! How much of what a load generator felt is its own doing, by what its sockets told.

use std::collections::BTreeMap;
use weir_capture::GeneratorExchange;

/// Latencies of a bucket differ by less than one part in this number.
const PARTS: u64 = 128;

/// The fold over exchanges: at most some 7,300 buckets, however many come.
#[derive(Debug, Default)]
pub struct GeneratorFold {
    buckets: BTreeMap<u64, Sums>,
    count: u64,
    unseen: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    count: u64,
    latency_ns: u64,
    unread_ns: u64,
}

/// The slowest exchanges, as means.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SlowExchanges {
    /// How many they are.
    pub count: u64,
    /// From the first send to the last read, in nanoseconds.
    pub latency_ns: f64,
    /// How long the whole answer lay in the socket before it was read, in nanoseconds.
    pub unread_ns: f64,
}

impl SlowExchanges {
    /// The share of the latency that is the generator's own, 0 to 1.
    #[must_use]
    pub fn own_share(&self) -> f64 {
        if self.latency_ns > 0.0 { self.unread_ns / self.latency_ns } else { 0.0 }
    }
}

impl GeneratorFold {
    /// Takes an exchange.
    pub fn push(&mut self, exchange: &GeneratorExchange) {
        let latency_ns = exchange.latency_ns();
        self.count += 1;
        self.unseen += u64::from(exchange.arrived_ns == 0);
        let sums = self.buckets.entry(bucket(latency_ns)).or_default();
        sums.count += 1;
        sums.latency_ns = sums.latency_ns.saturating_add(latency_ns);
        sums.unread_ns = sums.unread_ns.saturating_add(exchange.unread_ns());
    }

    /// Exchanges so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Those of them whose answer was not seen to arrive: of none of their time it is known that it is the generator's.
    #[must_use]
    pub fn unseen(&self) -> u64 {
        self.unseen
    }

    /// The slowest so many of all, `share` of 0 to 1; one at least, `None` where there are none. Of the bucket at the
    /// edge the mean stands for those that are taken of it.
    #[must_use]
    pub fn slowest(&self, share: f64) -> Option<SlowExchanges> {
        let wanted = ((self.count as f64 * share).ceil() as u64).clamp(1, self.count.max(1));
        let (mut left, mut latency_ns, mut unread_ns) = (wanted, 0.0, 0.0);
        for sums in self.buckets.values().rev() {
            let taken = sums.count.min(left);
            let part = taken as f64 / sums.count as f64;
            latency_ns += sums.latency_ns as f64 * part;
            unread_ns += sums.unread_ns as f64 * part;
            left -= taken;
            if left == 0 {
                let of_each = wanted as f64;
                return Some(SlowExchanges {
                    count: wanted,
                    latency_ns: latency_ns / of_each,
                    unread_ns: unread_ns / of_each,
                });
            }
        }
        None
    }
}

/// The lowest latency of the bucket that this one is in.
fn bucket(latency_ns: u64) -> u64 {
    let octave = latency_ns.max(1).ilog2();
    let shift = octave.saturating_sub(PARTS.ilog2());
    latency_ns >> shift << shift
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn exchange(latency_ns: u64, unread_ns: u64) -> GeneratorExchange {
        GeneratorExchange { sent_ns: 1_000, arrived_ns: 1_000 + latency_ns - unread_ns, read_ns: 1_000 + latency_ns }
    }

    #[test]
    fn the_slowest_are_apart() {
        let mut fold = GeneratorFold::default();
        assert_eq!(fold.slowest(0.01), None);
        (0..990).for_each(|_| fold.push(&exchange(1_000_000, 1_000)));
        (0..10).for_each(|_| fold.push(&exchange(20_000_000, 15_000_000)));
        let slowest = fold.slowest(0.01).expect("exchanges");
        assert_eq!((slowest.count, slowest.latency_ns, slowest.unread_ns), (10, 20e6, 15e6));
        assert!((slowest.own_share() - 0.75).abs() < 1e-9);
        let all = fold.slowest(1.0).expect("exchanges");
        assert_eq!((all.count, all.latency_ns), (1_000, 1_190_000.0));
        fold.push(&GeneratorExchange { sent_ns: 5, arrived_ns: 0, read_ns: 10 });
        assert_eq!((fold.count(), fold.unseen()), (1_001, 1));
    }

    proptest! {
        #[test]
        fn buckets_are_narrow_and_few(latency_ns: u64) {
            let low = bucket(latency_ns);
            prop_assert!(low <= latency_ns && latency_ns - low <= latency_ns / PARTS);
            prop_assert_eq!(bucket(low), low);
        }

        #[test]
        fn no_part_is_more_than_the_whole(pairs in prop::collection::vec((1..u64::MAX / 4096, 0.0..1.0f64), 1..50), share in 0.0..1.0f64) {
            let mut fold = GeneratorFold::default();
            for (latency_ns, part) in pairs {
                fold.push(&exchange(latency_ns.min(1 << 50), (latency_ns.min(1 << 50) as f64 * part) as u64));
            }
            let slowest = fold.slowest(share).expect("exchanges");
            prop_assert!((0.0..=1.0 + 1e-9).contains(&slowest.own_share()), "{:?}", slowest);
        }
    }
}
