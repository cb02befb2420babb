//! What members say to each other, with its encoding: a version, a kind, and the fields of that kind.

use crate::fields::{FieldError, Reader, put_bytes, put_seen};
use crate::keyring::KeysWord;
use crate::name::NodeNumber;
use crate::pair::{Entries, Surveyed};
use crate::record::{MoveId, Record};
use crate::relays::RelayWord;
use crate::replicas::{Unfit, Word};
use std::sync::Arc;
use weir_keeper::{Flow, Seen};

/// The version of messages.
const VERSION: u8 = 1;
/// Bytes of a message.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// Bytes of what a session has under way.
const PREVIEW_BYTES_MAX: usize = 4 << 20;
/// Bytes of a piece of content.
pub const PIECE_BYTES_MAX: usize = 256 << 10;
/// Contents that are asked after in one message.
pub const INQUIRED_MAX: usize = 4_096;
const REASON_BYTES_MAX: usize = 1 << 10;
/// Nodes in a message about weights.
const WEIGHTS_MAX: usize = 1_024;

/// How long the steps of a move took at the new node, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timings {
    /// Until the unacknowledged bytes were there.
    pub prepare_us: u32,
    /// Until the director had steered the flow.
    pub steer_us: u32,
    /// Until the socket was restored.
    pub restore_us: u32,
    /// Until the director had confirmed.
    pub confirm_us: u32,
    /// Until the session went on.
    pub activate_us: u32,
    /// Bytes that were made again from the session, not sent along.
    pub remade_bytes: u64,
}

/// A flow is to be its giver's again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// The move.
    pub id: MoveId,
    /// The flow.
    pub flow: Flow,
    /// The epoch of the record.
    pub epoch: u64,
    /// The node that was to have it.
    pub taker: NodeNumber,
    /// Whether the taker has said that it never goes on with it.
    pub is_refused: bool,
}

/// Who has a flow, by the director's word. It is final: the other one is refused from then on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The node that gave it away: the move did not happen.
    Giver,
    /// Another node: the giver may discard it.
    Taker,
    /// The director does not know it, as it began after the move did.
    Unknown,
}

/// Why the director does not do what it is asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Decline {
    /// The epoch is another.
    #[error("the epoch of the director is {0}; ask again with this one")]
    Epoch(u64),
    /// The move is over.
    #[error("the node that gave the session has taken it back; begin a new move")]
    Closed,
    /// The flow is with another node.
    #[error("node {0} has the flow; move it from there")]
    OtherOwner(NodeNumber),
    /// The asking member may not.
    #[error("this member may not ask for it; nodes ask only for themselves")]
    NotAllowed,
    /// It does not know.
    #[error("the director does not know the move; ask again")]
    Unknown,
    /// The flow table fails.
    #[error("the flow table fails: {0}")]
    Table(String),
    /// The node that has the flow lives.
    #[error("node {0} lives, and goes on with its sessions")]
    NotDown(NodeNumber),
    /// Another node cannot go on with the connection.
    #[error(transparent)]
    Unfit(Unfit),
}

/// How a node stands to some content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeping {
    /// It does not have it.
    Absent,
    /// It has it, and may give it up.
    Has {
        /// When it was modified: seconds since 1970.
        modified_unix_s: u64,
    },
    /// It has it and keeps it: it gives it up only once another node has said the same.
    Keeps {
        /// When it was modified: seconds since 1970.
        modified_unix_s: u64,
    },
}

