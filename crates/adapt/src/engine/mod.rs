//! The evaluator: a policy and readings in, decisions out. It owns no clock: the same times and readings lead to the
//! same decisions, live or replayed.
//!
//! A rule's life with one subject (a session, an atom, or all atoms of a pattern together):
//!
//! ```text
//!            condition true            true for as long as `for` says, no limit in the way
//!   at rest ---------------> pending ------------------------------------------------------> fires
//!      ^                        |                                                              |
//!      |<-- false or unknown ---+                 without `until` and `hold`: at rest again <--+
//!      |                                                                                       |
//!      +<-- released: `hold` is over and `until` is true --------------------- active <--------+
//!      +<-- superseded: a rule of higher priority fires in its class
//! ```

mod contests;
mod evaluate;
mod handed;
mod look;
mod orders;
mod shown;

use crate::decision::Decision;
use crate::forecast::{Errors, Method};
use crate::policy::{Classes, Policy};
use crate::reading::{AtomId, ClientId, NodeId, Reading, Resource, Where};
use crate::state::{InForce, Instance, Part, Seen, Standing, State};
pub use contests::{CONTESTS_MAX, Contested, Contests};
pub(crate) use evaluate::Desk;
use evaluate::Eye;
use look::{Look, Whose};
pub use shown::{Active, ForecastNow};

/// Firings that were not decisions and are told in a tick; more are counted.
const TOLD_MAX: usize = 256;

/// A policy at work at one node.
#[derive(Debug, Clone)]
pub struct Engine {
    policy: Policy,
    here: NodeId,
    method: Method,
    /// All nodes of all pools; without pools, this one.
    all: Vec<NodeId>,
    /// How far back rules ask, by place and resource.
    windows: [[Option<u64>; Resource::ALL.len()]; Where::ALL.len()],
}

/// Errors of the forecasts of a metric.
#[derive(Debug, Clone, PartialEq)]
pub struct ForecastErrors {
    /// The metric as the policy has it.
    pub metric: String,
    /// What its values measure.
    pub resource: Resource,
    /// Of all its places together.
    pub errors: Errors,
}

impl Engine {
    /// For the node that it runs at, by the name that pools have for it.
    pub fn new(policy: Policy, here: &str, method: Method) -> Self {
        let mut all: Vec<NodeId> = policy.pools.iter().flat_map(|pool| pool.nodes.iter().copied()).collect();
        all.sort();
        all.dedup();
        let known = policy.nodes.iter().position(|name| name == here);
        // One that no pool has comes behind those of the policy.
        let here = NodeId(known.unwrap_or(policy.nodes.len()) as u32);
        if all.is_empty() {
            all.push(here);
        }
        let windows = Where::ALL.map(|place| Resource::ALL.map(|resource| policy.window_ms(resource, place)));
        Self { policy, here, method, all, windows }
    }

    /// The policy at work.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// A state in which nothing has been seen. `here` is the name given to [`Engine::new`].
    pub fn state(&self, here: &str) -> State {
        let policy = &self.policy;
        let mut state = State::new(policy.fingerprint, policy.own_rules.len(), policy.rules.len(), policy.blocks.len());
        for name in policy.nodes.iter().map(String::as_str).chain([here]) {
            state.node(name);
        }
        state
    }

    /// Whether a state that was written down is one of this engine's policy.
    pub fn fits(&self, state: &State) -> bool {
        state.fingerprint == self.policy.fingerprint && state.nodes.len() > self.here.0 as usize
    }

    /// The number of a node for its readings; `None` if there are too many (2,048).
    pub fn node(&self, state: &mut State, name: &str) -> Option<NodeId> {
        state.node(name)
    }

    /// Says whether a node can be used. One that cannot is no target, and pools and `@all` are what they are without
    /// it; its readings need not be waited for.
    pub fn node_is_up(&self, state: &mut State, node: NodeId, up: bool) {
        if let Some(node) = state.nodes.get_mut(node.0 as usize) {
            node.down = !up;
        }
    }

