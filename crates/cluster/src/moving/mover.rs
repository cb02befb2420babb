//! Drives both sides of moves: it calls the keeper, the server, the director and the other node as the state machines say.

mod fence;

use super::giving::{Giving, GivingStep, Heard};
use super::parts::{
    Directing, DirectingError, Keeper, KeeperFault, Relaying, SessionError, Sessions, Taken, Transport, TransportError,
};
use super::reasons;
use super::registry::{Event, Outcome, Registry, us};
use super::taking::{Answer, Taking, TakingInput, TakingStep};
use crate::message::{Claim, Decline, MESSAGE_BYTES_MAX, Message, Owner, Timings};
use crate::name::NodeNumber;
use crate::record::{MoveId, Record, Span};
use crate::replicas::Births;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use weir_keeper::{Flow, TcpState};
use zeroize::Zeroizing;

/// Answers to moves that are over, for a record that arrives twice.
const ANSWERS_MAX: usize = 1_024;
/// Contents that were looked for a moment ago, and are not looked for again: a drain moves many downloads of few files.
const EXPECTED_MAX: usize = 64;
/// Bytes of such contents.
const EXPECTED_BYTES_MAX: usize = 4 << 10;
/// How long they are not looked for again. Where they were changed, the record is refused, and the session comes back.
const EXPECTED_FOR: Duration = Duration::from_secs(2);
/// Flows whose last move is remembered.
const FLOWS_MAX: usize = 65_536;

/// A session was not moved.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// The flow is being moved.
    #[error("the session is being moved; wait for the end of that move")]
    UnderWay,
    /// It was moved a moment ago.
    #[error("the session was moved less than {} ms ago; ask again later", .0.as_millis())]
    TooSoon(Duration),
    /// Too many are under way.
    #[error("{0} sessions are being moved; ask again when some have arrived")]
    TooMany(usize),
    /// The new node is the old one.
    #[error("node {0} has the session already; name another node")]
    Itself(NodeNumber),
    /// The record is too large.
    #[error("the session needs {0} bytes to move, and {MESSAGE_BYTES_MAX} are allowed; move it when less is under way")]
    TooLarge(usize),
    /// The server does not give it.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The keeper fails.
    #[error(transparent)]
    Keeper(#[from] KeeperFault),
    /// The new node does not take it, or cannot be reached; the session was not stopped.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// It went on at the old node.
    #[error("the session goes on at its old node: {0}")]
    CameBack(String),
    /// This node stops, and the director has not said who has it.
    #[error("nothing is known of the session: {0}; see that the director can be reached")]
    Undecided(String),
}

impl MoveError {
    /// Its word in figures.
    fn reason(&self) -> &'static str {
        match self {
            Self::UnderWay => "under_way",
            Self::TooSoon(_) => "too_soon",
            Self::TooMany(_) => "too_many",
            Self::Itself(_) => "itself",
            Self::TooLarge(_) => "too_large",
            Self::Session(error) => reasons::of_session(error),
            Self::Keeper(error) => reasons::of_keeper(error),
            Self::Transport(error) => reasons::of_transport(error),
            Self::CameBack(_) => "came_back",
            Self::Undecided(_) => reasons::STOPS,
        }
    }
}

/// How a node moves sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MoverSettings {
    /// This node.
    pub node: NodeNumber,
    /// The number of its first move: above all that it gave before a restart, such as microseconds since 1970.
    pub first_move: u64,
    /// A flow rests so long between two moves.
    pub rest: Duration,
    /// Moves under way at a time, both ways together.
    pub under_way_max: usize,
}

impl MoverSettings {
    /// The usual ones.
    pub fn new(node: NodeNumber, first_move: u64) -> Self {
        Self { node, first_move, rest: Duration::from_millis(500), under_way_max: 64 }
    }
}

#[derive(Default)]
struct Flows {
    under_way: HashMap<Flow, MoveId>,
    /// Of those, the ones that go on here by the director's word.
    granted: HashSet<Flow>,
    moved: HashMap<Flow, Instant>,
    order: VecDeque<(Flow, Instant)>,
    answers: VecDeque<(MoveId, Message)>,
    /// What other nodes have found.
    expected: VecDeque<(NodeNumber, Vec<u8>, Instant)>,
}

