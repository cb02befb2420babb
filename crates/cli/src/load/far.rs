//! How far a load is, by the nearer of its two ends.

use std::time::Duration;
use weir_load::{Control, StopRule};

/// How far a load is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Far {
    pub(super) elapsed: Duration,
    pub(super) planned: StopRule,
    /// The share of it that is done, from 0; above 1 while it waits for what is under way.
    pub(super) share: f64,
    /// Seconds that are left if it goes on so, below 0 where it only waits for what is under way; `None` as long as it
    /// cannot be told.
    pub(super) left_s: Option<f64>,
}

impl Far {
    pub(super) fn of(control: &Control, elapsed: Duration, planned: StopRule) -> Self {
        let seconds = elapsed.as_secs_f64();
        let of_time = planned.time().map(|time| (seconds / time.as_secs_f64(), Some(time.as_secs_f64() - seconds)));
        let of_requests = planned.requests().map(|all| {
            let over = control.requests() + control.errors() + control.dropped();
            let share = over as f64 / all as f64;
            (share, (share > 0.0).then(|| seconds / share - seconds))
        });
        let (share, left_s) = match (of_time, of_requests) {
            (Some(time), Some(requests)) if time.0 >= requests.0 => time,
            (_, Some(requests)) => requests,
            (Some(time), None) => time,
            (None, None) => (0.0, None),
        };
        Self { elapsed, planned, share, left_s }
    }
}