    /// The number of an atom for its readings and sessions; `None` if there are too many (65,536).
    pub fn atom(&self, state: &mut State, path: &str) -> Option<AtomId> {
        let (id, is_new) = state.atom(path)?;
        if is_new {
            let block = self.policy.block_of(path);
            let now_ms = state.now_ms;
            let atom = &mut state.atoms[id.0 as usize];
            atom.block = block.map(|block| block as u32);
            // Atoms are looked at one after the other, not all in the same tick each five seconds.
            let turn = u64::from(id.0).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
            let instance = |&rule: &usize| {
                let later_ms = turn % self.policy.rules[rule].every_ms.max(1);
                Instance::due_at(now_ms.saturating_add(later_ms))
            };
            let rules = block.map_or(&[][..], |block| &self.policy.blocks[block].atom_rules);
            atom.instances = rules.iter().map(instance).collect();
            if !rules.is_empty() {
                state.atoms_due_ms[id.0 as usize] = 0;
            }
        }
        Some(id)
    }

    /// Whether there is an atom of this path.
    pub fn knows_atom(&self, state: &State, path: &str) -> bool {
        state.known_atom(path).is_some()
    }

    /// Forgets an atom and its readings, so that there is room for another one. `false`: none of this path is known, or a
    /// rule is active for it, or a session is of it.
    pub fn forget_atom(&self, state: &mut State, path: &str) -> bool {
        state.forget_atom(path)
    }

    /// The number of a client for its readings and sessions; `None` if there are too many (4,096).
    pub fn client(&self, state: &mut State, name: &str) -> Option<ClientId> {
        state.client(name, || {
            let blocks = self.policy.client_blocks.iter().map(|&block| &self.policy.blocks[block]);
            let part =
                |rules: usize| Part { instances: vec![Instance::default(); rules], in_force: InForce::default() };
            blocks.map(|block| part(block.client_rules.len())).collect()
        })
    }

    /// Forgets a client and its readings, so that there is room for another one. `false`: no client of this name is
    /// known, or a rule is active for it, whose orders would then never end.
    pub fn forget_client(&self, state: &mut State, name: &str) -> bool {
        state.forget_client(name)
    }

    /// A session of an atom begins, served here and in the best variant. `false`: the number is in use, or there are
    /// too many (65,536). Then come its readings ([`Engine::read`]), then [`Engine::start`].
    pub fn begin(&self, state: &mut State, number: u64, atom: AtomId) -> bool {
        self.begin_of(state, number, atom, None)
    }

    /// The same of a session whose client is known: rules for sessions read that one's readings, too.
    pub fn begin_of(&self, state: &mut State, number: u64, atom: AtomId, client: Option<ClientId>) -> bool {
        let Some(block) = state.atoms.get(atom.0 as usize).map(|atom| atom.block) else { return false };
        let rules = block.map_or(0, |block| self.policy.blocks[block as usize].session_rules.len());
        state.begin(number, (atom, client), rules, Standing { node: self.here, variant: 0 })
    }

    /// A session is over, or has gone to another node.
    pub fn end(&self, state: &mut State, number: u64) {
        state.end(number);
    }

    /// Takes readings. It counts and skips those of the future, of an unknown subject, or without sense.
    pub fn read(&self, now_ms: u64, readings: &[Reading], state: &mut State) {
        state.now_ms = state.now_ms.max(now_ms);
        let now_ms = state.now_ms;
        for reading in readings {
            state.take(reading, now_ms, self.method, |resource, place| self.windows[place as usize][resource.index()]);
        }
    }

    /// Decides for a session that has begun: where, and in which variant.
    pub fn start(&self, now_ms: u64, number: u64, state: &mut State, decisions: &mut Vec<Decision>) {
        state.now_ms = state.now_ms.max(now_ms);
        let Some(slot) = state.session(number) else { return };
        let mut look = Look::begin(self, state, decisions);
        let Some(mut session) = look.state.sessions[slot].take() else { return };
        let atom = &look.state.atoms[session.atom.0 as usize];
        if let Some(block) = atom.block {
            let seen = Seen::session(&session, &look.state.atoms, &look.state.clients);
            let mut taken = Classes::default();
            look.state.desk.subject();
            for &rule in &self.policy.blocks[block as usize].start_rules {
                let mut instance = std::mem::take(&mut look.state.starts[rule]);
                let whose = Whose::Session { number, atom: session.atom, at: &mut session.at };
                look.rule(rule, &mut instance, &seen, whose, &mut taken);
                look.state.starts[rule] = instance;
            }
        }
        look.state.sessions[slot] = Some(session);
    }

