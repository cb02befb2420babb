//! Tells an engine again what was recorded: the decisions that a policy would have made.

use crate::decision::Decision;
use crate::engine::Engine;
use crate::log::{Entry, Header, Owner, Recorded};
use crate::reading::{Of, Reading, Resource};
use crate::state::State;
use std::collections::VecDeque;
use thiserror::Error;

/// Ticks between two entries at most.
const TICKS_MAX: u64 = 1_000_000;
/// Decisions that wait for the recorded one at most.
const COMPARED_MAX: usize = 65_536;
/// How long the rate of 0 of a client that is gone holds, for rules that are active for it.
const GONE_VALID_MS: u64 = 24 * 3_600_000;
/// The session number of all sessions that were only counted; they are replayed one after the other.
const PASSED: u64 = u64::MAX;

/// Why an entry or a state cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReplayError {
    /// The entry is older than one before it.
    #[error("{at_ms} ms is before {last_ms} ms, which was told already; sort the lines")]
    BackInTime {
        /// When the entry was.
        at_ms: u64,
        /// When the last one was.
        last_ms: u64,
    },
    /// The entry is so late that too many ticks would come before it.
    #[error("more than {TICKS_MAX} ticks would be before {at_ms} ms; are the times milliseconds?")]
    TooManyTicks {
        /// When the entry was.
        at_ms: u64,
    },
    /// The state is one of another policy or node.
    #[error("the state is one of another policy; begin anew, or take the policy that it was made with")]
    OtherPolicy,
}

/// A replay on its way.
#[derive(Debug)]
pub struct Replay {
    engine: Engine,
    state: State,
    header: Header,
    /// When the next tick is, where the header has them.
    next_tick_ms: Option<u64>,
    last_ms: u64,
    /// Sessions that have begun and for which nothing was decided yet.
    begun: Vec<u64>,
    counts: ReplayCounts,
    recorded: Comparison,
}

/// Decisions of the replay beside those that were recorded, in the order of their numbers.
#[derive(Debug, Default)]
struct Comparison {
    /// Those of the replay that were not met in the recording yet, of the latest so many.
    own: VecDeque<Decision>,
    same: u64,
    others: u64,
}

impl Comparison {
    fn own(&mut self, decisions: &[Decision]) {
        self.own.extend(decisions.iter().cloned());
        let surplus = self.own.len().saturating_sub(COMPARED_MAX);
        self.own.drain(..surplus);
    }

    fn recorded(&mut self, recorded: &Decision) {
        while self.own.front().is_some_and(|own| own.number <= recorded.number) {
            let Some(own) = self.own.pop_front() else { break };
            if own.number == recorded.number {
                let is_same = is_same(&own, recorded);
                self.same += u64::from(is_same);
                self.others += u64::from(!is_same);
                return;
            }
        }
        self.others += 1;
    }
}

/// Whether two decisions are the same, apart from the values that they cite.
fn is_same(one: &Decision, other: &Decision) -> bool {
    let kind = |decision: &Decision| std::mem::discriminant(&decision.outcome);
    let what = |decision: &Decision| {
        let Decision { at_ms, rule, line, subject, orders, .. } = decision.clone();
        (at_ms, rule, line, subject, orders)
    };
    kind(one) == kind(other) && what(one) == what(other)
}

/// How much was told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplayCounts {
    /// Entries.
    pub entries: u64,
    /// Ticks, those of the header among them.
    pub ticks: u64,
    /// When the first entry was, in milliseconds.
    pub first_ms: Option<u64>,
    /// When the last one was, in milliseconds.
    pub last_ms: u64,
    /// Lines that the recorder could not write.
    pub lost: u64,
    /// Lines of sessions that had not begun, or had begun already: nothing is decided for them.
    pub of_no_session: u64,
    /// Decisions that were recorded, and are those of the replay.
    pub same: u64,
    /// Decisions that were recorded, and are others than those of the replay: of other rules, or lines were lost.
    pub others: u64,
}

impl Replay {
    /// Of an engine that is at the node which the header names, or at another one.
    pub fn new(engine: Engine, here: &str, header: Header) -> Self {
        let state = engine.state(here);
        let counts = ReplayCounts::default();
        Self {
            engine,
            state,
            header,
            next_tick_ms: None,
            last_ms: 0,
            begun: Vec::new(),
            counts,
            recorded: Comparison::default(),
        }
    }

