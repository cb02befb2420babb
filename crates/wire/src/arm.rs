//! What an ARM client and the agent share: the layout of the client's memory, handles, identities, definitions.
//!
//! A client owns a sealed memory file: it cannot be cut or grown by anybody, so that neither side can fault on it.
//! Its regions, in this order, each beginning on a page:
//!
//! ```text
//! head          one page of 64-bit words, HEAD_* below; a line of 64 bytes for each of its writers
//! switches      a 32-bit word for each definition, written by the agent
//! positions     POSITION_WORDS for each lane
//! definitions   bytes, only ever appended to
//! lanes         slots of 32 bytes, SPSC rings
//! ```
//!
//! All numbers are in the machine's own order: the file never leaves its host.

use crate::{MAX_SLOTS, SLOT_BYTES, Slot};

/// First word of the head: `weirarm` and a version that changes with the layout.
pub const MAGIC: u64 = u64::from_le_bytes(*b"weirarm\x01");
/// The name of the memory file, as `memfd_create` takes it.
pub const MEMORY_NAME: &str = "weir-arm";
/// The name of the agent's socket, in the directory of announcements, that takes memory files.
pub const HANDOVER_NAME: &str = "memory.sock";
/// Bytes of a page of the layout, on machines with pages of any size.
pub const PAGE_BYTES: usize = 4096;
/// Definitions that a process may make; their numbers begin at 1, and 0 stands for one that found no room.
pub const MOST_DEFINITIONS: usize = 4096;
/// Bytes of the region of definitions.
pub const DEFINITION_BYTES: usize = 512 << 10;
/// Rings of a process.
pub const LANES: usize = 128;
/// The last of them belong to no thread: a thread without a lane takes one of these for a single record.
pub const SHARED_LANES: usize = 8;
/// Slots of a ring; a power of two.
pub const LANE_SLOTS: usize = 16 << 10;

/// Word of the head: [`MAGIC`].
pub const HEAD_MAGIC: usize = 0;
/// The process's number, as it sees itself.
pub const HEAD_PID: usize = 1;
/// The process's random number: its transactions' identities follow from it.
pub const HEAD_TOKEN: usize = 2;
/// When the memory was made, CLOCK_MONOTONIC in nanoseconds.
pub const HEAD_MADE_NS: usize = 3;
/// Lanes that have been used: readers look no further. Written by the client.
pub const HEAD_LANES_USED: usize = 8;
/// Bytes of definitions that are whole. Written by the client.
pub const HEAD_DEFINED_BYTES: usize = 9;
/// Definitions that found no room. Written by the client.
pub const HEAD_DEFINITIONS_DROPPED: usize = 10;
/// Records for which no lane could be had. Written by the client.
pub const HEAD_LANELESS: usize = 11;
/// When the agent last said that it listens, CLOCK_MONOTONIC in nanoseconds; 0 = it does not. Written by the agent.
pub const HEAD_HEARTBEAT: usize = 16;
/// The switch of transactions that have no definition of their own. Written by the agent.
pub const HEAD_DEFAULT_SWITCH: usize = 17;
/// How much of [`HEAD_LANELESS`] an agent has counted. Written by the agent, for the next one.
pub const HEAD_LANELESS_TOLD: usize = 18;
/// How much of [`HEAD_DEFINITIONS_DROPPED`] an agent has counted. Written by the agent, for the next one.
pub const HEAD_DEFINITIONS_DROPPED_TOLD: usize = 19;

/// Switch: every transaction is recorded. Other values than this and [`SWITCH_OFF`]: one of so many.
pub const SWITCH_ON: u32 = 0;
/// Switch: none is recorded.
pub const SWITCH_OFF: u32 = u32::MAX;

