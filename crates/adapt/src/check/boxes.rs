//! Conditions as boxes: alternatives, each an interval for every metric that it speaks of.

use crate::language::interval::{Interval, Lie};
use crate::language::syntax::{Aggregate, Branch, Condition, Metric, Name, Pool, Test};
use crate::reading::Where;
use std::collections::BTreeMap;
use std::rc::Rc;

/// More alternatives than these are not looked at.
const BOXES_MAX: usize = 256;

/// What must hold of each metric, by a name for it.
pub(super) type Box<'s> = BTreeMap<Rc<str>, (Interval, &'s Test)>;

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

/// What comparing alternatives may cost in all, in metrics that are copied or compared: the checker of a policy that a
/// program wrote ends all the same.
const EFFORT_MAX: u64 = 20_000_000;
/// Metrics of all alternatives of a condition at most.
const METRICS_MAX: usize = 200_000;

/// What is left of the effort that comparing alternatives may take.
#[derive(Debug)]
pub(super) struct Effort {
    left: u64,
}

impl Effort {
    pub(super) fn new() -> Self {
        Self { left: EFFORT_MAX }
    }

    /// Takes so much of it; `None`: it is used up.
    fn take(&mut self, metrics: usize) -> Option<()> {
        match self.left.checked_sub(metrics as u64) {
            Some(left) => {
                self.left = left;
                Some(())
            }
            None => {
                self.left = 0;
                None
            }
        }
    }

    /// Whether nothing is left, so that what was asked for is not known.
    pub(super) fn is_used_up(&self) -> bool {
        self.left == 0
    }
}

/// The alternatives of a condition, or of its contrary; `None` if they are too many.
pub(super) fn boxes<'s>(
    condition: &'s Condition,
    holds: bool,
    same: Same<'_>,
    effort: &mut Effort,
) -> Option<Vec<Box<'s>>> {
    match (condition, holds) {
        (Condition::Test(test), true) => Some(vec![one(test, test.interval, same)]),
        (Condition::Test(test), false) => {
            Some(test.interval.outside().map(|outside| one(test, outside, same)).collect())
        }
        (Condition::Not(inner), _) => boxes(inner, !holds, same, effort),
        (Condition::Any(parts), true) | (Condition::All(parts), false) => {
            let mut all = Vec::new();
            for part in parts {
                all.extend(boxes(part, holds, same, effort)?);
                if all.len() > BOXES_MAX {
                    return None;
                }
            }
            Some(all)
        }
        (Condition::Any(parts), false) | (Condition::All(parts), true) => {
            let mut all = vec![Box::new()];
            for part in parts {
                all = product(all, &boxes(part, holds, same, effort)?, same, effort)?;
            }
            Some(all)
        }
    }
}

fn one<'s>(test: &'s Test, interval: Interval, same: Same<'_>) -> Box<'s> {
    same.says(&test.metric, interval).into_iter().map(|(name, says)| (name.into(), (says, test))).collect()
}

/// Adds what must hold besides; `false`: that is impossible.
fn add<'s>(to: &mut Box<'s>, besides: &Box<'s>, same: Same<'_>) -> bool {
    besides.iter().all(|(name, (interval, test))| {
        let Some((present, of)) = to.get_mut(name) else {
            to.insert(name.clone(), (*interval, *test));
            return true;
        };
        let Some(common) = same.both(present, interval) else { return false };
        (*present, *of) = (common, test);
        true
    })
}

/// Each of the ones together with each of the others, where that is possible.
fn product<'s>(
    mut ones: Vec<Box<'s>>,
    others: &[Box<'s>],
    same: Same<'_>,
    effort: &mut Effort,
) -> Option<Vec<Box<'s>>> {
    if ones.len() * others.len() > BOXES_MAX {
        return None;
    }
    // Nothing is copied where there is one way on, as for each of thousands of branches.
    if let [other] = others {
        effort.take(ones.len() * other.len().max(1))?;
        ones.retain_mut(|one| add(one, other, same));
        return Some(ones).filter(|ones| metrics(ones) <= METRICS_MAX);
    }
    effort.take(others.len() * metrics(&ones) + ones.len() * metrics(others))?;
    let mut all = Vec::new();
    for one in &ones {
        for other in others {
            let mut both = one.clone();
            if add(&mut both, other, same) {
                all.push(both);
            }
        }
    }
    Some(all).filter(|all| metrics(all) <= METRICS_MAX)
}

