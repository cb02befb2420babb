//! How long answers that come bit by bit may take, in the loop's own unit.

use crate::plan::run_plan::Plan;
use crate::schedule::scheduler::NEVER;
use std::time::Duration;

/// The limits of an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Watch {
    /// Of the time between two events.
    pub(crate) between_max_ns: u64,
    /// How long after it was asked for it is ended.
    pub(crate) close_after_ns: u64,
}

impl Watch {
    /// Those of a plan, if answers are looked at.
    pub(crate) fn of(plan: &Plan) -> Option<Self> {
        let streaming = plan.streaming?;
        let ns = |time: Option<Duration>| time.map_or(NEVER, |time| u64::try_from(time.as_nanos()).unwrap_or(NEVER));
        Some(Self { between_max_ns: ns(streaming.between_max), close_after_ns: ns(streaming.close_after) })
    }
}

/// Answers are looked at no more often than so, however many there are.
pub(crate) const LOOK_NS: u64 = 1_000_000;

/// Why an answer has stalled.
#[cold]
pub(crate) fn stalled_words(between_max_ns: u64) -> String {
    format!("no event came for {:?} after another", Duration::from_nanos(between_max_ns))
}