    /// Tells an entry, and the ticks before it; decisions are added to the list.
    ///
    /// # Errors
    /// It goes back in time (only readings may be older than what was told before them), or there would be too many ticks.
    pub fn entry(&mut self, entry: &Entry, decisions: &mut Vec<Decision>) -> Result<(), ReplayError> {
        let before = decisions.len();
        let told = self.tell(entry, decisions);
        self.recorded.own(&decisions[before..]);
        told
    }

    fn tell(&mut self, entry: &Entry, decisions: &mut Vec<Decision>) -> Result<(), ReplayError> {
        let Entry { at_ms, what } = entry;
        self.counts.entries += 1;
        self.counts.first_ms.get_or_insert(*at_ms);
        match what {
            Recorded::Reading { resource, of, value, valid_ms } => {
                self.ticks_before(*at_ms, decisions)?;
                self.reading(*at_ms, (*resource, of), *value, *valid_ms);
            }
            Recorded::Season { resource, of, season } => {
                self.engine.take_season((*resource, of), season, &mut self.state);
            }
            // Behind the tick that they are of, and nothing that an engine is told.
            Recorded::Decided(decision) => self.recorded.recorded(decision),
            Recorded::Lost { lines } => self.counts.lost = self.counts.lost.saturating_add(*lines),
            _ => self.event(*at_ms, what, decisions)?,
        }
        Ok(())
    }

    fn reading(&mut self, at_ms: u64, (resource, of): (Resource, &Owner), value: f64, valid_ms: Option<u64>) {
        let of = match of {
            Owner::Node(name) => self.engine.node(&mut self.state, name).map(Of::Node),
            Owner::Atom(path) => self.engine.atom(&mut self.state, path).map(Of::Atom),
            Owner::Session(number) => Some(Of::Session(*number)),
            Owner::Client(name) => self.engine.client(&mut self.state, name).map(Of::Client),
        };
        // What there is no room for is counted with the state.
        if let Some(of) = of {
            let valid_ms = valid_ms.unwrap_or(self.header.valid_ms);
            self.engine.read(at_ms, &[Reading { resource, of, value, at_ms, valid_ms }], &mut self.state);
        }
        self.counts.last_ms = self.counts.last_ms.max(at_ms);
    }

    /// Tells what has its place in time: all but readings, and what an engine is not told.
    fn event(&mut self, at_ms: u64, what: &Recorded, decisions: &mut Vec<Decision>) -> Result<(), ReplayError> {
        if at_ms < self.last_ms {
            return Err(ReplayError::BackInTime { at_ms, last_ms: self.last_ms });
        }
        self.ticks_before(at_ms, decisions)?;
        // What passed did so before this was written: a reading may hold no longer by now.
        let passed_ms = std::mem::replace(&mut self.last_ms, at_ms);
        self.counts.last_ms = self.counts.last_ms.max(at_ms);
        if let Recorded::Start { session } | Recorded::Look { session } | Recorded::End { session } = what {
            self.counts.of_no_session += u64::from(!self.state.has_session(*session));
        }
        match what {
            Recorded::Reading { .. } | Recorded::Season { .. } | Recorded::Decided(_) | Recorded::Lost { .. } => {}
            Recorded::Begin { session, atom, client } => {
                let atom = self.engine.atom(&mut self.state, atom);
                let client = client.as_ref().and_then(|name| self.engine.client(&mut self.state, name));
                self.counts.of_no_session += u64::from(self.state.has_session(*session));
                if atom.is_some_and(|atom| self.engine.begin_of(&mut self.state, *session, atom, client)) {
                    self.begun.push(*session);
                }
            }
            Recorded::Gone { client } => self.gone(at_ms, client),
            Recorded::GoneAtom { atom } => self.gone_atom(at_ms, atom),
            Recorded::Start { session } => {
                self.begun.retain(|begun| begun != session);
                self.engine.start(at_ms, *session, &mut self.state, decisions);
            }
            Recorded::Look { session } => self.engine.evaluate_session(at_ms, *session, &mut self.state, decisions),
            Recorded::End { session } => {
                self.begun.retain(|begun| begun != session);
                self.engine.end(&mut self.state, *session);
            }
            Recorded::Passed { sessions, atom, bandwidth_bps, rtt_s } => {
                self.passed(passed_ms, (*sessions, atom), (*bandwidth_bps, *rtt_s), decisions);
            }
            Recorded::Node { name, up } => {
                if let Some(node) = self.engine.node(&mut self.state, name) {
                    self.engine.node_is_up(&mut self.state, node, *up);
                }
            }
            Recorded::Tick => self.tick(at_ms, decisions),
        }
        Ok(())
    }

