//! Activity as it is shown: some hours in equal steps, with the marks of that time.

use super::format::{Figures, HOUR_S, MINUTE_S, Mark, Span};
use super::reading::Activity;
use serde::{Deserialize, Serialize};

/// Hours that can be shown at most: those that the file keeps.
pub const ACTIVITY_HOURS_MAX: u32 = 3 * 365 * 24;
/// Hours for which there are minutes.
const MINUTES_HOURS_MAX: u64 = 100 * 24;
/// Steps at most.
pub const ACTIVITY_STEPS_MAX: u32 = 2000;

/// Activity over a time, in equal steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownActivity {
    /// The first moment, seconds since 1970.
    pub from_unix_s: u64,
    /// The moment at which it was asked for.
    pub to_unix_s: u64,
    /// Seconds of a step: whole minutes, and whole hours for more than 100 days.
    pub step_s: u64,
    /// One for each step; one in which no server ran has `up_s` 0.
    pub steps: Vec<Figures>,
    /// Marks of that time, the oldest first.
    pub marks: Vec<Mark>,
    /// Records of that time that were torn.
    pub torn_records: u64,
}

/// Which records are needed for so many hours until a moment, and from when on.
pub(crate) fn wanted(hours: u32, now_unix_s: u64) -> (Span, u64) {
    let span = if u64::from(hours) <= MINUTES_HOURS_MAX { Span::Minute } else { Span::Hour };
    (span, now_unix_s.saturating_sub(u64::from(hours) * HOUR_S))
}

impl ShownActivity {
    /// So many hours until a moment in at most so many steps; both are at least 1.
    pub fn new(activity: &Activity, hours: u32, steps_max: u32, now_unix_s: u64) -> Self {
        let (span, from_unix_s) = wanted(hours.max(1), now_unix_s);
        let least_s = if span == Span::Minute { MINUTE_S } else { HOUR_S };
        let all_s = u64::from(hours.max(1)) * HOUR_S;
        let step_s = all_s.div_ceil(u64::from(steps_max.clamp(1, ACTIVITY_STEPS_MAX))).next_multiple_of(least_s);
        // Steps begin at multiples of their length, so that they stay the same from look to look.
        let first_s = (from_unix_s + step_s) / step_s * step_s;
        let first_s = first_s.min(now_unix_s / step_s * step_s);
        let count = (now_unix_s - first_s) / step_s + 1;
        let empty = |number| Figures { begin_unix_s: first_s + number * step_s, ..Figures::default() };
        let mut steps: Vec<Figures> = (0..count).map(empty).collect();
        let records = if span == Span::Minute { &activity.minutes } else { &activity.hours };
        for figures in records {
            let Some(since_s) = figures.begin_unix_s.checked_sub(first_s) else { continue };
            if let Some(step) = usize::try_from(since_s / step_s).ok().and_then(|number| steps.get_mut(number)) {
                step.add(figures);
            }
        }
        let within = first_s * 1000..=now_unix_s.saturating_mul(1000).saturating_add(999);
        let marks = activity.marks.iter().filter(|mark| within.contains(&mark.unix_ms)).cloned().collect();
        Self { from_unix_s: first_s, to_unix_s: now_unix_s, step_s, steps, marks, torn_records: activity.torn }
    }
}
