//! What a server asks of the keeper, and what the keeper answers.
//!
//! A message is a version, a kind, and fields. It goes over a Unix socket of packets; a descriptor goes along where the
//! request or the answer is about one (`SCM_RIGHTS`, unix(7)).

use crate::counts::KeeperCounts;
use crate::encoding::{
    DecodeError, put_address, put_bytes, put_u32, put_u64, take_address, take_bytes, take_u8, take_u32, take_u64,
};
use crate::flow::Flow;
use crate::repair::RepairError;
use crate::tcp_state::{Frozen, TcpState};
use std::net::SocketAddr;

/// The version of the messages. Both ends are of one program, so a keeper knows one.
pub const VERSION: u8 = 1;
/// Bytes of a message at most: a send queue as large as `net.ipv4.tcp_wmem` allows by default, four times.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// Connections or servers of a message at most.
pub const FLOWS_MAX: usize = 8_192;

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Bring the connection of the descriptor to a stand, and read its state.
    Freeze {
        /// The director's epoch, by whose order it is moved.
        epoch: u64,
    },
    /// The first so many unacknowledged bytes of the descriptor's connection.
    SendQueue {
        /// How many.
        bytes: u32,
    },
    /// Have the descriptor's connection go on here.
    Thaw,
    /// End the descriptor's connection silently: another node has it.
    Discard,
    /// Drop what comes in on a connection, for a short time.
    Hold {
        /// Which.
        flow: Flow,
        /// The director's epoch.
        epoch: u64,
    },
    /// End such a hold.
    Release {
        /// Of which connection.
        flow: Flow,
    },
    /// Make a socket with this state.
    Restore {
        /// The connection's state.
        tcp: TcpState,
        /// Input that the program had not read.
        unread: Vec<u8>,
        /// From the first unacknowledged byte to the last one written.
        sent: Vec<u8>,
        /// The director's epoch.
        epoch: u64,
    },
    /// Have the descriptor's restored connection go on.
    Activate,
    /// What was counted.
    Counts,
    /// Have a hold last for another short time: it is not decided yet where the connection goes on. Of any epoch, as
    /// nothing goes on by it.
    Renew {
        /// Of which connection.
        flow: Flow,
    },
    /// Guard sockets of the server whose process the descriptor names (pidfd_open(2)). What was guarded of it before is let
    /// go.
    Guard {
        /// A number of the server, which no other one of this machine has.
        server: u64,
    },
    /// Keep the descriptor's socket until its response is over or the server ends.
    Keep {
        /// Of which server.
        server: u64,
    },
    /// Let go of the sockets of these connections, whose server ends them itself from now on.
    LetGo {
        /// Which; at most [`FLOWS_MAX`].
        flows: Vec<Flow>,
    },
    /// Which servers live, and which connections have lost theirs?
    Orphans,
    /// Another node goes on with this connection, which had lost its server.
    Adopted {
        /// Which.
        flow: Flow,
    },
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// It is done.
    Done,
    /// It stands still, with this state.
    Frozen(Frozen),
    /// The bytes asked for.
    Bytes(Vec<u8>),
    /// It is restored; its descriptor goes along.
    Restored,
    /// What was counted.
    Counts(KeeperCounts),
    /// It is not done.
    Refused(Refusal),
    /// Servers and connections.
    Orphans(Orphans),
}

/// The servers of which sockets are guarded, and the connections whose server has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Orphans {
    /// Servers that live.
    pub servers: Vec<u64>,
    /// Connections of servers that have ended. No socket of them is left here, and what comes in for them is dropped.
    pub flows: Vec<Flow>,
}

/// Why the keeper does not do what is asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A newer director has given an order already.
    #[error("the order is of epoch {asked}, and epoch {newest} has begun; ask the director of the newest epoch")]
    OldEpoch {
        /// The order's.
        asked: u64,
        /// The newest that the keeper has seen.
        newest: u64,
    },
    /// The connection itself cannot be frozen, restored or changed.
    #[error(transparent)]
    Repair(#[from] RepairError),
    /// The keeper does not keep connections of this address.
    #[error("{0} is not an address of a service that the keeper was started for; name it when the keeper starts")]
    NotAService(SocketAddr),
    /// It holds as many as it may.
    #[error("the keeper holds {0} connections, which is its bound; move fewer at once")]
    HoldsFull(u32),
    /// What was written and not sent fills the keeper's memory.
    #[error("the keeper holds {0} unsent bytes, which is its bound; activate what is restored, or move fewer at once")]
    BytesFull(u64),
    /// The connection is in the middle of another move.
    #[error("the connection {0} is being moved already; wait until that move is over")]
    Busy(Flow),
    /// The hold is over, and with it what was restored.
    #[error("the hold of the connection {0} is over; close the descriptor, and let the node that had it go on")]
    HoldIsOver(Flow),
    /// No descriptor came along.
    #[error("no descriptor came with the request; pass the connection's descriptor along")]
    NoDescriptor,
    /// The request cannot be read.
    #[error("the request cannot be read: {0}")]
    Malformed(DecodeError),
    /// The filter's table may not be changed.
    #[error("the filter of held connections refuses: {0}")]
    Filter(String),
    /// The server has ended, or this keeper was started since it was named.
    #[error("the keeper guards no server {0}; name its process first")]
    UnknownServer(u64),
    /// It guards as many as it may.
    #[error("the keeper guards {0} sockets or servers, which is its bound; this one ends with its server")]
    GuardedFull(u32),
}

