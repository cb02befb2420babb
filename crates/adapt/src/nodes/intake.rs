//! What was heard of nodes and atoms becomes readings of an engine.

use crate::engine::Engine;
use crate::reading::{AtomId, NodeId, Of, Reading, Resource};
use crate::state::State;
use rustc_hash::FxHashMap;

/// Atoms whose rates are followed: the most asked ones; the others have no reading.
const ATOMS_MAX: usize = 16_384;
/// One of so many living nodes may be late.
const LATE_SHARE: usize = 4;

/// How long what was heard holds, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleTimes {
    /// Of a node's reading, which comes each second.
    pub node_valid_ms: u64,
    /// Of an atom's rate, which comes each 10 to 20 seconds.
    pub atom_valid_ms: u64,
}

impl Default for RuleTimes {
    fn default() -> Self {
        Self { node_valid_ms: 5_000, atom_valid_ms: 45_000 }
    }
}

/// How a node stands, as it says itself.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct NodeReading {
    /// Of another number than the one before, where it is another reading.
    pub number: u64,
    /// Share of its CPUs that its server uses, 0 to 100 %.
    pub cpu_percent: f64,
    /// Requests a second.
    pub requests_per_s: f64,
    /// Sessions with a response under way.
    pub active: f64,
    /// Bits a second that its server sends.
    pub sent_bps: f64,
    /// What it says of its waits, errors and memory; none where it does not.
    pub strain: Option<NodeStrain>,
}

/// What the requests of a node wait for, how many fail, and how full its memory is.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct NodeStrain {
    /// Requests that wait.
    pub queue: f64,
    /// Seconds that a request waits, in the mean.
    pub wait_s: f64,
    /// Bytes of memory in use.
    pub mem_bytes: f64,
    /// Share of its memory that is in use, 0 to 100 %.
    pub mem_percent: f64,
    /// Requests that fail, in a second.
    pub errors_per_s: f64,
    /// Share of its requests that fail, 0 to 100 %.
    pub error_percent: f64,
}

impl NodeReading {
    /// The resources that it is a reading of.
    fn values(&self) -> impl Iterator<Item = (Resource, f64)> {
        let own = [
            (Resource::Cpu, self.cpu_percent),
            (Resource::Rate, self.requests_per_s),
            (Resource::Active, self.active),
            (Resource::Bandwidth, self.sent_bps),
        ];
        let strain = self.strain.map(|strain| {
            [
                (Resource::Queue, strain.queue),
                (Resource::Wait, strain.wait_s),
                (Resource::Mem, strain.mem_bytes),
                (Resource::MemShare, strain.mem_percent),
                (Resource::Errors, strain.errors_per_s),
                (Resource::ErrorShare, strain.error_percent),
            ]
        });
        own.into_iter().chain(strain.into_iter().flatten())
    }
}

/// A node as it was heard last.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NodeSeen<'s> {
    /// The name that policies have for it.
    pub name: &'s str,
    /// Whether it lives, as far as is known.
    pub is_up: bool,
    /// Whether people have it drained: it is no target then.
    pub is_drained: bool,
    /// Its reading.
    pub reading: Option<NodeReading>,
    /// How long ago the reading came, in milliseconds of this member's clock: no other clock counts.
    pub age_ms: u64,
    /// What it does of what the director wishes.
    pub heeded: Option<super::Heeded>,
}

/// How often an atom is asked for at one node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AtomSeen<'s> {
    /// Its path.
    pub path: &'s str,
    /// Requests a second.
    pub requests_per_s: f64,
    /// How long ago that was heard, in milliseconds.
    pub age_ms: u64,
}

/// The engine of a member, and what it was told.
#[derive(Debug)]
pub(super) struct Intake {
    pub(super) engine: Engine,
    pub(super) state: State,
    times: RuleTimes,
    numbers: FxHashMap<String, (NodeId, Option<u64>)>,
    /// Atoms that have a reading, and when it came.
    atoms: FxHashMap<String, u64>,
    /// Atoms beyond the bound, at all ticks together.
    pub(super) atoms_dropped: u64,
}

impl Intake {
    pub(super) fn new(engine: Engine, here: &str, times: RuleTimes) -> Self {
        let state = engine.state(here);
        let (numbers, atoms) = (FxHashMap::default(), FxHashMap::default());
        Self { engine, state, times, numbers, atoms, atoms_dropped: 0 }
    }

