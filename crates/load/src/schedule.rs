//! When requests are wanted.

use std::time::Duration;

/// How requests arrive.
#[derive(Debug, Clone, PartialEq)]
pub enum Schedule {
    /// Each connection asks again as soon as it has its answer.
    Closed,
    /// An open loop with the same time between any two arrivals.
    Fixed {
        /// Arrivals a second, above 0.
        rate_per_s: f64,
    },
    /// An open loop with exponentially distributed times between arrivals.
    Poisson {
        /// Mean arrivals a second, above 0.
        rate_per_s: f64,
        /// Where the random numbers begin: the same seed gives the same arrivals.
        seed: u64,
    },
}

impl Schedule {
    /// The rate that is wanted, if the loop is open.
    #[must_use]
    pub fn rate_per_s(&self) -> Option<f64> {
        match *self {
            Self::Closed => None,
            Self::Fixed { rate_per_s } | Self::Poisson { rate_per_s, .. } => Some(rate_per_s),
        }
    }
}

/// What ends a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopRule {
    /// After so many requests, failed ones included.
    Requests(u64),
    /// After this time; what is under way then is still waited for.
    Duration(Duration),
}

/// The intended times of one loop's arrivals, a share of the whole schedule.
///
/// The fixed schedules of several loops interleave to the whole one exactly; Poisson processes add up to one.
#[derive(Debug, Clone)]
pub(crate) struct Arrivals {
    start_ns: u64,
    /// Nanoseconds between two arrivals of this loop, on average.
    gap_ns: f64,
    /// Nanoseconds from the start to the next arrival.
    offset_ns: f64,
    /// Arrivals so far: fixed times are multiples, not sums, so that nothing drifts.
    count: u64,
    phase_ns: f64,
    random: Option<fastrand::Rng>,
}

impl Arrivals {
    /// The arrivals of loop `lane` of `lanes`; `None` in a closed loop.
    pub(crate) fn new(schedule: &Schedule, start_ns: u64, lane: u32, lanes: u32) -> Option<Self> {
        let rate = schedule.rate_per_s()?;
        let gap_ns = 1e9 * f64::from(lanes) / rate;
        let phase_ns = 1e9 * f64::from(lane) / rate;
        let random = match *schedule {
            Schedule::Poisson { seed, .. } => Some(fastrand::Rng::with_seed(seed.wrapping_add(u64::from(lane) << 32))),
            _ => None,
        };
        let mut arrivals = Self { start_ns, gap_ns, offset_ns: phase_ns, count: 0, phase_ns, random };
        if arrivals.random.is_some() {
            arrivals.offset_ns = 0.0;
            arrivals.advance();
        }
        Some(arrivals)
    }

    /// When the next request is wanted, CLOCK_MONOTONIC.
    pub(crate) fn next_ns(&self) -> u64 {
        self.start_ns + self.offset_ns as u64
    }

    /// Goes on to the arrival after it.
    pub(crate) fn advance(&mut self) {
        self.count += 1;
        self.offset_ns = match &mut self.random {
            // 1 - u lies in (0, 1], so the logarithm is finite.
            Some(random) => self.offset_ns - (1.0 - random.f64()).ln() * self.gap_ns,
            None => self.phase_ns + self.count as f64 * self.gap_ns,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(schedule: &Schedule, lane: u32, lanes: u32, count: usize) -> Vec<u64> {
        let mut arrivals = Arrivals::new(schedule, 1_000, lane, lanes).expect("an open loop");
        std::iter::repeat_with(|| {
            let next = arrivals.next_ns();
            arrivals.advance();
            next
        })
        .take(count)
        .collect()
    }

    #[test]
    fn fixed_arrivals_do_not_drift() {
        let rate_per_s = 860.0;
        let last = times(&Schedule::Fixed { rate_per_s }, 0, 1, 8_600_001).pop().expect("one");
        assert_eq!(last, 1_000 + 10_000 * 1_000_000_000);
    }

    #[test]
    fn the_loops_of_a_fixed_schedule_interleave() {
        let schedule = Schedule::Fixed { rate_per_s: 1000.0 };
        let mut both = times(&schedule, 0, 2, 500);
        both.extend(times(&schedule, 1, 2, 500));
        both.sort_unstable();
        assert_eq!(both, times(&schedule, 0, 1, 1000));
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_the_variance_of_the_exponential() {
        let all = times(&Schedule::Poisson { rate_per_s: 1000.0, seed: 7 }, 0, 1, 200_001);
        let gaps: Vec<f64> = all.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e6).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // Standard errors: 1/sqrt(n) = 0.0022 of the mean and sqrt(8/n) = 0.0063 of the variance; five of each.
        assert!((mean - 1.0).abs() < 0.011, "mean {mean}");
        assert!((variance - 1.0).abs() < 0.032, "variance {variance}");
    }

    #[test]
    fn a_seed_repeats_its_arrivals() {
        let schedule = |seed| Schedule::Poisson { rate_per_s: 10.0, seed };
        assert_eq!(times(&schedule(3), 0, 1, 100), times(&schedule(3), 0, 1, 100));
        assert_ne!(times(&schedule(3), 0, 1, 100), times(&schedule(4), 0, 1, 100));
    }
}
