//! Conditions as boxes: alternatives, each an interval for every metric that it speaks of.

use crate::language::interval::{Interval, Lie};
use crate::language::syntax::{Aggregate, Branch, Condition, Metric, Name, Pool, Test};
use crate::reading::Where;
use std::collections::BTreeMap;

/// More alternatives than these are not looked at.
const BOXES_MAX: usize = 256;

/// What must hold of each metric, by a name for it.
pub(super) type Box<'s> = BTreeMap<String, (Interval, &'s Test)>;

/// How metrics are told apart.
#[derive(Debug, Clone, Copy)]
pub(super) enum Same<'p> {
    /// By everything that is said of them.
    Metric,
    /// By resource and scope: an average and a forecast of the same are one.
    Resource,
    /// By what is one value for as long as readings stay: as `Resource`, but of the nodes of all these pools, or of one
    /// of them, the largest is not the average.
    Steady(&'p [Pool]),
}

impl Same<'_> {
    /// What a metric within an interval says, of itself and others by their names.
    fn says(self, metric: &Metric, interval: Interval) -> Vec<(String, Interval)> {
        match self {
            Self::Metric => vec![(metric.text.clone(), interval)],
            Self::Steady(pools) if is_of_several(metric, pools) => {
                let (name, of) = (resource_name(metric), Together::of(metric));
                let of_each = Together::ALL.into_iter().filter_map(|each| {
                    // What is above a value has all that is no less above it, and the other way round.
                    let Interval { low, high } = Interval::new(f64::NEG_INFINITY, false, f64::INFINITY, false);
                    let low = if of.is_at_most(each) { interval.low } else { low };
                    let high = if each.is_at_most(of) { interval.high } else { high };
                    let says_something = low.value > f64::NEG_INFINITY || high.value < f64::INFINITY;
                    says_something.then(|| (format!("{each:?} of {name}"), Interval { low, high }))
                });
                of_each.collect()
            }
            Self::Resource | Self::Steady(_) => vec![(resource_name(metric), interval)],
        }
    }

    /// What holds of a metric of which both hold.
    fn both(self, one: &Interval, other: &Interval) -> Option<Interval> {
        let common = one.intersection(other);
        match self {
            Self::Metric => Some(common).filter(|common| !common.is_empty()),
            // A maximum above and a minimum below do not exclude each other.
            Self::Resource | Self::Steady(_) => Some(if common.is_empty() { one.hull(other) } else { common }),
        }
    }
}

/// What several nodes have together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Together {
    Min,
    Mean,
    P95,
    P99,
    Max,
    Sum,
}

impl Together {
    const ALL: [Self; 6] = [Self::Min, Self::Mean, Self::P95, Self::P99, Self::Max, Self::Sum];

    fn of(metric: &Metric) -> Self {
        match metric.aggregate {
            Some(Aggregate::Min) => Self::Min,
            Some(Aggregate::P95) => Self::P95,
            Some(Aggregate::P99) => Self::P99,
            Some(Aggregate::Max) => Self::Max,
            // As the evaluator adds them up.
            None if metric.resource.adds_up() => Self::Sum,
            Some(Aggregate::Avg) if metric.resource.adds_up() && metric.over_ms.is_some() => Self::Sum,
            Some(Aggregate::Avg) | None => Self::Mean,
        }
    }

    /// Whether it is never more than another one, of values that are not negative.
    fn is_at_most(self, other: Self) -> bool {
        let is_largest = other == Self::Sum || other == Self::Max && self != Self::Sum;
        self == other || self == Self::Min || is_largest || self == Self::P95 && other == Self::P99
    }
}

fn is_of_several(metric: &Metric, pools: &[Pool]) -> bool {
    let is_several = |scope: &Name| scope.text == "all" || pools.iter().any(|pool| pool.name == *scope);
    metric.scope.as_ref().is_some_and(is_several)
}

/// Resource and scope of a metric, also where it is left to the language to know the scope.
fn resource_name(metric: &Metric) -> String {
    let usual = match metric.resource.usual_place() {
        Where::Node => "here",
        Where::Atom => "atom",
        Where::Session | Where::Client => "client",
    };
    let scope = metric.scope.as_ref().map_or(usual, |scope| &*scope.text);
    format!("{:?}@{scope}", metric.resource)
}

/// The alternatives of a condition, or of its contrary; `None` if they are too many.
pub(super) fn boxes<'s>(condition: &'s Condition, holds: bool, same: Same<'_>) -> Option<Vec<Box<'s>>> {
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

fn one<'s>(test: &'s Test, interval: Interval, same: Same<'_>) -> Box<'s> {
    same.says(&test.metric, interval).into_iter().map(|(name, says)| (name, (says, test))).collect()
}

/// Each of the ones together with each of the others, where that is possible.
fn product<'s>(ones: &[Box<'s>], others: &[Box<'s>], same: Same<'_>) -> Option<Vec<Box<'s>>> {
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
pub(super) fn taken<'s>(branches: &'s [Branch], which: usize, same: Same<'_>) -> Option<Vec<Box<'s>>> {
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