impl Keeping {
    fn put(self, out: &mut Vec<u8>) {
        let (kind, modified_unix_s) = match self {
            Self::Absent => return out.push(0),
            Self::Has { modified_unix_s } => (1, modified_unix_s),
            Self::Keeps { modified_unix_s } => (2, modified_unix_s),
        };
        out.push(kind);
        out.extend(modified_unix_s.to_be_bytes());
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, FieldError> {
        Ok(match reader.u8()? {
            0 => Self::Absent,
            1 => Self::Has { modified_unix_s: reader.u64()? },
            2 => Self::Keeps { modified_unix_s: reader.u64()? },
            _ => return Err(FieldError::Unknown("keeping")),
        })
    }
}

/// What members say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// The giver to the taker: take this session.
    Record(Arc<Record>),
    /// The taker to the giver: it goes on here.
    Done {
        /// The move.
        id: MoveId,
        /// How long it took.
        timings: Timings,
    },
    /// The taker to the giver: it does not go on here, and never will.
    Refused {
        /// The move.
        id: MoveId,
        /// Whether packets go to the giver for certain; else the giver asks the director.
        is_settled: bool,
        /// Why.
        why: String,
    },
    /// The taker to the director: send me the packets of this flow.
    Steer {
        /// The move.
        id: MoveId,
        /// The flow.
        flow: Flow,
        /// The epoch of the record.
        epoch: u64,
    },
    /// The director: they come to you.
    Steered {
        /// The move.
        id: MoveId,
        /// What was seen last of the client.
        seen: Option<Seen>,
    },
    /// The taker to the director: I can go on; may I?
    Confirm {
        /// The move.
        id: MoveId,
        /// The flow.
        flow: Flow,
    },
    /// The director: you may. From now on the giver may discard.
    Confirmed {
        /// The move.
        id: MoveId,
    },
    /// The giver, or a taker that failed, to the director: the flow is to be the giver's, unless it was confirmed.
    Reclaim(Claim),
    /// The director: this one has it.
    Owned {
        /// The move.
        id: MoveId,
        /// Who.
        owner: Owner,
        /// The epoch of the director.
        epoch: u64,
    },
    /// The director does not do it.
    Declined {
        /// The move.
        id: MoveId,
        /// Why.
        why: Decline,
    },
    /// Which node has a flow?
    Who {
        /// The flow.
        flow: Flow,
    },
    /// This one.
    Has {
        /// The flow.
        flow: Flow,
        /// The node, if there is an entry.
        node: Option<NodeNumber>,
    },
    /// The request cannot be answered.
    Failed {
        /// Why.
        why: String,
    },
    /// A node to the director: give me no new connections, or give me some again.
    Draining {
        /// Whether it wants none.
        is_draining: bool,
    },
    /// The director: so it is from now on. A node: I have it.
    Noted,
    /// The giver to the taker: a session is to come that has this under way; look for it.
    Expect {
        /// What the server of the giver says of it.
        preview: Vec<u8>,
    },
    /// A node to another: send me a piece of some published content.
    Fetch {
        /// The SHA-256 of the whole content.
        digest: [u8; 32],
        /// Where the piece begins.
        from: u64,
        /// Its bytes, at most [`PIECE_BYTES_MAX`].
        bytes: u32,
    },
    /// The other node: this is the piece.
    Piece {
        /// Bytes of the whole content.
        total_bytes: u64,
        /// When the content was published first: seconds since 1970.
        modified_unix_s: u64,
        /// The piece; fewer bytes than were asked for at the end of the content.
        bytes: Vec<u8>,
    },
    /// The other node does not have this content.
    Absent {
        /// Its SHA-256.
        digest: [u8; 32],
    },
    /// A director that has begun to a node: what do you have?
    Survey {
        /// The epoch, from which on no earlier director counts.
        epoch: u64,
    },
    /// The node: this.
    Surveyed(Surveyed),
    /// The active director to the one that stands by: this is in my table.
    Entries(Entries),
    /// The active director to the other: I end; take over.
    Resigned {
        /// The epoch that has ended.
        epoch: u64,
    },
    /// The active director to the other: nodes have these weights for new connections.
    Weights {
        /// The epoch of the active director.
        epoch: u64,
        /// The weights, which the flow table takes as they are.
        weights: Vec<(NodeNumber, u16)>,
    },
    /// A node to the director: what time is it?
    Time,
    /// The director: it was this when your question came, and this when it was answered.
    TimeTold {
        /// Microseconds since 1970.
        received_us: u64,
        /// The same.
        told_us: u64,
    },
    /// A node to another: how do you stand to these contents?
    Inquire {
        /// Their SHA-256, at most [`INQUIRED_MAX`].
        digests: Vec<[u8; 32]>,
    },
    /// The other node: so, in the order of the question.
    Keeping {
        /// One for each.
        contents: Vec<Keeping>,
    },
    /// What is said about replicas of sessions.
    Replica(Arc<Word>),
    /// What nodes say about responses that the old node goes on making.
    Relay(Arc<RelayWord>),
    /// What is said about keys.
    Keys(Arc<KeysWord>),
}

