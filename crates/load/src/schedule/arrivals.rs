//! The intended times of one loop's arrivals.

use crate::schedule::Schedule;
use crate::schedule::profile::Profile;
use std::sync::Arc;

/// The time of an arrival that never comes.
const NEVER: u64 = u64::MAX;

/// The intended times of one loop's arrivals, a share of the whole schedule.
///
/// Schedules without chance interleave over the loops to the whole one exactly; Poisson processes add up to one.
#[derive(Debug, Clone)]
pub(crate) struct Arrivals {
    start_ns: u64,
    next_ns: u64,
    source: Source,
    /// Each of so many arrivals is this part's.
    one_in: u64,
}

/// Which arrivals of each loop are one worker's, where several share a run: each so many'th, from its own on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) worker: u32,
    pub(crate) workers: u32,
}

impl Part {
    /// All of them.
    pub(crate) const WHOLE: Self = Self { worker: 0, workers: 1 };

    /// The share of a number, so that all shares add up to it.
    pub(crate) fn of(self, whole: u64) -> u64 {
        let (worker, workers) = (u64::from(self.worker), u64::from(self.workers));
        whole / workers + u64::from(worker < whole % workers)
    }
}

/// Where the times come from; offsets count from the start.
#[derive(Debug, Clone)]
enum Source {
    /// Multiples of a gap, not sums, so that nothing drifts.
    Even {
        gap_ns: f64,
        phase_ns: f64,
        count: u64,
    },
    Poisson {
        gap_ns: f64,
        offset_ns: f64,
        random: fastrand::Rng,
    },
    /// `place` is a point on the integral of the rate; the next lies `step` further, or by chance so on average.
    Changing {
        profile: Arc<Profile>,
        place: f64,
        step: f64,
        random: Option<fastrand::Rng>,
    },
    Bursts {
        size: u64,
        every_ns: u64,
        place: u64,
        step: u64,
    },
    Recorded {
        times: Arc<[u64]>,
        place: usize,
        step: usize,
    },
}

/// An exponentially distributed number with the mean 1.
fn exponential(random: &mut fastrand::Rng) -> f64 {
    // 1 - u lies in (0, 1], so the logarithm is finite.
    -(1.0 - random.f64()).ln()
}

impl Arrivals {
    /// The arrivals of loop `lane` of `lanes` that are a part's; `None` in a closed loop.
    pub(crate) fn of_part(schedule: &Schedule, start_ns: u64, lane: (u32, u32), part: Part) -> Option<Self> {
        let mut arrivals = Self::new(schedule, start_ns, lane.0, lane.1)?;
        arrivals.skip(u64::from(part.worker));
        arrivals.one_in = u64::from(part.workers);
        arrivals.look();
        Some(arrivals)
    }

    /// The arrivals of loop `lane` of `lanes`; `None` in a closed loop.
    pub(crate) fn new(schedule: &Schedule, start_ns: u64, lane: u32, lanes: u32) -> Option<Self> {
        let generator = |seed: u64| fastrand::Rng::with_seed(seed.wrapping_add(u64::from(lane) << 32));
        let source = match schedule {
            Schedule::Closed => return None,
            Schedule::Fixed { rate_per_s } => Source::Even {
                gap_ns: 1e9 * f64::from(lanes) / rate_per_s,
                phase_ns: 1e9 * f64::from(lane) / rate_per_s,
                count: 0,
            },
            Schedule::Poisson { rate_per_s, seed } => Source::Poisson {
                gap_ns: 1e9 * f64::from(lanes) / rate_per_s,
                offset_ns: 0.0,
                random: generator(*seed),
            },
            Schedule::Changing { profile, poisson } => Source::Changing {
                profile: Arc::clone(profile),
                place: if poisson.is_some() { 0.0 } else { f64::from(lane) },
                step: f64::from(lanes),
                random: poisson.map(generator),
            },
            Schedule::Bursts { size, every } => Source::Bursts {
                size: u64::from(*size),
                every_ns: u64::try_from(every.as_nanos()).unwrap_or(u64::MAX),
                place: u64::from(lane),
                step: u64::from(lanes),
            },
            Schedule::Recorded(times) => {
                Source::Recorded { times: Arc::clone(times), place: lane as usize, step: lanes as usize }
            }
        };
        let mut arrivals = Self { start_ns, next_ns: 0, source, one_in: 1 };
        match &mut arrivals.source {
            Source::Poisson { .. } | Source::Changing { random: Some(_), .. } => arrivals.advance(),
            _ => arrivals.look(),
        }
        Some(arrivals)
    }

