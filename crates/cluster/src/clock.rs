//! How two members' clocks differ, from the four times of a question and its answer, as NTP has it (RFC 5905, section 8).

use std::time::{SystemTime, UNIX_EPOCH};

/// How another member's clock stands to this one's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockSample {
    /// Its clock less this one's, microseconds.
    pub offset_us: i64,
    /// By how much that may be wrong: half of the round trip, microseconds.
    pub error_us: u64,
}

impl ClockSample {
    /// From the times at which the question was sent here, came there, was answered there, and the answer came here.
    /// `None` where a clock was set meanwhile, or the other one tells no times that can be.
    pub fn of(sent_us: u64, received_us: u64, told_us: u64, heard_us: u64) -> Option<Self> {
        let [sent, received, told, heard] = [sent_us, received_us, told_us, heard_us].map(i128::from);
        let round_trip = (heard - sent) - (told - received);
        if round_trip < 0 || told < received || heard < sent {
            return None;
        }
        let offset_us = i64::try_from(((received - sent) + (told - heard)) / 2).ok()?;
        // Each of the four times is cut to a microsecond.
        let error_us = u64::try_from(round_trip / 2 + 2).ok()?;
        Some(Self { offset_us, error_us })
    }

    /// The better one of two.
    #[must_use]
    pub fn better(self, other: Self) -> Self {
        if other.error_us < self.error_us { other } else { self }
    }
}

/// Microseconds since 1970 by this machine's clock.
pub(crate) fn unix_us() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_that_cannot_be_give_nothing() {
        assert_eq!(ClockSample::of(10, 20, 19, 30), None);
        assert_eq!(ClockSample::of(10, 20, 50, 30), None);
        assert_eq!(ClockSample::of(30, 20, 20, 10), None);
        assert_eq!(ClockSample::of(0, u64::MAX, u64::MAX, 0), None);
        assert_eq!(ClockSample::of(100, 1_150, 1_160, 210), Some(ClockSample { offset_us: 1_000, error_us: 52 }));
    }

    proptest! {
        #[test]
        fn the_true_offset_is_within_the_error(
            offset in -1_000_000_000_i64..1_000_000_000, there_us in 0_u64..100_000, back_us in 0_u64..100_000,
            answering_us in 0_u64..10_000,
        ) {
            let sent = 2_000_000_000_u64;
            let received = sent.saturating_add_signed(offset) + there_us;
            let heard = sent + there_us + answering_us + back_us;
            let sample = ClockSample::of(sent, received, received + answering_us, heard).expect("can be");
            prop_assert!(sample.offset_us.abs_diff(offset) <= sample.error_us, "{:?}", sample);
            prop_assert!(sample.error_us <= (there_us + back_us) / 2 + 2);
        }
    }
}
