//! How a worker's clock stands to the orchestrator's, by round trips.
//!
//! A worker reads its clock between the sending of a ping and the coming of its answer, so each round trip bounds the
//! offset from both sides; the middle of the shortest is taken, and half of it is the error.

use crate::report::Clock;
use std::collections::VecDeque;

/// Round trips before the run.
pub(crate) const FIRST: usize = 16;
/// Round trips that are kept of the run: the last ones.
const LAST: usize = 16;

/// What one round trip says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sample {
    offset_ns: i64,
    error_ns: u64,
}

/// The round trips with one worker.
#[derive(Debug, Clone, Default)]
pub struct ClockFilter {
    first: Vec<Sample>,
    last: VecDeque<Sample>,
}

impl ClockFilter {
    /// Takes a round trip: when the ping was sent and its answer came, and what the worker's clock showed between.
    pub fn add(&mut self, sent_ns: u64, came_ns: u64, theirs_ns: u64) {
        let error_ns = came_ns.saturating_sub(sent_ns).div_ceil(2);
        let middle_ns = sent_ns.saturating_add(error_ns);
        let offset_ns = i64::try_from(i128::from(theirs_ns) - i128::from(middle_ns)).unwrap_or(i64::MAX);
        let sample = Sample { offset_ns, error_ns };
        if self.first.len() < FIRST {
            self.first.push(sample);
            return;
        }
        if self.last.len() == LAST {
            self.last.pop_front();
        }
        self.last.push_back(sample);
    }

    /// Whether there are enough round trips to begin.
    #[must_use]
    pub fn is_measured(&self) -> bool {
        self.first.len() >= FIRST
    }

    /// The time by the worker's clock at a time of the orchestrator's.
    #[must_use]
    pub fn theirs(&self, ours_ns: u64) -> u64 {
        ours_ns.saturating_add_signed(self.clock().offset_ns)
    }

    /// How the clocks stand, as far as it is known.
    #[must_use]
    pub fn clock(&self) -> Clock {
        let shortest = |sample: &&Sample| sample.error_ns;
        let Some(first) = self.first.iter().min_by_key(shortest) else { return Clock::default() };
        // The start was agreed on by the first round trips: later ones say how wrong that had become.
        let later_ns = self
            .last
            .iter()
            .min_by_key(shortest)
            .map_or(0, |last| last.offset_ns.abs_diff(first.offset_ns).saturating_add(last.error_ns));
        Clock { offset_ns: first.offset_ns, error_ns: first.error_ns.max(later_ns) }
    }

    /// The longest round trip before the run, nanoseconds.
    pub(crate) fn longest_ns(&self) -> u64 {
        self.first.iter().map(|sample| 2 * sample.error_ns).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A clock that is shifted, drifts by up to 100 ppm, and is asked over ways of different length.
        #[test]
        fn the_true_offset_lies_within_the_error(
            shift_ns in -1_000_000_000_i64..1_000_000_000,
            ppm in -100_i64..100,
            ways in proptest::collection::vec((1..20_000_000u64, 1..20_000_000u64), FIRST..64),
        ) {
            let mut filter = ClockFilter::default();
            let mut now_ns = 10_000_000_000u64;
            let theirs = |ours_ns: u64| {
                (ours_ns as i64 + shift_ns + (ours_ns as i64 - 10_000_000_000) * ppm / 1_000_000) as u64
            };
            let start_ns = now_ns;
            let (mut agreed, mut number) = (Clock::default(), 0);
            for (there, back) in ways {
                let read_ns = now_ns + there;
                filter.add(now_ns, read_ns + back, theirs(read_ns));
                number += 1;
                if number == FIRST {
                    agreed = filter.clock();
                }
                now_ns = read_ns + back + if number < FIRST { 0 } else { 500_000_000 };
            }
            let clock = filter.clock();
            prop_assert_eq!(clock.offset_ns, agreed.offset_ns);
            // While round trips were made the clocks went apart, too.
            let drift_ns = (now_ns - start_ns) * ppm.unsigned_abs() / 1_000_000 + 2;
            let off_ns = clock.offset_ns.abs_diff(theirs(now_ns) as i64 - now_ns as i64);
            prop_assert!(off_ns <= clock.error_ns + drift_ns, "{off_ns} of {}", clock.error_ns);
        }
    }
}