/// Words of a lane's positions: a line of the writer's, one of the reader's, one of who has it.
pub const POSITION_WORDS: usize = 24;
/// Slots written. By the client.
pub const LANE_WRITTEN: usize = 0;
/// Records that found no room. By the client.
pub const LANE_DROPPED: usize = 1;
/// Transactions that the switch left out. By the client.
pub const LANE_SKIPPED: usize = 2;
/// Slots read. By the agent.
pub const LANE_READ: usize = 8;
/// How much of [`LANE_DROPPED`] an agent has counted. By the agent, for the next one.
pub const LANE_DROPPED_TOLD: usize = 9;
/// How much of [`LANE_SKIPPED`] an agent has counted. By the agent, for the next one.
pub const LANE_SKIPPED_TOLD: usize = 10;
/// The thread that has the lane, 0 = none. By the client.
pub const LANE_OWNER: usize = 16;

/// Where the switches begin, bytes.
pub const SWITCHES_AT: usize = PAGE_BYTES;
/// Where the positions begin, bytes.
pub const POSITIONS_AT: usize = SWITCHES_AT + pages(MOST_DEFINITIONS * 4);
/// Where the definitions begin, bytes. What is before is what the agent maps.
pub const DEFINITIONS_AT: usize = POSITIONS_AT + pages(LANES * POSITION_WORDS * 8);
/// Where the lanes begin, bytes.
pub const LANES_AT: usize = DEFINITIONS_AT + pages(DEFINITION_BYTES);
/// Bytes of a lane.
pub const LANE_BYTES: usize = LANE_SLOTS * SLOT_BYTES;
/// Bytes of the whole; hardly any of them are ever touched.
pub const MEMORY_BYTES: usize = LANES_AT + LANES * LANE_BYTES;

const fn pages(bytes: usize) -> usize {
    bytes.div_ceil(PAGE_BYTES) * PAGE_BYTES
}

/// Flag of `ArmStart`, `ArmReport` and `ArmCorrelator`: the parent's slot follows.
pub const HAS_PARENT: u8 = 1;
/// Flag of `ArmStart`: a slot follows whose first word is the arrival time, CLOCK_MONOTONIC in nanoseconds.
pub const HAS_ARRIVAL: u8 = 2;
/// Flag of `ArmReport`: the slot of its own identity follows.
pub const HAS_OWN: u8 = 2;
/// Flag of `ArmStart`: the application asked for it to be traced.
pub const TRACE: u8 = 4;
/// Flag of `ArmStart`: bound to the thread that started it.
pub const BOUND: u8 = 8;
/// Flag of `ArmStart`: its correlator was given out, so that it may have children elsewhere.
pub const CORRELATED: u8 = 16;
/// Flag of `ArmStart`: by ARM 2.0.
pub const ARM_2: u8 = 32;

/// A running transaction's name within its process: never 0, never negative for its 64-bit users.
///
/// Bits 0 to 47: the slot at which its start was written; 48 to 54: the lane; 55 to 62: how many forks the process is
/// away from the first, so that a parent's handles are refused in its child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle(pub u64);

impl Handle {
    const SLOT_BITS: u32 = 48;
    const LANE_BITS: u32 = 7;

    /// Of a lane's slot; `generation` counts from 1 to 255.
    #[must_use]
    pub fn new(generation: u8, lane: u32, slot: u64) -> Self {
        Self(
            u64::from(generation) << (Self::SLOT_BITS + Self::LANE_BITS)
                | u64::from(lane & (LANES as u32 - 1)) << Self::SLOT_BITS
                | slot & ((1 << Self::SLOT_BITS) - 1),
        )
    }

    /// The generation of its process.
    #[must_use]
    pub fn generation(self) -> u8 {
        (self.0 >> (Self::SLOT_BITS + Self::LANE_BITS)) as u8
    }

    /// The lane in which its start stands.
    #[must_use]
    pub fn lane(self) -> u32 {
        (self.0 >> Self::SLOT_BITS) as u32 & (LANES as u32 - 1)
    }

    /// The slot of that lane at which its start stands, counted from the lane's first ever.
    #[must_use]
    pub fn slot(self) -> u64 {
        self.0 & ((1 << Self::SLOT_BITS) - 1)
    }
}

