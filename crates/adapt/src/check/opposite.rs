//! Rules that undo what others do need a gap between their conditions.

use super::Level;
use super::boxes::{Near, Same, nearest_pair, taken};
use super::level;
use crate::language::interval::Lie;
use crate::language::mistake::Findings;
use crate::language::syntax::{Act, ActKind, Rule, Source, Target};

/// Pairs that are looked at: more would take the checker too long.
const PAIRS_MAX: usize = 20_000;

/// Something that is done, with the rule and branch that do it.
#[derive(Clone, Copy)]
struct Done<'s> {
    glob: &'s str,
    rule: &'s Rule,
    branch: usize,
    act: &'s Act,
}

/// How much two things undo each other.
#[derive(PartialEq, Eq)]
enum Undo {
    /// Not at all.
    No,
    /// Wherever they stand.
    Anywhere,
    /// Where they stand in two rules of the same atoms and of the same priority.
    InRulesOfAnAtom,
    /// Where they are done to the same atoms.
    ToAnAtom,
}

fn undo(one: &ActKind, other: &ActKind) -> Undo {
    match (one, other) {
        (ActKind::Grow { pool: one, .. }, ActKind::Shrink { pool: other, .. })
        | (ActKind::Shrink { pool: one, .. }, ActKind::Grow { pool: other, .. })
            if one == other =>
        {
            Undo::Anywhere
        }
        (ActKind::NextDown, ActKind::NextUp) | (ActKind::NextUp, ActKind::NextDown) => Undo::ToAnAtom,
        (ActKind::Use(one), ActKind::Use(other)) if one != other => Undo::InRulesOfAnAtom,
        (ActKind::Replicate { copies: a, pool: one }, ActKind::Replicate { copies: b, pool: other })
            if one == other && a != b =>
        {
            Undo::InRulesOfAnAtom
        }
        (ActKind::Switch(Target::Node { node: one, .. }), ActKind::Switch(Target::Node { node: other, .. }))
            if one != other =>
        {
            Undo::InRulesOfAnAtom
        }
        _ => Undo::No,
    }
}

/// Looks at each pair of things that undo each other.
pub(super) fn check(source: &Source, findings: &mut Findings<'_>) {
    let mut all = Vec::new();
    for atom in &source.atoms {
        for rule in atom.rules.iter().filter(|rule| level(rule) != Level::Start) {
            for (branch, acts) in rule.branches.iter().map(|branch| &branch.acts).enumerate() {
                all.extend(acts.iter().map(|act| Done { glob: &atom.glob.text, rule, branch, act }));
            }
        }
    }
    // Of what undoes nothing there may be any number.
    all.retain(|done| all_kinds_that_undo(&done.act.kind));
    let mut pairs = 0;
    for (at, other) in all.iter().enumerate() {
        for one in &all[..at] {
            pairs += 1;
            if pairs > PAIRS_MAX {
                let what =
                    format!("more than {PAIRS_MAX} pairs of rules could undo each other; these are not looked at");
                return findings.doubt(other.act.at, what, "divide the policy");
            }
            if undoes(one, other) && !same_place(one, other) {
                pair(one, other, findings);
            }
        }
    }
}

fn all_kinds_that_undo(kind: &ActKind) -> bool {
    !matches!(
        kind,
        ActKind::Best { .. } | ActKind::Spread(_) | ActKind::Shed(_) | ActKind::Stale(_) | ActKind::Alert(_)
    )
}

fn undoes(one: &Done<'_>, other: &Done<'_>) -> bool {
    let same_rule = std::ptr::eq(one.rule, other.rule);
    match undo(&one.act.kind, &other.act.kind) {
        Undo::No => false,
        Undo::Anywhere => true,
        Undo::ToAnAtom => one.glob == other.glob,
        // Of different priorities it is said which one counts.
        Undo::InRulesOfAnAtom => one.glob == other.glob && !same_rule && one.rule.priority == other.rule.priority,
    }
}

fn same_place(one: &Done<'_>, other: &Done<'_>) -> bool {
    std::ptr::eq(one.act, other.act)
}

fn pair(one: &Done<'_>, other: &Done<'_>, findings: &mut Findings<'_>) {
    let first = taken(&one.rule.branches, one.branch, Same::Resource);
    let second = taken(&other.rule.branches, other.branch, Same::Resource);
    let line = findings.line(one.act.at);
    let (a, b) = (&one.rule.name.text, &other.rule.name.text);
    let (does, undone) = (other.act.kind.word(), one.act.kind.word());
    let what = format!("`{does}` of rule `{b}` undoes `{undone}` of rule `{a}` (line {line})");
    let (Some(first), Some(second)) = (first, second) else {
        return findings.wrong(
            other.act.at,
            format!("{what}, under conditions of too many alternatives"),
            "write them simpler",
        );
    };
    match nearest_pair(&first, &second) {
        None => {}
        Some(Near { lie: Lie::Touching, tests: Some((one, other)) }) => findings.wrong(
            other.at,
            format!("{what}, and no gap is between `{}` and `{}`", one.text, other.text),
            "leave a gap, so that a value at the threshold does not do and undo",
        ),
        Some(Near { tests: Some((one, other)), .. }) => findings.wrong(
            other.at,
            format!("{what}, and both can hold: `{}` and `{}`", one.text, other.text),
            "leave a gap between the two",
        ),
        Some(Near { tests: None, .. }) => findings.wrong(
            other.act.at,
            format!("{what}, and both can hold at once: they look at different things"),
            "have both look at the same reading, with a gap between",
        ),
    }
}
