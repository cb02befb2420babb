//! What a caller tells of firings that another member made, or that were not carried out.

use super::intake::Engine;
use crate::policy::Rule;
use crate::state::{Instance, Placement, State};

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
