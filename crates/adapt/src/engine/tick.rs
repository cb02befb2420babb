//! Looks at the rules: at a tick, as a session starts, and when the link of a session was read.

use super::context::EvalContext;
use super::evaluation::Evaluation;
use super::intake::Engine;
use super::subject_mut::SubjectMut;
use crate::decision::Decision;
use crate::policy::Classes;
use crate::reading::Reading;
use crate::state::{InForce, Instance, Seen, State};

impl Engine {
    /// Decides for a session that has begun: where, and in which variant.
    pub fn start(&self, now_ms: u64, number: u64, state: &mut State, decisions: &mut Vec<Decision>) {
        state.now_ms = state.now_ms.max(now_ms);
        let Some(slot) = state.session(number) else { return };
        let mut evaluation = Evaluation::begin(self, state, decisions);
        let Some(mut session) = evaluation.state.sessions[slot].take() else { return };
        let atom = &evaluation.state.atoms[session.atom.0 as usize];
        if let Some(block) = atom.block {
            let seen = Seen::session(&session, &evaluation.state.atoms, &evaluation.state.clients);
            let mut taken = Classes::default();
            evaluation.state.scratch.next_subject();
            for &rule in &self.policy.blocks[block as usize].start_rules {
                let mut instance = std::mem::take(&mut evaluation.state.starts[rule]);
                let subject = SubjectMut::Session { number, atom: session.atom, at: &mut session.at };
                evaluation.rule(rule, &mut instance, &seen, subject, &mut taken);
                evaluation.state.starts[rule] = instance;
            }
        }
        evaluation.state.sessions[slot] = Some(session);
    }

    /// Looks at the rules of one session whose time has come, as a tick would. A caller that has just read the link of
    /// the session need not wait for the next tick. An unknown session is ignored.
    pub fn evaluate_session(&self, now_ms: u64, number: u64, state: &mut State, decisions: &mut Vec<Decision>) {
        state.now_ms = state.now_ms.max(now_ms);
        let Some(slot) = state.session(number) else { return };
        self.evaluate_slot(&mut Evaluation::begin(self, state, decisions), slot);
    }

    /// Takes readings and looks at every rule whose time has come. Decisions are added to the list, in the order in
    /// which they were made. A time before that of the last tick counts as that one.
    pub fn tick(&self, now_ms: u64, readings: &[Reading], state: &mut State, decisions: &mut Vec<Decision>) {
        self.read(now_ms, readings, state);
        let mut evaluation = Evaluation::begin(self, state, decisions);
        self.evaluate_own_rules(&mut evaluation);
        self.evaluate_atoms(&mut evaluation);
        self.evaluate_clients(&mut evaluation);
        self.evaluate_sessions(&mut evaluation);
    }

    /// Rules for all their atoms together, in their order across all patterns: they share the pools.
    fn evaluate_own_rules(&self, evaluation: &mut Evaluation<'_>) {
        let mut pools = 0;
        for at in 0..self.policy.own_rules.len() {
            let rule = self.policy.own_rules[at];
            let block = self.policy.rules[rule].block;
            let mut instance = std::mem::take(&mut evaluation.state.own[at]);
            let mut in_force = evaluation.state.blocks[block];
            let mut taken = Classes { own: evaluation.blocks_taken[block], pools };
            evaluation.rule(
                rule,
                &mut instance,
                &Seen::default(),
                SubjectMut::Block { in_force: &mut in_force },
                &mut taken,
            );
            (evaluation.blocks_taken[block], pools) = (taken.own, taken.pools);
            evaluation.state.own[at] = instance;
            evaluation.state.blocks[block] = in_force;
        }
    }

