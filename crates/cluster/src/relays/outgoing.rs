//! Responses that this node goes on making.

use super::bounds::{RelaySettings, WINDOW_BYTES};
use super::counts::RelayCounts;
use super::passing::{Passing, Step};
use super::ready::{Ready, Wanted};
use super::word::{BYTES_MAX, COUNT_MAX, Credit, OFFERED, PieceOf, RelayId, RelayState, Turning};
use crate::message::Message;
use crate::moving::TransportError;
use crate::name::NodeNumber;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Read;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Turns of a response that are remembered, for questions whose answers were lost.
const TURNED_MAX: usize = 64;
/// Another node has this part of the silence to say that it takes a response in.
const OFFER_PART: u32 = 5;
/// A node that has a whole window of a response is asked again after this: what it told of that may have been lost.
const ASKED_AFTER: Duration = Duration::from_millis(100);
/// In this part of the silence a node is asked about each response, also where there is nothing for it: it may be over
/// there, and the word of that lost.
const ASKED_PART: u32 = 5;

/// How a credit came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Credited {
    /// As the answer to pieces: the node says it now.
    Answered,
    /// By a message of its own, which may be late: the response may have gone from that node and come back since.
    Told,
}

/// The responses by their names.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    settings: RelaySettings,
    sources: BTreeMap<RelayId, Source>,
    /// This node.
    own: Option<NodeNumber>,
    /// When each node was told something, and since when it does not answer.
    told: BTreeMap<NodeNumber, Told>,
}

#[derive(Debug)]
struct Told {
    at: Instant,
    silent_since: Option<Instant>,
}

/// One response.
#[derive(Debug)]
struct Source {
    socket: UnixStream,
    to: NodeNumber,
    since: Instant,
    /// Bytes that the other node has, and those that its server has taken.
    come: u64,
    taken: u64,
    /// What follows these.
    held: Vec<u8>,
    /// When a piece was sent last, if it may be of none.
    asked: Instant,
    /// The other node has told an end, which its next answer is to say again.
    is_doubted: bool,
    input: Input,
    /// Where another node makes it, and this one passes it on.
    passing: Option<Passing>,
    /// Where it is to go to another node.
    turn: Turn,
    /// The names of wishes that were fulfilled, and from which byte on.
    turned: VecDeque<(RelayId, u64)>,
}

