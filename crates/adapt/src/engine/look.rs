//! One look at one rule for one subject: fires, waits, stays active or is released.

use super::evaluate::{Desk, Eye, Truth};
use super::orders::Orders;
use super::{Engine, TOLD_MAX};
use crate::decision::{Cited, Decision, Order, Outcome, Subject};
use crate::policy::{Classes, Rule};
use crate::reading::AtomId;
use crate::series::Unknown;
use crate::state::{InForce, Instance, Said, Seen, Standing, State};

/// Milliseconds that a tick may be early for a look.
const EARLY_MS_MAX: u64 = 50;

/// For whom a rule is looked at, with what it may change.
#[derive(Debug)]
pub(super) enum Whose<'w> {
    Block { in_force: &'w mut InForce },
    Atom { at: usize, in_force: &'w mut InForce },
    Session { number: u64, atom: AtomId, at: &'w mut Standing },
    Client { name: &'w str, in_force: &'w mut InForce },
}

/// A tick, or a start, on its way.
pub(super) struct Look<'l> {
    pub(super) engine: &'l Engine,
    pub(super) state: &'l mut State,
    decisions: &'l mut Vec<Decision>,
    /// Classes that are taken, of each block's own rules.
    pub(super) blocks_taken: Vec<u8>,
    told: usize,
}

/// What became of a look, if there is something to tell.
enum Told {
    Fired {
        branch: usize,
        orders: Vec<Order>,
    },
    Released {
        branch: usize,
    },
    /// With the classes that others have.
    Superseded {
        branch: usize,
        taken: Classes,
    },
    NotFired(Outcome, Said),
}

impl<'l> Look<'l> {
    pub(super) fn begin(engine: &'l Engine, state: &'l mut State, decisions: &'l mut Vec<Decision>) -> Self {
        state.desk.begin(engine.policy.metrics.len());
        let mut blocks_taken = std::mem::take(&mut state.desk.taken);
        blocks_taken.clear();
        blocks_taken.resize(engine.policy.blocks.len(), 0);
        Self { engine, state, decisions, blocks_taken, told: 0 }
    }

    /// Looks at a rule. `taken` are the classes that rules before it have decided, or hold.
    pub(super) fn rule(
        &mut self,
        number: usize,
        instance: &mut Instance,
        seen: &Seen,
        mut whose: Whose<'_>,
        taken: &mut Classes,
    ) {
        let rule = &self.engine.policy.rules[number];
        let told = match instance.active() {
            Some((branch, since_ms)) => self.active(rule, instance, seen, (branch as usize, since_ms), taken),
            None => self.at_rest(rule, instance, seen, &mut whose, taken),
        };
        match told {
            None => {}
            // Told when the reason changes, so that what lasts does not fill the log.
            Some(Told::NotFired(_, said)) if instance.said == said => {}
            // Clients come and go, and of each that is new too little is known for a while.
            Some(Told::NotFired(Outcome::Unknown { why: Unknown::Short { .. }, .. }, said))
                if matches!(whose, Whose::Client { .. }) =>
            {
                instance.said = said;
            }
            Some(Told::NotFired(outcome, said)) => {
                instance.said = said;
                if self.told < TOLD_MAX {
                    self.told += 1;
                    let readings = self.cited(rule, None, seen);
                    self.tell(rule, &whose, outcome, Vec::new(), readings);
                } else {
                    self.state.counts.untold += 1;
                }
            }
            Some(Told::Fired { branch, orders }) => {
                let readings = self.cited(rule, Some(branch), seen);
                self.tell(rule, &whose, Outcome::Fired, orders, readings);
            }
            Some(Told::Released { branch }) => {
                let orders = Orders::of(self.engine, self.state).ended(
                    &rule.branches[branch].acts,
                    Classes::default(),
                    &mut whose,
                );
                let mut readings = Vec::new();
                if let Some(until) = &rule.until {
                    self.eye(seen).cite(until, &mut readings);
                }
                self.tell(rule, &whose, Outcome::Released, orders, readings);
            }
            Some(Told::Superseded { branch, taken }) => {
                let orders = Orders::of(self.engine, self.state).ended(&rule.branches[branch].acts, taken, &mut whose);
                self.tell(rule, &whose, Outcome::Superseded, orders, Vec::new());
            }
        }
    }

    fn eye<'s>(&'s mut self, seen: &'s Seen) -> Eye<'s> {
        let State { now_ms, store, nodes, tracks, desk, .. } = &mut *self.state;
        Eye { engine: self.engine, now_ms: *now_ms, store, nodes, tracks, desk, seen, by: None }
    }

    /// A rule that has fired and was not released yet.
    fn active(
        &mut self,
        rule: &Rule,
        instance: &mut Instance,
        seen: &Seen,
        (branch, since_ms): (usize, u64),
        taken: &mut Classes,
    ) -> Option<Told> {
        let now_ms = self.state.now_ms;
        let classes = rule.branches[branch].classes;
        if classes.meets(*taken) {
            instance.past().rest(now_ms);
            return Some(Told::Superseded { branch, taken: *taken });
        }
        let held = rule.hold_ms.is_none_or(|hold_ms| now_ms - since_ms >= hold_ms);
        let may_end = held && rule.until.as_ref().is_none_or(|until| self.eye(seen).truth(until) == Truth::True);
        // A rule that is released while it still fires would fire again at once, and so on for as long as readings stay.
        if may_end && self.branch(rule, seen) != Ok(Some(branch)) {
            instance.past().rest(now_ms);
            return Some(Told::Released { branch });
        }
        *taken = taken.with(classes);
        None
    }

    /// A rule that is not active. One that has acted claims its classes until a look finds its condition false, also
    /// while its `every`, `for`, `cooldown` or `limit` has it wait: a rule of lower priority would undo what it did.
    fn at_rest(
        &mut self,
        rule: &Rule,
        instance: &mut Instance,
        seen: &Seen,
        whose: &mut Whose<'_>,
        taken: &mut Classes,
    ) -> Option<Told> {
        let before = *taken;
        let told = self.looked_at(rule, instance, seen, whose, taken);
        if let Some(branch) = instance.claimed() {
            let classes = rule.branches[branch as usize].classes;
            if classes.meets(before) {
                instance.claim(None);
            } else {
                *taken = taken.with(classes);
            }
        }
        told
    }

    /// Looks whether a rule that is not active fires.
    fn looked_at(
        &mut self,
        rule: &Rule,
        instance: &mut Instance,
        seen: &Seen,
        whose: &mut Whose<'_>,
        taken: &mut Classes,
    ) -> Option<Told> {
        let now_ms = self.state.now_ms;
        if now_ms < instance.due_ms {
            return None;
        }
        instance.due_ms = due_ms(rule, now_ms);
        let branch = match self.branch(rule, seen) {
            Ok(Some(branch)) => branch,
            Ok(None) => {
                instance.said = Said::Nothing;
                instance.forget_pending();
                instance.claim(None);
                return None;
            }
            Err((metric, why)) => {
                instance.forget_pending();
                instance.claim(None);
                let metric = self.engine.policy.metrics[metric].text.clone();
                return (instance.said != Said::Unknown)
                    .then_some(Told::NotFired(Outcome::Unknown { metric, why }, Said::Unknown));
            }
        };
        if instance.claimed().is_some_and(|claimed| claimed as usize != branch) {
            instance.claim(None);
        }
        if rule.for_ms > 0 {
            match instance.past().pending {
                Some((pending, since_ms)) if pending as usize == branch && now_ms - since_ms >= rule.for_ms => {}
                Some((pending, _)) if pending as usize == branch => return None,
                _ => {
                    instance.past().pending = Some((branch as u32, now_ms));
                    return None;
                }
            }
        }
        if let Some(past) = instance.some_past() {
            if past.rest_ms.is_some_and(|rest_ms| now_ms - rest_ms < rule.cooldown_ms) {
                return Some(Told::NotFired(Outcome::Cooling, Said::Cooling));
            }
            if let Some((times, per_ms)) = rule.limit {
                while past.fired.front().is_some_and(|fired_ms| now_ms - fired_ms >= per_ms) {
                    past.fired.pop_front();
                }
                if past.fired.len() >= times {
                    return Some(Told::NotFired(Outcome::Limited, Said::Limited));
                }
            }
        }
        let chosen = &rule.branches[branch];
        if chosen.classes.meets(*taken) {
            return Some(Told::NotFired(Outcome::Outranked, Said::Outranked));
        }
        let orders = match Orders::of(self.engine, self.state).given(&chosen.acts, whose) {
            Ok(orders) => orders,
            Err((by, why)) => {
                let metric = format!("{} of every node to choose from", by.name());
                return Some(Told::NotFired(Outcome::Unknown { metric, why }, Said::Unknown));
            }
        };
        let is_held = rule.keeps() && !matches!(whose, Whose::Session { .. });
        if orders.is_empty() && !is_held {
            // All of it is so already, but a rule of lower priority must still not undo it. A rule with a release fires
            // even so: from now on its release ends what is in force, even what another rule ordered.
            *taken = taken.with(chosen.classes);
            instance.said = Said::Nothing;
            if rule.claims_while_it_waits() {
                instance.claim(Some(branch as u32));
            }
            return None;
        }
        *taken = taken.with(chosen.classes);
        instance.said = Said::Nothing;
        instance.claim((!rule.keeps() && rule.claims_while_it_waits()).then_some(branch as u32));
        let past = instance.past();
        past.pending = None;
        past.rest_ms = Some(now_ms);
        if rule.limit.is_some() {
            past.fired.push_back(now_ms);
        }
        if rule.keeps() {
            past.active = Some((branch as u32, now_ms));
        }
        Some(Told::Fired { branch, orders })
    }

    /// The branch to take; `None` = none of them. With a condition that is unknown nothing behind it is looked at.
    fn branch(&mut self, rule: &Rule, seen: &Seen) -> Result<Option<usize>, (usize, Unknown)> {
        for (number, branch) in rule.branches.iter().enumerate() {
            match branch.condition.as_ref().map_or(Truth::True, |condition| self.eye(seen).truth(condition)) {
                Truth::True => return Ok(Some(number)),
                Truth::False => {}
                Truth::Unknown(metric, why) => return Err((metric, why)),
            }
        }
        Ok(None)
    }

    /// The tests that led to a branch: its own, and those of the branches before it; without one, all.
    fn cited(&mut self, rule: &Rule, branch: Option<usize>, seen: &Seen) -> Vec<Cited> {
        let mut cited = Vec::new();
        let last = branch.unwrap_or(rule.branches.len() - 1);
        for condition in rule.branches[..=last].iter().filter_map(|branch| branch.condition.as_ref()) {
            self.eye(seen).cite(condition, &mut cited);
        }
        cited
    }

    fn tell(&mut self, rule: &Rule, whose: &Whose<'_>, outcome: Outcome, orders: Vec<Order>, readings: Vec<Cited>) {
        self.state.decisions += 1;
        let path = |at: usize| self.state.atoms[at].path.clone();
        let glob = || self.engine.policy.blocks[rule.block].glob.text().to_owned();
        let subject = match whose {
            Whose::Block { .. } => Subject::Atoms(glob()),
            Whose::Client { name, .. } => Subject::Client { client: (*name).to_owned(), atoms: glob() },
            Whose::Atom { at, .. } => Subject::Atom(path(*at)),
            Whose::Session { number, atom, .. } => Subject::Session { number: *number, atom: path(atom.0 as usize) },
        };
        self.decisions.push(Decision {
            number: self.state.decisions,
            at_ms: self.state.now_ms,
            rule: rule.name.clone(),
            file: self.engine.policy.file.clone(),
            line: rule.line,
            subject,
            outcome,
            orders,
            readings,
        });
    }
}

/// When a rule is looked at next. Ticks of a clock come some milliseconds early or late: one that is early by little is
/// that of this look.
fn due_ms(rule: &Rule, now_ms: u64) -> u64 {
    now_ms.saturating_add(rule.every_ms - (rule.every_ms / 16).min(EARLY_MS_MAX))
}

impl Eye<'_> {
    /// Looks at the rules of a subject as far as nothing comes of it, which is nearly always all that there is: none is
    /// active or about to fire, and no condition holds. `false`: something may come of one, and they are to be looked at
    /// in their order; what was found out so far is the same then.
    pub(super) fn stays_at_rest(&mut self, rules: &[usize], instances: &mut [Instance]) -> bool {
        for (instance, &rule) in instances.iter_mut().zip(rules) {
            if !instance.is_idle() {
                return false;
            }
            if self.now_ms < instance.due_ms {
                continue;
            }
            let rule = &self.engine.policy.rules[rule];
            let mut conditions = rule.branches.iter().map(|branch| branch.condition.as_ref());
            if !conditions.all(|condition| condition.is_some_and(|condition| self.truth(condition) == Truth::False)) {
                return false;
            }
            instance.due_ms = due_ms(rule, self.now_ms);
        }
        true
    }
}

impl Drop for Look<'_> {
    /// The room for the blocks is used again.
    fn drop(&mut self) {
        self.state.desk.taken = std::mem::take(&mut self.blocks_taken);
    }
}

// What is computed in a tick is no part of what is remembered.
impl PartialEq for Desk {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