    /// When the next request is wanted, CLOCK_MONOTONIC; `u64::MAX` when none is any more before `end_ns`.
    #[inline]
    pub(crate) fn next_before(&self, end_ns: u64) -> u64 {
        if self.next_ns < end_ns { self.next_ns } else { NEVER }
    }

    /// Goes on to the arrival after it; gives its time as [`Self::next_before`] does.
    #[inline]
    pub(crate) fn following(&mut self, end_ns: u64) -> u64 {
        self.advance();
        self.next_before(end_ns)
    }

    /// Goes on to the arrival after it.
    fn advance(&mut self) {
        self.skip(self.one_in);
        self.look();
    }

    /// Goes so many arrivals on.
    fn skip(&mut self, arrivals: u64) {
        match &mut self.source {
            Source::Even { count, .. } => *count += arrivals,
            // Other parts' arrivals come out of the same numbers.
            Source::Poisson { gap_ns, offset_ns, random } => {
                (0..arrivals).for_each(|_| *offset_ns += exponential(random) * *gap_ns);
            }
            Source::Changing { place, step, random: None, .. } => *place += *step * arrivals as f64,
            Source::Changing { place, step, random: Some(random), .. } => {
                (0..arrivals).for_each(|_| *place += exponential(random) * *step);
            }
            Source::Bursts { place, step, .. } => *place += *step * arrivals,
            Source::Recorded { place, step, .. } => *place += *step * arrivals as usize,
        }
    }

