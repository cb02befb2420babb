//! What the director in duty decides for all: the nodes that are awake, and the copies of atoms.

use super::choosing::Choosing;
use super::intake::{AtomSeen, Intake, NodeSeen, RuleTimes};
use super::limits;
use super::reserve::Reserves;
use super::wished::{Heeded, Wish, Wished};
use crate::decision::{Decision, Order, Outcome, Subject};
use crate::engine::Engine;
use crate::forecast::Method;
use crate::policy::Policy;
use std::collections::{BTreeMap, BTreeSet};

/// How long a director that begins waits for what reserve nodes say of themselves, in milliseconds.
const SETTLE_MS: u64 = 10_000;
/// Bytes of the atoms, patterns and pools of which something is wished, at most: all of it is gossiped.
const WISHES_BYTES_MAX: usize = 12 << 10;
/// What the director before wished of atoms ends after this, in milliseconds, where no rule wishes it again.
const INHERITED_MS: u64 = 60_000;
/// Of one wish: two pools, a number, and what stands between.
const WISH_BYTES_MAX: usize = 600;
/// The name of the director in decisions: no node has it.
const DIRECTOR: &str = "@director";

/// A decision of the rules, and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Acted {
    /// The decision with its rule, readings and outcome.
    pub decision: Decision,
    /// What was done.
    pub done: Vec<Done>,
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Done {
    /// These nodes get new connections.
    Woken(Vec<String>),
    /// These get none any more, and give their sessions away.
    Drained(Vec<String>),
    /// Copies or nodes of an atom are wished: in words, which.
    Wished(String),
    /// They are wished no more.
    Ended(String),
    /// People are to be alerted.
    Alert(String),
    /// Nothing, and why.
    Nothing(&'static str),
}

/// The rules at the director in duty, for one epoch.
#[derive(Debug)]
pub struct DirectorRules {
    intake: Intake,
    reserves: Reserves,
    wished: Wished,
    begun_ms: Option<u64>,
    is_settled: bool,
    /// The epoch and number of the last word that was heard of the director before.
    heard: (u64, u64),
    /// Atoms of which the director before wished something, until a rule of this one does.
    inherited: BTreeSet<String>,
    /// Rules that fired and had nothing to do, by name and line.
    idle: BTreeSet<(String, usize)>,
    dropped: Dropped,
}

/// What had no room with a director's rules, at all ticks together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Wishes for atoms.
    pub wishes: u64,
    /// Atoms whose rates were not followed.
    pub atoms: u64,
    /// Firings of rules with a limit that the next director is not told of, each time that it is told.
    pub limits: u64,
}

impl Dropped {
    /// Those of both.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self { wishes: self.wishes + other.wishes, atoms: self.atoms + other.atoms, limits: self.limits + other.limits }
    }
}

impl DirectorRules {
    /// Begins an epoch at `now_ms`; `last` is what the director before has said last, as far as it was heard, and how many
    /// milliseconds ago. Its rules do not fire again before their cooldown, which goes on.
    pub fn new(
        policy: Policy,
        method: Method,
        times: RuleTimes,
        (epoch, now_ms): (u64, u64),
        last: Option<(&Wished, u64)>,
    ) -> Self {
        let mut reserves = Reserves::of(&policy);
        let mut intake = Intake::new(Engine::new(policy, DIRECTOR, method), DIRECTOR, times);
        let mut wished = Wished { epoch, ..Wished::default() };
        if let Some((last, age_ms)) = last {
            // Other rules within an epoch go on counting.
            wished.number = if last.epoch == epoch { last.number } else { 0 };
            reserves.go_on(last);
            wished.atoms.clone_from(&last.atoms);
            for (rule, fired_ms_ago) in &last.fired_ms_ago {
                let at_ms = now_ms.saturating_sub(age_ms.saturating_add(*fired_ms_ago));
                intake.engine.rest_pool_rule(&mut intake.state, Some(rule), at_ms);
            }
            limits::go_on(&mut intake, last, (now_ms, age_ms));
        }
        let inherited = wished.atoms.keys().cloned().collect();
        Self {
            intake,
            reserves,
            wished,
            begun_ms: None,
            is_settled: false,
            heard: last.map_or((0, 0), |(last, _)| (last.epoch, last.number)),
            inherited,
            idle: BTreeSet::new(),
            dropped: Dropped::default(),
        }
    }

