//! When a limit lets bytes through: each byte costs its time, and what is taken must have been earned.
//!
//! Knows no clock and no socket: times are given to it.

/// Bytes are taken in portions of this time's worth, so that no window of 5 s misses more than 0.4 % of its bytes.
const PORTION_NS: u64 = 20_000_000;
/// What a loop that came late may make up for, beside a portion; what was missed longer ago is lost.
///
/// With a portion that is 1.2 % of 5 s: no window of 5 s has more bytes above the limit.
pub(crate) const CATCH_UP_NS: u64 = 40_000_000;
/// The most bytes of a portion.
const PORTION_BYTES_MAX: f64 = 32_768.0;
/// Parts of a nanosecond that are told apart.
const PARTS: u32 = 16;

/// How many bytes a second go through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limit {
    /// What a byte costs, in parts of a nanosecond.
    byte_cost: u64,
    /// Bytes that are taken at a time.
    portion: usize,
}

impl Limit {
    /// The limit of this many bytes a second, between 0.1 and 10^10.
    pub(crate) fn new(bytes_per_s: f64) -> Self {
        let byte_cost = (1e9 / bytes_per_s * f64::from(1u32 << PARTS)).round().max(1.0) as u64;
        let portion = (bytes_per_s * PORTION_NS as f64 / 1e9).clamp(1.0, PORTION_BYTES_MAX) as usize;
        Self { byte_cost, portion }
    }

    /// Bytes that are taken at a time.
    pub(crate) fn portion(self) -> usize {
        self.portion
    }

    /// The longest time whose bytes may be taken at once.
    fn credit(self) -> u128 {
        u128::from(self.byte_cost) * self.portion as u128 + (u128::from(CATCH_UP_NS) << PARTS)
    }
}

/// What was taken of a limit, as the time until which it is paid for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tokens {
    /// Parts of a nanosecond.
    paid: u128,
}

impl Tokens {
    /// Earns nothing for the time before: nothing was to be had.
    pub(crate) fn start(&mut self, at_ns: u64) {
        self.paid = self.paid.max(u128::from(at_ns) << PARTS);
    }

    /// The bytes that are earned and not taken.
    pub(crate) fn earned(&mut self, limit: Limit, now_ns: u64) -> usize {
        let now = u128::from(now_ns) << PARTS;
        self.paid = self.paid.max(now.saturating_sub(limit.credit()));
        usize::try_from(now.saturating_sub(self.paid) / u128::from(limit.byte_cost)).unwrap_or(usize::MAX)
    }

    /// Takes bytes, earned or not.
    pub(crate) fn take(&mut self, limit: Limit, bytes: usize) {
        self.paid += u128::from(limit.byte_cost) * bytes as u128;
    }

    /// When so many bytes are earned.
    pub(crate) fn due_ns(self, limit: Limit, bytes: usize) -> u64 {
        let parts = self.paid + u128::from(limit.byte_cost) * bytes as u128;
        u64::try_from((parts + (1 << PARTS) - 1) >> PARTS).unwrap_or(u64::MAX)
    }

    /// When everything that was taken is paid for.
    pub(crate) fn paid_ns(self) -> u64 {
        u64::try_from(self.paid >> PARTS).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WINDOW_NS: u64 = 5_000_000_000;

    /// Takes what is earned whenever a portion is due, each time late by what `lateness` says, for some 30 s.
    fn taken(limit: Limit, start_ns: u64, mut lateness: impl FnMut() -> u64) -> Vec<(u64, usize)> {
        let (mut tokens, mut taken, mut now_ns) = (Tokens::default(), Vec::new(), start_ns);
        tokens.start(start_ns);
        while now_ns < start_ns + 30_000_000_000 {
            now_ns = now_ns.max(tokens.due_ns(limit, limit.portion())) + lateness();
            let bytes = tokens.earned(limit, now_ns);
            assert!(bytes >= limit.portion(), "{bytes} at {now_ns}: what is due is earned");
            tokens.take(limit, bytes);
            taken.push((now_ns, bytes));
        }
        taken
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// For any limit, and with a loop that is up to 40 ms late, every window of 5 s is within 2 %.
        #[test]
        fn every_window_has_what_the_limit_says(
            bytes_per_s in 1000.0..1e7f64,
            start_ns in 0u64..1 << 60,
            late_ns in prop_oneof![Just(0u64), 1u64..40_000_000],
            seed: u64,
        ) {
            let limit = Limit::new(bytes_per_s);
            let mut random = fastrand::Rng::with_seed(seed);
            let taken = taken(limit, start_ns, || random.u64(0..=late_ns));
            let sums: Vec<u64> = std::iter::once(0)
                .chain(taken.iter().scan(0, |sum, (_, bytes)| { *sum += *bytes as u64; Some(*sum) }))
                .collect();
            let wanted = bytes_per_s * 5.0;
            let last_ns = taken.last().expect("some").0;
            for (index, (at_ns, _)) in taken.iter().enumerate() {
                // The fullest window begins with a take, the emptiest just behind one.
                let end = taken.partition_point(|(time, _)| *time < at_ns + WINDOW_NS);
                let full = (sums[end] - sums[index]) as f64;
                prop_assert!(full <= wanted * 1.02, "{full} of {wanted}");
                if at_ns + WINDOW_NS < last_ns {
                    let end = taken.partition_point(|(time, _)| *time <= at_ns + WINDOW_NS);
                    let empty = (sums[end] - sums[index + 1]) as f64;
                    prop_assert!(empty >= wanted * 0.98, "{empty} of {wanted}");
                }
            }
        }

        /// A long run drifts by no more than the rounding of a byte's cost.
        #[test]
        fn nothing_is_lost_to_rounding(bytes_per_s in 0.1..1e9f64, bytes in 1usize..100_000, times in 1u64..10_000) {
            let limit = Limit::new(bytes_per_s);
            let mut tokens = Tokens::default();
            for _ in 0..times {
                tokens.take(limit, bytes);
            }
            let wanted_ns = bytes as f64 * times as f64 / bytes_per_s * 1e9;
            let ns = tokens.paid_ns() as f64;
            prop_assert!((ns - wanted_ns).abs() <= wanted_ns * 1e-5 + 2.0, "{ns} {wanted_ns}");
        }
    }

    #[test]
    fn what_was_missed_long_ago_is_lost() {
        let limit = Limit::new(3360.0);
        assert_eq!(limit.portion(), 67);
        let mut tokens = Tokens::default();
        tokens.start(1_000_000_000);
        assert_eq!(tokens.earned(limit, 1_000_000_000), 0);
        // A portion of 67 bytes, and 40 ms.
        assert_eq!(tokens.earned(limit, 9_000_000_000), 67 + 134);
        // The tenths of a byte that http_load's -Throttle counts.
        let slowest = Limit::new(0.1);
        assert_eq!((slowest.portion(), Tokens::default().due_ns(slowest, 1)), (1, 10_000_000_000));
    }
}