    /// Looks at the rules of one session whose time has come, as a tick would. A caller that has just read the link of
    /// the session need not wait for the next tick. An unknown session is ignored.
    pub fn look(&self, now_ms: u64, number: u64, state: &mut State, decisions: &mut Vec<Decision>) {
        state.now_ms = state.now_ms.max(now_ms);
        let Some(slot) = state.session(number) else { return };
        self.look_at_slot(&mut Look::begin(self, state, decisions), slot);
    }

    /// Takes readings and looks at every rule whose time has come. Decisions are added to the list, in the order in
    /// which they were made. A time before that of the last tick counts as that one.
    pub fn tick(&self, now_ms: u64, readings: &[Reading], state: &mut State, decisions: &mut Vec<Decision>) {
        self.read(now_ms, readings, state);
        let mut look = Look::begin(self, state, decisions);
        self.look_at_own(&mut look);
        self.look_at_atoms(&mut look);
        self.look_at_clients(&mut look);
        self.look_at_sessions(&mut look);
    }

    /// Rules for all their atoms together, in their order across all patterns: they share the pools.
    fn look_at_own(&self, look: &mut Look<'_>) {
        let mut pools = 0;
        for at in 0..self.policy.own_rules.len() {
            let rule = self.policy.own_rules[at];
            let block = self.policy.rules[rule].block;
            let mut instance = std::mem::take(&mut look.state.own[at]);
            let mut in_force = look.state.blocks[block];
            let mut taken = Classes { own: look.blocks_taken[block], pools };
            look.rule(rule, &mut instance, &Seen::default(), Whose::Block { in_force: &mut in_force }, &mut taken);
            (look.blocks_taken[block], pools) = (taken.own, taken.pools);
            look.state.own[at] = instance;
            look.state.blocks[block] = in_force;
        }
    }

    fn look_at_atoms(&self, look: &mut Look<'_>) {
        let now_ms = look.state.now_ms;
        let mut due = std::mem::take(&mut look.state.desk.due);
        due.clear();
        // No look at one atom changes when another is due.
        let numbered = look.state.atoms_due_ms.iter().enumerate();
        due.extend(numbered.filter(|(_, due_ms)| **due_ms <= now_ms).map(|(at, _)| at as u32));
        for next in 0..due.len() {
            look.state.expect_atoms(&due[next..]);
            let at = due[next] as usize;
            let State { atoms, store, nodes, tracks, desk, .. } = &mut *look.state;
            let atom = &mut atoms[at];
            // Those that no rule is for are never due.
            let Some(block) = atom.block else { continue };
            let rules = &self.policy.blocks[block as usize].atom_rules;
            desk.subject();
            let seen = Seen::atom(at, atom);
            let mut eye = Eye { engine: self, now_ms, store, nodes, tracks, desk, seen: &seen, by: None };
            if !eye.stays_at_rest(rules, &mut atom.instances) {
                self.look_at_atom(look, at, rules, &seen);
            }
            let until_ms = |instance: &Instance| if instance.active().is_some() { 0 } else { instance.due_ms };
            let due_ms = look.state.atoms[at].instances.iter().map(until_ms).min();
            look.state.atoms_due_ms[at] = due_ms.unwrap_or(u64::MAX);
        }
        look.state.desk.due = due;
    }

    fn look_at_atom(&self, look: &mut Look<'_>, at: usize, rules: &[usize], seen: &Seen) {
        let atom = &mut look.state.atoms[at];
        let mut instances = std::mem::take(&mut atom.instances);
        let mut in_force: InForce = atom.in_force;
        let mut taken = Classes::default();
        for (instance, &rule) in instances.iter_mut().zip(rules) {
            look.rule(rule, instance, seen, Whose::Atom { at, in_force: &mut in_force }, &mut taken);
        }
        look.state.atoms[at].instances = instances;
        look.state.atoms[at].in_force = in_force;
    }

