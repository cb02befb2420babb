//! Responses that other nodes go on making, and that this node's server sends.

use super::bounds::WINDOW_BYTES;
use super::ready::{Ready, Wanted};
use super::word::{Credit, OFFERED, PieceOf, RelayId, RelayState, SameRelay};
use crate::name::NodeNumber;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::Write;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Responses that are over, for pieces that come twice.
const OVER_MAX: usize = 4_096;
/// Names of a response at other nodes, beside that of the node from which it came.
const NAMES_MAX: usize = 8;
/// So much is taken before the other node is told of it without being asked.
const TOLD_AFTER_BYTES: u64 = WINDOW_BYTES as u64 / 4;

/// The responses by their names.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    sinks: BTreeMap<RelayId, Sink>,
    /// Those that may come from another node as well, by their names there.
    aliases: BTreeMap<RelayId, RelayId>,
    over: VecDeque<(RelayId, RelayState)>,
    /// When each node said something last.
    heard: HashMap<NodeNumber, Instant>,
    /// What is to be told without being asked.
    to_tell: Vec<Credit>,
}

/// One response.
#[derive(Debug)]
struct Sink {
    socket: UnixStream,
    /// The kernel's number of the other end, which the server has.
    other_end: u64,
    /// The node that is to be heard of now and then.
    feeder: NodeNumber,
    /// When anything was said of it last.
    since: Instant,
    /// Its names at other nodes, from which it may come as well, and the place of byte 0 there; the last one is the nearest
    /// to where it is made.
    also: Vec<(RelayId, i64)>,
    held: VecDeque<u8>,
    come: u64,
    taken: u64,
    /// Of which the node that it comes from knows so much.
    told: u64,
    stage: Stage,
    /// What came to it goes on, and it is given nothing more: where it came from it goes elsewhere.
    is_left: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Open,
    /// Nothing more comes.
    Last,
    /// The server takes no more.
    Closed,
}

impl Sink {
    /// Takes in what is new of a piece, all places of which are so far ahead of those here; with `is_fed` its end is that of
    /// the response.
    fn take_in(&mut self, piece: &PieceOf, (ahead, is_fed): (i64, bool)) {
        let from = i128::from(piece.from) - i128::from(ahead);
        let skipped = i128::from(self.come) - from;
        if skipped < 0 {
            return;
        }
        let new = usize::try_from(skipped).ok().and_then(|skipped| piece.bytes.get(skipped..)).unwrap_or_default();
        let room = WINDOW_BYTES.saturating_sub(self.held.len());
        let now = &new[..new.len().min(room)];
        self.held.extend(now);
        self.come += now.len() as u64;
        let end = from + piece.bytes.len() as i128;
        if is_fed && piece.is_last && i128::from(self.come) == end && self.stage == Stage::Open {
            self.stage = Stage::Last;
        }
        self.push();
    }

    /// Has the server take what it takes.
    fn push(&mut self) {
        while !self.held.is_empty() && self.stage != Stage::Closed {
            match self.socket.write(self.held.as_slices().0) {
                Ok(0) => self.stage = Stage::Closed,
                Ok(taken) => {
                    self.held.drain(..taken);
                    self.taken += taken as u64;
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => self.stage = Stage::Closed,
            }
        }
        if self.held.is_empty() {
            self.held = VecDeque::new();
        }
    }

    /// How it ended, if it has.
    fn over(&self) -> Option<RelayState> {
        match self.stage {
            Stage::Closed => Some(RelayState::Closed),
            Stage::Last if self.held.is_empty() => Some(RelayState::Ended),
            Stage::Open | Stage::Last => None,
        }
    }

    /// How far it has come, for a node where all places are so far ahead.
    fn credit(&self, of: RelayId, ahead: i64) -> Credit {
        // All that comes is here: the other node need not keep it.
        let state = self.over().unwrap_or(RelayState::Open);
        let there = |place: u64| u64::try_from(i128::from(place) + i128::from(ahead)).unwrap_or(0);
        Credit { of, come: there(self.come), taken: there(self.taken), state }
    }

    /// How far it has come, as all places are by this name.
    fn come_by(&self, name: RelayId) -> i128 {
        i128::from(self.come) + i128::from(self.ahead(name))
    }

    /// How far all places are ahead by this name.
    fn ahead(&self, name: RelayId) -> i64 {
        self.also.iter().find(|(also, _)| *also == name).map_or(0, |(_, ahead)| *ahead)
    }

    /// The name by which it comes now, and the place of byte 0 there.
    fn name(&self, of: RelayId) -> (RelayId, i64) {
        let fed = self.also.iter().rev().find(|(also, _)| also.id.giver == self.feeder);
        fed.copied().filter(|_| of.id.giver != self.feeder).unwrap_or((of, 0))
    }
}

impl Incoming {
    /// A response that comes, and goes to the server by this socket; its other end has this number.
    pub(super) fn insert(&mut self, of: RelayId, (socket, other_end): (UnixStream, u64), now: Instant) {
        let (held, stage, feeder) = (VecDeque::new(), Stage::Open, of.id.giver);
        let (come, taken, told, also) = (0, 0, 0, Vec::new());
        self.sinks.insert(
            of,
            Sink { socket, other_end, feeder, since: now, also, held, come, taken, told, stage, is_left: false },
        );
    }

