//! The record of a session on its way to another node: the connection's state, what the client has not acknowledged,
//! and the session's own bytes, which only the server understands.

use crate::fields::{FieldError, Reader, put_bytes};
use crate::name::NodeNumber;
use weir_keeper::{Flow, TcpState};
use zeroize::Zeroizing;

/// The version of the record.
const VERSION: u8 = 1;
/// Bytes of unread input.
const UNREAD_BYTES_MAX: usize = 4 << 20;
/// Bytes of a session.
const SESSION_BYTES_MAX: usize = 4 << 20;
/// Bytes of all raw spans of a record.
const RAW_BYTES_MAX: usize = 12 << 20;
const SPANS_MAX: usize = 1 << 16;

const RAW: u8 = 0;
const SESSION: u8 = 1;

/// Names a move. Numbers of one giver grow, also over its restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MoveId {
    /// The node that gives the session away.
    pub giver: NodeNumber,
    /// Which of its moves.
    pub number: u64,
}

impl MoveId {
    pub(crate) fn put(self, out: &mut Vec<u8>) {
        out.extend(self.giver.to_be_bytes());
        out.extend(self.number.to_be_bytes());
    }

    pub(crate) fn take(reader: &mut Reader<'_>) -> Result<Self, FieldError> {
        Ok(Self { giver: reader.u16()?, number: reader.u64()? })
    }
}

/// Bytes that were written and not acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Span {
    /// The bytes themselves.
    Raw(Vec<u8>),
    /// Bytes that the new node makes from the session.
    Session {
        /// Their place, counted from the first byte that the session knows.
        from: u64,
        /// Their number.
        len: u64,
    },
}

impl Span {
    /// How many bytes it stands for.
    pub fn len(&self) -> u64 {
        match self {
            Self::Raw(bytes) => bytes.len() as u64,
            Self::Session { len, .. } => *len,
        }
    }

    /// Whether it stands for none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A session on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The move.
    pub id: MoveId,
    /// The director's epoch, as the giver knows it.
    pub epoch: u64,
    /// The connection.
    pub flow: Flow,
    /// Its state.
    pub tcp: TcpState,
    /// Input that the server has not read.
    pub unread: Vec<u8>,
    /// What the client has not acknowledged, unsent bytes included.
    pub spans: Vec<Span>,
    /// The session; it may hold keys, and is zeroed when it is dropped.
    pub session: Zeroizing<Vec<u8>>,
}

impl Record {
    /// Appends its encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        self.id.put(out);
        out.extend(self.epoch.to_be_bytes());
        self.flow.encode(out);
        self.tcp.encode(out);
        put_bytes(&self.unread, out);
        out.extend((self.spans.len() as u32).to_be_bytes());
        for span in &self.spans {
            match span {
                Span::Raw(bytes) => {
                    out.push(RAW);
                    put_bytes(bytes, out);
                }
                Span::Session { from, len } => {
                    out.push(SESSION);
                    out.extend(from.to_be_bytes());
                    out.extend(len.to_be_bytes());
                }
            }
        }
        put_bytes(&self.session, out);
    }

    /// How many bytes its encoding has at most.
    pub fn encoded_bytes(&self) -> usize {
        let raw: usize = self.spans.iter().map(|span| if let Span::Raw(bytes) = span { bytes.len() } else { 0 }).sum();
        512 + self.unread.len() + self.session.len() + raw + 17 * self.spans.len()
    }

    pub(crate) fn take(reader: &mut Reader<'_>) -> Result<Self, FieldError> {
        reader.version("record of a session", VERSION)?;
        let id = MoveId::take(reader)?;
        let epoch = reader.u64()?;
        let (flow, tcp) = (reader.flow()?, reader.tcp()?);
        let unread = reader.bytes("unread input", UNREAD_BYTES_MAX)?.to_vec();
        let spans = take_spans(reader)?;
        let session = Zeroizing::new(reader.bytes("session", SESSION_BYTES_MAX)?.to_vec());
        let record = Self { id, epoch, flow, tcp, unread, spans, session };
        record.check()?;
        Ok(record)
    }

    /// The parts belong together: nothing is restored from a record whose lengths contradict each other.
    fn check(&self) -> Result<(), FieldError> {
        let spans = self.spans.iter().try_fold(0, |sum: u64, span| sum.checked_add(span.len()));
        if spans != Some(u64::from(self.tcp.unacknowledged_bytes)) {
            return Err(FieldError::Unknown("spans: they are not the unacknowledged bytes"));
        }
        if self.tcp.unsent_bytes > self.tcp.unacknowledged_bytes {
            return Err(FieldError::Unknown("unsent bytes: they are more than the unacknowledged ones"));
        }
        if self.unread.len() as u64 != u64::from(self.tcp.unread_bytes) {
            return Err(FieldError::Unknown("unread input: its length is not the connection's"));
        }
        if (self.flow.client, self.flow.service) != (self.tcp.peer, self.tcp.local) {
            return Err(FieldError::Unknown("flow: it is not the connection's"));
        }
        Ok(())
    }
}

fn take_spans(reader: &mut Reader<'_>) -> Result<Vec<Span>, FieldError> {
    let count = reader.u32()? as usize;
    if count > SPANS_MAX {
        return Err(FieldError::Bound { what: "number of spans", bytes: count, max: SPANS_MAX });
    }
    let mut spans = Vec::new();
    let mut raw_left = RAW_BYTES_MAX;
    for _ in 0..count {
        spans.push(match reader.u8()? {
            RAW => {
                let bytes = reader.bytes("raw bytes", raw_left)?;
                raw_left -= bytes.len();
                Span::Raw(bytes.to_vec())
            }
            SESSION => Span::Session { from: reader.u64()?, len: reader.u64()? },
            _ => return Err(FieldError::Unknown("span")),
        });
    }
    Ok(spans)
}