/// Moves sessions of one node, to it and from it.
pub struct Mover {
    settings: MoverSettings,
    keeper: Arc<dyn Keeper>,
    sessions: Arc<dyn Sessions>,
    directing: Arc<dyn Directing>,
    transport: Arc<dyn Transport>,
    registry: Registry,
    flows: Mutex<Flows>,
    next: AtomicU64,
    epoch: AtomicU64,
    stops: AtomicBool,
    births: Arc<Births>,
    relaying: Option<Arc<dyn Relaying>>,
}

impl fmt::Debug for Mover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mover").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Mover {
    /// Puts the parts together.
    pub fn new(
        settings: MoverSettings,
        keeper: Arc<dyn Keeper>,
        sessions: Arc<dyn Sessions>,
        directing: Arc<dyn Directing>,
        transport: Arc<dyn Transport>,
        registry: Registry,
    ) -> Self {
        let next = AtomicU64::new(settings.first_move);
        let (epoch, stops) = (AtomicU64::new(0), AtomicBool::new(false));
        let (flows, births) = (Mutex::default(), Arc::default());
        let relaying = None;
        Self { settings, keeper, sessions, directing, transport, registry, flows, next, epoch, stops, births, relaying }
    }

    /// Also moves sessions whose responses this node goes on making, or another one.
    #[must_use]
    pub fn with_relays(self, relaying: Arc<dyn Relaying>) -> Self {
        Self { relaying: Some(relaying), ..self }
    }

    /// A name that no move and no replica of this node has.
    pub fn next_id(&self) -> MoveId {
        MoveId { giver: self.settings.node, number: self.next.fetch_add(1, Ordering::Relaxed) }
    }

    /// The births of sockets that were restored here.
    pub fn births(&self) -> &Arc<Births> {
        &self.births
    }

    /// What it has counted.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Ends the waiting of moves that the director does not decide.
    pub fn stop(&self) {
        self.stops.store(true, Ordering::Relaxed);
    }

    /// Moves the session on a flow to another node, and waits until it is there or goes on here.
    ///
    /// # Errors
    /// [`MoveError`]; but for `Undecided` the session goes on here then.
    pub fn give(&self, flow: &Flow, to: NodeNumber) -> Result<Event, MoveError> {
        let begun = Instant::now();
        let id = self.next_id();
        let begin = || if to == self.settings.node { Err(MoveError::Itself(to)) } else { self.begin(flow, id) };
        let ended = |outcome, reason, why: String| self.registry.ended(Event::of(outcome, id, flow, to, why), reason);
        let not_begun = |error: &MoveError| ended(Outcome::NotBegun, error.reason(), error.to_string());
        let _under_way = begin().inspect_err(not_begun)?;
        let is_under_way = self.have_expected(flow, to).inspect_err(not_begun)?;
        let taken = self.sessions.take(flow).map_err(MoveError::from).inspect_err(not_begun)?;
        let (frozen_at, relays) = (Instant::now(), taken.relays.len() as u64);
        let record = match self.record(id, &taken) {
            Ok(record) => record,
            Err(error) => {
                not_begun(&error);
                self.sessions.give_back(taken);
                return Err(error);
            }
        };
        let record = Arc::new(record);
        let timings = match self.decide(to, &record, taken)? {
            Decision::Given(timings) => timings,
            Decision::Back(why) => {
                ended(Outcome::CameBack, reasons::DECLINED, why.clone());
                return Err(MoveError::CameBack(why));
            }
        };
        let (freeze, total) = (frozen_at.elapsed(), begun.elapsed());
        let given = Event::of(Outcome::Given, id, flow, to, "");
        let event = Event { freeze, total, is_under_way: Some(is_under_way), relays, timings, ..given };
        tracing::debug!(from = event.from, to, freeze_us = us(event.freeze), "a session has moved");
        self.registry.ended(event.clone(), "");
        Ok(event)
    }

    /// Has the new node look for what the session has under way, while that goes on: files may be large, and one that it
    /// has not stops nothing. Whether the session has something under way.
    fn have_expected(&self, flow: &Flow, to: NodeNumber) -> Result<bool, MoveError> {
        let preview = self.sessions.preview(flow)?;
        let is_under_way = !preview.is_empty();
        let now = Instant::now();
        let is_recent = |at: Instant| now.duration_since(at) < EXPECTED_FOR;
        let is_known = |flows: &Flows| {
            flows.expected.iter().any(|(node, found, at)| *node == to && *found == preview && is_recent(*at))
        };
        if !is_under_way || is_known(&self.flows()) {
            return Ok(is_under_way);
        }
        self.transport.expect(to, preview.clone())?;
        if preview.len() <= EXPECTED_BYTES_MAX {
            let mut flows = self.flows();
            flows.expected.retain(|(node, found, at)| is_recent(*at) && (*node, found) != (to, &preview));
            if flows.expected.len() == EXPECTED_MAX {
                flows.expected.pop_front();
            }
            flows.expected.push_back((to, preview, now));
        }
        Ok(true)
    }

    /// Looks for what a session of another node has under way, before it comes.
    ///
    /// # Errors
    /// [`SessionError`], if this node cannot go on with such a session.
    pub fn expect(&self, preview: &[u8]) -> Result<(), SessionError> {
        self.sessions.prepare(preview, &[]).map(drop)
    }

    /// Freezes the connection and writes its record; the connection goes on if that fails.
    fn record(&self, id: MoveId, taken: &Taken) -> Result<Record, MoveError> {
        let epoch = self.newest_epoch();
        let frozen = self.keeper.freeze(taken.fd.as_fd(), epoch)?;
        let written = || {
            let mut tcp = frozen.tcp.clone();
            let (session, known_bytes) = self.without_unsent(&mut tcp, taken);
            let unacknowledged = tcp.unacknowledged_bytes;
            let known = u64::from(unacknowledged).min(known_bytes);
            // Not above the unacknowledged bytes, which are a u32.
            let raw = unacknowledged - known as u32;
            let mut spans = Vec::new();
            if raw > 0 {
                spans.push(Span::Raw(self.keeper.send_queue(taken.fd.as_fd(), raw)?));
            }
            if known > 0 {
                spans.push(Span::Session { from: known_bytes - known, len: known });
            }
            // The addresses as the keeper writes them: it knows those of IPv4 within IPv6.
            let flow = Flow { client: tcp.peer, service: tcp.local };
            let record = Record { id, epoch, flow, tcp, unread: frozen.unread.clone(), spans, session };
            let bytes = record.encoded_bytes();
            if bytes > MESSAGE_BYTES_MAX { Err(MoveError::TooLarge(bytes)) } else { Ok(record) }
        };
        written().inspect_err(|_| {
            // Where the keeper is gone, the server finds out at its next write.
            let _ = self.keeper.thaw(taken.fd.as_fd());
        })
    }

    /// The session and its known bytes; what was never sent is taken out of both, if the session can be told so.
    fn without_unsent(&self, tcp: &mut TcpState, taken: &Taken) -> (Zeroizing<Vec<u8>>, u64) {
        let unsent = tcp.unsent_bytes.min(tcp.unacknowledged_bytes);
        let known_bytes =
            taken.known_bytes.checked_sub(u64::from(unsent)).filter(|_| unsent > 0 && unsent == tcp.unsent_bytes);
        let rewound = known_bytes
            .and_then(|known_bytes| Some((self.sessions.rewind(&taken.session, u64::from(unsent))?, known_bytes)));
        let Some((session, known_bytes)) = rewound else {
            return (taken.session.clone(), taken.known_bytes);
        };
        tcp.leave_unsent();
        (Zeroizing::new(session), known_bytes)
    }

    /// Sends the record, waits for the word of the new node or of the director, and acts on it.
    fn decide(&self, to: NodeNumber, record: &Arc<Record>, mut taken: Taken) -> Result<Decision, MoveError> {
        let mut giving = Giving::new();
        let (mut heard, mut why) = heard(self.transport.send(to, record));
        loop {
            let step = giving.hear(&heard);
            match step {
                GivingStep::Ask(after) | GivingStep::SendAgain(after) => {
                    if self.stops.load(Ordering::Relaxed) {
                        let event = Event::of(Outcome::Undecided, record.id, &record.flow, to, why.clone());
                        self.registry.ended(event, reasons::STOPS);
                        return Err(MoveError::Undecided(why));
                    }
                    std::thread::sleep(after);
                    if !after.is_zero() {
                        self.renew(&record.flow);
                    }
                    let (next, said) = if matches!(step, GivingStep::Ask(_)) {
                        self.reclaim(to, record, giving.is_refused())
                    } else {
                        self::heard(self.transport.send(to, record))
                    };
                    heard = next;
                    if !said.is_empty() {
                        why = said;
                    }
                }
                GivingStep::Discard => {
                    if let Some(relaying) = self.relaying.as_ref().filter(|_| !taken.relays.is_empty()) {
                        relaying.give(record.id, to, std::mem::take(&mut taken.relays));
                    }
                    self.keeper.discard(taken.fd.as_fd())?;
                    let timings = if let Heard::Done(timings) = heard { timings } else { Timings::default() };
                    return Ok(Decision::Given(timings));
                }
                GivingStep::GoOn => {
                    let thawed = self.keeper.thaw(taken.fd.as_fd());
                    self.sessions.give_back(taken);
                    thawed?;
                    return Ok(Decision::Back(why));
                }
                // Each pass hears one thing, and the steps above end the loop.
                GivingStep::Rest => return Ok(Decision::Back(why)),
            }
        }
    }

    /// Has a connection stand still for longer: the keeper ends holds that are not renewed.
    fn renew(&self, flow: &Flow) {
        if let Err(error) = self.keeper.renew(flow) {
            // The next step finds out whether the connection can still go on.
            tracing::warn!(%error, "a connection that is being moved is held no longer");
        }
    }

    fn reclaim(&self, taker: NodeNumber, record: &Record, is_refused: bool) -> (Heard, String) {
        self.registry.asked();
        let Record { id, flow, epoch, .. } = record;
        let claim = Claim { id: *id, flow: *flow, epoch: *epoch, taker, is_refused };
        let granted = |owner: &Owner| *owner == Owner::Giver;
        match self.directed(flow, |directing| directing.reclaim(claim), granted) {
            Ok(owner) => (Heard::Owner(owner), String::new()),
            Err(error) => (Heard::DirectorSilent, error.to_string()),
        }
    }

    /// Takes in a session; the answer is `Done`, `Refused`, or `Failed` where the director is to be asked.
    pub fn take(&self, record: Record) -> Message {
        let id = record.id;
        if let Some(answer) = self.answered(id) {
            return answer;
        }
        let (flow, own) = (record.flow, self.settings.node);
        let refused = |is_settled, reason, why: String| {
            self.registry.ended(Event::of(Outcome::Refused, id, &flow, own, why.clone()), reason);
            Message::Refused { id, is_settled, why }
        };
        self.epoch.fetch_max(record.epoch, Ordering::AcqRel);
        let newest = self.newest_epoch();
        // One that is under way is not refused: it may have been confirmed.
        let is_under_way = self.flows().under_way.get(&record.flow) == Some(&id);
        if record.epoch < newest && !is_under_way {
            // The giver learns the epoch from the director, which it asks then.
            return refused(false, reasons::OLD_EPOCH, Decline::Epoch(newest).to_string());
        }
        let _under_way = match self.begin(&record.flow, id) {
            Ok(under_way) => under_way,
            // The first of two equal records decides.
            Err(MoveError::UnderWay) if self.flows().under_way.get(&record.flow) == Some(&id) => {
                return Message::Failed { why: MoveError::UnderWay.to_string() };
            }
            Err(error) => return refused(true, error.reason(), error.to_string()),
        };
        // It may have ended since the first look.
        if let Some(answer) = self.answered(id) {
            return answer;
        }
        let (begun, timings) = (Instant::now(), Timings::default());
        let intake = Intake {
            mover: self,
            record,
            sent: Vec::new(),
            socket: None,
            relays: Vec::new(),
            timings,
            begun,
            failed: None,
        };
        let answer = intake.run();
        let mut flows = self.flows();
        if flows.answers.len() == ANSWERS_MAX {
            flows.answers.pop_front();
        }
        flows.answers.push_back((id, answer.clone()));
        answer
    }

    fn answered(&self, id: MoveId) -> Option<Message> {
        self.flows().answers.iter().rev().find(|(other, _)| *other == id).map(|(_, answer)| answer.clone())
    }

    fn begin(&self, flow: &Flow, id: MoveId) -> Result<UnderWay<'_>, MoveError> {
        let mut flows = self.flows();
        if flows.under_way.contains_key(flow) {
            return Err(MoveError::UnderWay);
        }
        if flows.under_way.len() >= self.settings.under_way_max {
            return Err(MoveError::TooMany(flows.under_way.len()));
        }
        // A session that just came rests here; one that left may come back at once.
        if id.giver == self.settings.node
            && flows.moved.get(flow).is_some_and(|moved| moved.elapsed() < self.settings.rest)
        {
            return Err(MoveError::TooSoon(self.settings.rest));
        }
        flows.under_way.insert(*flow, id);
        Ok(UnderWay { mover: self, flow: *flow })
    }

    fn flows(&self) -> MutexGuard<'_, Flows> {
        self.flows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A move under way; its end is noted when it is dropped.