    fn look_at_clients(&self, look: &mut Look<'_>) {
        if self.policy.client_blocks.is_empty() {
            return;
        }
        // No rule for a client looks at other clients.
        let mut clients = std::mem::take(&mut look.state.clients);
        for client in clients.values_mut() {
            let seen = Seen::client(client);
            look.state.desk.subject();
            for (part, &block) in client.parts.iter_mut().zip(&self.policy.client_blocks) {
                let rules = &self.policy.blocks[block].client_rules;
                let State { now_ms, store, nodes, tracks, desk, .. } = &mut *look.state;
                let mut eye = Eye { engine: self, now_ms: *now_ms, store, nodes, tracks, desk, seen: &seen, by: None };
                if eye.stays_at_rest(rules, &mut part.instances) {
                    continue;
                }
                let mut taken = Classes::default();
                for (instance, &rule) in part.instances.iter_mut().zip(rules) {
                    let whose = Whose::Client { name: &client.name, in_force: &mut part.in_force };
                    look.rule(rule, instance, &seen, whose, &mut taken);
                }
            }
        }
        look.state.clients = clients;
    }

    fn look_at_sessions(&self, look: &mut Look<'_>) {
        for slot in 0..look.state.sessions.len() {
            look.state.expect_sessions(slot);
            self.look_at_slot(look, slot);
        }
    }

    fn look_at_slot(&self, look: &mut Look<'_>, slot: usize) {
        let State { now_ms, sessions, atoms, clients, store, nodes, tracks, desk, .. } = &mut *look.state;
        let Some(session) = sessions[slot].as_mut().filter(|session| !session.instances.is_empty()) else { return };
        desk.subject();
        let Some(block) = atoms[session.atom.0 as usize].block else { return };
        let rules = &self.policy.blocks[block as usize].session_rules;
        let seen = Seen::session(session, atoms, clients);
        let mut eye = Eye { engine: self, now_ms: *now_ms, store, nodes, tracks, desk, seen: &seen, by: None };
        if !eye.stays_at_rest(rules, &mut session.instances) {
            self.look_at_session(look, slot, rules, &seen);
        }
    }

    fn look_at_session(&self, look: &mut Look<'_>, slot: usize, rules: &[usize], seen: &Seen) {
        let Some(mut session) = look.state.sessions[slot].take() else { return };
        let mut taken = Classes::default();
        for (instance, &rule) in session.instances.iter_mut().zip(rules) {
            let whose = Whose::Session { number: session.number, atom: session.atom, at: &mut session.at };
            look.rule(rule, instance, seen, whose, &mut taken);
        }
        look.state.sessions[slot] = Some(session);
    }

    /// How wrong forecasts were so far, by metric.
    pub fn forecast_errors(&self, state: &State) -> Vec<ForecastErrors> {
        let mut all: Vec<ForecastErrors> = Vec::new();
        for (number, metric) in self.policy.metrics.iter().enumerate().filter(|(_, metric)| metric.predicted.is_some())
        {
            let mut errors = Errors::default();
            for (_, track) in state.tracks.tracks.iter().filter(|(of, _)| *of == number) {
                errors.merge(&track.errors());
            }
            all.push(ForecastErrors { metric: metric.text.clone(), resource: metric.resource, errors });
        }
        all
    }

    /// A session is at a node, in a variant. A caller that could not carry out an order says so, so that rules see the
    /// truth. `false`: there is no such session, node or variant.
    pub fn session_is(&self, state: &mut State, number: u64, node: NodeId, variant: Option<&str>) -> bool {
        let Some(slot) = state.session(number) else { return false };
        let Some(session) = state.sessions[slot].as_mut() else { return false };
        let block = state.atoms[session.atom.0 as usize].block.map(|block| &self.policy.blocks[block as usize]);
        let variant = match variant {
            None => Some(session.at.variant),
            Some(name) => block.and_then(|block| block.variants.iter().position(|known| known == name)),
        };
        let known = (node.0 as usize) < state.nodes.len();
        let Some(variant) = variant.filter(|_| known) else { return false };
        session.at = Standing { node, variant };
        true
    }
}
