//! One evaluation of one rule for one subject: the rule fires, waits, stays active or is released.

use super::context::{EvalContext, Truth};
use super::intake::Engine;
use super::orders::Orders;
use super::subject_mut::SubjectMut;
use crate::decision::{Cited, Decision, Order, Outcome, Subject};
use crate::policy::{Classes, Rule};
use crate::series::Unknown;
use crate::state::{Instance, Said, Seen, State};

/// Firings that were not decisions and are told in a tick; more are counted.
const TOLD_MAX: usize = 256;
/// Milliseconds that a tick may be early for an evaluation.
const EARLY_MS_MAX: u64 = 50;

/// A tick, or a start, on its way.
pub(super) struct Evaluation<'l> {
    pub(super) engine: &'l Engine,
    pub(super) state: &'l mut State,
    decisions: &'l mut Vec<Decision>,
    /// Classes that are taken, of each block's own rules.
    pub(super) blocks_taken: Vec<u8>,
    told: usize,
}

/// What became of an evaluation, if there is something to tell.
enum RuleEvent {
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

impl<'l> Evaluation<'l> {
    pub(super) fn begin(engine: &'l Engine, state: &'l mut State, decisions: &'l mut Vec<Decision>) -> Self {
        state.scratch.begin(engine.policy.metrics.len());
        let mut blocks_taken = std::mem::take(&mut state.scratch.taken);
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
        mut subject: SubjectMut<'_>,
        taken: &mut Classes,
    ) {
        let rule = &self.engine.policy.rules[number];
        let told = match instance.active() {
            Some((branch, since_ms)) => self.active(rule, instance, seen, (branch as usize, since_ms), taken),
            None => self.at_rest(rule, instance, seen, &mut subject, taken),
        };
        match told {
            None => {}
            // Told when the reason changes, so that what lasts does not fill the log.
            Some(RuleEvent::NotFired(_, said)) if instance.said == said => {}
            // Clients come and go, and of each that is new too little is known for a while.
            Some(RuleEvent::NotFired(Outcome::Unknown { why: Unknown::Short { .. }, .. }, said))
                if matches!(subject, SubjectMut::Client { .. }) =>
            {
                instance.said = said;
            }
            Some(RuleEvent::NotFired(outcome, said)) => {
                instance.said = said;
                if self.told < TOLD_MAX {
                    self.told += 1;
                    let readings = self.cited(rule, None, seen);
                    self.tell(rule, &subject, outcome, Vec::new(), readings);
                } else {
                    self.state.counts.untold += 1;
                }
            }
            Some(RuleEvent::Fired { branch, orders }) => {
                let readings = self.cited(rule, Some(branch), seen);
                self.tell(rule, &subject, Outcome::Fired, orders, readings);
            }
            Some(RuleEvent::Released { branch }) => {
                let orders = Orders::of(self.engine, self.state).ended(
                    &rule.branches[branch].acts,
                    Classes::default(),
                    &mut subject,
                );
                let mut readings = Vec::new();
                if let Some(until) = &rule.until {
                    self.context(seen).cite(until, &mut readings);
                }
                self.tell(rule, &subject, Outcome::Released, orders, readings);
            }
            Some(RuleEvent::Superseded { branch, taken }) => {
                let orders =
                    Orders::of(self.engine, self.state).ended(&rule.branches[branch].acts, taken, &mut subject);
                self.tell(rule, &subject, Outcome::Superseded, orders, Vec::new());
            }
        }
    }

    fn context<'s>(&'s mut self, seen: &'s Seen) -> EvalContext<'s> {
        let State { now_ms, store, nodes, tracks, scratch, .. } = &mut *self.state;
        EvalContext { engine: self.engine, now_ms: *now_ms, store, nodes, tracks, scratch, seen, by: None }
    }

    /// A rule that has fired and was not released yet.
    fn active(
        &mut self,
        rule: &Rule,
        instance: &mut Instance,
        seen: &Seen,
        (branch, since_ms): (usize, u64),
        taken: &mut Classes,
    ) -> Option<RuleEvent> {
        let now_ms = self.state.now_ms;
        let classes = rule.branches[branch].classes;
        if classes.meets(*taken) {
            instance.past().rest(now_ms);
            return Some(RuleEvent::Superseded { branch, taken: *taken });
        }
        let held = rule.hold_ms.is_none_or(|hold_ms| now_ms - since_ms >= hold_ms);
        let may_end = held && rule.until.as_ref().is_none_or(|until| self.context(seen).truth(until) == Truth::True);
        // A rule that is released while it still fires would fire again at once, and so on for as long as readings stay.
        if may_end && self.branch(rule, seen) != Ok(Some(branch)) {
            instance.past().rest(now_ms);
            return Some(RuleEvent::Released { branch });
        }
        *taken = taken.with(classes);
        None
    }

