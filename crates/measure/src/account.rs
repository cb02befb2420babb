//! What a task did and waited for up to a moment; two readings of one account tell it of the time between them.

use crate::part::{Part, PartTimes};

/// A reading of a task's account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Which account it is of: a task's number may be another task's later.
    pub account: u64,
    /// When, nanoseconds.
    pub at_ns: u64,
    /// The sums of all parts since the account was opened, nanoseconds.
    pub times: PartTimes,
}

impl Reading {
    /// The parts of the time since an earlier reading: they add up to it. `None` if both are not of one account.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Option<PartTimes> {
        let mut parts = [0; Part::COUNT];
        for (part, (now, before)) in parts.iter_mut().zip(self.times.iter().zip(&earlier.times)) {
            *part = now.checked_sub(*before)?;
        }
        let all: u64 = parts.iter().sum();
        let is_whole = self.at_ns.checked_sub(earlier.at_ns) == Some(all);
        (self.account == earlier.account && is_whole).then_some(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_between_two_readings_add_up_or_there_are_none() {
        let reading = |account, at_ns, run, lock| {
            let mut times = [0; Part::COUNT];
            (times[Part::Run as usize], times[Part::WaitLock as usize]) = (run, lock);
            Reading { account, at_ns, times }
        };
        let (begin, end) = (reading(1, 100, 40, 60), reading(1, 150, 60, 90));
        let parts = end.since(&begin).expect("both are of one account");
        assert_eq!((parts[Part::Run as usize], parts[Part::WaitLock as usize]), (20, 30));
        assert_eq!(begin.since(&end), None, "time does not run back");
        assert_eq!(reading(2, 150, 60, 90).since(&begin), None, "another task's");
        assert_eq!(reading(1, 151, 60, 90).since(&begin), None, "they do not add up");
    }
}
