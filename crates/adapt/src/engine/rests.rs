//! What a caller tells of firings that another member made, or that were not carried out.

use super::intake::Engine;
use crate::policy::Rule;
use crate::reading::AtomId;
use crate::state::{Instance, Placement, State};

/// The firings of a rule that its limit counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Limited {
    /// The rule by name and line.
    pub(crate) rule: String,
    /// The path of the atom that it was evaluated for; none of a rule that is evaluated for all atoms together.
    pub(crate) atom: Option<String>,
    /// When it fired, the oldest first.
    pub(crate) fired_ms: Vec<u64>,
}

/// Why a firing for a session was not carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Undone {
    /// It has to wait for others: the rule fires again at the next tick, if its condition still holds.
    PutOff,
    /// It failed: the rule fires again after its cooldown.
    Failed,
}

impl Engine {
    /// A firing of session rules was not carried out: the session is here as before.
    pub(crate) fn undo(&self, state: &mut State, number: u64, why: Undone) {
        let now_ms = state.now_ms;
        let Some(slot) = state.session(number) else { return };
        let Some(session) = state.sessions[slot].as_mut() else { return };
        session.at = Placement { node: self.here, ..session.at };
        let Some(block) = state.atoms[session.atom.0 as usize].block else { return };
        let rules = &self.policy.blocks[block as usize].session_rules;
        for (instance, &rule) in session.instances.iter_mut().zip(rules) {
            take_back(&self.policy.rules[rule], instance, now_ms, why);
        }
    }

    /// A firing of a rule over pools at this tick has done nothing: its cooldown does not begin.
    pub(crate) fn undo_pool_rule(&self, state: &mut State, name: &str, line: usize) {
        let now_ms = state.now_ms;
        for (&rule, instance) in self.policy.own_rules.iter().zip(&mut state.own) {
            let rule = &self.policy.rules[rule];
            if rule.name == name && rule.line == line {
                take_back(rule, instance, now_ms, Undone::PutOff);
            }
        }
    }

    /// A session has just come from another node: the cooldown of its rules begins.
    pub(crate) fn rest_session(&self, state: &mut State, number: u64) {
        let now_ms = state.now_ms;
        let Some(slot) = state.session(number) else { return };
        let instances = state.sessions[slot].iter_mut().flat_map(|session| &mut session.instances);
        instances.for_each(|instance| instance.past().rest_ms = Some(now_ms));
    }

    /// Rules over pools, by name and line, and when each fired or was released last.
    pub(crate) fn pool_rests<'s>(&'s self, state: &'s State) -> impl Iterator<Item = (String, u64)> + 's {
        let rests = self.policy.own_rules.iter().zip(&state.own);
        rests.filter_map(|(&rule, instance)| {
            let rule = &self.policy.rules[rule];
            Some((name_of(rule), instance.rest_ms().filter(|_| is_over_pools(rule))?))
        })
    }

    /// What counts of the limits of rules, those first that are evaluated for all atoms together.
    pub(crate) fn limits<'s>(&'s self, state: &'s State) -> impl Iterator<Item = Limited> + 's {
        let own = self.policy.own_rules.iter().zip(&state.own).map(|(&rule, instance)| (rule, None, instance));
        let atoms = state.atoms.iter().flat_map(|atom| {
            let rules = atom.block.map_or(&[][..], |block| &self.policy.blocks[block as usize].atom_rules);
            rules.iter().zip(&atom.instances).map(|(&rule, instance)| (rule, Some(&atom.path), instance))
        });
        own.chain(atoms).filter_map(|(rule, atom, instance)| {
            let rule = &self.policy.rules[rule];
            let (_, per_ms) = rule.limit?;
            let counts = |at_ms: &u64| state.now_ms.saturating_sub(*at_ms) < per_ms;
            let fired_ms: Vec<u64> = instance.fired_ms().filter(counts).collect();
            let limited = Limited { rule: name_of(rule), atom: atom.cloned(), fired_ms };
            (!limited.fired_ms.is_empty()).then_some(limited)
        })
    }

