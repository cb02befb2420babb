//! Conditions as boxes: alternatives, each an interval for every metric that it speaks of.

use crate::language::interval::{Interval, Lie};
use crate::language::syntax::{Branch, Condition, Metric, Test};
use std::collections::BTreeMap;

/// More alternatives than these are not looked at.
const BOXES_MAX: usize = 256;

/// What must hold of each metric, by a name for it.
pub(super) type Box<'s> = BTreeMap<String, (Interval, &'s Test)>;

/// How metrics are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Same {
    /// By everything that is said of them.
    Metric,
    /// By resource and scope: an average and a forecast of the same are one.
    Resource,
}

impl Same {
    fn name(self, metric: &Metric) -> String {
        match self {
            Self::Metric => metric.text.clone(),
            Self::Resource => resource_name(metric),
        }
    }

    /// What holds of a metric of which both hold.
    fn both(self, one: &Interval, other: &Interval) -> Option<Interval> {
        let common = one.intersection(other);
        match self {
            Self::Metric => Some(common).filter(|common| !common.is_empty()),
            // A maximum above and a minimum below do not exclude each other.
            Self::Resource => Some(if common.is_empty() { one.hull(other) } else { common }),
        }
    }
}

/// Resource and scope of a metric.
pub(super) fn resource_name(metric: &Metric) -> String {
    let scope = metric.scope.as_ref().map_or("", |scope| &*scope.text);
    format!("{:?}@{scope}", metric.resource)
}

/// The alternatives of a condition, or of its contrary; `None` if they are too many.
pub(super) fn boxes(condition: &Condition, holds: bool, same: Same) -> Option<Vec<Box<'_>>> {
    match (condition, holds) {
        (Condition::Test(test), true) => Some(vec![one(test, test.interval, same)]),
        (Condition::Test(test), false) => {
            Some(test.interval.outside().map(|outside| one(test, outside, same)).collect())
        }
        (Condition::Not(inner), _) => boxes(inner, !holds, same),
        (Condition::Any(parts), true) | (Condition::All(parts), false) => {
            let mut all = Vec::new();
            for part in parts {
                all.extend(boxes(part, holds, same)?);
            }
            (all.len() <= BOXES_MAX).then_some(all)
        }
        (Condition::Any(parts), false) | (Condition::All(parts), true) => {
            let parts = parts.iter().map(|part| boxes(part, holds, same));
            parts.reduce(|all, part| product(&all?, &part?, same)).unwrap_or_default()
        }
    }
}

fn one(test: &Test, interval: Interval, same: Same) -> Box<'_> {
    BTreeMap::from([(same.name(&test.metric), (interval, test))])
}

/// Each of the ones together with each of the others, where that is possible.
fn product<'s>(ones: &[Box<'s>], others: &[Box<'s>], same: Same) -> Option<Vec<Box<'s>>> {
    if ones.len() * others.len() > BOXES_MAX {
        return None;
    }
    let mut all = Vec::new();
    for one in ones {
        'others: for other in others {
            let mut both = one.clone();
            for (name, (interval, test)) in other {
                let Some((present, _)) = both.get(name) else {
                    both.insert(name.clone(), (*interval, *test));
                    continue;
                };
                let Some(common) = same.both(present, interval) else { continue 'others };
                both.insert(name.clone(), (common, *test));
            }
            all.push(both);
        }
    }
    Some(all)
}

/// When a branch is taken: its condition holds, and none of those before it.
pub(super) fn taken(branches: &[Branch], which: usize, same: Same) -> Option<Vec<Box<'_>>> {
    let mut all = vec![Box::new()];
    for (at, branch) in branches.iter().enumerate().take(which + 1) {
        let Some(condition) = &branch.condition else { continue };
        all = product(&all, &boxes(condition, at == which, same)?, same)?;
    }
    Some(all)
}

/// Two alternatives that are not far enough from each other.
#[derive(Debug)]
pub(super) struct Near<'s> {
    pub(super) lie: Lie,
    /// The tests of the metric on which they come nearest; `None` if they speak of different ones.
    pub(super) tests: Option<(&'s Test, &'s Test)>,
}

/// The nearest pair of alternatives, unless values lie between all of them.
pub(super) fn nearest_pair<'s>(ones: &[Box<'s>], others: &[Box<'s>]) -> Option<Near<'s>> {
    let mut nearest: Option<Near<'s>> = None;
    for one in ones {
        for other in others {
            let common = one.iter().filter_map(|(name, (interval, test))| {
                let (against, with) = other.get(name)?;
                Some((interval.lie(against), *test, *with))
            });
            // The metric that holds them furthest apart.
            let best = common.min_by_key(|(lie, _, _)| *lie);
            let lie = best.as_ref().map_or(Lie::Overlapping, |(lie, _, _)| *lie);
            if lie != Lie::Apart && nearest.as_ref().is_none_or(|near| near.lie < lie) {
                nearest = Some(Near { lie, tests: best.map(|(_, one, other)| (one, other)) });
            }
        }
    }
    nearest
}