    /// Works out the time of the arrival that the source stands at.
    fn look(&mut self) {
        let offset_ns = match &self.source {
            Source::Even { gap_ns, phase_ns, count } => Some((phase_ns + *count as f64 * gap_ns) as u64),
            Source::Poisson { offset_ns, .. } => Some(*offset_ns as u64),
            Source::Changing { profile, place, .. } => {
                profile.time_s_of(*place).map(|time_s| (time_s * 1e9).round() as u64)
            }
            Source::Bursts { size, every_ns, place, .. } => (place / size).checked_mul(*every_ns),
            Source::Recorded { times, place, .. } => times.get(*place).copied(),
        };
        self.next_ns = offset_ns.map_or(NEVER, |offset_ns| self.start_ns.saturating_add(offset_ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn times(schedule: &Schedule, lane: u32, lanes: u32, count: usize) -> Vec<u64> {
        let mut arrivals = Arrivals::new(schedule, 1_000, lane, lanes).expect("an open loop");
        std::iter::repeat_with(|| {
            let next = arrivals.next_before(NEVER);
            arrivals.advance();
            next
        })
        .take_while(|next| *next != NEVER)
        .take(count)
        .collect()
    }

    fn changing(text: &str, poisson: Option<u64>) -> Schedule {
        let seconds = |text: &str| text.strip_suffix('s')?.parse().ok().map(Duration::from_secs);
        Schedule::Changing { profile: Arc::new(Profile::parse(text, seconds).expect("a profile")), poisson }
    }

    #[test]
    fn fixed_arrivals_do_not_drift() {
        let rate_per_s = 860.0;
        let last = times(&Schedule::Fixed { rate_per_s }, 0, 1, 8_600_001).pop().expect("one");
        assert_eq!(last, 1_000 + 10_000 * 1_000_000_000);
    }

    #[test]
    fn loops_interleave_to_the_whole() {
        for schedule in [
            Schedule::Fixed { rate_per_s: 1000.0 },
            changing("100/2s,50..700/3s,0/1s,900/1s", None),
            Schedule::Bursts { size: 7, every: Duration::from_millis(300) },
            Schedule::Recorded((0..1000).map(|at| at * at).collect()),
        ] {
            for lanes in [2, 3] {
                let each = 999 / lanes as usize;
                let mut all: Vec<_> = (0..lanes).flat_map(|lane| times(&schedule, lane, lanes, each)).collect();
                all.sort_unstable();
                assert_eq!(all, times(&schedule, 0, 1, each * lanes as usize), "{lanes} of {schedule:?}");
            }
        }
    }

    #[test]
    fn parts_are_the_whole_schedule_to_the_nanosecond() {
        for schedule in [
            Schedule::Fixed { rate_per_s: 997.3 },
            Schedule::Poisson { rate_per_s: 997.3, seed: 7 },
            changing("100/2s,50..700/3s,0/1s,900/1s", None),
            changing("100/2s,50..700/3s,0/1s,900/1s", Some(3)),
            Schedule::Bursts { size: 7, every: Duration::from_millis(300) },
            Schedule::Recorded((0..1000).map(|at| at * at).collect()),
        ] {
            for (lanes, workers) in [(1, 8), (2, 3), (3, 1)] {
                for lane in 0..lanes {
                    let whole = times(&schedule, lane, lanes, 240);
                    let mut parts: Vec<u64> = Vec::new();
                    for worker in 0..workers {
                        let part = Part { worker, workers };
                        let mut of = Arrivals::of_part(&schedule, 1_000, (lane, lanes), part).expect("an open loop");
                        let most = part.of(whole.len() as u64) as usize;
                        parts.extend((0..most).map(|_| {
                            let next = of.next_before(NEVER);
                            of.advance();
                            next
                        }));
                    }
                    parts.sort_unstable();
                    assert_eq!(parts, whole, "{workers} workers, lane {lane} of {lanes}: {schedule:?}");
                }
            }
        }
    }

    #[test]
    fn changing_rates_have_their_arrivals_in_each_stretch() {
        let all = times(&changing("100/2s,100..300/2s", None), 0, 1, 10_000);
        let within = |from_s: u64, to_s: u64| {
            let at = |second: u64| 1_000 + second * 1_000_000_000;
            all.iter().filter(|time| (at(from_s)..at(to_s)).contains(time)).count()
        };
        assert_eq!((all.len(), within(0, 2), within(2, 3), within(3, 4)), (600, 200, 150, 250));
    }

    #[test]
    fn bursts_come_together() {
        let all = times(&Schedule::Bursts { size: 3, every: Duration::from_secs(1) }, 0, 1, 7);
        let seconds = [0, 0, 0, 1, 1, 1, 2].map(|second| 1_000 + second * 1_000_000_000);
        assert_eq!(all, seconds);
    }

    /// The distance of Kolmogorov and Smirnov between gaps and the exponential distribution with the mean 1.
    fn distance(mut gaps: Vec<f64>) -> f64 {
        gaps.sort_by(f64::total_cmp);
        let count = gaps.len() as f64;
        gaps.iter().enumerate().fold(0.0, |most, (place, gap)| {
            let expected = 1.0 - (-gap).exp();
            f64::max(most, (expected - place as f64 / count).max((place + 1) as f64 / count - expected))
        })
    }

    #[test]
    fn poisson_gaps_pass_kolmogorov_and_smirnov() {
        const COUNT: usize = 20_000;
        // The critical distance for alpha = 0.01 is 1.6276 / sqrt(n) for large n.
        let critical = 1.6276 / (COUNT as f64).sqrt();
        for seed in [1, 7, 42, 1999, 123_456_789] {
            for lanes in [1, 3] {
                let rate_per_s = 1000.0;
                let schedule = Schedule::Poisson { rate_per_s, seed };
                let mut all: Vec<_> = (0..lanes).flat_map(|lane| times(&schedule, lane, lanes, 2 * COUNT)).collect();
                all.sort_unstable();
                let gaps = all.windows(2).map(|pair| (pair[1] - pair[0]) as f64 * rate_per_s / 1e9);
                let seen = distance(gaps.take(COUNT).collect());
                assert!(seen < critical, "seed {seed}, {lanes} loops: {seen} of {critical}");
            }
            // Where the rate changes, the gaps of its integral are the exponential ones.
            let schedule = changing("500..3000/20s", Some(seed));
            let Schedule::Changing { profile, .. } = &schedule else { panic!("it changes") };
            let all: Vec<f64> = times(&schedule, 0, 1, COUNT + 1)
                .iter()
                .map(|time| profile.arrivals_until((time - 1_000) as f64 / 1e9))
                .collect();
            assert_eq!(all.len(), COUNT + 1);
            let seen = distance(all.windows(2).map(|pair| pair[1] - pair[0]).collect());
            assert!(seen < critical, "seed {seed}, changing: {seen} of {critical}");
        }
        // The test can fail: even gaps are far from exponential.
        assert!(distance(vec![1.0; COUNT]) > critical);
    }

    #[test]
    fn a_seed_repeats_its_arrivals() {
        let schedule = |seed| Schedule::Poisson { rate_per_s: 10.0, seed };
        assert_eq!(times(&schedule(3), 0, 1, 100), times(&schedule(3), 0, 1, 100));
        assert_ne!(times(&schedule(3), 0, 1, 100), times(&schedule(4), 0, 1, 100));
    }
}