struct UnderWay<'m> {
    mover: &'m Mover,
    flow: Flow,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let now = Instant::now();
        let mut flows = self.mover.flows();
        flows.under_way.remove(&self.flow);
        flows.granted.remove(&self.flow);
        flows.moved.insert(self.flow, now);
        flows.order.push_back((self.flow, now));
        let rest = self.mover.settings.rest;
        while flows.order.len() > FLOWS_MAX || flows.order.front().is_some_and(|(_, at)| now.duration_since(*at) > rest)
        {
            let Some((flow, at)) = flows.order.pop_front() else { break };
            if flows.moved.get(&flow) == Some(&at) {
                flows.moved.remove(&flow);
            }
        }
    }
}

/// How a move ended for the old node.
enum Decision {
    /// The other node has the session.
    Given(Timings),
    /// It goes on here, and why.
    Back(String),
}

/// What the transport brought, for the old node's side.
fn heard(answer: Result<Message, TransportError>) -> (Heard, String) {
    match answer {
        Ok(Message::Done { timings, .. }) => (Heard::Done(timings), String::new()),
        Ok(Message::Refused { is_settled, why, .. }) => (Heard::Refused { is_settled }, why),
        Ok(Message::Failed { why }) => (Heard::Nothing, why),
        Ok(_) => (Heard::Nothing, "the node answers something else".to_owned()),
        Err(error @ (TransportError::NotSent { .. } | TransportError::Refused { .. })) => {
            (Heard::NotSent, error.to_string())
        }
        Err(error @ TransportError::NoAnswer { .. }) => (Heard::Nothing, error.to_string()),
    }
}

