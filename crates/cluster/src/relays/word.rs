//! What nodes say about relayed responses: kinds 90 to 94 of messages.

use super::bounds::WINDOW_BYTES;
use crate::fields::{FieldError, Reader, put_bytes};
use crate::record::MoveId;

/// The first kind.
pub(crate) const FIRST_KIND: u8 = 90;
/// Pieces or credits of a message.
pub(super) const COUNT_MAX: usize = 4_096;
/// Bytes of all pieces of a message.
pub(super) const BYTES_MAX: usize = 1 << 20;

/// The place of a piece that says nothing but that the response could come.
pub(super) const OFFERED: u64 = u64::MAX;

/// Names a relayed response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RelayId {
    /// The move of its session.
    pub id: MoveId,
    /// Which of that session's.
    pub place: u16,
}

/// A piece of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PieceOf {
    /// The response.
    pub of: RelayId,
    /// How many bytes came before it; the largest number asks only whether the response is taken in.
    pub from: u64,
    /// The bytes, at most [`WINDOW_BYTES`].
    pub bytes: Vec<u8>,
    /// Whether none follow.
    pub is_last: bool,
}

/// How a response stands at the node that sends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelayState {
    /// It goes on.
    Open = 0,
    /// All of it was taken in.
    Ended = 1,
    /// The server takes no more: its client has gone.
    Closed = 2,
    /// This node does not know it; its session may not have arrived yet.
    Unknown = 3,
}

/// What a node has of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credit {
    /// The response.
    pub of: RelayId,
    /// Bytes that have come.
    pub come: u64,
    /// Of these, so many have gone to the server.
    pub taken: u64,
    /// How it stands.
    pub state: RelayState,
}

/// A response that a node passes on from a second one to a third one, under two names. The bytes are the same but for those
/// at the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SameRelay {
    /// Its name between this node and the third one.
    pub of: RelayId,
    /// Its name between the second node and this one.
    pub is: RelayId,
    /// Byte 0 of the first is this byte of the other; below 0 where the first has bytes before that.
    pub ahead: i64,
}

/// What becomes of the wish that a response goes to another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turning {
    /// It is being seen whether that node takes it in.
    Waits,
    /// It goes there from this byte on.
    Turned(u64),
    /// It is not made here, or no more, or that node does not take it in.
    Stays,
}

/// What nodes say about relayed responses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RelayWord {
    /// The node that makes them: these follow. None at all says that it lives.
    Pieces(Vec<PieceOf>),
    /// The node that sends them: so far it has come.
    Credits(Vec<Credit>),
    /// A node in between to the one that sends: it may come from the node that makes it as well.
    Same(SameRelay),
    /// A node in between to the one that makes it: it is to go to this node.
    Turn {
        /// The response.
        of: RelayId,
        /// The node.
        to: crate::name::NodeNumber,
        /// By which name it goes there from the node in between.
        by: RelayId,
    },
    /// The answer to that.
    Turning {
        /// The response.
        of: RelayId,
        /// What becomes of it.
        now: Turning,
    },
}

impl RelayId {
    fn put(self, out: &mut Vec<u8>) {
        self.id.put(out);
        out.extend(self.place.to_be_bytes());
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, FieldError> {
        Ok(Self { id: MoveId::take(reader)?, place: reader.u16()? })
    }
}

impl RelayWord {
    /// The number of its kind.
    pub(crate) fn kind(&self) -> u8 {
        FIRST_KIND
            + match self {
                Self::Pieces(_) => 0,
                Self::Credits(_) => 1,
                Self::Same(_) => 2,
                Self::Turn { .. } => 3,
                Self::Turning { .. } => 4,
            }
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        // Bounded by those who make them.
        let count = |count: usize| (count as u32).to_be_bytes();
        match self {
            Self::Pieces(pieces) => {
                out.extend(count(pieces.len()));
                for piece in pieces {
                    piece.of.put(out);
                    out.extend(piece.from.to_be_bytes());
                    out.push(u8::from(piece.is_last));
                    put_bytes(&piece.bytes, out);
                }
            }
            Self::Credits(credits) => {
                out.extend(count(credits.len()));
                for credit in credits {
                    credit.of.put(out);
                    out.extend(credit.come.to_be_bytes());
                    out.extend(credit.taken.to_be_bytes());
                    out.push(credit.state as u8);
                }
            }
            Self::Same(same) => {
                same.of.put(out);
                same.is.put(out);
                out.extend(same.ahead.to_be_bytes());
            }
            Self::Turn { of, to, by } => {
                of.put(out);
                out.extend(to.to_be_bytes());
                by.put(out);
            }
            Self::Turning { of, now } => {
                of.put(out);
                let (word, from) = match now {
                    Turning::Waits => (0, 0),
                    Turning::Turned(from) => (1, *from),
                    Turning::Stays => (2, 0),
                };
                out.push(word);
                out.extend(from.to_be_bytes());
            }
        }
    }

    pub(crate) fn take(kind: u8, reader: &mut Reader<'_>) -> Result<Self, FieldError> {
        match kind - FIRST_KIND {
            2 => {
                let (of, is) = (RelayId::take(reader)?, RelayId::take(reader)?);
                return Ok(Self::Same(SameRelay { of, is, ahead: i64::from_be_bytes(reader.array()?) }));
            }
            3 => {
                let (of, to) = (RelayId::take(reader)?, reader.u16()?);
                return Ok(Self::Turn { of, to, by: RelayId::take(reader)? });
            }
            4 => return Ok(Self::Turning { of: RelayId::take(reader)?, now: take_turning(reader)? }),
            _ => {}
        }
        let count = reader.u32()? as usize;
        if count > COUNT_MAX {
            return Err(FieldError::Bound { what: "number of relayed responses", bytes: count, max: COUNT_MAX });
        }
        if kind != FIRST_KIND {
            return Ok(Self::Credits((0..count).map(|_| take_credit(reader)).collect::<Result<_, _>>()?));
        }
        let (mut pieces, mut left) = (Vec::new(), BYTES_MAX);
        for _ in 0..count {
            let (of, from, is_last) = (RelayId::take(reader)?, reader.u64()?, reader.flag("last piece")?);
            let bytes = reader.bytes("piece of a response", left.min(WINDOW_BYTES))?.to_vec();
            left -= bytes.len();
            pieces.push(PieceOf { of, from, bytes, is_last });
        }
        Ok(Self::Pieces(pieces))
    }
}

fn take_turning(reader: &mut Reader<'_>) -> Result<Turning, FieldError> {
    match (reader.u8()?, reader.u64()?) {
        (0, 0) => Ok(Turning::Waits),
        (1, from) => Ok(Turning::Turned(from)),
        (2, 0) => Ok(Turning::Stays),
        _ => Err(FieldError::Unknown("way of a relayed response")),
    }
}

fn take_credit(reader: &mut Reader<'_>) -> Result<Credit, FieldError> {
    let (of, come, taken) = (RelayId::take(reader)?, reader.u64()?, reader.u64()?);
    let state = match reader.u8()? {
        0 => RelayState::Open,
        1 => RelayState::Ended,
        2 => RelayState::Closed,
        3 => RelayState::Unknown,
        _ => return Err(FieldError::Unknown("state of a relayed response")),
    };
    if taken > come {
        return Err(FieldError::Unknown("bytes of a relayed response: more were taken than came"));
    }
    Ok(Credit { of, come, taken, state })
}
