//! Which of its sessions a node gives to others.

use super::intake::{AtomSeen, Intake, NodeSeen, RuleTimes};
use super::wished::NodeState;
use crate::decision::{Decision, Order, Subject};
use crate::engine::{Engine, Undone};
use crate::forecast::Method;
use crate::policy::Policy;
use std::collections::BTreeMap;

/// Sessions that switch at one tick, at most.
pub const SWITCHES_MAX: usize = 16;
/// Of the sessions that a rule decides for, one of so many switches at one tick: the next reading tells what that did.
const SHARE: usize = 4;
/// A session whose switch failed is left alone for so long, in milliseconds.
const FAILED_MS: u64 = 10_000;

/// A session with a response under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSeen<K> {
    /// What the caller knows it by.
    pub key: K,
    /// The path of its atom.
    pub path: String,
    /// Whether it came from another node: the cooldown of its rules begins then.
    pub is_taken: bool,
}

/// A session that is to go on at another node.
#[derive(Debug, Clone, PartialEq)]
pub struct Switch<K> {
    /// Which.
    pub key: K,
    /// Where to.
    pub to: String,
    /// The decision.
    pub decision: Decision,
}

/// What became of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switched {
    /// The session is at the other node.
    Moved,
    /// It goes on here.
    Failed,
}

#[derive(Debug)]
struct Known {
    number: u64,
    path: String,
    /// Until when it is left alone, after a switch that failed.
    rests_until_ms: u64,
}

/// The rules of a node for its own sessions.
#[derive(Debug)]
pub struct NodeRules<K> {
    intake: Intake,
    here: String,
    /// Nodes that serve only once the director has woken them.
    reserve: Vec<String>,
    sessions: BTreeMap<K, Known>,
    next: u64,
    put_off: u64,
}

impl<K: Ord + Clone> NodeRules<K> {
    /// For the node of this name.
    pub fn new(policy: Policy, method: Method, times: RuleTimes, here: &str) -> Self {
        let pools = policy.reserve_pools().into_iter().flat_map(|pool| &policy.pools[pool].nodes);
        let reserve = pools.map(|node| policy.nodes[node.0 as usize].clone()).collect();
        let intake = Intake::new(Engine::new(policy, here, method), here, times);
        Self { intake, here: here.to_owned(), reserve, sessions: BTreeMap::new(), next: 0, put_off: 0 }
    }

    /// Evaluates the rules on what was heard; which sessions are to switch now. Of many that a rule decides for, a
    /// quarter switches at a tick, and [`SWITCHES_MAX`] at most; the others are decided on again at the next one.
    pub fn tick(
        &mut self,
        now_ms: u64,
        nodes: &[NodeSeen<'_>],
        atoms: &[AtomSeen<'_>],
        open: &[SessionSeen<K>],
    ) -> Vec<Switch<K>> {
        let (here, reserve) = (&self.here, &self.reserve);
        let serves = |node: &NodeSeen<'_>| {
            // One of the reserve that has heard no director yet is asleep as far as is known.
            let is_awake = if reserve.iter().any(|name| name == node.name) {
                node.heeded.is_some_and(|heeded| heeded.state == NodeState::Awake && heeded.number > 0)
            } else {
                node.heeded.is_none_or(|heeded| heeded.state == NodeState::Awake)
            };
            node.name == here || (is_awake && !node.is_drained)
        };
        self.intake.take(now_ms, nodes, serves, atoms);
        self.follow(open, now_ms);
        let mut decisions = Vec::new();
        let Intake { engine, state, .. } = &mut self.intake;
        engine.tick(now_ms, &[], state, &mut decisions);
        let places = decisions.into_iter().filter_map(|decision| {
            let Subject::Session { number, .. } = decision.subject else { return None };
            let fired = decision.orders.iter().filter(|_| decision.outcome.is_fired());
            let to = fired.into_iter().find_map(|order| match order {
                Order::Place { node, .. } => Some(node.clone()),
                _ => None,
            })?;
            Some((number, to, decision))
        });
        let places: Vec<(u64, String, Decision)> = places.collect();
        self.choose(places, now_ms)
    }

    /// Says what became of a switch.
    pub fn switched(&mut self, key: &K, what: Switched, now_ms: u64) {
        match what {
            Switched::Moved => {
                if let Some(known) = self.sessions.remove(key) {
                    self.intake.engine.end(&mut self.intake.state, known.number);
                }
            }
            Switched::Failed => {
                if let Some(known) = self.sessions.get_mut(key) {
                    known.rests_until_ms = now_ms.saturating_add(FAILED_MS);
                    self.intake.engine.undo(&mut self.intake.state, known.number, Undone::Failed);
                }
            }
        }
    }

    /// Switches that had to wait for others, at all ticks together.
    pub fn put_off(&self) -> u64 {
        self.put_off
    }

    /// The policy at work.
    pub fn policy(&self) -> &Policy {
        self.intake.engine.policy()
    }

    /// How many sessions rules may decide for.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Begins and ends sessions, so that the rules have those that are open.
    fn follow(&mut self, open: &[SessionSeen<K>], now_ms: u64) {
        let paths: BTreeMap<&K, &str> = open.iter().map(|seen| (&seen.key, &*seen.path)).collect();
        self.sessions.retain(|key, known| {
            let stays = paths.get(key) == Some(&&*known.path);
            if !stays {
                self.intake.engine.end(&mut self.intake.state, known.number);
            }
            stays
        });
        for seen in open {
            let policy = self.intake.engine.policy();
            let pattern = policy.pattern_of(&seen.path);
            let is_decided_for = pattern.is_some_and(|pattern| policy.decides_for_sessions(pattern));
            if !is_decided_for || self.sessions.contains_key(&seen.key) {
                continue;
            }
            let Some(atom) = self.intake.atom(&seen.path, now_ms) else { continue };
            let Intake { engine, state, .. } = &mut self.intake;
            self.next += 1;
            if !engine.begin(state, self.next, atom) {
                continue;
            }
            if seen.is_taken {
                engine.rest_session(state, self.next);
            }
            let known = Known { number: self.next, path: seen.path.clone(), rests_until_ms: 0 };
            self.sessions.insert(seen.key.clone(), known);
        }
        self.intake.forget_atoms(now_ms);
    }

    fn choose(&mut self, places: Vec<(u64, String, Decision)>, now_ms: u64) -> Vec<Switch<K>> {
        let keys: BTreeMap<u64, K> = self.sessions.iter().map(|(key, known)| (known.number, key.clone())).collect();
        let most = places.len().div_ceil(SHARE).min(SWITCHES_MAX);
        let mut switches = Vec::new();
        for (number, to, decision) in places {
            let Some(key) = keys.get(&number) else { continue };
            let rests = self.sessions.get(key).is_some_and(|known| now_ms < known.rests_until_ms);
            if switches.len() >= most || rests {
                self.put_off += 1;
                self.intake.engine.undo(&mut self.intake.state, number, Undone::PutOff);
            } else {
                switches.push(Switch { key: key.clone(), to, decision });
            }
        }
        switches
    }
}