/// A step of taking a session in fails.
#[derive(Debug, thiserror::Error)]
enum IntakeError {
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error(transparent)]
    Keeper(#[from] KeeperFault),
    #[error("the server made {made} of {wanted} unacknowledged bytes; report this")]
    OtherLength { made: usize, wanted: u32 },
    #[error("there is no socket; report this")]
    NoSocket,
    #[error("this node takes no responses that another one goes on making; run the same version of weir on all nodes")]
    NoRelays,
    #[error("there are no sockets for responses that another node goes on making: {0}; allow more descriptors")]
    Sockets(std::io::Error),
}

impl IntakeError {
    /// Its word in figures.
    fn reason(&self) -> &'static str {
        match self {
            Self::Session(error) => reasons::of_session(error),
            Self::Keeper(error) => reasons::of_keeper(error),
            Self::OtherLength { .. } => "other_length",
            Self::NoSocket => "no_socket",
            Self::NoRelays => "no_relays",
            Self::Sockets(_) => "no_sockets",
        }
    }
}

/// A session that is taken in.
struct Intake<'m> {
    mover: &'m Mover,
    record: Record,
    sent: Vec<u8>,
    socket: Option<OwnedFd>,
    /// By these comes what the giver goes on making.
    relays: Vec<OwnedFd>,
    timings: Timings,
    begun: Instant,
    /// Why a step failed, in a word.
    failed: Option<&'static str>,
}