    /// It may come from the node that makes it as well, by its name there. Whether it is known here, and comes from this node.
    pub(super) fn same(&mut self, node: NodeNumber, same: SameRelay) -> bool {
        let name = self.aliases.get(&same.of).copied().unwrap_or(same.of);
        let Some(sink) = self.sinks.get_mut(&name).filter(|_| same.of.id.giver == node) else { return false };
        let Some(ahead) = sink.ahead(same.of).checked_add(same.ahead) else { return false };
        let known = sink.also.iter().find(|(also, _)| *also == same.is).map(|(_, ahead)| *ahead);
        if known.is_none() && sink.also.len() < NAMES_MAX {
            sink.also.push((same.is, ahead));
            self.aliases.insert(same.is, name);
            return true;
        }
        known == Some(ahead)
    }

    /// The names that responses have nearest to where they are made, and so far ahead all places are there.
    pub(super) fn nearest(&self, names: Vec<(RelayId, RelayId)>) -> Vec<(RelayId, (RelayId, i64))> {
        let nearest = |name: &RelayId| self.sinks.get(name)?.also.last().copied();
        names.into_iter().filter_map(|(of, name)| Some((of, nearest(&name)?))).collect()
    }

    /// The response that takes in what comes by a name from this place on: that of the newest stay here, if all before is
    /// there, else an older one, through which that comes to the newest.
    fn taker(&self, of: RelayId, from: u64) -> RelayId {
        // A session that has come back has its response by the newer name.
        let newest = self.aliases.get(&of).copied().unwrap_or(of);
        let follows = |name: RelayId, sink: &Sink| {
            let is_known = name == of || sink.also.iter().any(|(also, _)| *also == of);
            is_known && sink.come_by(of) >= i128::from(from)
        };
        if from == OFFERED || newest == of || self.sinks.get(&newest).is_some_and(|sink| follows(newest, sink)) {
            return newest;
        }
        let older = self.sinks.iter().filter(|(name, sink)| !sink.is_left && follows(**name, sink));
        older.max_by_key(|(_, sink)| sink.come_by(of)).map_or(newest, |(name, _)| *name)
    }

    /// The response that comes by this name goes elsewhere: it is given nothing more in place of a newer stay. How far it
    /// has come, by another name.
    pub(super) fn leave(&mut self, came: RelayId, by: RelayId) -> Option<u64> {
        let sink = self.sinks.get_mut(&came)?;
        sink.is_left = true;
        u64::try_from(sink.come_by(by)).ok()
    }

    /// Those that are passed on and are to be asked for elsewhere, but that are here again: what comes by the name goes to
    /// the newer stay. Each with its name there, and the name by which it came.
    pub(super) fn superseded(&self, asking: Vec<(RelayId, RelayId, RelayId)>) -> Vec<RelayId> {
        let newest = |name: RelayId| self.aliases.get(&name).copied().unwrap_or(name);
        asking.into_iter().filter(|(_, is, came)| newest(*is) != *came).map(|(of, ..)| of).collect()
    }

    /// The response that comes by the socket with this other end, and the byte of it with which it is passed on: before what
    /// is in the socket, `unread` bytes, that is `before` bytes.
    pub(super) fn passed_on(&self, other_end: u64, (before, unread): (usize, u64)) -> Option<(RelayId, i64)> {
        let (name, sink) = self.sinks.iter().find(|(_, sink)| sink.other_end == other_end && other_end != 0)?;
        // Lengths of memory fit.
        let ahead = i64::try_from(sink.taken.checked_sub(unread)?).ok()? - before as i64;
        Some((*name, ahead))
    }

    pub(super) fn len(&self) -> usize {
        self.sinks.len()
    }