    /// A rule that is not active. One that has acted claims its classes until an evaluation finds its condition false, also
    /// while its `every`, `for`, `cooldown` or `limit` has it wait: a rule of lower priority would undo what it did.
    fn at_rest(
        &mut self,
        rule: &Rule,
        instance: &mut Instance,
        seen: &Seen,
        subject: &mut SubjectMut<'_>,
        taken: &mut Classes,
    ) -> Option<RuleEvent> {
        let before = *taken;
        let told = self.looked_at(rule, instance, seen, subject, taken);
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
        subject: &mut SubjectMut<'_>,
        taken: &mut Classes,
    ) -> Option<RuleEvent> {
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
                    .then_some(RuleEvent::NotFired(Outcome::Unknown { metric, why }, Said::Unknown));
            }
        };
        if instance.claimed().is_some_and(|claimed| claimed as usize != branch) {
            instance.claim(None);
        }
        if is_pending(rule, instance, branch, now_ms) {
            return None;
        }
        if let Some(event) = held_back(rule, instance, now_ms) {
            return Some(event);
        }
        let chosen = &rule.branches[branch];
        if chosen.classes.meets(*taken) {
            return Some(RuleEvent::NotFired(Outcome::Outranked, Said::Outranked));
        }
        let orders = match Orders::of(self.engine, self.state).given(&chosen.acts, subject) {
            Ok(orders) => orders,
            Err((by, why)) => {
                let metric = format!("{} of every node to choose from", by.name());
                return Some(RuleEvent::NotFired(Outcome::Unknown { metric, why }, Said::Unknown));
            }
        };
        let is_held = rule.keeps() && !matches!(subject, SubjectMut::Session { .. });
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
        fire(rule, instance, branch, now_ms);
        Some(RuleEvent::Fired { branch, orders })
    }

    /// The branch to take; `None` = none of them. With a condition that is unknown nothing behind it is looked at.
    pub(super) fn branch(&mut self, rule: &Rule, seen: &Seen) -> Result<Option<usize>, (usize, Unknown)> {
        for (number, branch) in rule.branches.iter().enumerate() {
            match branch.condition.as_ref().map_or(Truth::True, |condition| self.context(seen).truth(condition)) {
                Truth::True => return Ok(Some(number)),
                Truth::False => {}
                Truth::Unknown(metric, why) => return Err((metric, why)),
            }
        }
        Ok(None)
    }

    /// The tests that led to a branch: its own, and those of the branches before it; without one, all.
    pub(super) fn cited(&mut self, rule: &Rule, branch: Option<usize>, seen: &Seen) -> Vec<Cited> {
        let mut cited = Vec::new();
        let last = branch.unwrap_or(rule.branches.len() - 1);
        for condition in rule.branches[..=last].iter().filter_map(|branch| branch.condition.as_ref()) {
            self.context(seen).cite(condition, &mut cited);
        }
        cited
    }

    fn tell(
        &mut self,
        rule: &Rule,
        subject: &SubjectMut<'_>,
        outcome: Outcome,
        orders: Vec<Order>,
        readings: Vec<Cited>,
    ) {
        self.state.decisions += 1;
        let path = |at: usize| self.state.atoms[at].path.clone();
        let glob = || self.engine.policy.blocks[rule.block].glob.text().to_owned();
        let subject = match subject {
            SubjectMut::Block { .. } => Subject::Atoms(glob()),
            SubjectMut::Client { name, .. } => Subject::Client { client: (*name).to_owned(), atoms: glob() },
            SubjectMut::Atom { at, .. } => Subject::Atom(path(*at)),
            SubjectMut::Session { number, atom, .. } => {
                Subject::Session { number: *number, atom: path(atom.0 as usize) }
            }
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

/// Whether a branch whose condition holds has not held for as long as `for` says.
fn is_pending(rule: &Rule, instance: &mut Instance, branch: usize, now_ms: u64) -> bool {
    if rule.for_ms == 0 {
        return false;
    }
    match instance.past().pending {
        Some((pending, since_ms)) if pending as usize == branch => now_ms - since_ms < rule.for_ms,
        _ => {
            instance.past().pending = Some((branch as u32, now_ms));
            true
        }
    }
}

/// What keeps a rule from firing that would: its `cooldown`, or its `limit`.
fn held_back(rule: &Rule, instance: &mut Instance, now_ms: u64) -> Option<RuleEvent> {
    let past = instance.some_past()?;
    if past.rest_ms.is_some_and(|rest_ms| now_ms - rest_ms < rule.cooldown_ms) {
        return Some(RuleEvent::NotFired(Outcome::Cooling, Said::Cooling));
    }
    let (times, per_ms) = rule.limit?;
    while past.fired.front().is_some_and(|fired_ms| now_ms - fired_ms >= per_ms) {
        past.fired.pop_front();
    }
    (past.fired.len() >= times).then_some(RuleEvent::NotFired(Outcome::Limited, Said::Limited))
}

/// Notes that a rule fires.
fn fire(rule: &Rule, instance: &mut Instance, branch: usize, now_ms: u64) {
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
}

/// When a rule is looked at next. Ticks of a clock come some milliseconds early or late: one that is early by little is
/// that of this evaluation.
fn due_ms(rule: &Rule, now_ms: u64) -> u64 {
    now_ms.saturating_add(rule.every_ms - (rule.every_ms / 16).min(EARLY_MS_MAX))
}

impl EvalContext<'_> {
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

impl Drop for Evaluation<'_> {
    /// The room for the blocks is used again.
    fn drop(&mut self) {
        self.state.scratch.taken = std::mem::take(&mut self.blocks_taken);
    }
}