/// What spans are mixed with: an odd number, so that it has an inverse.
const SPAN_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
/// The number that undoes it.
const SPAN_FACTOR_INVERSE: u64 = inverse(SPAN_FACTOR);

/// The inverse of an odd number modulo 2^64, by Newton's steps: each doubles the bits that are right, from three on.
const fn inverse(odd: u64) -> u64 {
    let mut found = odd;
    let mut step = 0;
    while step < 5 {
        found = found.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(found)));
        step += 1;
    }
    found
}

/// The random number of a process, from which its transactions have their identities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token(pub u64);

impl Token {
    /// The identity of a transaction within its trace; never 0. A bijection of the handle for each token.
    #[inline]
    #[must_use]
    pub fn span(self, handle: Handle) -> u64 {
        // An odd factor and a rotation keep it reversible; neighbours come out far apart.
        let mixed = (handle.0 ^ self.0).wrapping_mul(SPAN_FACTOR).rotate_left(29);
        mixed.max(1)
    }

    /// Whether two spans are of one process: what its handles have in common is then in both.
    ///
    /// Spans of two processes, or of another system, pass for those of one in one case of two million.
    #[must_use]
    pub fn is_same(one: u64, other: u64) -> bool {
        let unmixed = |span: u64| span.rotate_right(29).wrapping_mul(SPAN_FACTOR_INVERSE);
        // The token cancels out; generation and sign are equal, and no thread has written 2^36 slots of a lane.
        let apart = unmixed(one) ^ unmixed(other);
        apart >> (Handle::SLOT_BITS + Handle::LANE_BITS) == 0 && apart & 0x0000_fff0_0000_0000 == 0
    }

    /// The trace of a transaction that has no parent.
    #[inline]
    #[must_use]
    pub fn trace(self, span: u64) -> [u64; 2] {
        [self.0.max(1), span]
    }
}

/// Whose child something is: what a correlator says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Identity {
    /// The trace, as in W3C Trace Context; the first word's bytes come first.
    pub trace: [u64; 2],
    /// The transaction in it.
    pub span: u64,
    /// Bits [`Identity::RECORDED`] and its neighbours.
    pub flags: u8,
    /// Format of the correlator; other than [`Identity::FORMAT`], all three numbers are hashes of its bytes.
    pub format: u8,
}

/// Bytes of a correlator of ours.
pub const CORRELATOR_BYTES: usize = 28;

impl Identity {
    /// The format id of our own correlators. The standard gives ids to vendors; this one is not registered.
    pub const FORMAT: u8 = 0xd7;
    /// It was recorded: W3C's `sampled`, ARM's trace flag of the agent.
    pub const RECORDED: u8 = 1;
    /// Its application asked for tracing: ARM's trace flag of the application.
    pub const ASKED: u8 = 2;

    /// The correlator: length, format, flags (0x80 = application's trace, 0x40 = agent's), trace, span.
    #[inline]
    #[must_use]
    pub fn correlator(self) -> [u8; CORRELATOR_BYTES] {
        let mut bytes = [0; CORRELATOR_BYTES];
        bytes[..2].copy_from_slice(&(CORRELATOR_BYTES as u16).to_be_bytes());
        bytes[2] = Self::FORMAT;
        bytes[3] = (self.flags & Self::ASKED) << 6 | (self.flags & Self::RECORDED) << 6;
        bytes[4..12].copy_from_slice(&self.trace[0].to_be_bytes());
        bytes[12..20].copy_from_slice(&self.trace[1].to_be_bytes());
        bytes[20..].copy_from_slice(&self.span.to_be_bytes());
        bytes
    }

