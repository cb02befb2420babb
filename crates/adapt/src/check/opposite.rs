//! Rules that undo what others do need a gap between their conditions.

use super::boxes::{Box, Branches, Effort, Near, Same, nearest_pair};
use super::level::{Level, level};
use super::names::Variants;
use crate::language::interval::Lie;
use crate::language::mistake::Findings;
use crate::language::show_ms;
use crate::language::syntax::{Act, ActKind, Name, Rule, Source, Target, When};
use std::rc::Rc;

/// Pairs that are looked at: more would take the checker too long.
const PAIRS_MAX: usize = 20_000;
/// Pairs of things that are looked at for whether they could undo each other.
const LOOKS_MAX: usize = 100_000_000;
/// Things that one branch does that are compared with each other.
const BESIDE_MAX: usize = 64;

/// Something that is done, with the rule and branch that do it.
#[derive(Clone)]
struct Done<'s> {
    glob: &'s str,
    rule: &'s Rule,
    level: Level,
    branch: usize,
    act: &'s Act,
    variants: &'s [Name],
    /// When it is done; `None`: under too many alternatives.
    taken: Option<Rc<Vec<Box<'s>>>>,
}

/// How much two things undo each other.
#[derive(Debug, PartialEq, Eq)]
enum Undo {
    /// Not at all.
    No,
    /// Wherever they stand.
    Anywhere,
    /// Where they are done to the same atoms.
    ToAnAtom,
    /// Where two rules do them to the same atoms, and neither rule keeps the other out.
    InRulesOfAnAtom,
    /// Where one rule does both together.
    Beside,
}

/// How two things that are done to an atom with these variants undo each other.
fn undo(one: &ActKind, other: &ActKind, variants: &[Name]) -> Undo {
    let undoes = |is_so: bool, undo: Undo| if is_so { undo } else { Undo::No };
    match (one, other) {
        (ActKind::Grow { pool: one, .. }, ActKind::Shrink { pool: other, .. })
        | (ActKind::Shrink { pool: one, .. }, ActKind::Grow { pool: other, .. }) => {
            undoes(one == other, Undo::Anywhere)
        }
        (ActKind::NextDown, ActKind::NextUp) | (ActKind::NextUp, ActKind::NextDown) => Undo::ToAnAtom,
        // What leads to the variant that is the last in its direction stays there.
        (ActKind::NextDown, to) | (to, ActKind::NextDown) => {
            undoes(chosen_variants(to).any(|variant| Some(variant) != variants.last()), Undo::InRulesOfAnAtom)
        }
        (ActKind::NextUp, to) | (to, ActKind::NextUp) => {
            undoes(chosen_variants(to).any(|variant| Some(variant) != variants.first()), Undo::InRulesOfAnAtom)
        }
        (ActKind::Use(one), to) | (to, ActKind::Use(one)) => {
            undoes(chosen_variants(to).any(|variant| variant != one), Undo::InRulesOfAnAtom)
        }
        (ActKind::Best { .. } | ActKind::Switch(_), ActKind::Best { .. } | ActKind::Switch(_)) => {
            undoes(one != other && !is_same_place(one, other), Undo::InRulesOfAnAtom)
        }
        (ActKind::Replicate { .. }, ActKind::Replicate { .. }) | (ActKind::Spread(_), ActKind::Spread(_)) => {
            undoes(one != other, Undo::InRulesOfAnAtom)
        }
        (ActKind::Workers { pool: one, .. }, ActKind::Workers { pool: other, .. }) => {
            undoes(one == other, Undo::Beside)
        }
        (ActKind::Shed(_), ActKind::Shed(_)) | (ActKind::Stale(_), ActKind::Stale(_)) => {
            undoes(one != other, Undo::Beside)
        }
        _ => Undo::No,
    }
}

fn targets(kind: &ActKind) -> &[Target] {
    match kind {
        ActKind::Best { targets, .. } => targets,
        ActKind::Switch(target) => std::slice::from_ref(target),
        _ => &[],
    }
}

