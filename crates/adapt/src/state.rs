//! What an engine remembers between ticks: readings, who is there, and how far each rule is.

mod ahead;
mod instance;
mod scratch;
mod seen;
mod store;
mod subjects;
mod tracks;

pub(crate) use instance::{Instance, Said};
pub(crate) use scratch::{Scratch, Value};
pub(crate) use seen::Seen;
pub(crate) use store::Store;
pub(crate) use subjects::{Atom, Client, InForce, Node, Part, Placement, Session, Slots};
pub(crate) use tracks::Tracks;

use crate::forecast::Method;
use crate::reading::{AtomId, ClientId, NodeId, Of, Reading, Resource, Where};
use crate::series::Series;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Nodes that are known at most; those of a policy are at most as many.
pub(crate) const NODES_MAX: usize = 2048;
/// Atoms at most.
pub(crate) const ATOMS_MAX: usize = 65_536;
/// Sessions at most.
pub(crate) const SESSIONS_MAX: usize = 65_536;
/// Clients that are followed one by one at most.
pub const CLIENTS_MAX: usize = 4096;
/// Everything that is remembered; it can be written down and read again, and goes on as before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct State {
    pub(crate) fingerprint: u64,
    pub(crate) now_ms: u64,
    pub(crate) store: Store,
    pub(crate) nodes: Vec<Node>,
    node_numbers: FxHashMap<String, u32>,
    pub(crate) atoms: Vec<Atom>,
    /// Of each atom, when one of its rules is to be looked at next: beside the atoms, as each tick goes over all of them.
    pub(crate) atoms_due_ms: Vec<u64>,
    atom_numbers: FxHashMap<String, u32>,
    /// Places of atoms that were forgotten.
    #[serde(default)]
    free_atoms: Vec<u32>,
    pub(crate) sessions: Vec<Option<Session>>,
    free_sessions: Vec<u32>,
    session_numbers: FxHashMap<u64, u32>,
    /// By their numbers, which go up: so all who are told the same look at them in the same order.
    #[serde(default)]
    pub(crate) clients: BTreeMap<u64, Client>,
    #[serde(default)]
    client_numbers: FxHashMap<String, u64>,
    #[serde(default)]
    clients_begun: u64,
    /// Of each rule that is looked at for all its atoms together, in their order.
    pub(crate) own: Vec<Instance>,
    /// Of each rule by its number, for those that are looked at as a request starts.
    pub(crate) starts: Vec<Instance>,
    /// What is in force for all atoms of a block.
    pub(crate) blocks: Vec<InForce>,
    pub(crate) tracks: Tracks,
    pub(crate) decisions: u64,
    pub(crate) counts: Counts,
    /// What a tick computes with; nothing of it lasts.
    #[serde(skip)]
    pub(crate) scratch: Scratch,
}

/// What was passed over, and why. A number grows if the caller supplies wrong readings, or if a bound is reached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Readings that were taken.
    pub readings: u64,
    /// Readings that no rule asks for.
    pub unasked: u64,
    /// Readings older than one of the same that was there already.
    pub out_of_order: u64,
    /// Readings without sense: not a number, negative, of the future, or of an unknown subject.
    pub senseless: u64,
    /// Nodes that were not taken up, as there were too many.
    #[serde(default)]
    pub nodes_refused: u64,
    /// Atoms that were not taken up, as there were too many.
    pub atoms_refused: u64,
    /// Sessions that were not taken up, as there were too many.
    pub sessions_refused: u64,
    /// Clients that were not taken up, as there were too many.
    #[serde(default)]
    pub clients_refused: u64,
    /// Firings that were not decisions, and not told, as there were too many in a tick.
    pub untold: u64,
}

impl Counts {
    /// Those of two states together.
    pub fn merge(&mut self, other: Self) {
        self.readings += other.readings;
        self.unasked += other.unasked;
        self.out_of_order += other.out_of_order;
        self.senseless += other.senseless;
        self.nodes_refused += other.nodes_refused;
        self.atoms_refused += other.atoms_refused;
        self.sessions_refused += other.sessions_refused;
        self.clients_refused += other.clients_refused;
        self.untold += other.untold;
    }
}

