//! A number of users that changes with time.

use std::time::Duration;

/// A stretch of time in which the number of users goes evenly to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stage {
    /// How long it takes; nothing for a jump.
    pub duration: Duration,
    /// The users at its end.
    pub target: u32,
}

/// All stages, from a number of users on.
#[derive(Debug, Clone)]
pub(crate) struct Stages {
    start: u32,
    stages: Vec<Stage>,
}

impl Stages {
    pub(crate) fn new(start: u32, stages: &[Stage]) -> Self {
        Self { start, stages: stages.to_vec() }
    }

    /// The most users at a time.
    pub(crate) fn most(&self) -> u32 {
        self.stages.iter().map(|stage| stage.target).fold(self.start, u32::max)
    }

    pub(crate) fn duration(&self) -> Duration {
        self.stages.iter().map(|stage| stage.duration).sum()
    }

    /// The users that are wanted at a time, and when that changes next: both in nanoseconds from the beginning.
    ///
    /// Upwards a user comes when the line reaches its number, downwards it goes when the line falls below.
    pub(crate) fn at(&self, time_ns: u64) -> (u32, Option<u64>) {
        let (mut before_ns, mut from) = (0_u64, self.start);
        for stage in &self.stages {
            let length_ns = u64::try_from(stage.duration.as_nanos()).unwrap_or(u64::MAX);
            let end_ns = before_ns.saturating_add(length_ns);
            if time_ns < end_ns {
                let steps = u64::from(from.abs_diff(stage.target));
                let done = (u128::from(time_ns - before_ns) * u128::from(steps) / u128::from(length_ns)) as u64;
                let next = match done + 1 {
                    next if next < steps => {
                        // The first nanosecond at which one step more is done.
                        let within = (u128::from(next) * u128::from(length_ns)).div_ceil(u128::from(steps)) as u64;
                        before_ns + within
                    }
                    _ => end_ns,
                };
                let now = if stage.target >= from { from + done as u32 } else { from - done as u32 };
                return (now, Some(next));
            }
            (before_ns, from) = (end_ns, stage.target);
        }
        (from, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stage(seconds: u64, target: u32) -> Stage {
        Stage { duration: Duration::from_secs(seconds), target }
    }

    #[test]
    fn users_come_and_go_evenly() {
        let stages = Stages::new(0, &[stage(10, 10), stage(5, 10), stage(0, 4), stage(4, 0)]);
        let at = |seconds: f64| stages.at((seconds * 1e9) as u64);
        assert_eq!(at(0.0), (0, Some(1_000_000_000)));
        assert_eq!(at(1.0).0, 1);
        assert_eq!(at(9.99), (9, Some(10_000_000_000)));
        assert_eq!(at(12.0), (10, Some(15_000_000_000)));
        assert_eq!(at(15.0), (4, Some(16_000_000_000)));
        assert_eq!(at(16.0).0, 3);
        assert_eq!(at(19.0), (0, None));
        assert_eq!((stages.most(), stages.duration()), (10, Duration::from_secs(19)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn each_change_is_told_before(start in 0u32..50, given in prop::collection::vec((0u64..20, 0u32..50), 1..5)) {
            let stages: Vec<_> = given.iter().map(|(seconds, target)| stage(*seconds, *target)).collect();
            let stages = Stages::new(start, &stages);
            let (mut time_ns, mut looks) = (0, 0);
            while let (_, Some(next_ns)) = stages.at(time_ns) {
                prop_assert!(next_ns > time_ns);
                let before = stages.at(next_ns - 1).0;
                prop_assert_eq!(before, stages.at(time_ns).0, "nothing changes between {} and {}", time_ns, next_ns);
                time_ns = next_ns;
                looks += 1;
                prop_assert!(looks < 1000);
            }
        }
    }
}
