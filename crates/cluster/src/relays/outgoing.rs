//! Responses that this node goes on making.

use super::bounds::{RelaySettings, WINDOW_BYTES};
use super::counts::RelayCounts;
use super::ready::{Ready, Wanted};
use super::word::{BYTES_MAX, COUNT_MAX, Credit, PieceOf, RelayId, RelayState};

use crate::name::NodeNumber;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// The responses by their names.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    settings: RelaySettings,
    sources: BTreeMap<RelayId, Source>,
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
    input: Input,
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

    fn is_due(&self) -> bool {
        !self.held.is_empty() || self.input == Input::Over
    }
}

impl Outgoing {
    pub(super) fn new(settings: RelaySettings) -> Self {
        Self { settings, ..Self::default() }
    }

    pub(super) fn insert(&mut self, of: RelayId, to: NodeNumber, socket: UnixStream, now: Instant) {
        let (held, input) = (Vec::new(), Input::Open);
        self.sources.insert(of, Source { socket, to, since: now, come: 0, taken: 0, held, input });
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
    pub(super) fn has_due(&self) -> bool {
        self.sources.values().any(Source::is_due)
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
        for (of, source) in self.sources.iter().filter(|(_, source)| source.is_due()) {
            let bytes = source.held.len();
            let place = open.get(&source.to).copied().filter(|(place, sum)| {
                sum + bytes <= BYTES_MAX && batches.get(*place).is_some_and(|(_, pieces)| pieces.len() < COUNT_MAX)
            });
            let (place, sum) = place.unwrap_or_else(|| {
                batches.push((source.to, Vec::new()));
                (batches.len() - 1, 0)
            });
            let is_last = source.input == Input::Over;
            batches[place].1.push(PieceOf { of: *of, from: source.come, bytes: source.held.clone(), is_last });
            open.insert(source.to, (place, sum + bytes));
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
        self.credit(node, credits, now, counts);
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
    pub(super) fn credit(&mut self, node: NodeNumber, credits: &[Credit], now: Instant, counts: &RelayCounts) {
        for credit in credits {
            let Some(source) = self.sources.get_mut(&credit.of).filter(|source| source.to == node) else { continue };
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
    }
}
