//! Blocks: what a segment is made of, each decodable on its own.
//!
//! ```text
//! magic 8 | major 2 | minor 2 | clock 1 | source 1 | encoding 1 | 0 | lane 4 | slots 4 | records 4 | dictionary bytes 4
//! base time 8 | end time 8 | losses 8 | 0 4 | CRC-32 4 | dictionary | slots of 32 bytes
//! ```
//! All numbers are little-endian. The CRC covers the whole block with its own field zero.

use std::collections::HashMap;
use std::sync::Arc;
use weir_wire::{MAX_SLOTS, Record, SLOT_BYTES, Slot, schema};

/// Size of a block's head in bytes.
pub const HEADER_BYTES: usize = 64;
/// First bytes of every block.
pub(crate) const MAGIC: [u8; 8] = *b"weirblk\n";
/// The most slots that a block may hold: a bound for readers (2 MiB).
pub(crate) const MOST_SLOTS: usize = 1 << 16;
/// The most bytes that a block's dictionary may hold.
pub(crate) const MOST_DICTIONARY: usize = 1 << 20;

/// The clock of a segment's times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Clock {
    /// CLOCK_MONOTONIC of the recorded host.
    Monotonic,
    /// Another domain, as imported files have it.
    Foreign(u8),
}

/// Who wrote a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// The kernel's events, a lane for each CPU.
    Kernel,
    /// The load generator, a lane for each of its threads.
    Client,
    /// Transactions that applications tell of by ARM, one lane.
    Arm,
    /// What rules of a server decided, from what it wrote down; one lane.
    Decisions,
    /// Anything that this version does not know.
    Other(u8),
}

impl Source {
    fn code(self) -> u8 {
        match self {
            Self::Kernel => 1,
            Self::Client => 2,
            Self::Arm => 3,
            Self::Decisions => 4,
            Self::Other(code) => code,
        }
    }

    fn from_code(code: u8) -> Self {
        match code {
            1 => Self::Kernel,
            2 => Self::Client,
            3 => Self::Arm,
            4 => Self::Decisions,
            other => Self::Other(other),
        }
    }

    /// Its name, as file names carry it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Client => "client",
            Self::Arm => "arm",
            Self::Decisions => "decisions",
            Self::Other(_) => "other",
        }
    }
}

/// What a block says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockHeader {
    /// Schema (major, minor) of the writer.
    pub schema: (u16, u16),
    /// The clock of its times.
    pub clock: Clock,
    /// Who wrote it.
    pub source: Source,
    /// The CPU or thread of the source.
    pub lane: u32,
    /// Time of the earliest record, nanoseconds.
    pub base_ns: u64,
    /// Time of the latest record, nanoseconds.
    pub end_ns: u64,
    /// Records of this lane lost since the block before.
    pub lost: u64,
}

/// A decoded block.
#[derive(Debug, Clone)]
pub struct Block {
    /// What it says of itself.
    pub header: BlockHeader,
    /// Records it holds.
    pub records: u32,
    /// Names by their ids; every id that the block's records use is here.
    pub dictionary: Arc<HashMap<u32, Arc<str>>>,
    slots: Vec<Slot>,
}

impl Block {
    /// The records with their continuation slots, in the order they were written.
    pub fn iter(&self) -> impl Iterator<Item = (Record, &[Slot])> {
        let mut rest = &self.slots[..];
        std::iter::from_fn(move || {
            let (record, length) = first(rest)?;
            let payload = &rest[1..length];
            rest = &rest[length..];
            Some((record, payload))
        })
    }

    /// The record at a slot position, and the position behind it.
    pub(crate) fn at(&self, position: usize) -> Option<(Record, &[Slot], usize)> {
        let (record, length) = first(self.slots.get(position..)?)?;
        Some((record, &self.slots[position + 1..position + length], position + length))
    }
}

/// The first record of some slots and how many slots it takes; a length that reaches past the end is cut.
fn first(slots: &[Slot]) -> Option<(Record, usize)> {
    let record = Record::from_slot(*slots.first()?);
    Some((record, (1 + usize::from(record.slots)).min(slots.len())))
}