    fn evaluate_atoms(&self, evaluation: &mut Evaluation<'_>) {
        let now_ms = evaluation.state.now_ms;
        let mut due = std::mem::take(&mut evaluation.state.scratch.due);
        due.clear();
        // No evaluation of one atom changes when another is due.
        let numbered = evaluation.state.atoms_due_ms.iter().enumerate();
        due.extend(numbered.filter(|(_, due_ms)| **due_ms <= now_ms).map(|(at, _)| at as u32));
        for next in 0..due.len() {
            evaluation.state.expect_atoms(&due[next..]);
            let at = due[next] as usize;
            let State { atoms, store, nodes, tracks, scratch, .. } = &mut *evaluation.state;
            let atom = &mut atoms[at];
            // Those that no rule is for are never due.
            let Some(block) = atom.block else { continue };
            let rules = &self.policy.blocks[block as usize].atom_rules;
            scratch.next_subject();
            let seen = Seen::atom(at, atom);
            let mut context =
                EvalContext { engine: self, now_ms, store, nodes, tracks, scratch, seen: &seen, by: None };
            if !context.stays_at_rest(rules, &mut atom.instances) {
                self.evaluate_atom(evaluation, at, rules, &seen);
            }
            let until_ms = |instance: &Instance| if instance.active().is_some() { 0 } else { instance.due_ms };
            let due_ms = evaluation.state.atoms[at].instances.iter().map(until_ms).min();
            evaluation.state.atoms_due_ms[at] = due_ms.unwrap_or(u64::MAX);
        }
        evaluation.state.scratch.due = due;
    }

    fn evaluate_atom(&self, evaluation: &mut Evaluation<'_>, at: usize, rules: &[usize], seen: &Seen) {
        let atom = &mut evaluation.state.atoms[at];
        let mut instances = std::mem::take(&mut atom.instances);
        let mut in_force: InForce = atom.in_force;
        let mut taken = Classes::default();
        for (instance, &rule) in instances.iter_mut().zip(rules) {
            evaluation.rule(rule, instance, seen, SubjectMut::Atom { at, in_force: &mut in_force }, &mut taken);
        }
        evaluation.state.atoms[at].instances = instances;
        evaluation.state.atoms[at].in_force = in_force;
    }

    fn evaluate_clients(&self, evaluation: &mut Evaluation<'_>) {
        if self.policy.client_blocks.is_empty() {
            return;
        }
        // No rule for a client looks at other clients.
        let mut clients = std::mem::take(&mut evaluation.state.clients);
        for client in clients.values_mut() {
            let seen = Seen::client(client);
            evaluation.state.scratch.next_subject();
            for (part, &block) in client.parts.iter_mut().zip(&self.policy.client_blocks) {
                let rules = &self.policy.blocks[block].client_rules;
                let State { now_ms, store, nodes, tracks, scratch, .. } = &mut *evaluation.state;
                let mut context =
                    EvalContext { engine: self, now_ms: *now_ms, store, nodes, tracks, scratch, seen: &seen, by: None };
                if context.stays_at_rest(rules, &mut part.instances) {
                    continue;
                }
                let mut taken = Classes::default();
                for (instance, &rule) in part.instances.iter_mut().zip(rules) {
                    let subject = SubjectMut::Client { name: &client.name, in_force: &mut part.in_force };
                    evaluation.rule(rule, instance, &seen, subject, &mut taken);
                }
            }
        }
        evaluation.state.clients = clients;
    }

    fn evaluate_sessions(&self, evaluation: &mut Evaluation<'_>) {
        for slot in 0..evaluation.state.sessions.len() {
            evaluation.state.expect_sessions(slot);
            self.evaluate_slot(evaluation, slot);
        }
    }

    fn evaluate_slot(&self, evaluation: &mut Evaluation<'_>, slot: usize) {
        let State { now_ms, sessions, atoms, clients, store, nodes, tracks, scratch, .. } = &mut *evaluation.state;
        let Some(session) = sessions[slot].as_mut().filter(|session| !session.instances.is_empty()) else { return };
        scratch.next_subject();
        let Some(block) = atoms[session.atom.0 as usize].block else { return };
        let rules = &self.policy.blocks[block as usize].session_rules;
        let seen = Seen::session(session, atoms, clients);
        let mut context =
            EvalContext { engine: self, now_ms: *now_ms, store, nodes, tracks, scratch, seen: &seen, by: None };
        if !context.stays_at_rest(rules, &mut session.instances) {
            self.evaluate_session_rules(evaluation, slot, rules, &seen);
        }
    }

    fn evaluate_session_rules(&self, evaluation: &mut Evaluation<'_>, slot: usize, rules: &[usize], seen: &Seen) {
        let Some(mut session) = evaluation.state.sessions[slot].take() else { return };
        let mut taken = Classes::default();
        for (instance, &rule) in session.instances.iter_mut().zip(rules) {
            let subject = SubjectMut::Session { number: session.number, atom: session.atom, at: &mut session.at };
            evaluation.rule(rule, instance, seen, subject, &mut taken);
        }
        evaluation.state.sessions[slot] = Some(session);
    }
}