impl Intake<'_> {
    fn run(mut self) -> Message {
        let mut taking = Taking::new();
        let mut step = TakingStep::Prepare;
        let mut holds = false;
        loop {
            let begun = Instant::now();
            let input = match step {
                TakingStep::Prepare => {
                    let prepared = self.prepare();
                    self.done(prepared, TakingInput::Prepared)
                }
                TakingStep::Hold => {
                    holds = true;
                    let held = self.mover.keeper.hold(&self.record.flow, self.record.epoch);
                    self.done(held.map_err(IntakeError::from), TakingInput::Held)
                }
                TakingStep::Steer => {
                    let (id, epoch) = (self.record.id, self.record.epoch);
                    let flow = &self.record.flow;
                    let steered = self.mover.directed(flow, |directing| directing.steer(id, flow, epoch), |_| false);
                    TakingInput::Steered(answered(steered))
                }
                TakingStep::Restore(seen) => {
                    let restored = self.restore(seen.as_ref());
                    self.done(restored, TakingInput::Restored)
                }
                TakingStep::Confirm(after) => {
                    if self.mover.stops.load(Ordering::Relaxed) && taking.is_unsure() {
                        return self.end(Answer::Lost { why: "this node stops".to_owned() }, holds);
                    }
                    std::thread::sleep(after);
                    if !after.is_zero() {
                        self.mover.renew(&self.record.flow);
                    }
                    let (id, flow) = (self.record.id, &self.record.flow);
                    let confirmed = self.mover.directed(flow, |directing| directing.confirm(id, flow), |()| true);
                    TakingInput::Confirmed(answered(confirmed))
                }
                TakingStep::Activate => {
                    let activated = self.activate();
                    self.done(activated, TakingInput::Activated)
                }
                TakingStep::Reclaim => {
                    let Record { id, flow, epoch, .. } = self.record;
                    let claim = Claim { id, flow, epoch, taker: self.mover.settings.node, is_refused: true };
                    let reclaimed = self.mover.directed(&flow, |directing| directing.reclaim(claim), |_| false);
                    TakingInput::Reclaimed(reclaimed.ok())
                }
                TakingStep::End(answer) => return self.end(answer, holds),
            };
            self.note(&input, begun.elapsed());
            let Some(next) = taking.learn(input) else {
                let why = "a step of the move was answered by another one; report this".to_owned();
                return self.end(Answer::Lost { why }, holds);
            };
            step = next;
        }
    }

    fn note(&mut self, input: &TakingInput, took: Duration) {
        let took = u32::try_from(us(took)).unwrap_or(u32::MAX);
        match input {
            TakingInput::Prepared => self.timings.prepare_us = took,
            TakingInput::Steered(_) => self.timings.steer_us = took,
            TakingInput::Restored => self.timings.restore_us = took,
            TakingInput::Confirmed(_) => self.timings.confirm_us = took,
            TakingInput::Activated => self.timings.activate_us = took,
            TakingInput::Held | TakingInput::Failed(_) | TakingInput::Reclaimed(_) => {}
        }
    }

    /// What a step has come to.
    fn done(&mut self, result: Result<(), IntakeError>, input: TakingInput) -> TakingInput {
        let failed = |error: IntakeError| {
            self.failed = Some(error.reason());
            TakingInput::Failed(error.to_string())
        };
        result.map_or_else(failed, |()| input)
    }

    fn prepare(&mut self) -> Result<(), IntakeError> {
        let record = &self.record;
        let sent = self.mover.sessions.prepare(&record.session, &record.spans)?;
        let wanted = record.tcp.unacknowledged_bytes;
        if sent.len() as u64 != u64::from(wanted) {
            return Err(IntakeError::OtherLength { made: sent.len(), wanted });
        }
        let of_session = record.spans.iter().filter(|span| matches!(span, Span::Session { .. }));
        self.timings.remade_bytes = of_session.map(Span::len).sum();
        self.sent = sent;
        let count = self.mover.sessions.relays(&record.session);
        if count > 0 {
            let relaying = self.mover.relaying.as_ref().ok_or(IntakeError::NoRelays)?;
            self.relays = relaying.take_in(record.id, count).map_err(IntakeError::Sockets)?;
        }
        Ok(())
    }

    fn restore(&mut self, seen: Option<&weir_keeper::Seen>) -> Result<(), IntakeError> {
        if let Some(seen) = seen {
            let acknowledged = self.record.tcp.acknowledge(seen) as usize;
            self.sent.drain(..acknowledged.min(self.sent.len()));
        }
        let Record { tcp, unread, epoch, .. } = &self.record;
        self.socket = Some(self.mover.keeper.restore(tcp, unread, &self.sent, *epoch)?);
        Ok(())
    }

    /// The socket leaves repair mode first: the server could not write to it before.
    fn activate(&mut self) -> Result<(), IntakeError> {
        let socket = self.socket.take().ok_or(IntakeError::NoSocket)?;
        let socket = match self.mover.keeper.activate(socket.as_fd()) {
            Ok(()) => socket,
            Err(KeeperFault::HoldIsOver(_)) => self.activate_anew(socket)?,
            Err(error) => return Err(error.into()),
        };
        self.mover.births.note(socket.as_fd(), &self.record.tcp);
        let session = std::mem::take(&mut self.record.session);
        let relays = std::mem::take(&mut self.relays);
        Ok(self.mover.sessions.adopt(session, socket, relays, self.record.tcp.peer)?)
    }

    /// The keeper was started anew since it has restored the socket, and what was to be written ended with it: nothing has
    /// gone out by the old socket, so that another one is made.
    fn activate_anew(&mut self, old: OwnedFd) -> Result<OwnedFd, IntakeError> {
        // In repair mode it says nothing to the client.
        drop(old);
        self.restore(None)?;
        let socket = self.socket.take().ok_or(IntakeError::NoSocket)?;
        self.mover.keeper.activate(socket.as_fd())?;
        Ok(socket)
    }

    fn end(self, answer: Answer, holds: bool) -> Message {
        let id = self.record.id;
        let (outcome, is_settled, why) = match answer {
            Answer::Done => (Outcome::Taken, true, String::new()),
            Answer::Refused { is_settled, why } => (Outcome::Refused, is_settled, why),
            Answer::Lost { why } => (Outcome::Lost, false, why),
        };
        let event = Event::of(outcome, id, &self.record.flow, self.mover.settings.node, why.clone());
        let (total, timings) = (self.begun.elapsed(), self.timings);
        self.mover.registry.ended(Event { total, timings, ..event }, self.failed.unwrap_or(reasons::DECLINED));
        if outcome == Outcome::Taken {
            return Message::Done { id, timings };
        }
        match &self.socket {
            // The client hears nothing: the old node goes on with it.
            Some(socket) => drop(self.mover.keeper.discard(socket.as_fd())),
            // Where packets may still come here, the hold stays until the keeper ends it: without it, the kernel would
            // reset the connection.
            None if holds && is_settled => drop(self.mover.keeper.release(&self.record.flow)),
            None => {}
        }
        Message::Refused { id, is_settled, why }
    }
}

/// What the director answered, for the new node's side.
fn answered<T>(answer: Result<T, DirectingError>) -> Result<T, Option<Decline>> {
    answer.map_err(|error| match error {
        DirectingError::Declined(decline) => Some(decline),
        DirectingError::Silent(_) => None,
    })
}
