//! The rules at work with what they remember, and everything that they were told. All callers tell the rules here, so
//! the recording has the order in which the rules were told.

use crate::decided;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use weir_adapt::log::{Entry, Owner, PASSED_MAX, Recorded};
use weir_adapt::{AtomId, ClientId, Decision, Engine, NodeId, Of, Reading, Resource, State};
use weir_server::{DecidedBy, Link};

/// Ticks for which a reading of each tick holds: one that is late, or two, leave nothing unknown.
const HERE_VALID_TICKS: u64 = 3;
/// Things told that wait to be written down at most, some 1.5 MB; what is more is counted. They are fetched each tenth of
/// a second.
const ENTRIES_MAX: usize = 16_384;
/// Readings of former rules that are handed over: with those that are told meanwhile there is room for them.
const HANDED_MAX: usize = ENTRIES_MAX / 2;
/// Decisions between two ticks, some 2 MB.
const DECISIONS_MAX: usize = 4096;

/// An engine that is told things, and remembers that it was.
#[derive(Debug)]
pub(crate) struct Rulebook {
    pub(crate) engine: Engine,
    pub(crate) state: State,
    /// How many policies were before this one.
    pub(crate) number: u64,
    here: NodeId,
    here_name: String,
    /// Other nodes of the rules, and whether they can be used.
    others: FxHashMap<String, (NodeId, bool)>,
    tick_ms: u64,
    /// Whether what is told is recorded.
    is_recorded: bool,
    entries: Vec<Entry>,
    entries_lost: u64,
    decisions: Vec<Decision>,
    decisions_lost: u64,
    /// The number of the last decision that was handed on or lost.
    decisions_gone: u64,
    /// Clients of which some reading was told, by what loops call them.
    clients: FxHashMap<u64, (ClientId, Arc<str>)>,
}

/// What was decided for a session as it began.
#[derive(Debug)]
pub(crate) struct Begun {
    /// The variant to serve, where that is not the best one.
    pub(crate) variant: Option<String>,
    /// Nothing at all was decided, not even that something is unknown.
    pub(crate) is_at_rest: bool,
    /// The number of the last decision by then.
    pub(crate) decided: u64,
}

/// What came of a look at a session whose link was read.
#[derive(Debug)]
pub(crate) struct Looked {
    /// The variant to go on with, where one was chosen.
    pub(crate) variant: Option<String>,
    /// The number of the last decision by then.
    pub(crate) decided: u64,
}

impl Rulebook {
    /// Of an engine at the node `here`; other nodes cannot be used.
    pub(crate) fn new(engine: Engine, here: &str, number: u64, tick_ms: u64, now_ms: u64, is_recorded: bool) -> Self {
        let mut state = engine.state(here);
        // The state has just been made with it.
        let node = engine.node(&mut state, here).unwrap_or_else(|| unreachable!("a state has the node that it is of"));
        let (entries, decisions) = (Vec::new(), Vec::new());
        let others: Vec<String> = engine.policy().nodes().iter().filter(|name| *name != here).cloned().collect();
        let mut stats = Self {
            engine,
            state,
            number,
            here: node,
            here_name: here.to_owned(),
            others: FxHashMap::default(),
            tick_ms,
            is_recorded,
            entries,
            entries_lost: 0,
            decisions,
            decisions_lost: 0,
            decisions_gone: 0,
            clients: FxHashMap::default(),
        };
        for name in others {
            if let Some(node) = stats.engine.node(&mut stats.state, &name) {
                stats.engine.node_is_up(&mut stats.state, node, false);
                stats.others.insert(name.clone(), (node, false));
                stats.note(now_ms, Recorded::Node { name, up: false });
            }
        }
        stats
    }

    /// Goes on with what former rules were told of this node and of these atoms, and with the errors of their forecasts.
    pub(crate) fn take_over(&mut self, now_ms: u64, mut former: Self, atoms: &[String]) {
        let atoms: Vec<AtomId> = atoms.iter().filter_map(|path| former.atom(path)).collect();
        let handed = self.engine.handed(&former.state, &atoms, HANDED_MAX);
        self.engine.take_handed(now_ms, &handed, &mut self.state);
        self.engine.take_errors(&former.engine, &former.state, &mut self.state);
        handed.into_iter().for_each(|Entry { at_ms, what }| self.note(at_ms, what));
    }

    /// Whether everything that is told is written down.
    pub(crate) fn is_recorded(&self) -> bool {
        self.is_recorded
    }

    /// How long readings hold that come with each tick.
    pub(crate) fn valid_ms(&self) -> u64 {
        self.tick_ms * HERE_VALID_TICKS
    }

    /// The number of an atom; `None`: there are too many.
    pub(crate) fn atom(&mut self, path: &str) -> Option<AtomId> {
        self.engine.atom(&mut self.state, path)
    }

    /// Tells a reading of this node.
    pub(crate) fn read_here(&mut self, at_ms: u64, resource: Resource, value: f64) {
        let (here, valid_ms) = (self.here, self.valid_ms());
        self.read(at_ms, resource, Of::Node(here), value, valid_ms);
        // Also what these rules do not ask for: others may, when it is replayed.
        if self.is_recorded {
            let of = Owner::Node(self.here_name.clone());
            self.note(at_ms, Recorded::Reading { resource, of, value, valid_ms: None });
        }
    }