    /// Evaluates the rules on what was heard, and decides.
    pub fn tick(&mut self, now_ms: u64, nodes: &[NodeSeen<'_>], atoms: &[AtomSeen<'_>]) -> Vec<Acted> {
        let begun_ms = *self.begun_ms.get_or_insert(now_ms);
        if !self.is_settled {
            self.settle(now_ms, nodes, now_ms.saturating_sub(begun_ms) >= SETTLE_MS);
        }
        let Self { intake, reserves, .. } = self;
        intake.take(now_ms, nodes, |node| !node.is_drained && reserves.receives(node), atoms);
        if !self.is_settled {
            return Vec::new();
        }
        self.reserves.hear(nodes, self.wished.epoch);
        let mut decisions = Vec::new();
        self.intake.engine.tick(now_ms, &[], &mut self.intake.state, &mut decisions);
        let before = (self.reserves.awake(), self.wished.atoms.clone());
        let acted: Vec<Acted> = decisions.into_iter().filter_map(|decision| self.act(decision, nodes)).collect();
        let acted = self.without_repeated(acted);
        if now_ms.saturating_sub(begun_ms) >= INHERITED_MS {
            for of in std::mem::take(&mut self.inherited) {
                self.wished.atoms.remove(&of);
            }
        }
        let counts = |acted: &Acted| {
            let Decision { rule, line, outcome, .. } = &acted.decision;
            outcome.is_fired() && self.intake.engine.is_limited(rule, *line)
        };
        if before.0 != self.reserves.awake() || before.1 != self.wished.atoms || acted.iter().any(counts) {
            self.say(now_ms);
        }
        acted
    }

    /// What is wished now.
    pub fn wished(&self) -> &Wished {
        &self.wished
    }

    /// Whether new connections may come to a node. Until it is known how the reserve stands they come as before: to
    /// reserve nodes that say that they are awake.
    pub fn receives(&self, node: &NodeSeen<'_>) -> bool {
        self.reserves.receives(node)
    }

    /// How new connections choose their node; none where no rule says so, or what it reads is unknown.
    pub fn choosing(&mut self) -> Option<Choosing> {
        Choosing::of(&mut self.intake)
    }

    /// What had no room.
    pub fn dropped(&self) -> Dropped {
        Dropped { atoms: self.intake.atoms_dropped, ..self.dropped }
    }

    /// The policy at work.
    pub fn policy(&self) -> &Policy {
        self.intake.engine.policy()
    }

