//! Ends of connections: which two belong together, and which of them asks.

use rustc_hash::FxHashMap;
use std::net::SocketAddr;
use weir_wire::socket::{ACCEPTED, FAR, NOT_ACCEPTED, OLDER, SocketOpen, SocketState};
use weir_wire::{Kind, Record, Slot};

/// Ends that are followed; beyond, further ones are not, and are counted.
const MOST: usize = 1 << 16;

/// What an end is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Role {
    #[default]
    Unknown,
    /// Requests come in here.
    Answers,
    /// Requests go out here.
    Asks,
}

impl Role {
    fn other(self) -> Self {
        match self {
            Self::Unknown => Self::Unknown,
            Self::Answers => Self::Asks,
            Self::Asks => Self::Answers,
        }
    }
}

/// One end.
#[derive(Debug, Default)]
pub(crate) struct End {
    pub(crate) role: Role,
    /// The other end, if the run has it.
    pub(crate) peer: Option<u32>,
    pub(crate) addresses: Option<(SocketAddr, SocketAddr)>,
    /// Bytes that were taken here: the position in the stream, and the sequence number that stands for 0.
    taken: u64,
    base: u32,
    /// When the first data of the next request came.
    pub(crate) ready_ns: Option<u64>,
    /// What was asked here last.
    pub(crate) question: Option<Question>,
}

/// What was asked at an end that asks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Question {
    pub(crate) asked_ns: u64,
    pub(crate) task: u32,
    /// The job that the task was at: the interaction, the end, and its number.
    pub(crate) job: Option<(u16, u64, u64)>,
    pub(crate) answered: bool,
}

impl End {
    /// A task took up to a sequence number: the position before.
    pub(crate) fn take(&mut self, sequence: u32) -> u64 {
        let before = self.taken;
        let step = sequence.wrapping_sub(self.base).wrapping_sub(self.taken as u32).cast_signed();
        self.taken = self.taken.max(self.taken.saturating_add_signed(i64::from(step)));
        before
    }
}

/// All ends, by the short ids of their sockets.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    ends: FxHashMap<u32, End>,
    by_addresses: FxHashMap<(SocketAddr, SocketAddr), u32>,
    pub(crate) left_out: u64,
}

impl Ends {
    /// An end, followed from now on if there is room.
    pub(crate) fn get(&mut self, id: u32) -> Option<&mut End> {
        if self.ends.len() >= MOST && !self.ends.contains_key(&id) {
            self.left_out += 1;
            return None;
        }
        Some(self.ends.entry(id).or_default())
    }

    /// The socket whose other end has this address, and itself that one.
    pub(crate) fn of_addresses(&self, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
        self.by_addresses.get(&(local, remote)).copied()
    }

    /// Takes what a record tells of who an end is. Returns the ends whose talk is over.
    pub(crate) fn told(&mut self, record: &Record, payload: &[Slot]) -> Option<u32> {
        match Kind::from_code(record.kind)? {
            Kind::SocketOpen => {
                let open = SocketOpen::read(record, payload)?;
                self.open(&open, record.flags & OLDER != 0);
                (record.flags & OLDER == 0).then_some(open.socket)
            }
            Kind::SocketState => {
                let state = SocketState::read(record)?;
                if state.begins_to_connect() {
                    self.settle(state.socket, Role::Asks);
                    return None;
                }
                // TCP_CLOSE
                (state.new == 7).then_some(state.socket)
            }
            Kind::SocketReady => {
                if record.flags & NOT_ACCEPTED != 0 {
                    self.settle(record.a_halves().0, Role::Answers);
                }
                None
            }
            Kind::SocketPeer => {
                let (one, other) = record.a_halves();
                if one != other && record.flags & FAR == 0 {
                    self.join(one, other);
                    if record.flags & ACCEPTED != 0 {
                        self.settle(one, Role::Answers);
                    }
                }
                None
            }
            _ => None,
        }
    }

    fn open(&mut self, open: &SocketOpen, older: bool) {
        let known = self.ends.get(&open.socket).and_then(|end| end.addresses);
        if known == Some((open.local, open.remote)) && older {
            return;
        }
        self.forget(open.socket);
        let Some(end) = self.get(open.socket) else { return };
        end.base = open.receive_base;
        end.addresses = Some((open.local, open.remote));
        self.by_addresses.insert((open.local, open.remote), open.socket);
        if let Some(peer) = self.of_addresses(open.remote, open.local).filter(|peer| *peer != open.socket) {
            self.join(open.socket, peer);
        }
        // Who began a connection that is older was not seen: servers have the lower port.
        if older && open.local.port() != open.remote.port() {
            let answers = open.local.port() < open.remote.port();
            self.settle(open.socket, if answers { Role::Answers } else { Role::Asks });
        }
    }

    fn join(&mut self, one: u32, other: u32) {
        for (own, peer) in [(one, other), (other, one)] {
            if let Some(end) = self.get(own) {
                end.peer = Some(peer);
            }
        }
        let role = self.ends.get(&one).map_or(Role::Unknown, |end| end.role);
        if role == Role::Unknown {
            let role = self.ends.get(&other).map_or(Role::Unknown, |end| end.role);
            self.settle(other, role);
        } else {
            self.settle(one, role);
        }
    }

    /// What an end is for, and so its other end, unless that is known already.
    pub(crate) fn settle(&mut self, id: u32, role: Role) {
        let Some(end) = self.get(id) else { return };
        if end.role == Role::Unknown {
            end.role = role;
        }
        let (peer, role) = (end.peer, end.role);
        if let Some(peer) = peer.and_then(|peer| self.ends.get_mut(&peer))
            && peer.role == Role::Unknown
        {
            peer.role = role.other();
        }
    }

    /// The end is no more.
    pub(crate) fn forget(&mut self, id: u32) {
        let Some(end) = self.ends.remove(&id) else { return };
        if let Some(addresses) = end.addresses
            && self.by_addresses.get(&addresses) == Some(&id)
        {
            self.by_addresses.remove(&addresses);
        }
        if let Some(peer) = end.peer.and_then(|peer| self.ends.get_mut(&peer)) {
            peer.peer = peer.peer.filter(|other| *other != id);
        }
    }
}