    /// Tells readings of another node that the rules name; what they do not name, they are not told.
    pub(crate) fn read_node(&mut self, at_ms: u64, name: &str, readings: &[(Resource, f64)]) {
        let Some((node, was_up)) = self.others.get_mut(name) else { return };
        let (node, was_up) = (*node, std::mem::replace(was_up, true));
        if !was_up {
            self.engine.node_is_up(&mut self.state, node, true);
            self.note(at_ms, Recorded::Node { name: name.to_owned(), up: true });
        }
        let valid_ms = self.valid_ms();
        for (resource, value) in readings.iter().copied() {
            self.read(at_ms, resource, Of::Node(node), value, valid_ms);
            if self.is_recorded {
                let of = Owner::Node(name.to_owned());
                self.note(at_ms, Recorded::Reading { resource, of, value, valid_ms: None });
            }
        }
    }

    /// Tells a reading of an atom; `valid_ms` where it holds for another time than others.
    pub(crate) fn read_atom(&mut self, at_ms: u64, resource: Resource, path: &str, value: f64, valid_ms: Option<u64>) {
        let Some(atom) = self.atom(path) else { return };
        self.read(at_ms, resource, Of::Atom(atom), value, valid_ms.unwrap_or(self.valid_ms()));
        if self.is_recorded {
            self.note(at_ms, Recorded::Reading { resource, of: Owner::Atom(path.to_owned()), value, valid_ms });
        }
    }

    /// An atom is not followed any more. `false`: it has to be, as a rule is active for it, or a session is of it.
    pub(crate) fn forget_atom(&mut self, at_ms: u64, path: &str) -> bool {
        let is_known = self.engine.knows_atom(&self.state, path);
        let is_forgotten = is_known && self.engine.forget_atom(&mut self.state, path);
        if is_forgotten {
            self.note(at_ms, Recorded::GoneAtom { atom: path.to_owned() });
        }
        is_forgotten || !is_known
    }

    /// Tells how many requests a second a client makes, whom loops call by a number. `false`: there is no room for it.
    pub(crate) fn read_client(&mut self, at_ms: u64, client: u64, name: &Arc<str>, rate_per_s: f64) -> bool {
        let known = self.clients.get(&client).map(|(id, _)| *id);
        let Some(id) = known.or_else(|| self.engine.client(&mut self.state, name)) else { return false };
        if known.is_none() {
            self.clients.insert(client, (id, Arc::clone(name)));
        }
        let resource = Resource::Rate;
        if self.read(at_ms, resource, Of::Client(id), rate_per_s, self.valid_ms()) && self.is_recorded {
            let of = Owner::Client(name.to_string());
            self.note(at_ms, Recorded::Reading { resource, of, value: rate_per_s, valid_ms: None });
        }
        true
    }

    /// A client is not followed any more. `false`: it has to be, as a rule is active for it.
    pub(crate) fn forget_client(&mut self, at_ms: u64, client: u64) -> bool {
        let Some((_, name)) = self.clients.get(&client) else { return true };
        let name = Arc::clone(name);
        let is_forgotten = self.engine.forget_client(&mut self.state, &name);
        if is_forgotten {
            self.clients.remove(&client);
            self.note(at_ms, Recorded::Gone { client: name.to_string() });
        }
        is_forgotten
    }

    /// Tells what is known of a session's link.
    pub(crate) fn read_link(&mut self, at_ms: u64, session: u64, link: Link) {
        let known = [(Resource::Bandwidth, link.bandwidth_bps), (Resource::Rtt, link.rtt_s)];
        for (resource, value) in known.into_iter().filter_map(|(resource, value)| Some((resource, value?))) {
            if self.read(at_ms, resource, Of::Session(session), value, self.valid_ms()) {
                let of = Owner::Session(session);
                self.note(at_ms, Recorded::Reading { resource, of, value, valid_ms: None });
            }
        }
    }

    /// Tells a reading that some rule asks for; whether it did.
    fn read(&mut self, at_ms: u64, resource: Resource, of: Of, value: f64, valid_ms: u64) -> bool {
        let place = match of {
            Of::Node(_) => weir_adapt::Where::Node,
            Of::Atom(_) => weir_adapt::Where::Atom,
            Of::Session(_) => weir_adapt::Where::Session,
            Of::Client(_) => weir_adapt::Where::Client,
        };
        let is_asked = self.engine.window_ms(resource, place).is_some();
        if is_asked {
            self.engine.read(at_ms, &[Reading { resource, of, value, at_ms, valid_ms }], &mut self.state);
        }
        is_asked
    }