    /// Whether a rule has a limit.
    pub(crate) fn is_limited(&self, name: &str, line: usize) -> bool {
        self.policy.rules.iter().any(|rule| rule.limit.is_some() && rule.name == name && rule.line == line)
    }

    /// Another director had a rule fire so often then: for an atom, or for all together. A rule that has no limit any
    /// more, or is for no such atom, counts nothing.
    pub(crate) fn count_firings(
        &self,
        state: &mut State,
        name: &str,
        atom: Option<AtomId>,
        (at_ms, count): (u64, u32),
    ) {
        let (rules, instances): (&[usize], &mut Vec<Instance>) = match atom {
            None => (&self.policy.own_rules, &mut state.own),
            Some(AtomId(number)) => {
                let Some(atom) = state.atoms.get_mut(number as usize) else { return };
                let Some(block) = atom.block else { return };
                (&self.policy.blocks[block as usize].atom_rules, &mut atom.instances)
            }
        };
        for (&rule, instance) in rules.iter().zip(instances) {
            let rule = &self.policy.rules[rule];
            if name_of(rule) == name {
                self::count(rule, instance, (at_ms, count));
            }
        }
    }

    /// Another director had each rule that has a limit and is evaluated for all atoms together fire so often by now.
    pub(crate) fn count_missed_firings(&self, state: &mut State, (at_ms, count): (u64, u32)) {
        for (&rule, instance) in self.policy.own_rules.iter().zip(&mut state.own) {
            self::count(&self.policy.rules[rule], instance, (at_ms, count));
        }
    }

    /// Another director had this rule fire, or be released, then; `None`: all rules over pools.
    pub(crate) fn rest_pool_rule(&self, state: &mut State, name: Option<&str>, at_ms: u64) {
        for (&rule, instance) in self.policy.own_rules.iter().zip(&mut state.own) {
            let rule = &self.policy.rules[rule];
            if is_over_pools(rule) && name.is_none_or(|name| name_of(rule) == name) {
                let past = instance.past();
                past.rest_ms = past.rest_ms.max(Some(at_ms));
            }
        }
    }
}

/// Counts firings of another member for the limit of a rule: no more than the limit forbids.
fn count(rule: &Rule, instance: &mut Instance, (at_ms, count): (u64, u32)) {
    let Some((times, _)) = rule.limit else { return };
    let fired = &mut instance.past().fired;
    fired.extend(std::iter::repeat_n(at_ms, times.min(count as usize)));
    fired.make_contiguous().sort_unstable();
    let beyond = fired.len().saturating_sub(times);
    fired.drain(..beyond);
}

/// A rule's name with its line: names are of one pattern only.
fn name_of(rule: &Rule) -> String {
    format!("{}:{}", rule.name, rule.line)
}

fn is_over_pools(rule: &Rule) -> bool {
    rule.branches.iter().any(|branch| branch.classes.pools != 0)
}

/// Takes the firing of this tick, or of one before it, back.
fn take_back(rule: &Rule, instance: &mut Instance, now_ms: u64, why: Undone) {
    let branch = instance.active().map(|(branch, _)| branch).or(instance.claimed());
    let Some(past) = instance.some_past() else { return };
    let fired_now = past.rest_ms == Some(now_ms);
    if past.active.is_none() && past.claimed.is_none() && !fired_now {
        return;
    }
    (past.active, past.claimed) = (None, None);
    if why == Undone::PutOff && fired_now {
        // It fired, so its cooldown was over and its condition had held for long enough.
        past.rest_ms = None;
        past.fired.pop_back();
        past.pending = branch.filter(|_| rule.for_ms > 0).map(|branch| (branch, now_ms.saturating_sub(rule.for_ms)));
        instance.due_ms = now_ms;
    }
}