    /// What a correlator says, ours or another's; `None` where its length is not that of a correlator (4 to 512 bytes).
    #[must_use]
    pub fn of_correlator(bytes: &[u8]) -> Option<Self> {
        let length = usize::from(u16::from_be_bytes([*bytes.first()?, *bytes.get(1)?]));
        let bytes = bytes.get(..length).filter(|bytes| (4..=512).contains(&bytes.len()))?;
        let flags = (bytes[3] >> 6 & Self::RECORDED) | (bytes[3] >> 6 & Self::ASKED);
        if bytes[2] == Self::FORMAT && length == CORRELATOR_BYTES {
            let word = |at: usize| bytes[at..at + 8].iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
            return Some(Self { trace: [word(4), word(12)], span: word(20), flags, format: Self::FORMAT });
        }
        let hash = |seed: u64| {
            bytes.iter().fold(seed, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
        };
        let first = hash(0xcbf2_9ce4_8422_2325);
        Some(Self { trace: [first, hash(first)], span: hash(!first).max(1), flags, format: bytes[2] })
    }

    /// As a continuation slot.
    #[must_use]
    pub fn slot(self) -> Slot {
        [self.trace[0], self.trace[1], self.span, u64::from(self.flags) | u64::from(self.format) << 8]
    }

    /// Reads what [`Identity::slot`] wrote.
    #[must_use]
    pub fn of_slot(slot: &Slot) -> Self {
        Self { trace: [slot[0], slot[1]], span: slot[2], flags: slot[3] as u8, format: (slot[3] >> 8) as u8 }
    }

    /// As the header `traceparent` of W3C Trace Context, version 00.
    #[must_use]
    pub fn traceparent(self) -> String {
        format!(
            "00-{:016x}{:016x}-{:016x}-{:02x}",
            self.trace[0],
            self.trace[1],
            self.span,
            self.flags & Self::RECORDED
        )
    }

    /// Reads a `traceparent`: of later versions what version 00 has, as the recommendation (3.2.4) says.
    #[must_use]
    pub fn of_traceparent(text: &str) -> Option<Self> {
        let mut pieces = text.split('-');
        let (version, trace, span, flags) = (pieces.next()?, pieces.next()?, pieces.next()?, pieces.next()?);
        let plain = |piece: &str, digits: usize| {
            piece.len() == digits && piece.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
        };
        if !(plain(version, 2) && plain(trace, 32) && plain(span, 16) && plain(flags, 2))
            || version == "ff"
            || version == "00" && pieces.next().is_some()
        {
            return None;
        }
        let number = |digits: &str| u64::from_str_radix(digits, 16).ok();
        let trace = [number(&trace[..16])?, number(&trace[16..])?];
        let span = number(span)?;
        if trace == [0, 0] || span == 0 {
            return None;
        }
        let flags = number(flags)? as u8 & Self::RECORDED;
        Some(Self { trace, span, flags, format: Self::FORMAT })
    }
}

/// What a definition defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Sort {
    /// An application.
    Application = 1,
    /// A transaction of an application.
    Transaction = 2,
    /// A metric of an application.
    Metric = 3,
    /// An instance of an application, with its group.
    Instance = 4,
}

/// The most bytes of one piece; what is longer is cut there.
pub const MOST_PIECE_BYTES: usize = 4 << 10;
/// The most bytes of a whole definition.
pub const MOST_DEFINITION_BYTES: usize = 32 << 10;
/// Bytes before a definition's pieces.
const DEFINITION_HEAD: usize = 8;

/// A definition as it stands in the region of definitions: its length (4 bytes), sort, version of the standard (2 or
/// 4), the number of what it belongs to (2 bytes), then pieces: field, index, length (2 bytes), bytes. Padded to 8.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionWriter {
    bytes: Vec<u8>,
}

impl DefinitionWriter {
    /// Begins a definition; `belongs_to` is the application's number, 0 for applications themselves.
    #[must_use]
    pub fn new(sort: Sort, standard: u8, belongs_to: u16) -> Self {
        let mut bytes = vec![0; DEFINITION_HEAD];
        bytes[4] = sort as u8;
        bytes[5] = standard;
        bytes[6..].copy_from_slice(&belongs_to.to_ne_bytes());
        Self { bytes }
    }