    fn settle(&mut self, now_ms: u64, nodes: &[NodeSeen<'_>], is_late: bool) {
        self.is_settled = self.reserves.settle(nodes, is_late);
        if !self.is_settled {
            return;
        }
        // Nodes follow a word that was not heard here: what its director did may be a moment ago.
        let missed = |heeded: Heeded| heeded.epoch > 0 && (heeded.epoch, heeded.number) > self.heard;
        let newest = nodes.iter().filter_map(|node| node.heeded).filter(|heeded| missed(*heeded));
        if let Some(newest) = newest.max_by_key(|heeded| (heeded.epoch, heeded.number)) {
            let Intake { engine, state, .. } = &mut self.intake;
            engine.rest_pool_rule(state, None, now_ms);
            // Each word may be of a firing; how many there were in another epoch before is not known.
            let words = if newest.epoch == self.heard.0 { newest.number - self.heard.1 } else { 1 };
            engine.count_missed_firings(state, (now_ms, u32::try_from(words).unwrap_or(u32::MAX)));
        }
        self.say(now_ms);
    }

    /// Says the next word.
    fn say(&mut self, now_ms: u64) {
        let ago = |(rule, at_ms): (String, u64)| (rule, now_ms.saturating_sub(at_ms));
        self.wished.fired_ms_ago = self.intake.engine.pool_rests(&self.intake.state).map(ago).collect();
        let (limited, dropped) = limits::told(&self.intake, now_ms);
        self.wished.limited = limited;
        self.dropped.limits += dropped;
        self.wished.awake = self.reserves.awake();
        self.wished.number += 1;
    }

    /// Does what was decided; none of what is a node's to do, or of what has told its reason before.
    fn act(&mut self, decision: Decision, nodes: &[NodeSeen<'_>]) -> Option<Acted> {
        let (Subject::Atoms(of) | Subject::Atom(of)) = &decision.subject else { return None };
        let begins = match decision.outcome {
            Outcome::Fired => true,
            Outcome::Released | Outcome::Superseded => false,
            _ => return Some(Acted { decision, done: Vec::new() }),
        };
        let of = of.clone();
        let done = decision.orders.iter().map(|order| self.order(order, &of, begins, nodes)).collect();
        Some(Acted { decision, done })
    }

    /// Leaves out that a rule has nothing to do, where that was told before. Such a rule fires again as soon as there is
    /// something.
    fn without_repeated(&mut self, mut acted: Vec<Acted>) -> Vec<Acted> {
        acted.retain(|Acted { decision, done }| {
            let is_nothing = |done: &Done| matches!(done, Done::Nothing(_));
            if !decision.outcome.is_fired() || done.is_empty() {
                return true;
            }
            let rule = (decision.rule.clone(), decision.line);
            if !done.iter().all(is_nothing) {
                self.idle.remove(&rule);
                return true;
            }
            self.intake.engine.undo_pool_rule(&mut self.intake.state, &decision.rule, decision.line);
            self.idle.insert(rule)
        });
        acted
    }

    fn order(&mut self, order: &Order, of: &str, begins: bool, nodes: &[NodeSeen<'_>]) -> Done {
        let next = self.wished.number + 1;
        self.inherited.remove(of);
        match order {
            Order::Grow { pool, by } if begins => match self.reserves.grow(pool, *by, nodes) {
                none if none.is_empty() => Done::Nothing("no node of the pool is asleep and there"),
                woken => Done::Woken(woken),
            },
            Order::Shrink { pool, by } if begins => match self.reserves.shrink(pool, *by, next) {
                none if none.is_empty() => Done::Nothing("no node of the pool is awake"),
                drained => Done::Drained(drained),
            },
            Order::Replicate { copies, pool } => {
                let copies = Some((*copies, pool.clone())).filter(|_| begins);
                wish(&mut self.wished.atoms, of, &mut self.dropped.wishes, |wish| wish.copies = copies)
            }
            Order::Spread { pool } => {
                let pool = Some(pool.clone()).filter(|_| begins);
                wish(&mut self.wished.atoms, of, &mut self.dropped.wishes, |wish| wish.spread = pool)
            }
            Order::Alert { text } if begins => Done::Alert(text.clone()),
            // Growth lasts until it is taken back; the others are done by each server.
            _ => Done::Nothing("it ends by itself"),
        }
    }
}

/// Changes what is wished of an atom or a pattern.
fn wish(wishes: &mut BTreeMap<String, Wish>, of: &str, dropped: &mut u64, change: impl FnOnce(&mut Wish)) -> Done {
    let used: usize = wishes.iter().map(|(of, wish)| of.len() + wish.bytes()).sum();
    if !wishes.contains_key(of) && used + of.len() + WISH_BYTES_MAX > WISHES_BYTES_MAX {
        *dropped += 1;
        return Done::Nothing("too many atoms have wishes");
    }
    let mut wished = wishes.remove(of).unwrap_or_default();
    change(&mut wished);
    if wished.is_empty() {
        return Done::Ended(format!("what was wished of {of}"));
    }
    let copies = wished.copies.as_ref().map(|(copies, pool)| format!("{copies} copies on {pool}"));
    let spread = wished.spread.as_ref().map(|pool| format!("nodes of {pool}"));
    let words: Vec<String> = copies.into_iter().chain(spread).collect();
    wishes.insert(of.to_owned(), wished);
    Done::Wished(format!("{} for {of}", words.join(" and ")))
}