impl Request {
    /// The message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        match self {
            Self::Freeze { epoch } => {
                out.push(1);
                put_u64(*epoch, &mut out);
            }
            Self::SendQueue { bytes } => {
                out.push(2);
                put_u32(*bytes, &mut out);
            }
            Self::Thaw => out.push(3),
            Self::Discard => out.push(4),
            Self::Hold { flow, epoch } => {
                out.push(5);
                flow.encode(&mut out);
                put_u64(*epoch, &mut out);
            }
            Self::Release { flow } => {
                out.push(6);
                flow.encode(&mut out);
            }
            Self::Restore { tcp, unread, sent, epoch } => {
                out.push(7);
                put_restore(tcp, unread, sent, *epoch, &mut out);
            }
            Self::Activate => out.push(8),
            Self::Counts => out.push(9),
            Self::Renew { flow } => {
                out.push(10);
                flow.encode(&mut out);
            }
            Self::Guard { server } => {
                out.push(11);
                put_u64(*server, &mut out);
            }
            Self::Keep { server } => {
                out.push(12);
                put_u64(*server, &mut out);
            }
            Self::LetGo { flows } => {
                out.push(13);
                put_flows(flows, &mut out);
            }
            Self::Orphans => out.push(14),
            Self::Adopted { flow } => {
                out.push(15);
                flow.encode(&mut out);
            }
        }
        out
    }

    /// The message of a restore, without a copy of its parts before.
    pub(crate) fn restore(tcp: &TcpState, unread: &[u8], sent: &[u8], epoch: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(unread.len() + sent.len() + 256);
        out.extend([VERSION, 7]);
        put_restore(tcp, unread, sent, epoch, &mut out);
        out
    }

    /// Reads a message.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode(mut bytes: &[u8]) -> Result<Self, DecodeError> {
        let bytes = &mut bytes;
        let request = match kind(bytes)? {
            1 => Self::Freeze { epoch: take_u64(bytes)? },
            2 => Self::SendQueue { bytes: take_u32(bytes)? },
            3 => Self::Thaw,
            4 => Self::Discard,
            5 => Self::Hold { flow: Flow::decode(bytes)?, epoch: take_u64(bytes)? },
            6 => Self::Release { flow: Flow::decode(bytes)? },
            7 => Self::Restore {
                tcp: TcpState::decode(bytes)?,
                unread: take_bytes(bytes)?,
                sent: take_bytes(bytes)?,
                epoch: take_u64(bytes)?,
            },
            8 => Self::Activate,
            9 => Self::Counts,
            10 => Self::Renew { flow: Flow::decode(bytes)? },
            11 => Self::Guard { server: take_u64(bytes)? },
            12 => Self::Keep { server: take_u64(bytes)? },
            13 => Self::LetGo { flows: take_each(bytes, Flow::decode)? },
            14 => Self::Orphans,
            15 => Self::Adopted { flow: Flow::decode(bytes)? },
            _ => return Err(DecodeError::Unknown("request")),
        };
        end(bytes).map(|()| request)
    }
}