impl Decline {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Epoch(newest) => {
                out.push(0);
                out.extend(newest.to_be_bytes());
            }
            Self::Closed => out.push(1),
            Self::OtherOwner(node) => {
                out.push(2);
                out.extend(node.to_be_bytes());
            }
            Self::NotAllowed => out.push(3),
            Self::Unknown => out.push(4),
            Self::Table(why) => {
                out.push(5);
                put_bytes(bounded(why).as_bytes(), out);
            }
            Self::NotDown(node) => {
                out.push(6);
                out.extend(node.to_be_bytes());
            }
            Self::Unfit(why) => out.extend([7, *why as u8]),
        }
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, FieldError> {
        Ok(match reader.u8()? {
            0 => Self::Epoch(reader.u64()?),
            1 => Self::Closed,
            2 => Self::OtherOwner(reader.u16()?),
            3 => Self::NotAllowed,
            4 => Self::Unknown,
            5 => Self::Table(reader.text("reason", REASON_BYTES_MAX)?),
            6 => Self::NotDown(reader.u16()?),
            7 => Self::Unfit(Unfit::of_number(reader.u8()?)?),
            _ => return Err(FieldError::Unknown("reason")),
        })
    }
}

impl Claim {
    fn put(&self, out: &mut Vec<u8>) {
        self.id.put(out);
        self.flow.encode(out);
        out.extend(self.epoch.to_be_bytes());
        out.extend(self.taker.to_be_bytes());
        out.push(u8::from(self.is_refused));
    }
}