    /// Tells what was heard. `is_target` says whether rules see a node at all: those that sleep are as if they were down.
    pub(super) fn take(
        &mut self,
        now_ms: u64,
        nodes: &[NodeSeen<'_>],
        is_target: impl Fn(&NodeSeen<'_>) -> bool,
        atoms: &[AtomSeen<'_>],
    ) {
        let mut readings = Vec::with_capacity(nodes.len() * 10);
        let leaves_late_out = self.may_leave_late_out(nodes);
        for node in nodes {
            let Some(id) = self.node(node.name) else { continue };
            let is_left_out = leaves_late_out && self.is_late(node);
            self.engine.node_is_up(&mut self.state, id, node.is_up && is_target(node) && !is_left_out);
            let Some(reading) = &node.reading else { continue };
            let last = self.numbers.get_mut(node.name).map(|(_, last)| last.replace(reading.number));
            if last == Some(Some(reading.number)) {
                continue;
            }
            let (at_ms, valid_ms) = (now_ms.saturating_sub(node.age_ms), self.times.node_valid_ms);
            readings.extend(reading.values().map(|(resource, value)| Reading {
                resource,
                of: Of::Node(id),
                value,
                at_ms,
                valid_ms,
            }));
        }
        self.engine.read(now_ms, &readings, &mut self.state);
        self.take_atoms(now_ms, atoms);
    }

    /// Whether nodes that live and whose readings are too old are left out as if they were down: while they are few. Among
    /// hundreds there is always one, and no rule over their pool would ever know anything.
    fn may_leave_late_out(&self, nodes: &[NodeSeen<'_>]) -> bool {
        let up = nodes.iter().filter(|node| node.is_up);
        let (all, late) = up.fold((0, 0), |(all, late), node| (all + 1, late + usize::from(self.is_late(node))));
        late * LATE_SHARE <= all
    }

    fn is_late(&self, node: &NodeSeen<'_>) -> bool {
        node.reading.is_none() || node.age_ms > self.times.node_valid_ms
    }

    /// The rate of an atom is what all nodes together are asked for it.
    fn take_atoms(&mut self, now_ms: u64, atoms: &[AtomSeen<'_>]) {
        let mut rates: FxHashMap<&str, (f64, u64)> = FxHashMap::default();
        let policy = self.engine.policy();
        let is_read = |path: &str| policy.block_of(path).is_some_and(|block| policy.blocks[block].reads_atoms());
        for atom in atoms.iter().filter(|atom| is_read(atom.path)) {
            let rate = rates.entry(atom.path).or_insert((0.0, u64::MAX));
            *rate = (rate.0 + atom.requests_per_s, rate.1.min(atom.age_ms));
        }
        let mut rates: Vec<(&str, f64, u64)> = rates.into_iter().map(|(path, (rate, age))| (path, rate, age)).collect();
        rates.sort_by(|one, other| other.1.total_cmp(&one.1).then_with(|| one.0.cmp(other.0)));
        self.atoms_dropped += rates.len().saturating_sub(ATOMS_MAX) as u64;
        rates.truncate(ATOMS_MAX);
        // Before new ones come, so that there is room for them.
        self.forget_atoms(now_ms);
        let (valid_ms, Self { engine, state, atoms: known, .. }) = (self.times.atom_valid_ms, &mut *self);
        let mut readings = Vec::with_capacity(rates.len());
        for (path, value, age_ms) in rates {
            let Some(id) = engine.atom(state, path) else { continue };
            let at_ms = now_ms.saturating_sub(age_ms);
            match known.get_mut(path) {
                Some(known_ms) => *known_ms = at_ms,
                None => drop(known.insert(path.to_owned(), at_ms)),
            }
            readings.push(Reading { resource: Resource::Rate, of: Of::Atom(id), value, at_ms, valid_ms });
        }
        engine.read(now_ms, &readings, state);
    }

    /// Forgets atoms whose rate is too old to count, unless a rule is in force for them or a session is of them.
    pub(super) fn forget_atoms(&mut self, now_ms: u64) {
        let Self { engine, state, atoms, .. } = self;
        let valid_ms = self.times.atom_valid_ms;
        atoms.retain(|path, at_ms| now_ms.saturating_sub(*at_ms) <= valid_ms || !engine.forget_atom(state, path));
    }

    /// The number of an atom that a session is of; it is forgotten once it is quiet.
    pub(super) fn atom(&mut self, path: &str, now_ms: u64) -> Option<AtomId> {
        let id = self.engine.atom(&mut self.state, path)?;
        if !self.atoms.contains_key(path) {
            self.atoms.insert(path.to_owned(), now_ms);
        }
        Some(id)
    }

    fn node(&mut self, name: &str) -> Option<NodeId> {
        if let Some((id, _)) = self.numbers.get(name) {
            return Some(*id);
        }
        let id = self.engine.node(&mut self.state, name)?;
        self.numbers.insert(name.to_owned(), (id, None));
        Some(id)
    }
}