    /// A session of a client begins and is decided for. `None`: the rules cannot know it, as there are too many sessions
    /// or atoms.
    pub(crate) fn begin(&mut self, at_ms: u64, session: u64, path: &str, (client, link): (u64, Link)) -> Option<Begun> {
        let atom = self.atom(path)?;
        // No client is known where no rule asks for clients.
        let client = self.clients.get(&client).cloned();
        let id = client.as_ref().map(|(id, _)| *id);
        let begun = |stats: &mut Self| stats.engine.begin_of(&mut stats.state, session, atom, id);
        if !begun(self) {
            // One of this number was not told to be over: of a connection with several responses at once the last counts.
            self.end(at_ms, session);
            if !begun(self) {
                return None;
            }
        }
        if self.is_recorded {
            let client = client.map(|(_, name)| name.to_string());
            self.note(at_ms, Recorded::Begin { session, atom: path.to_owned(), client });
        }
        self.read_link(at_ms, session, link);
        let before = self.decisions.len();
        self.engine.start(at_ms, session, &mut self.state, &mut self.decisions);
        self.note(at_ms, Recorded::Start { session });
        let variant = self.chosen_since(before);
        let is_at_rest = self.decisions.len() == before;
        self.bound_decisions();
        Some(Begun { variant, is_at_rest, decided: self.state.decided() })
    }

    /// A session's link was read: tells it, and looks at the session's rules without waiting for the next tick.
    pub(crate) fn link_came(&mut self, at_ms: u64, session: u64, link: Link) -> Looked {
        self.read_link(at_ms, session, link);
        let before = self.decisions.len();
        self.engine.evaluate_session(at_ms, session, &mut self.state, &mut self.decisions);
        self.note(at_ms, Recorded::Look { session });
        let variant = self.chosen_since(before);
        self.bound_decisions();
        Looked { variant, decided: self.state.decided() }
    }

    /// The variant that the decisions behind the first so many choose.
    fn chosen_since(&self, before: usize) -> Option<String> {
        let fired = self.decisions[before..].iter().filter(|decision| decision.outcome.is_fired());
        fired.flat_map(|decision| &decision.orders).filter_map(variant_of).next_back().map(str::to_owned)
    }

    /// So many sessions alike began and ended since the last tick of which nothing was to be decided: it is only written
    /// down.
    pub(crate) fn passed(&mut self, at_ms: u64, path: &str, link: Link, mut sessions: u32) {
        let (bandwidth_bps, rtt_s) = (link.bandwidth_bps, link.rtt_s);
        while sessions > 0 {
            let some = sessions.min(PASSED_MAX);
            self.note(at_ms, Recorded::Passed { sessions: some, atom: path.to_owned(), bandwidth_bps, rtt_s });
            sessions -= some;
        }
    }

    /// A session is over.
    pub(crate) fn end(&mut self, at_ms: u64, session: u64) {
        self.engine.end(&mut self.state, session);
        self.note(at_ms, Recorded::End { session });
    }

    /// Looks at all rules whose time has come.
    pub(crate) fn tick(&mut self, at_ms: u64) {
        self.engine.tick(at_ms, &[], &mut self.state, &mut self.decisions);
        self.note(at_ms, Recorded::Tick);
        self.bound_decisions();
    }

    /// The rules that have decided for a session behind the first so many decisions; `None`: these are not here any more.
    pub(crate) fn decided_for(&self, session: u64, before: u64) -> Option<Vec<DecidedBy>> {
        (self.decisions_gone <= before).then(|| decided::of_session(&self.decisions, session, before))
    }

    /// The rule that has decided last for a session, if that is here still.
    pub(crate) fn decided_last(&self, session: u64) -> Option<DecidedBy> {
        decided::last_of_session(&self.decisions, session)
    }

    fn note(&mut self, at_ms: u64, what: Recorded) {
        if !self.is_recorded {
            return;
        }
        if self.entries.len() < ENTRIES_MAX {
            self.entries.push(Entry { at_ms, what });
        } else {
            self.entries_lost += 1;
        }
    }

    fn bound_decisions(&mut self) {
        let surplus = self.decisions.len().saturating_sub(DECISIONS_MAX);
        if surplus > 0 {
            self.decisions_gone = self.state.decided();
        }
        self.decisions_lost += surplus as u64;
        self.decisions.truncate(DECISIONS_MAX);
    }

    /// Whether what was told since the last time takes half of its room.
    pub(crate) fn is_half_full(&self) -> bool {
        self.entries.len() >= ENTRIES_MAX / 2
    }

    /// What was told since the last time, and how much of it there was no room for.
    pub(crate) fn take_entries(&mut self) -> (Vec<Entry>, u64) {
        (std::mem::take(&mut self.entries), std::mem::take(&mut self.entries_lost))
    }

    /// What was decided since the last time, and how much of it there was no room for.
    pub(crate) fn take_decisions(&mut self) -> (Vec<Decision>, u64) {
        self.decisions_gone = self.state.decided();
        (std::mem::take(&mut self.decisions), std::mem::take(&mut self.decisions_lost))
    }
}

/// The variant that an order asks for.
pub(crate) fn variant_of(order: &weir_adapt::Order) -> Option<&str> {
    match order {
        weir_adapt::Order::Use { variant } | weir_adapt::Order::Place { variant: Some(variant), .. } => Some(variant),
        _ => None,
    }
}
