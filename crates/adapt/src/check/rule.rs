//! A rule by itself: conditions that can hold, clauses that have something to keep.

use super::boxes::{Branches, Effort, Near, Same, boxes, nearest_pair};
use super::level::{Level, scope};
use crate::language::interval::{Interval, Lie};
use crate::language::mistake::Findings;
use crate::language::show_ms;
use crate::language::syntax::{ActKind, Branch, Condition, Metric, Rule, StabilityPlaces, Test, When};
use crate::reading::Where;

/// The longest window of a metric, in milliseconds.
pub(crate) const WINDOW_MS_MAX: u64 = 24 * 3_600_000;

/// Why something is not looked at.
const TOO_MANY: &str = "more than 256 alternatives are not compared";

/// A test that can be true and can be false.
pub(super) fn test(test: &Test, findings: &mut Findings<'_>) {
    let Test { interval, at, text, metric } = test;
    let range = Interval::new(0.0, true, metric.resource.most(), true);
    let dimension = metric.resource.dimension();
    if interval.is_empty() {
        return findings.wrong(*at, format!("`{text}` holds no value"), "write the smaller value first");
    }
    if interval.intersection(&range).is_empty() {
        let remedy = match metric.resource.most() {
            most if most.is_finite() => format!("write a value from 0% to {}", dimension.show(most)),
            _ => "no measured value is negative".to_owned(),
        };
        return findings.wrong(*at, format!("`{text}` is impossible"), remedy);
    }
    if range.intersection(interval) == range {
        findings.wrong(*at, format!("`{text}` is always true"), "leave it away, or write another value");
    }
}

/// Windows and forecasts that can be computed.
pub(super) fn metric(metric: &Metric, at: usize, findings: &mut Findings<'_>) {
    let windows = [metric.over_ms, metric.predicted.map(|predicted| predicted.in_ms)];
    if windows.into_iter().flatten().any(|window| window > WINDOW_MS_MAX) {
        let what = format!("`{}` looks further than {}", metric.text, show_ms(WINDOW_MS_MAX));
        findings.wrong(at, what, "write a shorter time");
    }
    if metric.predicted.is_some() && metric.aggregate.is_some() {
        let what = format!("`{}` is a forecast, which is one value", metric.text);
        findings.wrong(at, what, "leave the word before the resource away");
    }
}

/// A rule for clients reads no metric of an atom: a client asks for many atoms, so it is undefined which one is meant.
pub(super) fn subject(rule: &Rule, level: Level, findings: &mut Findings<'_>) {
    if level != Level::Client {
        return;
    }
    let conditions = rule.branches.iter().filter_map(|branch| branch.condition.as_ref());
    for condition in conditions.chain(&rule.stability.until) {
        condition.each(&mut |test| {
            if scope(&test.metric) == Where::Atom {
                let (name, text) = (&rule.name.text, &test.metric.text);
                let what = format!("rule `{name}` is looked at for each client, and `{text}` is of an atom");
                findings.wrong(test.at, what, "write @here, or leave it to a rule of its own without @client");
            }
        });
    }
}

/// Branches that can be taken, and a release that is not where the firing is.
pub(super) fn conditions(rule: &Rule, effort: &mut Effort, findings: &mut Findings<'_>) {
    let mut branches = Branches::of(&rule.branches, Same::Metric);
    for branch in &rule.branches {
        let reached = branches.next_is_reached(effort).flatten();
        let Some(condition) = &branch.condition else {
            never_reached(rule, branch, reached, findings);
            continue;
        };
        let alternatives = boxes(condition, true, Same::Metric, effort);
        if alternatives.as_ref().is_some_and(Vec::is_empty) {
            let what = format!("the condition of rule `{}` can never hold", rule.name.text);
            findings.wrong(first_test(condition).at, what, "its tests contradict each other");
        } else if alternatives.is_none() || reached.is_none() {
            return too_many(rule, first_test(condition).at, effort, findings);
        } else {
            never_reached(rule, branch, reached, findings);
        }
    }
    if let Some(until) = &rule.stability.until {
        release(rule, until, effort, findings);
    }
}

fn never_reached(rule: &Rule, branch: &Branch, reached: Option<bool>, findings: &mut Findings<'_>) {
    if reached == Some(false) {
        let what = format!("`{}` in rule `{}` is never reached", branch.acts[0].kind.word(), rule.name.text);
        findings.wrong(branch.acts[0].at, what, "the conditions before it hold whenever this one does");
    }
}

/// Says that a rule is not looked at to its end.
fn too_many(rule: &Rule, at: usize, effort: &Effort, findings: &mut Findings<'_>) {
    let name = &rule.name.text;
    let why = if effort.is_used_up() { "the policy compares more than is looked at" } else { TOO_MANY };
    let what = format!("{why}: from here on it is not known which branches of rule `{name}` can be reached");
    findings.doubt(at, what, "write fewer alternatives, or divide the rule");
}

