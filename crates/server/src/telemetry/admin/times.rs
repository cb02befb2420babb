//! How long the requests of the last seconds took, kept only while it is asked for.

use super::status::View;
use crate::telemetry::activity::durations::DurationSums;
use std::cell::Cell;
use std::collections::VecDeque;

/// Samples, a second from each other, from the oldest of which the times count.
pub(super) const SAMPLES_MAX: usize = 11;
/// Samples after a question for which a further one is expected.
const WANTED_FOR: u32 = 30;

/// The counts of the last seconds, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Times {
    sums: VecDeque<DurationSums>,
    wanted: Cell<u32>,
}

impl Times {
    /// Called each second.
    pub(super) fn sample(&mut self, view: &View) {
        if self.wanted.get() == 0 {
            self.sums = VecDeque::new();
            return;
        }
        self.wanted.set(self.wanted.get() - 1);
        if self.sums.len() == SAMPLES_MAX {
            self.sums.pop_front();
        }
        self.sums.push_back(counted(view));
    }

    /// How many successes there were since the oldest sample, and the time that 99 % of them are within, microseconds;
    /// none at the first question, from which on samples are taken.
    pub(super) fn asked(&self, view: &View) -> Option<(u64, u32)> {
        self.wanted.set(WANTED_FOR);
        let since = counted(view).since(self.sums.front()?);
        Some((since.count(), since.quantile_us(0.99)))
    }
}

fn counted(view: &View) -> DurationSums {
    let mut sums = DurationSums::default();
    view.durations.iter().for_each(|of_loop| of_loop.add_to(&mut sums));
    sums
}