    /// Takes in what a node has sent of its responses; how far each has come.
    pub(super) fn take_in(&mut self, node: NodeNumber, pieces: &[PieceOf], now: Instant) -> Vec<Credit> {
        self.heard.insert(node, now);
        let mut credits = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let of = piece.of;
            let name = self.taker(of, piece.from);
            let sink = self.sinks.get_mut(&name).filter(|_| of.id.giver == node);
            let Some(sink) = sink else {
                let over = self.over.iter().find(|(over, _)| *over == of).map(|(_, state)| *state);
                credits.push(Credit { of, come: 0, taken: 0, state: over.unwrap_or(RelayState::Unknown) });
                continue;
            };
            // Of several nodes that give it the others go on where one has nothing to do with it any more.
            sink.since = now;
            let ahead = sink.ahead(of);
            if name != of && piece.from != OFFERED {
                // From now on it comes from the node which makes it, and the one in between may end.
                sink.feeder = node;
            }
            let is_fed = sink.feeder == node;
            sink.take_in(piece, (ahead, is_fed));
            let mut credit = sink.credit(of, ahead);
            if piece.is_last && !is_fed && credit.state == RelayState::Open {
                // It has not ended, but nothing more comes by that name.
                credit.state = RelayState::Closed;
            }
            credits.push(credit);
            if is_fed {
                sink.told = sink.taken;
            } else if sink.taken > sink.told {
                // The node that it comes from now has nothing to be asked about, and waits for this.
                sink.told = sink.taken;
                let (fed, ahead) = sink.name(name);
                if *self.aliases.get(&fed).unwrap_or(&fed) == name {
                    let credit = sink.credit(fed, ahead);
                    self.to_tell.push(credit);
                }
            }
            self.forget_over(name);
        }
        credits
    }

    /// The sockets that are to be waited for, and of which response each is.
    pub(super) fn wanted(&self) -> (Vec<RelayId>, Vec<(RawFd, Wanted)>) {
        let wanted = |sink: &Sink| if sink.held.is_empty() { Wanted::End } else { Wanted::Room };
        self.sinks.iter().map(|(of, sink)| (*of, (sink.socket.as_raw_fd(), wanted(sink)))).unzip()
    }

    /// Goes on with what is ready.
    pub(super) fn push(&mut self, ready: &[(RelayId, Ready)]) {
        for (of, ready) in ready.iter().filter(|(_, ready)| *ready != Ready::No) {
            let Some(sink) = self.sinks.get_mut(of) else { continue };
            if *ready == Ready::Ended {
                sink.stage = Stage::Closed;
            }
            sink.push();
            let is_much = sink.taken - sink.told >= TOLD_AFTER_BYTES || sink.held.is_empty();
            let (name, ahead) = sink.name(*of);
            // The response may have come back here by that name: what was passed on before says nothing for it.
            let is_its_own = self.aliases.get(&name).unwrap_or(&name) == of;
            if is_its_own && (sink.over().is_some() || is_much) {
                let credit = sink.credit(name, ahead);
                sink.told = sink.taken;
                self.to_tell.push(credit);
            }
            self.forget_over(*of);
        }
    }

    /// Breaks the responses off whose node says nothing any more; how many. Those that were turned to another node go there
    /// as far as they have come here, and nothing more is to be heard of them.
    pub(super) fn forget_silent(&mut self, now: Instant, silence: Duration, turned: &[RelayId]) -> usize {
        let Self { sinks, heard, aliases, .. } = self;
        let before = sinks.len();
        sinks.retain(|name, sink| {
            let heard = heard.get(&sink.feeder).copied().unwrap_or(sink.since).max(sink.since);
            now.duration_since(heard) < silence || turned.contains(name)
        });
        heard.retain(|node, _| sinks.values().any(|sink| sink.feeder == *node));
        aliases.retain(|_, of| sinks.contains_key(of));
        before - sinks.len()
    }

    /// What is to be told, by the node.
    pub(super) fn take_untold(&mut self) -> BTreeMap<NodeNumber, Vec<Credit>> {
        let mut by_node: BTreeMap<NodeNumber, Vec<Credit>> = BTreeMap::new();
        for credit in std::mem::take(&mut self.to_tell) {
            by_node.entry(credit.of.id.giver).or_default().push(credit);
        }
        by_node
    }

    /// It was not heard, and is told again unless there is too much of it: the other node hears it with its next piece.
    pub(super) fn tell_again(&mut self, credits: Vec<Credit>) {
        if self.to_tell.len() < OVER_MAX {
            self.to_tell.extend(credits);
        }
    }

    fn forget_over(&mut self, of: RelayId) {
        let Some(state) = self.sinks.get(&of).and_then(Sink::over) else { return };
        let also = self.sinks.remove(&of).map_or_else(Vec::new, |sink| sink.also);
        // Only its own: by now the response may be here again.
        let own = also.into_iter().map(|(also, _)| also).filter(|also| self.aliases.get(also) == Some(&of));
        let also: Vec<RelayId> = own.collect();
        self.aliases.retain(|name, _| !also.contains(name));
        for name in [of].into_iter().chain(also) {
            if self.over.len() == OVER_MAX {
                self.over.pop_front();
            }
            self.over.push_back((name, state));
            // Also the nodes that it does not come from now: they have it still, and may have nothing to ask about.
            // Where there is too much to be said they ask.
            if self.to_tell.len() < OVER_MAX {
                self.to_tell.push(Credit { of: name, come: 0, taken: 0, state });
            }
        }
    }
}