/// Metrics of all these alternatives.
fn metrics(boxes: &[Box<'_>]) -> usize {
    boxes.iter().map(Box::len).sum()
}

/// The branches of a rule one after the other, each with when it is taken: its condition holds, and none of those before.
pub(super) struct Branches<'s, 'p> {
    same: Same<'p>,
    branches: std::slice::Iter<'s, Branch>,
    /// What no branch before has taken; `None`: of too many alternatives.
    open: Option<Vec<Box<'s>>>,
}

impl<'s, 'p> Branches<'s, 'p> {
    pub(super) fn of(branches: &'s [Branch], same: Same<'p>) -> Self {
        Self { same, branches: branches.iter(), open: Some(vec![Box::new()]) }
    }

    /// When the next branch is taken: `Some(None)` if that is under too many alternatives, `None` behind the last one.
    pub(super) fn next_taken(&mut self, effort: &mut Effort) -> Option<Option<Vec<Box<'s>>>> {
        let branch = self.branches.next()?;
        let taken = self.open.as_ref().and_then(|open| {
            let Some(condition) = &branch.condition else { return Some(open.clone()) };
            let own = boxes(condition, true, self.same, effort)?;
            effort.take(own.len() * metrics(open))?;
            product(open.clone(), &own, self.same, effort)
        });
        self.go_on(branch, effort);
        Some(taken)
    }

    /// Whether the next branch can be taken, without the alternatives; as above.
    pub(super) fn next_is_reached(&mut self, effort: &mut Effort) -> Option<Option<bool>> {
        let branch = self.branches.next()?;
        let reached = self.open.as_ref().and_then(|open| {
            let Some(condition) = &branch.condition else { return Some(!open.is_empty()) };
            let own = boxes(condition, true, self.same, effort)?;
            effort.take(open.len() * metrics(&own))?;
            let fits = |open: &Box<'_>, own: &Box<'_>| {
                let mut common = own.iter().filter_map(|(name, (interval, _))| Some((interval, open.get(name)?)));
                common.all(|(interval, (present, _))| self.same.both(present, interval).is_some())
            };
            Some(open.iter().any(|open| own.iter().any(|own| fits(open, own))))
        });
        self.go_on(branch, effort);
        Some(reached)
    }

    fn go_on(&mut self, branch: &'s Branch, effort: &mut Effort) {
        // Behind an `else` there is nothing.
        let Some(condition) = &branch.condition else { return };
        self.open = self.open.take().and_then(|open| {
            let contrary = boxes(condition, false, self.same, effort)?;
            product(open, &contrary, self.same, effort)
        });
    }
}

/// Two alternatives that are not far enough from each other.
#[derive(Debug)]
pub(super) struct Near<'s> {
    pub(super) lie: Lie,
    /// The tests of the metric on which they come nearest; `None` if they speak of different ones.
    pub(super) tests: Option<(&'s Test, &'s Test)>,
    /// Where they speak of different ones, a test of each.
    pub(super) apart: Option<(&'s Test, &'s Test)>,
}

/// The nearest pair of alternatives, unless values lie between all of them; of equally near ones one that speaks of the
/// same metric. `None`: the effort is used up.
pub(super) fn nearest_pair<'s>(ones: &[Box<'s>], others: &[Box<'s>], effort: &mut Effort) -> Option<Option<Near<'s>>> {
    let mut nearest: Option<Near<'s>> = None;
    for one in ones {
        for other in others {
            effort.take(one.len().min(other.len()).max(1))?;
            // The metric that holds them furthest apart.
            let best = furthest(one, other);
            let lie = best.as_ref().map_or(Lie::Overlapping, |(lie, _, _)| *lie);
            let tests = best.map(|(_, one, other)| (one, other));
            let is_nearer = |near: &Near<'_>| (near.lie, near.tests.is_some()) < (lie, tests.is_some());
            if lie != Lie::Apart && nearest.as_ref().is_none_or(is_nearer) {
                // Of a branch the last one written is of its own condition.
                let last = |of: &Box<'s>| of.values().map(|(_, test)| *test).max_by_key(|test| test.at);
                let apart = if tests.is_none() { last(one).zip(last(other)) } else { None };
                nearest = Some(Near { lie, tests, apart });
            }
        }
    }
    Some(nearest)
}

/// The metric that holds two alternatives furthest apart, with a test of each.
fn furthest<'s>(one: &Box<'s>, other: &Box<'s>) -> Option<(Lie, &'s Test, &'s Test)> {
    // The shorter is gone through.
    if one.len() > other.len() {
        return furthest(other, one).map(|(lie, other, one)| (lie, one, other));
    }
    let common = one.iter().filter_map(|(name, (interval, test))| {
        let (against, with) = other.get(name)?;
        Some((interval.lie(against), *test, *with))
    });
    common.min_by_key(|(lie, _, _)| *lie)
}
