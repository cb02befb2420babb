//! Where a record's words lie, by what its event was asked to record: Linux, `include/uapi/linux/perf_event.h`,
//! `PERF_RECORD_SAMPLE` and `struct sample_id`.

use crate::section::unsigned;
use linux_perf_data::linux_perf_event_reader::{AttrFlags, PerfEventAttr};

// Bits of `sample_type`.
const IP: u64 = 1;
const TID: u64 = 1 << 1;
const TIME: u64 = 1 << 2;
const ADDR: u64 = 1 << 3;
const READ: u64 = 1 << 4;
const CALLCHAIN: u64 = 1 << 5;
const ID: u64 = 1 << 6;
const CPU: u64 = 1 << 7;
const PERIOD: u64 = 1 << 8;
const STREAM_ID: u64 = 1 << 9;
const RAW: u64 = 1 << 10;
const IDENTIFIER: u64 = 1 << 16;
/// The order in which a sample has them, eight bytes each, before what is of any length.
const OF_SAMPLE: [u64; 9] = [IDENTIFIER, IP, TID, TIME, ADDR, ID, STREAM_ID, CPU, PERIOD];
/// The order in which other records have them at their end.
const OF_OTHERS: [u64; 6] = [TID, TIME, ID, STREAM_ID, CPU, IDENTIFIER];

// Bits of `read_format`.
const TIMES: [u64; 2] = [1, 1 << 1];
const OF_EACH: [u64; 2] = [1 << 2, 1 << 4];
const IS_GROUP: u64 = 1 << 3;

/// Where the words lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    is_big_endian: bool,
    task: Option<usize>,
    time: Option<usize>,
    cpu: Option<usize>,
    id: Option<usize>,
    /// Where what is of any length begins in a sample.
    rest: usize,
    has_read: bool,
    has_callchain: bool,
    has_raw: bool,
    /// Words of counters: once, and for each counter where they are counted in a group.
    read_words: u64,
    read_words_of_each: u64,
    is_group: bool,
    /// The same two of other records, from their end.
    time_from_end: Option<usize>,
    id_from_end: Option<usize>,
}

/// What a sample says of itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sample<'a> {
    pub(super) task: Option<u32>,
    pub(super) process: Option<u32>,
    pub(super) at_ns: Option<u64>,
    pub(super) cpu: Option<u32>,
    /// What its tracepoint recorded.
    pub(super) raw: Option<&'a [u8]>,
}

impl Layout {
    pub(super) fn new(attributes: &PerfEventAttr, read_format: u64, is_big_endian: bool) -> Self {
        let asked = attributes.sample_format.bits();
        let has = |bit: u64| asked & bit != 0;
        let before = |bits: &[u64], bit: u64| {
            let words = bits.iter().take_while(|known| **known != bit).filter(|known| has(**known)).count();
            has(bit).then_some(words * 8)
        };
        let of_sample = |bit| before(&OF_SAMPLE, bit);
        let size = |bits: &[u64]| bits.iter().filter(|bit| has(**bit)).count() * 8;
        let is_told = attributes.flags.contains(AttrFlags::SAMPLE_ID_ALL);
        let from_end = |bit| before(&OF_OTHERS, bit).filter(|_| is_told).map(|from| size(&OF_OTHERS) - from);
        let counted = |bits: [u64; 2]| bits.iter().filter(|bit| read_format & **bit != 0).count() as u64;
        Self {
            is_big_endian,
            task: of_sample(TID),
            time: of_sample(TIME),
            cpu: of_sample(CPU),
            id: of_sample(IDENTIFIER).or(of_sample(ID)),
            rest: size(&OF_SAMPLE),
            has_read: has(READ),
            has_callchain: has(CALLCHAIN),
            has_raw: has(RAW),
            read_words: 1 + counted(TIMES),
            read_words_of_each: 1 + counted(OF_EACH),
            is_group: read_format & IS_GROUP != 0,
            time_from_end: from_end(TIME),
            id_from_end: from_end(IDENTIFIER).or(from_end(ID)),
        }
    }

    fn number(&self, body: &[u8], at: usize, bytes: usize) -> Option<u64> {
        Some(unsigned(body.get(at..at.checked_add(bytes)?)?, self.is_big_endian))
    }

    /// When a sample was taken, and which of the file's events took it.
    pub(super) fn time_of_sample(&self, body: &[u8]) -> Option<u64> {
        self.number(body, self.time?, 8)
    }

    pub(super) fn id_of_sample(&self, body: &[u8]) -> Option<u64> {
        self.number(body, self.id?, 8)
    }

    /// The same of another record.
    pub(super) fn time_of_other(&self, body: &[u8]) -> Option<u64> {
        self.number(body, body.len().checked_sub(self.time_from_end?)?, 8)
    }

    pub(super) fn id_of_other(&self, body: &[u8]) -> Option<u64> {
        self.number(body, body.len().checked_sub(self.id_from_end?)?, 8)
    }

    /// Reads a sample; none where it is cut.
    pub(super) fn sample<'a>(&self, body: &'a [u8]) -> Option<Sample<'a>> {
        let word = |at: Option<usize>, bytes| at.map_or(Some(None), |at| self.number(body, at, bytes).map(Some));
        // What runs in no task has the number -1.
        let task = |number: Option<u64>| number.map(|number| number as u32).filter(|number| number.cast_signed() >= 0);
        Some(Sample {
            process: task(word(self.task, 4)?),
            task: task(word(self.task.map(|at| at + 4), 4)?),
            at_ns: word(self.time, 8)?,
            cpu: word(self.cpu, 4)?.map(|cpu| cpu as u32),
            raw: if self.has_raw { Some(self.raw(body)?) } else { None },
        })
    }

    fn raw<'a>(&self, body: &'a [u8]) -> Option<&'a [u8]> {
        let mut at = self.rest;
        if self.has_read {
            let words = if self.is_group {
                let counters = self.number(body, at, 8)?;
                counters.checked_mul(self.read_words_of_each)?.checked_add(self.read_words)?
            } else {
                self.read_words + self.read_words_of_each - 1
            };
            at = at.checked_add(usize::try_from(words).ok()?.checked_mul(8)?)?;
        }
        if self.has_callchain {
            let frames = usize::try_from(self.number(body, at, 8)?).ok()?;
            at = at.checked_add(frames.checked_mul(8)?)?.checked_add(8)?;
        }
        let size = self.number(body, at, 4)? as usize;
        body.get(at.checked_add(4)?..)?.get(..size)
    }
}
