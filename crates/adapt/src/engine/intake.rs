//! An engine, and what it takes in: nodes, atoms, clients, sessions and readings.

use crate::forecast::{Errors, Method};
use crate::policy::Policy;
use crate::reading::{AtomId, ClientId, NodeId, Reading, Resource, Where};
use crate::state::{InForce, Instance, Part, Placement, State};

/// A policy at work at one node.
#[derive(Debug, Clone)]
pub struct Engine {
    pub(super) policy: Policy,
    pub(super) here: NodeId,
    pub(super) method: Method,
    /// All nodes of all pools; without pools, this one.
    pub(super) all: Vec<NodeId>,
    /// How far back rules ask, by place and resource.
    pub(super) windows: [[Option<u64>; Resource::ALL.len()]; Where::ALL.len()],
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
        state.begin(number, (atom, client), rules, Placement { node: self.here, variant: 0 })
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
        session.at = Placement { node, variant };
        true
    }
}