/// The variants that something done says by name.
fn chosen_variants(kind: &ActKind) -> impl Iterator<Item = &Name> {
    let of_targets = targets(kind).iter().filter_map(|target| match target {
        Target::Node { variant, .. } => variant.as_ref(),
        Target::AnyOf(_) => None,
    });
    of_targets.chain(if let ActKind::Use(variant) = kind { Some(variant) } else { None })
}

/// Whether both lead to the same node, and say no different variants.
fn is_same_place(one: &ActKind, other: &ActKind) -> bool {
    match (targets(one), targets(other)) {
        ([Target::Node { node: one, variant: first }], [Target::Node { node: other, variant: second }]) => {
            one == other && (first == second || first.is_none() || second.is_none())
        }
        _ => false,
    }
}

/// Looks at each pair of things that undo each other.
pub(super) fn check(source: &Source, variants: &Variants<'_>, effort: &mut Effort, findings: &mut Findings<'_>) {
    let same = Same::Steady(&source.pools);
    let mut all = Vec::new();
    for atom in &source.atoms {
        for rule in &atom.rules {
            let level = level(rule);
            if level == Level::Start {
                continue;
            }
            let (glob, variants) = (&*atom.glob.text, variants.of(&atom.glob.text));
            let variants = if level == Level::Session { variants } else { &[] };
            let mut branches = Branches::of(&rule.branches, same);
            for (branch, acts) in rule.branches.iter().map(|branch| &branch.acts).enumerate() {
                beside(rule, acts, variants, findings);
                // Of what undoes nothing there may be any number.
                let undoing = || acts.iter().filter(|act| undoes_something(&act.kind));
                if rule.branches[branch..]
                    .iter()
                    .any(|branch| branch.acts.iter().any(|act| undoes_something(&act.kind)))
                {
                    let taken = branches.next_taken(effort).flatten().map(Rc::new);
                    all.extend(undoing().map(|act| Done {
                        glob,
                        rule,
                        level,
                        branch,
                        act,
                        variants,
                        taken: taken.clone(),
                    }));
                }
            }
        }
    }
    all.sort_by_key(|done| done.act.at);
    all.iter().for_each(|done| moves_on(source, done, findings));
    let (mut left, mut looks_left) = (PAIRS_MAX, LOOKS_MAX);
    let mut rule_begins = 0;
    for (at, other) in all.iter().enumerate() {
        if !std::ptr::eq(all[rule_begins].rule, other.rule) {
            rule_begins = at;
        }
        // Only what leads on is undone by another branch of the same rule.
        let before = if leads_on(&other.act.kind) { at } else { rule_begins };
        looks_left = looks_left.saturating_sub(before);
        for one in &all[..before] {
            let why = undoes(one, other);
            left = left.saturating_sub(usize::from(why.is_some()));
            if left == 0 || looks_left == 0 || effort.is_used_up() {
                let what = "more pairs of rules could undo each other than are looked at: from here on they are not";
                return findings.doubt(other.act.at, what, "divide the policy");
            }
            let Some(why) = why else { continue };
            pair(one, other, &why, effort, findings);
        }
    }
}

fn leads_on(kind: &ActKind) -> bool {
    matches!(kind, ActKind::NextDown | ActKind::NextUp | ActKind::Grow { .. } | ActKind::Shrink { .. })
}

fn undoes_something(kind: &ActKind) -> bool {
    !matches!(kind, ActKind::Workers { .. } | ActKind::Shed(_) | ActKind::Stale(_) | ActKind::Alert(_))
}

/// Things that one branch does together undo each other at every firing.
fn beside(rule: &Rule, acts: &[Act], variants: &[Name], findings: &mut Findings<'_>) {
    let compared = &acts[..acts.len().min(BESIDE_MAX)];
    for (at, other) in compared.iter().enumerate() {
        if let Some(one) = compared[..at].iter().find(|one| undo(&one.kind, &other.kind, variants) != Undo::No) {
            let (does, undone) = (other.kind.word(), one.kind.word());
            let what = format!("`{does}` undoes the `{undone}` before it, as rule `{}` does both", rule.name.text);
            findings.wrong(other.at, what, "leave one of them away");
        }
    }
}

