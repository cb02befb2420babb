//! Responses that other nodes go on making, and that this node's server sends.

use super::bounds::WINDOW_BYTES;
use super::ready::{Ready, Wanted};
use super::word::{Credit, PieceOf, RelayId, RelayState};
use crate::name::NodeNumber;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::Write;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Responses that are over, for pieces that come twice.
const OVER_MAX: usize = 4_096;
/// So much is taken before the other node is told of it without being asked.
const TOLD_AFTER_BYTES: u64 = WINDOW_BYTES as u64 / 4;

/// The responses by their names.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    sinks: BTreeMap<RelayId, Sink>,
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
    since: Instant,
    held: VecDeque<u8>,
    come: u64,
    taken: u64,
    /// Of which the other node knows so much.
    told: u64,
    stage: Stage,
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
    fn take_in(&mut self, piece: &PieceOf) {
        let Some(skipped) = self.come.checked_sub(piece.from) else { return };
        let new = usize::try_from(skipped).ok().and_then(|skipped| piece.bytes.get(skipped..)).unwrap_or_default();
        let room = WINDOW_BYTES.saturating_sub(self.held.len());
        let now = &new[..new.len().min(room)];
        self.held.extend(now);
        self.come += now.len() as u64;
        if piece.is_last && self.come == piece.from + piece.bytes.len() as u64 && self.stage == Stage::Open {
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

    fn credit(&mut self, of: RelayId) -> Credit {
        self.told = self.taken;
        // All that comes is here: the other node need not keep it.
        let state = self.over().unwrap_or(RelayState::Open);
        Credit { of, come: self.come, taken: self.taken, state }
    }
}

impl Incoming {
    pub(super) fn insert(&mut self, of: RelayId, socket: UnixStream, now: Instant) {
        let (held, stage) = (VecDeque::new(), Stage::Open);
        self.sinks.insert(of, Sink { socket, since: now, held, come: 0, taken: 0, told: 0, stage });
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
            let sink = self.sinks.get_mut(&of).filter(|_| of.id.giver == node);
            let Some(sink) = sink else {
                let over = self.over.iter().find(|(over, _)| *over == of).map(|(_, state)| *state);
                credits.push(Credit { of, come: 0, taken: 0, state: over.unwrap_or(RelayState::Unknown) });
                continue;
            };
            sink.take_in(piece);
            credits.push(sink.credit(of));
            self.forget_over(of);
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
            if sink.over().is_some() || sink.taken - sink.told >= TOLD_AFTER_BYTES || sink.held.is_empty() {
                let credit = sink.credit(*of);
                self.to_tell.push(credit);
            }
            self.forget_over(*of);
        }
    }

    /// Breaks the responses off whose node says nothing any more; how many.
    pub(super) fn forget_silent(&mut self, now: Instant, silence: Duration) -> usize {
        let Self { sinks, heard, .. } = self;
        let before = sinks.len();
        sinks.retain(|of, sink| {
            let heard = heard.get(&of.id.giver).copied().unwrap_or(sink.since).max(sink.since);
            now.duration_since(heard) < silence
        });
        heard.retain(|node, _| sinks.keys().any(|of| of.id.giver == *node));
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
        self.sinks.remove(&of);
        if self.over.len() == OVER_MAX {
            self.over.pop_front();
        }
        self.over.push_back((of, state));
    }
}