/// The test that a condition begins with.
fn first_test(condition: &Condition) -> &Test {
    match condition {
        Condition::Test(test) => test,
        Condition::Not(inner) => first_test(inner),
        // The parser joins at least two.
        Condition::Any(parts) | Condition::All(parts) => first_test(&parts[0]),
    }
}

fn release(rule: &Rule, until: &Condition, effort: &mut Effort, findings: &mut Findings<'_>) {
    let Some(released) = boxes(until, true, Same::Resource, effort) else { return no_gap_known(rule, until, findings) };
    let mut branches = Branches::of(&rule.branches, Same::Resource);
    while let Some(fired) = branches.next_taken(effort) {
        let near = fired.as_ref().and_then(|fired| nearest_pair(fired, &released, effort));
        let near = match near {
            Some(Some(near)) => near,
            Some(None) => continue,
            None => return no_gap_known(rule, until, findings),
        };
        let Some((fires, releases)) = near.tests else {
            return apart(&near, findings);
        };
        let what = match near.lie {
            Lie::Touching => format!("`{}` releases where `{}` fires, without a gap", releases.text, fires.text),
            _ => format!("`{}` can release while `{}` still holds", releases.text, fires.text),
        };
        let remedy = "leave a gap between the two, such as > 90% until < 70%";
        return findings.wrong(releases.at, what, remedy);
    }
}

/// A release by other readings than those that the rule fires on. Under readings that stay it waits until the condition
/// is false, too; where that goes to and fro the rule does.
fn apart(near: &Near<'_>, findings: &mut Findings<'_>) {
    let Some((fires, releases)) = near.apart else { return };
    let (fires, released) = (&fires.text, &releases.text);
    let what = format!("`{released}` can release while `{fires}` still holds, so that there is no gap between the two");
    let remedy = "release by each reading that the rule fires on, such as cpu > 90% or rate > 9rps until cpu < 70% and rate < 5rps";
    findings.doubt(releases.at, what, remedy);
}

fn no_gap_known(rule: &Rule, until: &Condition, findings: &mut Findings<'_>) {
    let what = format!("{TOO_MANY}: whether `until` of rule `{}` leaves a gap is not looked at", rule.name.text);
    findings.doubt(first_test(until).at, what, "write fewer alternatives, or divide the rule");
}

/// Clauses that fit when the rule is looked at.
pub(super) fn stability(rule: &Rule, level: Level, findings: &mut Findings<'_>) {
    let places = rule.stability.places.0;
    if level == Level::Start {
        for (word, at) in StabilityPlaces::WORDS.iter().zip(places).take(3) {
            if let Some(at) = at {
                let what = format!("a start happens once, so there is nothing for `{word}` to keep");
                findings.wrong(at, what, "leave it away, or write during");
            }
        }
    }
    let keeps = rule.stability.until.is_some() || rule.stability.hold_ms.is_some();
    if rule.when == When::During && !keeps {
        let what = format!("rule `{}` looks at each tick and has neither `until` nor `hold`", rule.name.text);
        findings.doubt(rule.name.at, what, "write until and a release threshold, or hold and a time");
    }
}

/// What is done fits whom the rule is looked at for.
pub(super) fn acts(rule: &Rule, level: Level, findings: &mut Findings<'_>) {
    let keeps = rule.stability.until.is_some() || rule.stability.hold_ms.is_some();
    for act in rule.branches.iter().flat_map(|branch| &branch.acts) {
        let word = act.kind.word();
        // A client comes and goes: once it is forgotten, no look at it would end the order.
        if level == Level::Client && matches!(act.kind, ActKind::Shed(_)) && !keeps {
            let what = format!("rule `{}` has each client lose a share, and does not say for how long", rule.name.text);
            findings.wrong(act.at, what, "write until and a release threshold, or hold and a time");
        }
        // Without a release the application would have them for ever.
        if matches!(act.kind, ActKind::Workers { .. }) && !keeps {
            let what = format!("rule `{}` sets a number of workers, and does not say for how long", rule.name.text);
            findings.wrong(act.at, what, "write until and a release threshold, or hold and a time");
        }
        let fits = match act.kind {
            ActKind::Grow { .. } | ActKind::Shrink { .. } | ActKind::Workers { .. } => level == Level::Block,
            ActKind::Shed(_) => matches!(level, Level::Block | Level::Atom | Level::Client),
            ActKind::Replicate { .. } | ActKind::Spread(_) | ActKind::Stale(_) => {
                matches!(level, Level::Block | Level::Atom)
            }
            _ => true,
        };
        let (each, remedy) = match level {
            Level::Start => ("as each request starts", "write it in a rule with during or every"),
            Level::Session => {
                ("for each session", "write it in a rule of its own, without switch, next, use or @client")
            }
            Level::Client => ("for each client", "write it in a rule of its own, without @client"),
            Level::Atom => ("for each atom", "write it in a rule of its own, which reads @here, @all or a pool"),
            Level::Block => ("", ""),
        };
        if !fits {
            let what = format!("rule `{}` acts {each}, which would {word} every time", rule.name.text);
            findings.wrong(act.at, what, remedy);
        }
    }
}