    /// Adds a piece, cut at [`MOST_PIECE_BYTES`]; `false` = there is no room for it.
    pub fn piece(&mut self, field: Field, index: u8, piece: &[u8]) -> bool {
        let piece = &piece[..piece.len().min(MOST_PIECE_BYTES)];
        if self.bytes.len() + PIECE_HEAD + piece.len() > MOST_DEFINITION_BYTES - 8 {
            return false;
        }
        self.bytes.extend_from_slice(&piece_head(field, index, piece.len()));
        self.bytes.extend_from_slice(piece);
        true
    }

    /// The whole, a multiple of 8 bytes.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        let length = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes.resize(self.bytes.len().div_ceil(8) * 8, 0);
        self.bytes
    }
}

/// A definition that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Definition<'a> {
    /// What it defines: a [`Sort`], or what a later version knows.
    pub sort: u8,
    /// The version of the standard by which it was made: 2 or 4.
    pub standard: u8,
    /// The number of the application that it belongs to, 0 = none.
    pub belongs_to: u16,
    pieces: &'a [u8],
}

impl<'a> Definition<'a> {
    /// Reads the first definition of some bytes, and how many bytes it takes; `None` where they hold none.
    #[must_use]
    pub fn read(bytes: &'a [u8]) -> Option<(Self, usize)> {
        let head = bytes.get(..DEFINITION_HEAD)?;
        let length = u32::from_ne_bytes([head[0], head[1], head[2], head[3]]) as usize;
        if !(DEFINITION_HEAD..=MOST_DEFINITION_BYTES).contains(&length) {
            return None;
        }
        let padded = length.div_ceil(8) * 8;
        let pieces = bytes.get(..padded)?.get(DEFINITION_HEAD..length)?;
        let belongs_to = u16::from_ne_bytes([head[6], head[7]]);
        Some((Self { sort: head[4], standard: head[5], belongs_to, pieces }, padded))
    }

    /// Its pieces; those that are not known, or not whole, are left out.
    pub fn pieces(&self) -> impl Iterator<Item = (Field, u8, &'a [u8])> {
        let mut rest = self.pieces;
        let every = std::iter::from_fn(move || {
            let (piece, behind) = Piece::read(rest)?;
            rest = behind;
            Some(piece)
        });
        every.filter_map(|piece| Some((Field::from_code(piece.field)?, piece.index, piece.bytes)))
    }

    /// The first piece of a field, as text.
    #[must_use]
    pub fn text(&self, field: Field) -> Option<String> {
        self.pieces().find(|piece| piece.0 == field).map(|piece| String::from_utf8_lossy(piece.2).into_owned())
    }
}

/// One record's share of a piece: what [`crate::Kind::ArmDetail`] carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Detail {
    /// What it tells; the code of a [`Field`].
    pub field: u8,
    /// Which one of a list.
    pub index: u8,
    /// Where in the whole piece these bytes stand.
    pub offset: u16,
    /// Bytes of the whole piece.
    pub whole_bytes: u32,
}

/// Bytes of a piece that one record carries.
pub const DETAIL_BYTES: usize = MAX_SLOTS * SLOT_BYTES;

impl Detail {
    /// As the record's second operand.
    #[must_use]
    pub fn operand(self) -> u64 {
        u64::from(self.field)
            | u64::from(self.index) << 8
            | u64::from(self.offset) << 16
            | u64::from(self.whole_bytes) << 32
    }

    /// Reads what [`Detail::operand`] wrote.
    #[must_use]
    pub fn of_operand(operand: u64) -> Self {
        Self {
            field: operand as u8,
            index: (operand >> 8) as u8,
            offset: (operand >> 16) as u16,
            whole_bytes: (operand >> 32) as u32,
        }
    }
}

mod field;
mod pieces;

pub use field::Field;
pub use pieces::{MOST_PACKED_BYTES, Metric, PIECE_HEAD, Piece, piece_head};

#[cfg(test)]
mod tests;