impl Reply {
    /// The message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        match self {
            Self::Done => out.push(1),
            Self::Frozen(frozen) => {
                out.push(2);
                frozen.encode(&mut out);
            }
            Self::Bytes(bytes) => {
                out.push(3);
                put_bytes(bytes, &mut out);
            }
            Self::Restored => out.push(4),
            Self::Counts(counts) => {
                out.push(5);
                counts.encode(&mut out);
            }
            Self::Refused(refusal) => {
                out.push(6);
                refusal.encode(&mut out);
            }
            Self::Orphans(Orphans { servers, flows }) => {
                out.push(7);
                put_u32(servers.len() as u32, &mut out);
                servers.iter().for_each(|server| put_u64(*server, &mut out));
                put_flows(flows, &mut out);
            }
        }
        out
    }

    /// Reads a message.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode(mut bytes: &[u8]) -> Result<Self, DecodeError> {
        let bytes = &mut bytes;
        let reply = match kind(bytes)? {
            1 => Self::Done,
            2 => Self::Frozen(Frozen::decode(bytes)?),
            3 => Self::Bytes(take_bytes(bytes)?),
            4 => Self::Restored,
            5 => Self::Counts(KeeperCounts::decode(bytes)?),
            6 => Self::Refused(Refusal::decode(bytes)?),
            7 => {
                Self::Orphans(Orphans { servers: take_each(bytes, take_u64)?, flows: take_each(bytes, Flow::decode)? })
            }
            _ => return Err(DecodeError::Unknown("reply")),
        };
        end(bytes).map(|()| reply)
    }
}

impl Refusal {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::OldEpoch { asked, newest } => {
                out.push(1);
                put_u64(*asked, out);
                put_u64(*newest, out);
            }
            Self::Repair(error) => {
                out.push(2);
                error.encode(out);
            }
            Self::NotAService(address) => {
                out.push(3);
                put_address(*address, out);
            }
            Self::HoldsFull(holds) => {
                out.push(4);
                put_u32(*holds, out);
            }
            Self::BytesFull(bytes) => {
                out.push(5);
                put_u64(*bytes, out);
            }
            Self::Busy(flow) => {
                out.push(6);
                flow.encode(out);
            }
            Self::HoldIsOver(flow) => {
                out.push(7);
                flow.encode(out);
            }
            Self::NoDescriptor => out.push(8),
            Self::Malformed(error) => out.extend([9, error.number()]),
            Self::Filter(words) => {
                out.push(10);
                put_bytes(words.as_bytes(), out);
            }
            Self::UnknownServer(server) => {
                out.push(11);
                put_u64(*server, out);
            }
            Self::GuardedFull(sockets) => {
                out.push(12);
                put_u32(*sockets, out);
            }
        }
    }

    fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
        Ok(match take_u8(bytes)? {
            1 => Self::OldEpoch { asked: take_u64(bytes)?, newest: take_u64(bytes)? },
            2 => Self::Repair(RepairError::decode(bytes)?),
            3 => Self::NotAService(take_address(bytes)?),
            4 => Self::HoldsFull(take_u32(bytes)?),
            5 => Self::BytesFull(take_u64(bytes)?),
            6 => Self::Busy(Flow::decode(bytes)?),
            7 => Self::HoldIsOver(Flow::decode(bytes)?),
            8 => Self::NoDescriptor,
            9 => Self::Malformed(DecodeError::of_number(take_u8(bytes)?)?),
            10 => {
                let words = String::from_utf8(take_bytes(bytes)?);
                Self::Filter(words.map_err(|_| DecodeError::Unknown("words of the filter"))?)
            }
            11 => Self::UnknownServer(take_u64(bytes)?),
            12 => Self::GuardedFull(take_u32(bytes)?),
            _ => return Err(DecodeError::Unknown("refusal")),
        })
    }
}

fn put_restore(tcp: &TcpState, unread: &[u8], sent: &[u8], epoch: u64, out: &mut Vec<u8>) {
    tcp.encode(out);
    put_bytes(unread, out);
    put_bytes(sent, out);
    put_u64(epoch, out);
}

/// Their number in four bytes goes before.
fn put_flows(flows: &[Flow], out: &mut Vec<u8>) {
    put_u32(flows.len() as u32, out);
    flows.iter().for_each(|flow| flow.encode(out));
}

/// What stands behind its number; nothing is reserved for what is not there.
fn take_each<T>(bytes: &mut &[u8], take: impl Fn(&mut &[u8]) -> Result<T, DecodeError>) -> Result<Vec<T>, DecodeError> {
    let count = take_u32(bytes)? as usize;
    if count > FLOWS_MAX {
        return Err(DecodeError::Unknown("count"));
    }
    (0..count).map(|_| take(bytes)).collect()
}

fn kind(bytes: &mut &[u8]) -> Result<u8, DecodeError> {
    if take_u8(bytes)? == VERSION { take_u8(bytes) } else { Err(DecodeError::Unknown("version")) }
}

fn end(bytes: &[u8]) -> Result<(), DecodeError> {
    if bytes.is_empty() { Ok(()) } else { Err(DecodeError::Long) }
}
