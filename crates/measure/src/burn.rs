//! Burn rates over a long and a short window at once, as "The Site Reliability Workbook" (2018), chapter 5, alerts on
//! them: the long one says that it matters, the short one that it is still so.

use crate::objective::{Judged, Objective};
use std::collections::VecDeque;

/// Buckets that are kept: the longest window in steps of a tenth of the shortest.
const MOST_BUCKETS: usize = 1 << 15;

/// When to alert: both windows burn at least so fast.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BurnRule {
    /// The long window, seconds.
    pub long_s: u64,
    /// The short one, seconds.
    pub short_s: u64,
    /// The burn rate of both from which on it is an alert.
    pub rate: f64,
}

impl BurnRule {
    /// The workbook's: 2 % of a month's allowance in an hour, 5 % in six hours, 10 % in three days.
    pub const WORKBOOK: [Self; 3] = [
        Self { long_s: 3_600, short_s: 300, rate: 14.4 },
        Self { long_s: 6 * 3_600, short_s: 1_800, rate: 6.0 },
        Self { long_s: 3 * 86_400, short_s: 6 * 3_600, rate: 1.0 },
    ];
}

/// A rule that began to alert, or that no longer does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Alert {
    /// The rule.
    pub rule: BurnRule,
    /// Whether it began.
    pub fires: bool,
    /// The burn rate over the long window.
    pub long_rate: f64,
    /// The burn rate over the short one.
    pub short_rate: f64,
    /// Requests within the long window.
    pub judged: Judged,
}

/// Judged requests over time, and which rules alert.
#[derive(Debug)]
pub struct BurnFold {
    objective: Objective,
    rules: Vec<(BurnRule, bool)>,
    bucket_s: u64,
    longest_s: u64,
    /// (number of the bucket, what was judged within), oldest first.
    buckets: VecDeque<(u64, Judged)>,
}

impl BurnFold {
    /// A fold without any request.
    #[must_use]
    pub fn new(objective: Objective, rules: &[BurnRule]) -> Self {
        let shortest = rules.iter().map(|rule| rule.short_s.min(rule.long_s)).min().unwrap_or(300);
        Self {
            objective,
            rules: rules.iter().map(|rule| (*rule, false)).collect(),
            bucket_s: (shortest / 10).max(1),
            longest_s: rules.iter().map(|rule| rule.long_s.max(rule.short_s)).max().unwrap_or(3_600),
            buckets: VecDeque::new(),
        }
    }

    /// Takes what was judged at a time, seconds of any clock that does not run back, and returns the rules whose alert
    /// begins or ends with it.
    pub fn push(&mut self, at_s: u64, judged: Judged) -> Vec<Alert> {
        let number = at_s / self.bucket_s;
        match self.buckets.back_mut() {
            Some((last, sum)) if *last >= number => *sum = sum.and(judged),
            _ => self.buckets.push_back((number, judged)),
        }
        let oldest = at_s.saturating_sub(self.longest_s) / self.bucket_s;
        while self.buckets.front().is_some_and(|(number, _)| *number < oldest) || self.buckets.len() > MOST_BUCKETS {
            self.buckets.pop_front();
        }
        let mut changed = Vec::new();
        for index in 0..self.rules.len() {
            let (rule, fired) = self.rules[index];
            let (long, short) = (self.within(at_s, rule.long_s), self.within(at_s, rule.short_s));
            let (long_rate, short_rate) = (long.burn_rate(self.objective), short.burn_rate(self.objective));
            // As soon as the short one is over the alert is, so that it does not outlive its cause.
            let fires = long_rate >= rule.rate && short_rate >= rule.rate && short.requests > 0;
            if fires != fired {
                self.rules[index].1 = fires;
                changed.push(Alert { rule, fires, long_rate, short_rate, judged: long });
            }
        }
        changed
    }

    /// What was judged within the seconds before a time.
    #[must_use]
    pub fn within(&self, at_s: u64, seconds: u64) -> Judged {
        let from = at_s.saturating_sub(seconds) / self.bucket_s;
        let recent = self.buckets.iter().rev().take_while(|(number, _)| *number > from || from == 0);
        recent.fold(Judged::default(), |sum, (_, judged)| sum.and(*judged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(requests: u64, bad: u64) -> Judged {
        Judged { requests, bad, unknown: 0 }
    }

    fn fold(rules: &[BurnRule]) -> BurnFold {
        BurnFold::new("p99<200ms".parse().expect("an objective"), rules)
    }

    #[test]
    fn an_outage_alerts_within_minutes_and_its_end_ends_it() {
        let mut fold = fold(&BurnRule::WORKBOOK);
        for minute in 0..120 {
            assert_eq!(fold.push(60 * minute, judged(1_000, 5)), [], "half of what is allowed is no alert");
        }
        let mut fired = None;
        for minute in 120..160 {
            for alert in fold.push(60 * minute, judged(1_000, 500)) {
                if alert.rule == BurnRule::WORKBOOK[0] {
                    assert!(alert.fires && alert.long_rate >= 14.4 && alert.short_rate >= 14.4);
                    fired.get_or_insert(minute);
                }
            }
        }
        // 50 times the allowance: 14.4 times over an hour is reached after 14 of 60 minutes on top of the 0.5 before.
        let after = fired.expect("it alerts") - 120;
        assert!((14..=19).contains(&after), "after {after} minutes");
        let mut over = None;
        for minute in 160..200 {
            let ended = fold
                .push(60 * minute, judged(1_000, 0))
                .into_iter()
                .any(|alert| !alert.fires && alert.rule == BurnRule::WORKBOOK[0]);
            if ended {
                over.get_or_insert(minute);
            }
        }
        assert!(over.expect("it ends") - 160 <= 6, "the short window ends it");
    }

    #[test]
    fn a_blip_that_is_over_is_no_alert() {
        let mut fold = fold(&[BurnRule { long_s: 3_600, short_s: 300, rate: 14.4 }]);
        for minute in 0..60 {
            fold.push(60 * minute, judged(1_000, 0));
        }
        // One bad minute in the hour: 100 times the allowance for a minute is 1.7 times over the hour.
        assert_eq!(fold.push(3_600, judged(1_000, 1_000)), []);
    }

    #[test]
    fn memory_is_bounded() {
        let mut fold = fold(&BurnRule::WORKBOOK);
        (0..40_000).for_each(|step| drop(fold.push(step * 30, judged(10, 0))));
        assert!(fold.buckets.len() <= 3 * 86_400 / 30 + 1, "{}", fold.buckets.len());
    }
}
