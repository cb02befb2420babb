//! What members say about replicas: kinds 20 to 29 of messages.

use super::position::Position;
use super::replica::{Batch, take_count};
use crate::fields::{FieldError, Reader};
use crate::name::NodeNumber;
use crate::record::MoveId;
use weir_keeper::{Birth, Flow, Seen};

/// The first kind.
pub(crate) const FIRST_KIND: u8 = 20;
/// Nodes that may be down.
const NODES_MAX: u32 = 1 << 16;

/// What members say about replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// A node to the one that keeps its replicas.
    Replicas(Batch),
    /// A node to the director: its node is down; give me this flow.
    TakeOver {
        /// The replica.
        id: MoveId,
        /// The flow.
        flow: Flow,
        /// The director's epoch, as the node knows it.
        epoch: u64,
        /// How far the replica had come.
        position: Position,
    },
    /// The director: it is yours for good.
    TakenOver {
        /// The replica.
        id: MoveId,
        /// What was seen last of the client.
        seen: Seen,
        /// The numbers with which the connection began, unless the replica has them itself.
        birth: Option<Birth>,
    },
    /// A node to the director: which nodes are down, and which of my flows were taken over?
    Watch {
        /// Flows of an earlier answer that this node has discarded.
        discarded: Vec<(MoveId, Flow)>,
    },
    /// The director: these.
    Watched {
        /// The nodes that are down.
        down: Vec<NodeNumber>,
        /// Flows of the asking node that others go on with, and by which replica: it is to discard them without a word to
        /// the clients.
        taken: Vec<(MoveId, Flow)>,
        /// Connections of other nodes that have lost their server: a node that keeps their replicas may take them over.
        orphans: Vec<(NodeNumber, Flow)>,
    },
    /// A node to the director: these connections of mine have lost their server, and no socket of them is left here. In
    /// place of those of an earlier word.
    Orphaned {
        /// Which.
        flows: Vec<Flow>,
    },
}

impl Word {
    /// The number of its kind.
    pub(crate) fn kind(&self) -> u8 {
        FIRST_KIND
            + match self {
                Self::Replicas(_) => 0,
                Self::TakeOver { .. } => 1,
                Self::TakenOver { .. } => 2,
                Self::Watch { .. } => 3,
                // Members of before orphans were told know this one only.
                Self::Watched { orphans, .. } if orphans.is_empty() => 4,
                Self::Orphaned { .. } => 5,
                Self::Watched { .. } => 6,
            }
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Replicas(batch) => batch.put(out),
            Self::TakeOver { id, flow, epoch, position } => {
                id.put(out);
                flow.encode(out);
                out.extend(epoch.to_be_bytes());
                position.put(out);
            }
            Self::TakenOver { id, seen, birth } => {
                id.put(out);
                seen.encode(out);
                out.push(u8::from(birth.is_some()));
                birth.iter().for_each(|birth| birth.encode(out));
            }
            Self::Watch { discarded } => put_taken(discarded, out),
            Self::Watched { down, taken, orphans } => {
                out.extend((down.len() as u32).to_be_bytes());
                down.iter().for_each(|node| out.extend(node.to_be_bytes()));
                put_taken(taken, out);
                if !orphans.is_empty() {
                    out.extend((orphans.len() as u32).to_be_bytes());
                    for (node, flow) in orphans {
                        out.extend(node.to_be_bytes());
                        flow.encode(out);
                    }
                }
            }
            Self::Orphaned { flows } => {
                out.extend((flows.len() as u32).to_be_bytes());
                flows.iter().for_each(|flow| flow.encode(out));
            }
        }
    }

    pub(crate) fn take(kind: u8, reader: &mut Reader<'_>) -> Result<Self, FieldError> {
        Ok(match kind - FIRST_KIND {
            0 => Self::Replicas(Batch::take(reader)?),
            1 => Self::TakeOver {
                id: MoveId::take(reader)?,
                flow: reader.flow()?,
                epoch: reader.u64()?,
                position: Position::take(reader)?,
            },
            2 => {
                let (id, seen) = (MoveId::take(reader)?, Seen::decode(&mut reader.0)?);
                let birth = if reader.flag("birth")? { Some(Birth::decode(&mut reader.0)?) } else { None };
                Self::TakenOver { id, seen, birth }
            }
            3 => Self::Watch { discarded: take_taken(reader)? },
            5 => {
                let count = take_count(reader)?;
                Self::Orphaned { flows: (0..count).map(|_| reader.flow()).collect::<Result<_, _>>()? }
            }
            4 | 6 => {
                let count = reader.u32()?;
                if count > NODES_MAX {
                    return Err(FieldError::Unknown("number of nodes"));
                }
                let down = (0..count).map(|_| reader.u16()).collect::<Result<_, _>>()?;
                let taken = take_taken(reader)?;
                let orphans = if kind - FIRST_KIND == 6 { take_orphans(reader)? } else { Vec::new() };
                Self::Watched { down, taken, orphans }
            }
            _ => return Err(FieldError::Unknown("kind of the message")),
        })
    }
}

fn put_taken(taken: &[(MoveId, Flow)], out: &mut Vec<u8>) {
    out.extend((taken.len() as u32).to_be_bytes());
    for (id, flow) in taken {
        id.put(out);
        flow.encode(out);
    }
}

fn take_taken(reader: &mut Reader<'_>) -> Result<Vec<(MoveId, Flow)>, FieldError> {
    let count = take_count(reader)?;
    (0..count).map(|_| Ok((MoveId::take(reader)?, reader.flow()?))).collect()
}

/// One of these at least: a word without any has another kind.
fn take_orphans(reader: &mut Reader<'_>) -> Result<Vec<(NodeNumber, Flow)>, FieldError> {
    match take_count(reader)? {
        0 => Err(FieldError::Unknown("number of orphans")),
        count => (0..count).map(|_| Ok((reader.u16()?, reader.flow()?))).collect(),
    }
}