    /// The recorder forgot a client. If one of these rules is active for it, a recorder with these rules would have
    /// gone on reporting a rate of 0 for it.
    fn gone(&mut self, at_ms: u64, client: &str) {
        let Self { engine, state, .. } = self;
        if !engine.forget_client(state, client)
            && let Some(id) = state.known_client(client)
        {
            let (resource, of) = (Resource::Rate, Of::Client(id));
            engine.read(at_ms, &[Reading { resource, of, value: 0.0, at_ms, valid_ms: GONE_VALID_MS }], state);
        }
    }

    /// The same of an atom.
    fn gone_atom(&mut self, at_ms: u64, path: &str) {
        let Self { engine, state, .. } = self;
        if !engine.forget_atom(state, path)
            && let Some(id) = state.known_atom(path)
        {
            for resource in [Resource::Rate, Resource::Errors, Resource::ErrorShare, Resource::Active] {
                let of = Of::Atom(id);
                engine.read(at_ms, &[Reading { resource, of, value: 0.0, at_ms, valid_ms: GONE_VALID_MS }], state);
            }
        }
    }

    /// Sessions that began and ended alike: each is decided for, as these rules may be others than those that were at
    /// work.
    fn passed(
        &mut self,
        at_ms: u64,
        (sessions, path): (u32, &str),
        (bandwidth_bps, rtt_s): (Option<f64>, Option<f64>),
        decisions: &mut Vec<Decision>,
    ) {
        let Self { engine, state, header, .. } = self;
        let Some(atom) = engine.atom(state, path) else { return };
        let policy = engine.policy();
        let is_at_rest = policy.pattern_of(path).is_some_and(|pattern| policy.starts_at_rest(pattern).is_some());
        let known = [(Resource::Bandwidth, bandwidth_bps), (Resource::Rtt, rtt_s)];
        for _ in 0..sessions {
            let before = decisions.len();
            if !engine.begin(state, PASSED, atom) {
                return;
            }
            for (resource, value) in known.into_iter().filter_map(|(resource, value)| Some((resource, value?))) {
                let reading = Reading { resource, of: Of::Session(PASSED), value, at_ms, valid_ms: header.valid_ms };
                engine.read(at_ms, &[reading], state);
            }
            engine.start(at_ms, PASSED, state, decisions);
            engine.end(state, PASSED);
            // If the rules remember nothing and decide nothing for this session, they decide nothing for the others.
            if is_at_rest && decisions.len() == before {
                return;
            }
        }
    }

    /// The ticks that the header tells of, up to a time.
    fn ticks_before(&mut self, at_ms: u64, decisions: &mut Vec<Decision>) -> Result<(), ReplayError> {
        let Some(tick_ms) = self.header.tick_ms else { return Ok(()) };
        let next_ms = *self.next_tick_ms.get_or_insert(at_ms + tick_ms);
        if at_ms.saturating_sub(next_ms) / tick_ms > TICKS_MAX {
            return Err(ReplayError::TooManyTicks { at_ms });
        }
        let mut next_ms = next_ms;
        while next_ms < at_ms {
            self.tick(next_ms, decisions);
            self.last_ms = self.last_ms.max(next_ms);
            next_ms += tick_ms;
        }
        self.next_tick_ms = Some(next_ms);
        Ok(())
    }

    fn tick(&mut self, at_ms: u64, decisions: &mut Vec<Decision>) {
        for session in std::mem::take(&mut self.begun) {
            self.engine.start(at_ms, session, &mut self.state, decisions);
        }
        self.counts.ticks += 1;
        self.engine.tick(at_ms, &[], &mut self.state, decisions);
    }

    /// The tick behind the last entry, where the header tells of ticks.
    pub fn finish(&mut self, decisions: &mut Vec<Decision>) {
        if let Some(next_ms) = self.next_tick_ms {
            self.tick(next_ms, decisions);
        }
    }

    /// Goes on with a state that was written down.
    ///
    /// # Errors
    /// It is one of another policy or node.
    pub fn resume(&mut self, state: State) -> Result<(), ReplayError> {
        if !self.engine.fits(&state) {
            return Err(ReplayError::OtherPolicy);
        }
        self.state = state;
        Ok(())
    }

    /// How much was told so far.
    pub fn counts(&self) -> ReplayCounts {
        ReplayCounts { same: self.recorded.same, others: self.recorded.others, ..self.counts }
    }

    /// The engine that is told.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// What the engine remembers.
    pub fn state(&self) -> &State {
        &self.state
    }
}
