//! Whether a rule keeps what it has decided for as long as the readings stay as they are.
//!
//! One of higher priority keeps others out of its classes only while it claims them. Where it lets go although nothing has
//! changed, a rule below it gets in, and is undone at its next firing.

use super::boxes::{Same, boxes, nearest_pair, taken};
use super::{Level, level};
use crate::language::show_ms;
use crate::language::syntax::{ActKind, Rule, Source, StabilityPlaces, Target, When};
use std::fmt;

/// What is decided, by what it is decided of: of each the first rule that fires wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class<'s> {
    Place,
    Variant,
    Copies,
    Spread,
    Shed,
    Stale,
    Pool(&'s str),
}

/// Why a rule does not keep its classes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LetsGo<'s> {
    /// Its `hold` is over.
    Hold,
    /// Its `until` can be true while it fires.
    Until,
    /// It looks each so many milliseconds only.
    Every(u64),
    /// A clause has it wait.
    Clause(&'static str),
    /// A rule before it takes its place now and then.
    Behind(&'s str),
}

impl fmt::Display for LetsGo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hold => write!(f, "lets go when its `hold` is over"),
            Self::Until => write!(f, "lets go by an `until` that can be true while its condition is"),
            Self::Every(every_ms) => write!(f, "looks each {} only and keeps nothing between", show_ms(*every_ms)),
            Self::Clause(word) => write!(f, "lets others in by its `{word}`"),
            Self::Behind(rule) => write!(f, "gives way to rule `{rule}` now and then"),
        }
    }
}

/// A rule with what tells whom it contends with.
#[derive(Debug)]
pub(super) struct Ruled<'s> {
    pub(super) glob: &'s str,
    pub(super) rule: &'s Rule,
    pub(super) level: Level,
    classes: Vec<Class<'s>>,
    /// `None`: not found out yet.
    lets_go: Option<Option<LetsGo<'s>>>,
}

/// The rules of a policy but for those at starts, in the order in which they are looked at.
#[derive(Debug)]
pub(super) struct Ranks<'s> {
    rules: Vec<Ruled<'s>>,
    pub(super) same: Same<'s>,
}

impl<'s> Ranks<'s> {
    pub(super) fn new(source: &'s Source) -> Self {
        let mut rules = Vec::new();
        for atom in &source.atoms {
            for rule in &atom.rules {
                let level = level(rule);
                let mut of_all = Vec::new();
                for act in rule.branches.iter().flat_map(|branch| &branch.acts) {
                    classes(&act.kind).into_iter().flatten().for_each(|class| {
                        if !of_all.contains(&class) {
                            of_all.push(class);
                        }
                    });
                }
                rules.push(Ruled { glob: &atom.glob.text, rule, level, classes: of_all, lets_go: None });
            }
        }
        rules.retain(|ruled| ruled.level != Level::Start);
        // Stable, so equal ones stay in the order of the file, as the engine has them.
        rules.sort_by_key(|ruled| std::cmp::Reverse(ruled.rule.priority));
        Self { rules, same: Same::Steady(&source.pools) }
    }

    /// All of them.
    pub(super) fn rules(&self) -> &[Ruled<'s>] {
        &self.rules
    }

    /// Why the rule of a rank does not keep its classes under readings that stay; `None` if it does. What is compared
    /// for it is taken from `left`, and with nothing left it counts as one that does.
    pub(super) fn lets_go(&mut self, rank: usize, left: &mut usize) -> Option<LetsGo<'s>> {
        if let Some(known) = &self.rules[rank].lets_go {
            return known.clone();
        }
        for at in 0..=rank {
            if self.rules[at].level != self.rules[rank].level || self.rules[at].lets_go.is_some() {
                continue;
            }
            let (before, behind) = self.rules.split_at(at);
            let ruled = &behind[0];
            let why = by_itself(ruled.rule, self.same).or_else(|| {
                let mut contending = before.iter().filter(|first| first.is_restless() && first.contends(ruled));
                contending.find_map(|first| {
                    *left = left.checked_sub(1)?;
                    both_fire(first.rule, ruled.rule, self.same).then(|| LetsGo::Behind(&first.rule.name.text))
                })
            });
            self.rules[at].lets_go = Some(why);
        }
        self.rules[rank].lets_go.clone().flatten()
    }
}

impl Ruled<'_> {
    /// Whether it claims its classes at some ticks and not at others. A rule for sessions that finds everything done is
    /// not active, whatever its `until`: it keeps others from undoing that by doing it again, and between two looks lets
    /// them do what it has nothing against.
    fn is_restless(&self) -> bool {
        let looks_seldom = self.level == Level::Session && matches!(self.rule.when, When::Every(_));
        looks_seldom || matches!(self.lets_go, Some(Some(_)))
    }

    /// Whether one can keep the other from firing, or take its place.
    fn contends(&self, other: &Self) -> bool {
        let shares = |class: &Class<'_>| {
            other.classes.contains(class) && (self.glob == other.glob || matches!(class, Class::Pool(_)))
        };
        self.level == other.level && self.classes.iter().any(shares)
    }
}

/// Why a rule that nobody contends with lets go of what it has decided.
fn by_itself<'s>(rule: &'s Rule, same: Same<'_>) -> Option<LetsGo<'s>> {
    let stability = &rule.stability;
    if let Some(until) = &stability.until {
        let released = boxes(until, true, same);
        let is_apart = released.is_some_and(|released| {
            (0..rule.branches.len()).all(|which| {
                let fired = taken(&rule.branches, which, same);
                fired.is_some_and(|fired| nearest_pair(&fired, &released).is_none())
            })
        });
        return (!is_apart).then_some(LetsGo::Until);
    }
    if stability.hold_ms.is_some() {
        return Some(LetsGo::Hold);
    }
    if let When::Every(every_ms) = rule.when {
        return Some(LetsGo::Every(every_ms));
    }
    // Without `until` and `hold` it claims its classes anew at each tick, unless a clause has it wait.
    let waits = StabilityPlaces::WORDS.iter().zip(stability.places.0).find(|(_, at)| at.is_some());
    waits.map(|(word, _)| LetsGo::Clause(word))
}

/// Whether two rules can fire on the same readings.
fn both_fire(one: &Rule, other: &Rule, same: Same<'_>) -> bool {
    let branches = |rule: &Rule| 0..rule.branches.len();
    branches(one).any(|first| {
        branches(other).any(|second| {
            let first = taken(&one.branches, first, same);
            let second = taken(&other.branches, second, same);
            first.zip(second).is_none_or(|(first, second)| nearest_pair(&first, &second).is_some())
        })
    })
}

fn classes(kind: &ActKind) -> [Option<Class<'_>>; 2] {
    let has_variant = |target: &Target| matches!(target, Target::Node { variant: Some(_), .. });
    let place = |with_variant: bool| [Some(Class::Place), with_variant.then_some(Class::Variant)];
    match kind {
        ActKind::Best { targets, .. } => place(targets.iter().any(has_variant)),
        ActKind::Switch(target) => place(has_variant(target)),
        ActKind::NextDown | ActKind::NextUp | ActKind::Use(_) => [Some(Class::Variant), None],
        ActKind::Replicate { .. } => [Some(Class::Copies), None],
        ActKind::Spread(_) => [Some(Class::Spread), None],
        ActKind::Grow { pool, .. } | ActKind::Shrink { pool, .. } => [Some(Class::Pool(&pool.text)), None],
        ActKind::Shed(_) => [Some(Class::Shed), None],
        ActKind::Stale(_) => [Some(Class::Stale), None],
        ActKind::Alert(_) => [None, None],
    }
}
