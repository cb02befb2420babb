//! The reserve: nodes that get new connections only while a rule has grown their pool.

use super::intake::NodeSeen;
use super::wished::{NodeState, Wished};
use crate::policy::Policy;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// How a reserve node stands with the director.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Neither it nor an earlier director has said.
    Unknown,
    /// It gets no connection, and has none.
    Asleep,
    /// It serves like any other.
    Awake,
    /// It gets no connection, and gives its sessions away, since the word of this number.
    Draining { number: u64 },
}

/// The pools that rules grow and shrink, with their nodes in the order of the policy.
#[derive(Debug)]
pub(super) struct Reserves {
    pools: Vec<(String, Vec<String>)>,
    phases: FxHashMap<String, Phase>,
}

impl Reserves {
    pub(super) fn of(policy: &Policy) -> Self {
        let pools = policy.reserve_pools().into_iter().map(|pool| {
            let pool = &policy.pools[pool];
            let nodes = pool.nodes.iter().map(|node| policy.nodes[node.0 as usize].clone());
            (pool.name.clone(), nodes.collect())
        });
        let pools: Vec<(String, Vec<String>)> = pools.collect();
        let nodes = pools.iter().flat_map(|(_, nodes)| nodes);
        let phases = nodes.map(|node| (node.clone(), Phase::Unknown)).collect();
        Self { pools, phases }
    }

    pub(super) fn phase(&self, node: &str) -> Option<Phase> {
        self.phases.get(node).copied()
    }

    /// Whether new connections may come to a node: one of no reserve, or one that is awake and does not drain by the word
    /// of an earlier director.
    pub(super) fn receives(&self, node: &NodeSeen<'_>) -> bool {
        let drains = node.heeded.is_some_and(|heeded| heeded.state == NodeState::Draining);
        self.phase(node.name).is_none_or(|phase| phase == Phase::Awake && !drains)
    }

    /// Goes on with what the director before has said last.
    pub(super) fn go_on(&mut self, last: &Wished) {
        for (node, is_awake) in &last.awake {
            if let Some(phase) = self.phases.get_mut(node) {
                *phase = if *is_awake { Phase::Awake } else { Phase::Draining { number: 0 } };
            }
        }
    }

    /// Asks the nodes of which nothing is known, by what they say of themselves; true once nothing is open. After
    /// `is_late` one that says nothing is asleep: it gives away what it has.
    pub(super) fn settle(&mut self, nodes: &[NodeSeen<'_>], is_late: bool) -> bool {
        let mut is_settled = true;
        for (name, phase) in self.phases.iter_mut().filter(|(_, phase)| **phase == Phase::Unknown) {
            let seen = nodes.iter().find(|node| node.name == name);
            *phase = match seen.and_then(|node| node.heeded) {
                Some(heeded) if heeded.state == NodeState::Awake && heeded.number > 0 => Phase::Awake,
                Some(_) => Phase::Draining { number: 0 },
                None if is_late => Phase::Draining { number: 0 },
                None => {
                    is_settled = false;
                    Phase::Unknown
                }
            };
        }
        is_settled
    }

    /// Those that have given all away sleep.
    pub(super) fn hear(&mut self, nodes: &[NodeSeen<'_>], epoch: u64) {
        for node in nodes {
            let Some(phase) = self.phases.get_mut(node.name) else { continue };
            let Phase::Draining { number } = *phase else { continue };
            let is_asleep = node.heeded.is_some_and(|heeded| {
                heeded.state == NodeState::Asleep && (heeded.epoch, heeded.number) >= (epoch, number)
            });
            if is_asleep || !node.is_up {
                *phase = Phase::Asleep;
            }
        }
    }

    /// Wakes so many nodes of a pool: those that sleep, in their order, then those that drain. Which.
    pub(super) fn grow(&mut self, pool: &str, by: u32, nodes: &[NodeSeen<'_>]) -> Vec<String> {
        let is_up = |name: &str| nodes.iter().any(|node| node.name == name && node.is_up && !node.is_drained);
        let mut woken = Vec::new();
        for wakes in [|phase| phase == Phase::Asleep, |phase| matches!(phase, Phase::Draining { .. })] {
            for name in self.nodes(pool).filter(|name| is_up(name)).cloned().collect::<Vec<_>>() {
                if woken.len() < by as usize && self.phases.get(&name).copied().is_some_and(wakes) {
                    self.phases.insert(name.clone(), Phase::Awake);
                    woken.push(name);
                }
            }
        }
        woken
    }

    /// Drains so many nodes of a pool that are awake, the last of its order first. Which.
    pub(super) fn shrink(&mut self, pool: &str, by: u32, number: u64) -> Vec<String> {
        let awake: Vec<String> =
            self.nodes(pool).filter(|name| self.phase(name) == Some(Phase::Awake)).cloned().collect();
        let drained: Vec<String> = awake.into_iter().rev().take(by as usize).collect();
        for name in &drained {
            self.phases.insert(name.clone(), Phase::Draining { number });
        }
        drained
    }

    fn nodes(&self, pool: &str) -> impl Iterator<Item = &String> {
        self.pools.iter().filter(move |(name, _)| name == pool).flat_map(|(_, nodes)| nodes)
    }

    /// Which nodes are to be awake; of those of which nothing is known yet nothing is said.
    pub(super) fn awake(&self) -> BTreeMap<String, bool> {
        let known = self.phases.iter().filter(|(_, phase)| **phase != Phase::Unknown);
        known.map(|(name, phase)| (name.clone(), *phase == Phase::Awake)).collect()
    }
}