impl State {
    pub(crate) fn new(fingerprint: u64, own: usize, rules: usize, blocks: usize) -> Self {
        Self {
            fingerprint,
            now_ms: 0,
            store: Store::default(),
            nodes: Vec::new(),
            node_numbers: FxHashMap::default(),
            atoms: Vec::new(),
            atoms_due_ms: Vec::new(),
            atom_numbers: FxHashMap::default(),
            free_atoms: Vec::new(),
            sessions: Vec::new(),
            free_sessions: Vec::new(),
            session_numbers: FxHashMap::default(),
            clients: BTreeMap::new(),
            client_numbers: FxHashMap::default(),
            clients_begun: 0,
            own: vec![Instance::default(); own],
            starts: vec![Instance::default(); rules],
            blocks: vec![InForce::default(); blocks],
            tracks: Tracks::default(),
            decisions: 0,
            counts: Counts::default(),
            scratch: Scratch::default(),
        }
    }

    /// What was passed over so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// How many decisions were made: the number of the last one.
    pub fn decided(&self) -> u64 {
        self.decisions
    }

    /// Whether a session of this number has begun and is not over.
    pub(crate) fn has_session(&self, number: u64) -> bool {
        self.session_numbers.contains_key(&number)
    }

    /// How many sessions there are.
    pub fn sessions(&self) -> usize {
        self.session_numbers.len()
    }

    /// How many clients there are.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// How many atoms, sessions and clients the last tick looked at: its work, but for readings and rules of patterns.
    pub fn looked_at(&self) -> u64 {
        self.scratch.looks
    }

    /// How many atoms there are.
    pub fn atoms(&self) -> usize {
        self.atom_numbers.len()
    }

    pub(crate) fn node(&mut self, name: &str) -> Option<NodeId> {
        if let Some(number) = self.node_numbers.get(name) {
            return Some(NodeId(*number));
        }
        if self.nodes.len() >= NODES_MAX {
            self.counts.nodes_refused += 1;
            return None;
        }
        let number = self.nodes.len() as u32;
        self.nodes.push(Node { name: name.to_owned(), down: false, slots: Slots::default() });
        self.node_numbers.insert(name.to_owned(), number);
        Some(NodeId(number))
    }

    /// The number of an atom, and whether it is new.
    pub(crate) fn atom(&mut self, path: &str) -> Option<(AtomId, bool)> {
        if let Some(number) = self.atom_numbers.get(path) {
            return Some((AtomId(*number), false));
        }
        if self.atom_numbers.len() >= ATOMS_MAX {
            self.counts.atoms_refused += 1;
            return None;
        }
        let atom = Atom::new(path);
        // Until it is known what rules there are for it, it is never due.
        let number = match self.free_atoms.pop() {
            Some(number) => {
                self.atoms[number as usize] = atom;
                self.atoms_due_ms[number as usize] = u64::MAX;
                number
            }
            None => {
                self.atoms.push(atom);
                self.atoms_due_ms.push(u64::MAX);
                self.atoms.len() as u32 - 1
            }
        };
        self.atom_numbers.insert(path.to_owned(), number);
        Some((AtomId(number), true))
    }

    /// Forgets an atom; `false`: there is none of the path, or a rule is active for it, or a session is of it.
    pub(crate) fn forget_atom(&mut self, path: &str) -> bool {
        let Some(number) = self.atom_numbers.get(path).copied() else { return false };
        let atom = &mut self.atoms[number as usize];
        if atom.sessions > 0 || atom.in_force != InForce::default() || atom.instances.iter().any(Instance::is_active) {
            return false;
        }
        let Atom { slots, .. } = std::mem::replace(atom, Atom::new(""));
        self.store.remove(&slots);
        self.atoms_due_ms[number as usize] = u64::MAX;
        self.free_atoms.push(number);
        self.atom_numbers.remove(path).is_some()
    }

    /// The number of an atom that is known.
    pub(crate) fn known_atom(&self, path: &str) -> Option<AtomId> {
        self.atom_numbers.get(path).copied().map(AtomId)
    }

    /// The number of a client by its name; a new one gets what `parts` makes.
    pub(crate) fn client(&mut self, name: &str, parts: impl FnOnce() -> Vec<Part>) -> Option<ClientId> {
        if let Some(number) = self.client_numbers.get(name) {
            return Some(ClientId(*number));
        }
        if self.clients.len() >= CLIENTS_MAX {
            self.counts.clients_refused += 1;
            return None;
        }
        self.clients_begun += 1;
        let number = self.clients_begun;
        self.clients.insert(number, Client { name: name.to_owned(), slots: Slots::default(), parts: parts() });
        self.client_numbers.insert(name.to_owned(), number);
        Some(ClientId(number))
    }