impl Timings {
    fn put(&self, out: &mut Vec<u8>) {
        let steps = [self.prepare_us, self.steer_us, self.restore_us, self.confirm_us, self.activate_us];
        steps.iter().for_each(|us| out.extend(us.to_be_bytes()));
        out.extend(self.remade_bytes.to_be_bytes());
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, FieldError> {
        Ok(Self {
            prepare_us: reader.u32()?,
            steer_us: reader.u32()?,
            restore_us: reader.u32()?,
            confirm_us: reader.u32()?,
            activate_us: reader.u32()?,
            remade_bytes: reader.u64()?,
        })
    }
}

/// The front of a reason that is too long.
fn bounded(text: &str) -> &str {
    let mut end = text.len().min(REASON_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

impl Message {
    /// Something about replicas.
    pub fn replica(word: Word) -> Self {
        Self::Replica(Arc::new(word))
    }

    /// Something about relayed responses.
    pub fn relay(word: RelayWord) -> Self {
        Self::Relay(Arc::new(word))
    }

    /// Something about keys.
    pub fn keys(word: KeysWord) -> Self {
        Self::Keys(Arc::new(word))
    }

    /// The number of its kind, which stands behind the version.
    fn kind(&self) -> u8 {
        match self {
            Self::Record(_) => 1,
            Self::Done { .. } => 2,
            Self::Refused { .. } => 3,
            Self::Steer { .. } => 4,
            Self::Steered { .. } => 5,
            Self::Confirm { .. } => 6,
            Self::Confirmed { .. } => 7,
            Self::Reclaim(_) => 8,
            Self::Owned { .. } => 9,
            Self::Declined { .. } => 10,
            Self::Who { .. } => 11,
            Self::Has { .. } => 12,
            Self::Failed { .. } => 13,
            Self::Draining { .. } => 14,
            Self::Noted => 15,
            Self::Expect { .. } => 16,
            Self::Fetch { .. } => 17,
            Self::Piece { .. } => 18,
            Self::Absent { .. } => 19,
            Self::Survey { .. } => 40,
            Self::Surveyed(_) => 41,
            Self::Entries(_) => 42,
            Self::Resigned { .. } => 43,
            Self::Time => 50,
            Self::TimeTold { .. } => 51,
            Self::Inquire { .. } => 60,
            Self::Keeping { .. } => 61,
            Self::Weights { .. } => 80,
            Self::Replica(word) => word.kind(),
            Self::Relay(word) => word.kind(),
            Self::Keys(word) => word.kind(),
        }
    }

    /// Appends its encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend([VERSION, self.kind()]);
        match self {
            Self::Record(record) => record.encode(out),
            Self::Done { id, timings } => {
                id.put(out);
                timings.put(out);
            }
            Self::Refused { id, is_settled, why } => {
                id.put(out);
                out.push(u8::from(*is_settled));
                put_bytes(bounded(why).as_bytes(), out);
            }
            Self::Steer { id, flow, epoch } => {
                put_move_of(id, flow, out);
                out.extend(epoch.to_be_bytes());
            }
            Self::Reclaim(claim) => claim.put(out),
            Self::Steered { id, seen } => {
                id.put(out);
                put_seen(seen.as_ref(), out);
            }
            Self::Confirm { id, flow } => put_move_of(id, flow, out),
            Self::Confirmed { id } => id.put(out),
            Self::Owned { id, owner, epoch } => {
                id.put(out);
                out.push(*owner as u8);
                out.extend(epoch.to_be_bytes());
            }
            Self::Declined { id, why } => {
                id.put(out);
                why.put(out);
            }
            Self::Who { flow } => flow.encode(out),
            Self::Has { flow, node } => {
                flow.encode(out);
                out.push(u8::from(node.is_some()));
                out.extend(node.unwrap_or_default().to_be_bytes());
            }
            Self::Failed { why } => put_bytes(bounded(why).as_bytes(), out),
            Self::Draining { is_draining } => out.push(u8::from(*is_draining)),
            Self::Noted | Self::Time => {}
            Self::Expect { preview } => put_bytes(preview, out),
            Self::Fetch { digest, from, bytes } => {
                out.extend(digest);
                out.extend(from.to_be_bytes());
                out.extend(bytes.to_be_bytes());
            }
            Self::Piece { total_bytes, modified_unix_s, bytes } => {
                out.extend(total_bytes.to_be_bytes());
                out.extend(modified_unix_s.to_be_bytes());
                put_bytes(bytes, out);
            }
            Self::Absent { digest } => out.extend(digest),
            Self::Survey { epoch } | Self::Resigned { epoch } => out.extend(epoch.to_be_bytes()),
            Self::Surveyed(surveyed) => surveyed.put(out),
            Self::Entries(entries) => entries.put(out),
            Self::TimeTold { received_us, told_us } => {
                [received_us, told_us].iter().for_each(|us| out.extend(us.to_be_bytes()));
            }
            Self::Inquire { digests } => put_each(digests, |digest, out| out.extend(digest), out),
            Self::Keeping { contents } => put_each(contents, |content, out| content.put(out), out),
            Self::Weights { epoch, weights } => put_weights(*epoch, weights, out),
            Self::Replica(word) => word.put(out),
            Self::Relay(word) => word.put(out),
            Self::Keys(word) => word.put(out),
        }
    }

    /// Reads a message of which nothing is missing or left over.
    ///
    /// # Errors
    /// [`FieldError`], if the bytes are none, or of another version.
    pub fn decode(bytes: &[u8]) -> Result<Self, FieldError> {
        let mut reader = Reader(bytes);
        reader.version("message", VERSION)?;
        let message = match reader.u8()? {
            1 => Self::Record(Arc::new(Record::take(&mut reader)?)),
            11 => Self::Who { flow: reader.flow()? },
            12 => Self::take_has(&mut reader)?,
            13 => Self::Failed { why: reader.text("reason", REASON_BYTES_MAX)? },
            14 => Self::Draining { is_draining: reader.flag("draining")? },
            15 => Self::Noted,
            16 => Self::Expect { preview: reader.bytes("preview", PREVIEW_BYTES_MAX)?.to_vec() },
            17 => Self::Fetch { digest: reader.array()?, from: reader.u64()?, bytes: reader.u32()? },
            18 => Self::Piece {
                total_bytes: reader.u64()?,
                modified_unix_s: reader.u64()?,
                bytes: reader.bytes("piece", PIECE_BYTES_MAX)?.to_vec(),
            },
            19 => Self::Absent { digest: reader.array()? },
            40 => Self::Survey { epoch: reader.u64()? },
            41 => Self::Surveyed(Surveyed::take(&mut reader)?),
            42 => Self::Entries(Entries::take(&mut reader)?),
            43 => Self::Resigned { epoch: reader.u64()? },
            50 => Self::Time,
            51 => Self::TimeTold { received_us: reader.u64()?, told_us: reader.u64()? },
            60 => Self::Inquire { digests: take_each(&mut reader, Reader::array)? },
            61 => Self::Keeping { contents: take_each(&mut reader, Keeping::take)? },
            80 => Self::take_weights(&mut reader)?,
            kind @ 20..=29 => Self::replica(Word::take(kind, &mut reader)?),
            kind @ 90..=94 => Self::relay(RelayWord::take(kind, &mut reader)?),
            kind @ 100..=104 => Self::keys(KeysWord::take(kind, &mut reader)?),
            kind => Self::take_of_move(kind, &mut reader)?,
        };
        reader.end()?;
        Ok(message)
    }

    fn take_of_move(kind: u8, reader: &mut Reader<'_>) -> Result<Self, FieldError> {
        if !(2..=10).contains(&kind) {
            return Err(FieldError::Unknown("kind of the message"));
        }
        let id = MoveId::take(reader)?;
        Ok(match kind {
            2 => Self::Done { id, timings: Timings::take(reader)? },
            3 => {
                let is_settled = reader.flag("settled")?;
                Self::Refused { id, is_settled, why: reader.text("reason", REASON_BYTES_MAX)? }
            }
            4 => Self::Steer { id, flow: reader.flow()?, epoch: reader.u64()? },
            5 => Self::Steered { id, seen: reader.seen()? },
            6 => Self::Confirm { id, flow: reader.flow()? },
            7 => Self::Confirmed { id },
            8 => Self::Reclaim(Claim {
                id,
                flow: reader.flow()?,
                epoch: reader.u64()?,
                taker: reader.u16()?,
                is_refused: reader.flag("refused")?,
            }),
            9 => Self::Owned { id, owner: take_owner(reader)?, epoch: reader.u64()? },
            _ => Self::Declined { id, why: Decline::take(reader)? },
        })
    }

    fn take_weights(reader: &mut Reader<'_>) -> Result<Self, FieldError> {
        let (epoch, count) = (reader.u64()?, usize::from(reader.u16()?));
        if count > WEIGHTS_MAX {
            return Err(FieldError::Bound { what: "weights", bytes: count, max: WEIGHTS_MAX });
        }
        let weights = (0..count).map(|_| Ok((reader.u16()?, reader.u16()?))).collect::<Result<_, FieldError>>()?;
        Ok(Self::Weights { epoch, weights })
    }

    fn take_has(reader: &mut Reader<'_>) -> Result<Self, FieldError> {
        let flow = reader.flow()?;
        let is_known = reader.flag("node")?;
        let node = reader.u16()?;
        if !is_known && node != 0 {
            return Err(FieldError::Unknown("node"));
        }
        Ok(Self::Has { flow, node: is_known.then_some(node) })
    }
}

/// All of a list behind their number; more than there may be are refused where they are read.
fn put_each<T>(all: &[T], put: impl Fn(&T, &mut Vec<u8>), out: &mut Vec<u8>) {
    out.extend(u32::try_from(all.len()).unwrap_or(u32::MAX).to_be_bytes());
    all.iter().for_each(|one| put(one, out));
}

fn take_each<'b, T>(
    reader: &mut Reader<'b>,
    take: impl Fn(&mut Reader<'b>) -> Result<T, FieldError>,
) -> Result<Vec<T>, FieldError> {
    let count = reader.u32()? as usize;
    if count > INQUIRED_MAX {
        return Err(FieldError::Bound { what: "contents", bytes: count, max: INQUIRED_MAX });
    }
    // No memory is taken for what has not come.
    (0..count).map(|_| take(reader)).collect()
}

fn put_weights(epoch: u64, weights: &[(NodeNumber, u16)], out: &mut Vec<u8>) {
    let weights = &weights[..weights.len().min(WEIGHTS_MAX)];
    out.extend(epoch.to_be_bytes());
    out.extend((weights.len() as u16).to_be_bytes());
    for (node, weight) in weights {
        out.extend(node.to_be_bytes());
        out.extend(weight.to_be_bytes());
    }
}

fn put_move_of(id: &MoveId, flow: &Flow, out: &mut Vec<u8>) {
    id.put(out);
    flow.encode(out);
}

fn take_owner(reader: &mut Reader<'_>) -> Result<Owner, FieldError> {
    let owner = reader.u8()?;
    let known = [Owner::Giver, Owner::Taker, Owner::Unknown];
    known.into_iter().find(|known| *known as u8 == owner).ok_or(FieldError::Unknown("owner"))
}