/// Where a response is to go to another node than before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    None,
    /// This node is asked whether it takes it in, until that time; wished for a response of this name.
    Offered {
        to: NodeNumber,
        by: RelayId,
        until: Instant,
    },
    /// It does. That is said to the other node until that has answered.
    Turned {
        is_known: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Input {
    Open,
    /// The server gives no more.
    Over,
}

impl Source {
    fn room(&self) -> usize {
        let given = (self.come - self.taken) as usize + self.held.len();
        WINDOW_BYTES.saturating_sub(given)
    }

    /// Reads what there is and what there is room for.
    fn fill(&mut self) {
        let mut buffer = [0; 16 << 10];
        while self.input == Input::Open && self.room() > 0 {
            let most = buffer.len().min(self.room());
            match self.socket.read(&mut buffer[..most]) {
                Ok(0) => self.input = Input::Over,
                Ok(read) => self.held.extend_from_slice(&buffer[..read]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => self.input = Input::Over,
            }
        }
    }

    /// What the other node lacks, in a piece.
    fn piece(&self, of: RelayId) -> PieceOf {
        let bytes = self.held[..self.held.len().min(WINDOW_BYTES)].to_vec();
        let is_last = self.input == Input::Over && bytes.len() == self.held.len();
        PieceOf { of, from: self.come, bytes, is_last }
    }

    fn is_due(&self) -> bool {
        let is_new = matches!(self.turn, Turn::Turned { is_known: false });
        let is_asked = self.passing.as_ref().is_some_and(Passing::is_turned);
        !self.held.is_empty() || self.input == Input::Over || is_new || is_asked || self.is_doubted
    }

    /// Whether the other node is to be asked how far it came, though there is nothing for it.
    fn asks(&self, now: Instant, silence: Duration) -> bool {
        let after = if self.room() == 0 { ASKED_AFTER } else { silence / ASKED_PART };
        now.duration_since(self.asked) >= after
    }
}

impl Outgoing {
    pub(super) fn new(settings: RelaySettings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// A response that goes to a node: these bytes, and what comes by the socket. Where another node makes it, it came
    /// by this name, and begins with this byte of it.
    pub(super) fn insert(
        &mut self,
        (of, to): (RelayId, NodeNumber),
        (held, socket): (Vec<u8>, UnixStream),
        first: Option<(RelayId, i64)>,
        now: Instant,
    ) {
        self.own = Some(of.id.giver);
        let (input, passing, turn) = (Input::Open, first.map(|first| Passing::new(of, first, now)), Turn::None);
        let (turned, is_doubted) = (VecDeque::new(), false);
        let (since, asked, come, taken) = (now, now, 0, 0);
        let source = Source { socket, to, since, come, taken, held, asked, is_doubted, input, passing, turn, turned };
        self.sources.insert(of, source);
    }

    /// What is to be said to other nodes, so that this one gets out of their way.
    pub(super) fn steps(&mut self, now: Instant) -> Vec<Step> {
        self.passing().filter_map(|(to, passing)| passing.step(to, now)).collect()
    }

    /// A node has answered what was said of a response, which has come so far here.
    pub(super) fn hear_step(&mut self, of: RelayId, answer: Result<Message, TransportError>, come: Option<u64>) {
        if let Some((_, passing)) = self.passing().find(|(_, passing)| passing.same.of == of) {
            passing.hear(answer, come);
        }
    }

    /// Those that are passed on, and the names by which they came first.
    pub(super) fn first_names(&mut self) -> Vec<(RelayId, RelayId)> {
        self.passing().filter_map(|(_, passing)| Some((passing.same.of, passing.first_name()?))).collect()
    }

    /// Those that come from another node here by these names, and were turned to a third one.
    pub(super) fn turned(&self) -> Vec<RelayId> {
        let passed = self.sources.values().filter_map(|source| source.passing.as_ref());
        passed.filter(|passing| passing.is_turned()).map(Passing::came_as).collect()
    }

    /// They have these names where they are made, and so far ahead all places are there.
    pub(super) fn rename(&mut self, names: &[(RelayId, (RelayId, i64))], now: Instant) {
        for (of, (is, further)) in names {
            if let Some((_, passing)) = self.passing().find(|(_, passing)| passing.same.of == *of) {
                passing.rename(*is, *further, now);
            }
        }
    }

    /// Those for which another node is to be asked: their names here, there, and that by which they came.
    pub(super) fn asking(&mut self) -> Vec<(RelayId, RelayId, RelayId)> {
        let asking = self.passing().filter(|(_, passing)| passing.is_asking());
        asking.map(|(_, passing)| (passing.same.of, passing.same.is, passing.came_as())).collect()
    }

    /// They go through this node until their end.
    pub(super) fn stay(&mut self, names: &[RelayId]) {
        self.passing().filter(|(_, passing)| names.contains(&passing.same.of)).for_each(|(_, passing)| passing.stay());
    }

    /// Whether there is something to be said, now or later.
    pub(super) fn has_steps(&mut self) -> bool {
        self.passing().any(|(_, passing)| passing.is_asking())
    }

    /// Those that are passed on, and to which node.
    fn passing(&mut self) -> impl Iterator<Item = (NodeNumber, &mut Passing)> {
        self.sources.values_mut().filter_map(|source| Some((source.to, source.passing.as_mut()?)))
    }

    /// The node that a response goes to wants it to go to another one, as its session has moved there. It does once that node
    /// says that it takes it in.
    pub(super) fn turn(
        &mut self,
        of: RelayId,
        (node, by): (NodeNumber, RelayId),
        to: NodeNumber,
        now: Instant,
    ) -> Turning {
        let Some(source) = self.sources.get_mut(&of) else { return Turning::Stays };
        if let Some((_, from)) = source.turned.iter().find(|(known, _)| *known == by) {
            return Turning::Turned(*from);
        }
        // That node has had it again since, and given it away again: the older wish is of no stay that is.
        let is_older = |known: &RelayId| known.id.giver == by.id.giver && known.id.number > by.id.number;
        if source.turned.iter().any(|(known, _)| is_older(known)) {
            return Turning::Stays;
        }
        match source.turn {
            Turn::Offered { until, .. } if now < until => return Turning::Waits,
            Turn::Offered { by: known, .. } => {
                source.turn = Turn::None;
                if known == by {
                    return Turning::Stays;
                }
            }
            Turn::None | Turn::Turned { .. } => {}
        }
        // The wish of an earlier node comes first.
        if source.to == node {
            source.turn = Turn::Offered { to, by, until: now + self.settings.silence / OFFER_PART };
        }
        Turning::Waits
    }

    /// This node, if it has ever made a response for another one.
    pub(super) fn own(&self) -> Option<NodeNumber> {
        self.own
    }

    pub(super) fn len(&self) -> usize {
        self.sources.len()
    }

    /// The sockets that are to be waited for, and of which response each is.
    pub(super) fn wanted(&self) -> (Vec<RelayId>, Vec<(RawFd, Wanted)>) {
        let readable = self.sources.iter().filter(|(_, source)| source.input == Input::Open && source.room() > 0);
        readable.map(|(of, source)| (*of, (source.socket.as_raw_fd(), Wanted::Input))).unzip()
    }

    /// Whether something waits that was to be sent already.
    pub(super) fn has_due(&self, now: Instant) -> bool {
        let is_offered = |source: &Source| matches!(source.turn, Turn::Offered { until, .. } if now < until);
        self.sources.values().any(|source| source.is_due() || is_offered(source))
    }

    /// Reads what is ready.
    pub(super) fn fill(&mut self, ready: &[(RelayId, Ready)]) {
        for (of, _) in ready.iter().filter(|(_, ready)| *ready != Ready::No) {
            if let Some(source) = self.sources.get_mut(of) {
                source.fill();
            }
        }
    }

    /// What is to be sent, in messages; a node that has had no word for a while gets an empty one.
    pub(super) fn batches(&mut self, now: Instant) -> Vec<(NodeNumber, Vec<PieceOf>)> {
        let mut batches: Vec<(NodeNumber, Vec<PieceOf>)> = Vec::new();
        let mut open: BTreeMap<NodeNumber, (usize, usize)> = BTreeMap::new();
        let silence = self.settings.silence;
        let is_due = |source: &Source| source.is_due() || source.asks(now, silence);
        for (of, source) in self.sources.iter_mut().filter(|(_, source)| is_due(source)) {
            source.asked = now;
            let bytes = source.held.len().min(WINDOW_BYTES);
            let place = open.get(&source.to).copied().filter(|(place, sum)| {
                sum + bytes <= BYTES_MAX && batches.get(*place).is_some_and(|(_, pieces)| pieces.len() < COUNT_MAX)
            });
            let (place, sum) = place.unwrap_or_else(|| {
                batches.push((source.to, Vec::new()));
                (batches.len() - 1, 0)
            });
            batches[place].1.push(source.piece(*of));
            open.insert(source.to, (place, sum + bytes));
        }
        for (of, source) in &self.sources {
            if let Turn::Offered { to, until, .. } = source.turn
                && now < until
            {
                let bytes = Vec::new();
                batches.push((to, vec![PieceOf { of: *of, from: OFFERED, bytes, is_last: false }]));
            }
        }
        let nodes: BTreeSet<NodeNumber> = self.sources.values().map(|source| source.to).collect();
        self.told.retain(|node, _| nodes.contains(node));
        for node in nodes {
            let told = self.told.entry(node).or_insert(Told { at: now, silent_since: None });
            if !open.contains_key(&node) && now.duration_since(told.at) >= self.settings.silence / 10 {
                batches.push((node, Vec::new()));
            }
        }
        batches
    }

    /// A node has answered.
    pub(super) fn hear(&mut self, node: NodeNumber, credits: &[Credit], now: Instant, counts: &RelayCounts) {
        self.told.insert(node, Told { at: now, silent_since: None });
        self.credit((node, Credited::Answered), credits, now, counts);
    }

    /// A node has not answered; after a while its responses are broken off.
    pub(super) fn miss(&mut self, node: NodeNumber, now: Instant, counts: &RelayCounts) {
        let told = self.told.entry(node).or_insert(Told { at: now, silent_since: None });
        told.at = now;
        let since = *told.silent_since.get_or_insert(now);
        if now.duration_since(since) >= self.settings.silence {
            let before = self.sources.len();
            self.sources.retain(|_, source| source.to != node);
            counts.broken.fetch_add((before - self.sources.len()) as u64, Ordering::Relaxed);
        }
    }

    /// Takes in how far a node has come; what it says of responses that are not for it is not heard.
    pub(super) fn credit(
        &mut self,
        (node, credited): (NodeNumber, Credited),
        credits: &[Credit],
        now: Instant,
        counts: &RelayCounts,
    ) {
        for credit in credits {
            let Some(source) = self.sources.get_mut(&credit.of) else { continue };
            if credited == Credited::Told && (source.to != node || credit.state != RelayState::Open) {
                // It may be of an earlier stay of the response there.
                source.is_doubted |= source.to == node;
                continue;
            }
            match source.turn {
                // An end that it knows is that of an earlier stay of the response there.
                Turn::Offered { to, .. } if to == node && to != source.to && credit.state != RelayState::Open => {
                    continue;
                }
                Turn::Offered { to, by, .. } if to == node && credit.state == RelayState::Open => {
                    if source.turned.len() == TURNED_MAX {
                        source.turned.pop_front();
                    }
                    source.turned.push_back((by, source.come));
                    source.turn = Turn::Turned { is_known: false };
                    (source.to, source.since) = (to, now);
                    source.passing.iter_mut().for_each(|passing| passing.restart(now));
                }
                _ if source.to != node => continue,
                Turn::Turned { .. } => source.turn = Turn::Turned { is_known: true },
                Turn::None | Turn::Offered { .. } => {}
            }
            source.is_doubted &= credited == Credited::Told;
            let is_over = match credit.state {
                RelayState::Open => false,
                RelayState::Ended | RelayState::Closed => true,
                RelayState::Unknown if now.duration_since(source.since) < self.settings.unknown => continue,
                RelayState::Unknown => {
                    counts.broken.fetch_add(1, Ordering::Relaxed);
                    self.sources.remove(&credit.of);
                    continue;
                }
            };
            if is_over {
                counts.ended.fetch_add(1, Ordering::Relaxed);
                self.sources.remove(&credit.of);
                continue;
            }
            // Words may overtake each other, and a node may say more than it was given.
            let come = credit.come.clamp(source.come, source.come + source.held.len() as u64);
            source.held.drain(..(come - source.come) as usize);
            if source.held.is_empty() {
                // A stream of events mostly waits, and keeps no memory meanwhile.
                source.held = Vec::new();
            }
            let taken = credit.taken.clamp(source.taken, come);
            counts.bytes.fetch_add(taken - source.taken, Ordering::Relaxed);
            (source.come, source.taken) = (come, taken);
        }
        self.leave_passed(counts);
    }

    /// Gives up what goes on without this node.
    pub(super) fn leave_passed(&mut self, counts: &RelayCounts) {
        let before = self.sources.len();
        let is_done = |source: &Source| source.passing.as_ref().is_some_and(|passing| passing.is_done(source.come));
        self.sources.retain(|_, source| !is_done(source));
        let left = (before - self.sources.len()) as u64;
        if left > 0 {
            counts.ended.fetch_add(left, Ordering::Relaxed);
            counts.shortened.fetch_add(left, Ordering::Relaxed);
        }
    }
}