    /// The number of a client that is known.
    pub(crate) fn known_client(&self, name: &str) -> Option<ClientId> {
        self.client_numbers.get(name).copied().map(ClientId)
    }

    /// Forgets a client; `false`: there is none of the name, or a rule is active for it.
    pub(crate) fn forget_client(&mut self, name: &str) -> bool {
        let Some(number) = self.client_numbers.get(name).copied() else { return false };
        let is_active = |client: &Client| client.parts.iter().flat_map(|part| &part.instances).any(Instance::is_active);
        if self.clients.get(&number).is_some_and(is_active) {
            return false;
        }
        if let Some(client) = self.clients.remove(&number) {
            self.store.remove(&client.slots);
        }
        self.client_numbers.remove(name).is_some()
    }

    /// Takes up a session, of a client where that is told; `false`: it is there already, or there are too many.
    pub(crate) fn begin(
        &mut self,
        number: u64,
        (atom, client): (AtomId, Option<ClientId>),
        rules: usize,
        at: Placement,
    ) -> bool {
        if self.session_numbers.contains_key(&number) {
            return false;
        }
        if self.session_numbers.len() >= SESSIONS_MAX {
            self.counts.sessions_refused += 1;
            return false;
        }
        let (slots, instances) = (Slots::default(), vec![Instance::default(); rules]);
        let session = Some(Session { number, atom, client, slots, instances, at });
        let slot = match self.free_sessions.pop() {
            Some(slot) => {
                self.sessions[slot as usize] = session;
                slot
            }
            None => {
                self.sessions.push(session);
                self.sessions.len() as u32 - 1
            }
        };
        self.session_numbers.insert(number, slot);
        if let Some(atom) = self.atoms.get_mut(atom.0 as usize) {
            atom.sessions += 1;
        }
        true
    }

    pub(crate) fn end(&mut self, number: u64) {
        let Some(slot) = self.session_numbers.remove(&number) else { return };
        if let Some(session) = self.sessions[slot as usize].take() {
            self.store.remove(&session.slots);
            if let Some(atom) = self.atoms.get_mut(session.atom.0 as usize) {
                atom.sessions = atom.sessions.saturating_sub(1);
            }
        }
        self.free_sessions.push(slot);
    }

    pub(crate) fn session(&self, number: u64) -> Option<usize> {
        self.session_numbers.get(&number).map(|slot| *slot as usize)
    }

    /// Takes a reading; `window_ms` is how far back rules ask for such readings, `None` if no rule does.
    pub(crate) fn take(
        &mut self,
        reading: &Reading,
        now_ms: u64,
        method: Method,
        window_ms: impl Fn(Resource, Where) -> Option<u64>,
    ) {
        let Reading { resource, of, value, at_ms, valid_ms } = *reading;
        let (place, slots) = match of {
            Of::Node(NodeId(number)) => (Where::Node, self.nodes.get_mut(number as usize).map(|node| &mut node.slots)),
            Of::Atom(AtomId(number)) => (Where::Atom, self.atoms.get_mut(number as usize).map(|atom| &mut atom.slots)),
            Of::Session(number) => {
                let session = self.session_numbers.get(&number).and_then(|slot| self.sessions[*slot as usize].as_mut());
                (Where::Session, session.map(|session| &mut session.slots))
            }
            Of::Client(ClientId(number)) => {
                (Where::Client, self.clients.get_mut(&number).map(|client| &mut client.slots))
            }
        };
        let Some(slots) = slots.filter(|_| value.is_finite() && value >= 0.0 && at_ms <= now_ms) else {
            self.counts.senseless += 1;
            return;
        };
        let Some(window_ms) = window_ms(resource, place) else {
            self.counts.unasked += 1;
            return;
        };
        let series = self.store.get_or_add(slots, resource, || Series::new(window_ms, method));
        if series.push(at_ms, value, valid_ms) {
            self.counts.readings += 1;
        } else {
            self.counts.out_of_order += 1;
        }
    }
}
