//! What an engine remembers between ticks: readings, who is there, and how far each rule is.

mod ahead;
mod instance;
mod seen;

pub(crate) use instance::{Instance, Said};
pub(crate) use seen::Seen;

use crate::engine::Desk;
use crate::forecast::{Method, Track};
use crate::reading::{AtomId, ClientId, NodeId, Of, Reading, Resource, Where};
use crate::series::{Series, Unknown};
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
/// Series of forecasts whose errors are followed at most.
const TRACKS_MAX: usize = 1024;

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
    pub(crate) desk: Desk,
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

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) down: bool,
    slots: Slots,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Atom {
    pub(crate) path: String,
    pub(crate) block: Option<u32>,
    slots: Slots,
    /// How many sessions are of it.
    #[serde(default)]
    sessions: u32,
    /// Of the block's rules for atoms, in their order.
    pub(crate) instances: Vec<Instance>,
    pub(crate) in_force: InForce,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Session {
    pub(crate) number: u64,
    pub(crate) atom: AtomId,
    /// Its client, if that is known.
    #[serde(default)]
    client: Option<ClientId>,
    slots: Slots,
    /// Of the block's rules for sessions, in their order.
    pub(crate) instances: Vec<Instance>,
    pub(crate) at: Standing,
}

/// A client with all its connections.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Client {
    pub(crate) name: String,
    slots: Slots,
    /// Of each block with rules for clients, in their order.
    pub(crate) parts: Vec<Part>,
}

/// How far the rules of a pattern are with a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Part {
    /// Of the block's rules for clients, in their order.
    pub(crate) instances: Vec<Instance>,
    pub(crate) in_force: InForce,
}

/// Where a session is served, and with what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Standing {
    pub(crate) node: NodeId,
    /// 0 is the best.
    pub(crate) variant: usize,
}

/// What was ordered and has not ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct InForce {
    /// Copies, and the pool that they are on.
    pub(crate) copies: Option<(u32, usize)>,
    pub(crate) spread: Option<usize>,
    /// The bits of the share in percent.
    pub(crate) shed: Option<u64>,
    /// How old answers may be, in milliseconds.
    #[serde(default)]
    pub(crate) stale_ms: Option<u64>,
}

impl Atom {
    /// One of which nothing is known.
    fn new(path: &str) -> Self {
        let (slots, in_force) = (Slots::default(), InForce::default());
        Self { path: path.to_owned(), block: None, slots, sessions: 0, instances: Vec::new(), in_force }
    }
}

/// The numbers of the series of one place, by resource; 0 = none.
pub(crate) type Slots = [u32; Resource::ALL.len()];

/// All series.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Store {
    /// Slot 0 stands for no series and stays empty.
    series: Vec<Option<Series>>,
    free: Vec<u32>,
}

impl Store {
    pub(crate) fn get(&self, slots: &Slots, resource: Resource) -> Result<&Series, Unknown> {
        self.series.get(slots[resource.index()] as usize).and_then(Option::as_ref).ok_or(Unknown::Missing)
    }

    pub(crate) fn get_mut(&mut self, slots: &Slots, resource: Resource) -> Option<&mut Series> {
        // Slot 0 is always empty, so no series is found there.
        self.series.get_mut(slots[resource.index()] as usize)?.as_mut()
    }

    fn get_or_add(&mut self, slots: &mut Slots, resource: Resource, add: impl FnOnce() -> Series) -> &mut Series {
        let slot = &mut slots[resource.index()];
        if *slot == 0 {
            if self.series.is_empty() {
                self.series.push(None);
            }
            *slot = self.free.pop().unwrap_or_else(|| {
                self.series.push(None);
                self.series.len() as u32 - 1
            });
        }
        self.series[*slot as usize].get_or_insert_with(add)
    }

    fn remove(&mut self, slots: &Slots) {
        for &slot in slots.iter().filter(|slot| **slot != 0) {
            self.series[slot as usize] = None;
            self.free.push(slot);
        }
    }
}

/// The errors of forecasts, by metric and atom.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Tracks {
    pub(crate) tracks: Vec<(usize, Track)>,
    numbers: FxHashMap<u64, u32>,
}

impl Tracks {
    /// The number of the track of a metric's forecasts of a place; `None` where there are too many.
    pub(crate) fn of(&mut self, metric: usize, place: u32) -> Option<usize> {
        let key = (metric as u64) << 32 | u64::from(place);
        let next = self.tracks.len();
        let number = match self.numbers.get(&key) {
            Some(number) => *number as usize,
            None if next < TRACKS_MAX => {
                self.numbers.insert(key, next as u32);
                self.tracks.push((metric, Track::default()));
                next
            }
            None => return None,
        };
        Some(number)
    }

    /// Goes on with the tracks of other rules, by what the metrics and places are here.
    pub(crate) fn take_over(&mut self, from: &Self, here: impl Fn(usize, u32) -> Option<(usize, u32)>) {
        let mut known: Vec<(u32, u64)> = from.numbers.iter().map(|(key, number)| (*number, *key)).collect();
        known.sort_unstable();
        for (number, key) in known {
            let place = here((key >> 32) as usize, key as u32);
            let own = place.and_then(|(metric, place)| self.of(metric, place));
            if let (Some(own), Some((_, track))) = (own, from.tracks.get(number as usize)) {
                self.tracks[own].1.clone_from(track);
            }
        }
    }

    pub(crate) fn get(&mut self, number: usize) -> Option<&mut Track> {
        self.tracks.get_mut(number).map(|(_, track)| track)
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
            desk: Desk::default(),
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
        self.desk.looks
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
        at: Standing,
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

impl Atom {
    pub(crate) fn slots(&self) -> &Slots {
        &self.slots
    }
}

impl Node {
    pub(crate) fn slots(&self) -> &Slots {
        &self.slots
    }
}