/// A session that goes to another node of a pool at each firing comes back to one that it has left.
fn moves_on(source: &Source, done: &Done<'_>, findings: &mut Findings<'_>) {
    let ActKind::Switch(Target::AnyOf(name)) = &done.act.kind else { return };
    // On the only node of a pool it stays.
    if source.pools.iter().any(|pool| pool.name == *name && pool.nodes.len() == 1) {
        return;
    }
    let stability = &done.rule.stability;
    if stability.until.is_some() || stability.hold_ms.is_some() {
        return;
    }
    let when = match done.rule.when {
        When::Every(every_ms) => format!("each {}", show_ms(every_ms)),
        _ => "at each tick".to_owned(),
    };
    let (rule, pool) = (&done.rule.name.text, &name.text);
    let what = format!("rule `{rule}` moves a session to and fro within pool `{pool}`, as it acts {when}");
    findings.wrong(done.act.at, what, "write until and a release threshold, or hold and a time");
}

/// Whether two things undo each other where both can be done; with words for why priorities do not help.
fn undoes(one: &Done<'_>, other: &Done<'_>) -> Option<String> {
    let is_same_rule = std::ptr::eq(one.rule, other.rule);
    if is_same_rule && one.branch == other.branch {
        return None;
    }
    let is_same_atom = one.glob == other.glob;
    match undo(&one.act.kind, &other.act.kind, one.variants) {
        Undo::No | Undo::Beside => None,
        Undo::Anywhere => Some(String::new()),
        Undo::ToAnAtom => is_same_atom.then(String::new),
        // On the same readings one rule takes the same branch.
        Undo::InRulesOfAnAtom if !is_same_atom || is_same_rule => None,
        Undo::InRulesOfAnAtom if one.rule.priority == other.rule.priority => Some(String::new()),
        // Of different priorities it is said which one counts: what it decided it keeps for as long as its condition holds.
        Undo::InRulesOfAnAtom if one.level == other.level => None,
        // Rules for each atom and those for all together know nothing of each other.
        Undo::InRulesOfAnAtom => {
            let first = if one.rule.priority > other.rule.priority { one } else { other };
            let name = &first.rule.name.text;
            Some(format!("; rule `{name}` does not come first, as the two are not looked at together"))
        }
    }
}

fn pair(one: &Done<'_>, other: &Done<'_>, why: &str, effort: &mut Effort, findings: &mut Findings<'_>) {
    let line = findings.line(one.act.at);
    let (a, b) = (&one.rule.name.text, &other.rule.name.text);
    let (does, undone) = (other.act.kind.word(), one.act.kind.word());
    let what = format!("`{does}` of rule `{b}` undoes `{undone}` of rule `{a}` (line {line})");
    let near = one.taken.as_ref().zip(other.taken.as_ref()).and_then(|(one, other)| nearest_pair(one, other, effort));
    let Some(near) = near else {
        return findings.wrong(
            other.act.at,
            format!("{what}, under conditions of too many alternatives"),
            "write them simpler",
        );
    };
    match near {
        None => {}
        Some(Near { lie: Lie::Touching, tests: Some((one, other)), .. }) => findings.wrong(
            other.at,
            format!("{what}, and no gap is between `{}` and `{}`{why}", one.text, other.text),
            "leave a gap, so that a value at the threshold does not do and undo",
        ),
        Some(Near { tests: Some((one, other)), .. }) => findings.wrong(
            other.at,
            format!("{what}, and both can hold: `{}` and `{}`{why}", one.text, other.text),
            "leave a gap between the two",
        ),
        Some(Near { tests: None, .. }) => findings.wrong(
            other.act.at,
            format!("{what}, and both can hold at once: they look at different things{why}"),
            "have both look at the same reading, with a gap between",
        ),
    }
}