/// A name as far as a dictionary holds it, cut at a character's boundary.
pub(crate) fn name_text(text: &str) -> &str {
    let mut end = text.len().min(usize::from(u16::MAX));
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Bytes that a name takes in a dictionary.
pub(crate) fn name_bytes(text: &str) -> usize {
    6 + name_text(text).len()
}

/// Encodes a block. `slots` holds records and their continuation slots in a row.
///
/// Readers refuse blocks of more than 65536 slots or 1 MiB of names; [`crate::StreamWriter`] keeps within.
#[must_use]
pub fn encode(header: &BlockHeader, records: u32, dictionary: &[(u32, Arc<str>)], slots: &[Slot]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_into(&mut bytes, header, records, dictionary, slots);
    bytes
}

/// Encodes a block in place of what `bytes` holds: fresh memory for each block costs more than filling it.
pub(crate) fn encode_into(
    bytes: &mut Vec<u8>,
    header: &BlockHeader,
    records: u32,
    dictionary: &[(u32, Arc<str>)],
    slots: &[Slot],
) {
    let mut names = Vec::new();
    for (id, text) in dictionary {
        let text = name_text(text).as_bytes();
        names.extend_from_slice(&id.to_le_bytes());
        names.extend_from_slice(&(text.len() as u16).to_le_bytes());
        names.extend_from_slice(text);
    }
    bytes.clear();
    bytes.reserve(HEADER_BYTES + names.len() + slots.len() * SLOT_BYTES);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&header.schema.0.to_le_bytes());
    bytes.extend_from_slice(&header.schema.1.to_le_bytes());
    let clock = match header.clock {
        Clock::Monotonic => 1,
        Clock::Foreign(code) => code,
    };
    bytes.extend_from_slice(&[clock, header.source.code(), 0, 0]);
    for word in [header.lane, slots.len() as u32, records, names.len() as u32] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    for word in [header.base_ns, header.end_ns, header.lost, 0] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.extend_from_slice(&names);
    let begin = bytes.len();
    bytes.resize(begin + slots.len() * SLOT_BYTES, 0);
    for (raw, word) in bytes[begin..].chunks_exact_mut(8).zip(slots.as_flattened()) {
        raw.copy_from_slice(&word.to_le_bytes());
    }
    let crc = crc32fast::hash(bytes);
    bytes[60..64].copy_from_slice(&crc.to_le_bytes());
}

/// Sizes that a head promises, checked against the bounds.
pub(crate) struct Sizes {
    pub(crate) dictionary: usize,
    pub(crate) slots: usize,
}

/// Reads the sizes of a head; `None` if these bytes are no head of ours.
pub(crate) fn sizes(head: &[u8; HEADER_BYTES]) -> Option<Sizes> {
    let slots = u32_at(head, 20) as usize;
    let dictionary = u32_at(head, 28) as usize;
    (head[..8] == MAGIC && slots <= MOST_SLOTS && dictionary <= MOST_DICTIONARY).then_some(Sizes { dictionary, slots })
}

/// The schema of a head, readable in every version.
pub(crate) fn schema_of(head: &[u8; HEADER_BYTES]) -> (u16, u16) {
    (u16::from_le_bytes([head[8], head[9]]), u16::from_le_bytes([head[10], head[11]]))
}

/// What a head says of its block: base time, end time, records, CRC.
pub(crate) fn summary_of(head: &[u8; HEADER_BYTES]) -> (u64, u64, u32, u32) {
    (u64_at(head, 32), u64_at(head, 40), u32_at(head, 24), u32_at(head, 60))
}

/// Whether head and body are as they were written, by their CRC.
pub(crate) fn is_whole(head: &[u8; HEADER_BYTES], body: &[u8]) -> bool {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&head[..60]);
    crc.update(&[0; 4]);
    crc.update(body);
    crc.finalize() == u32_at(head, 60)
}

/// Decodes the body of a block that is whole; `None` when its parts do not fit together.
pub(crate) fn decode(head: &[u8; HEADER_BYTES], body: &[u8]) -> Option<Block> {
    let sizes = sizes(head)?;
    // Encodings other than plain slots are for versions to come.
    if body.len() != sizes.dictionary + sizes.slots * SLOT_BYTES || head[14] != 0 {
        return None;
    }
    let (names, slots) = body.split_at(sizes.dictionary);
    let header = BlockHeader {
        schema: schema_of(head),
        clock: if head[12] == 1 { Clock::Monotonic } else { Clock::Foreign(head[12]) },
        source: Source::from_code(head[13]),
        lane: u32_at(head, 16),
        base_ns: u64_at(head, 32),
        end_ns: u64_at(head, 40),
        lost: u64_at(head, 48),
    };
    let mut words = vec![Slot::default(); sizes.slots];
    for (word, raw) in words.as_flattened_mut().iter_mut().zip(slots.as_chunks().0) {
        *word = u64::from_le_bytes(*raw);
    }
    Some(Block { header, records: u32_at(head, 24), dictionary: Arc::new(names_of(names)?), slots: words })
}

fn names_of(mut bytes: &[u8]) -> Option<HashMap<u32, Arc<str>>> {
    let mut names = HashMap::new();
    while !bytes.is_empty() {
        let length = usize::from(u16::from_le_bytes([*bytes.get(4)?, *bytes.get(5)?]));
        let text = bytes.get(6..6 + length)?;
        names.insert(u32_at(bytes, 0), Arc::from(String::from_utf8_lossy(text)));
        bytes = &bytes[6 + length..];
    }
    Some(names)
}

// The callers have checked that the bytes are there.
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// A head for blocks of this version.
pub(crate) fn own_header(source: Source, lane: u32) -> BlockHeader {
    BlockHeader { schema: schema::VERSION, clock: Clock::Monotonic, source, lane, base_ns: 0, end_ns: 0, lost: 0 }
}

/// Appends a record and its slots to a block's slots.
pub(crate) fn append(slots: &mut Vec<Slot>, mut record: Record, payload: &[Slot]) {
    let payload = &payload[..payload.len().min(MAX_SLOTS)];
    record.slots = payload.len() as u8;
    slots.push(record.to_slot());
    slots.extend_from_slice(payload);
}
