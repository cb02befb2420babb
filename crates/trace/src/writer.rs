//! Writing streams: blocks into segments, rotated and bounded.

use crate::block::{HEADER_BYTES, MOST_DICTIONARY, MOST_SLOTS, append, encode_into, name_bytes, name_text, own_header};
use crate::error::WriteError;
use crate::manifest::Entry;
use crate::run::Run;
use crate::{BlockHeader, Source};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::sync::Arc;
use weir_wire::{MAX_SLOTS, Record, SLOT_BYTES, Slot};

/// Bounds of a stream.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// A segment is closed when it reaches this, bytes.
    pub segment_bytes: u64,
    /// The oldest segments of the stream are removed when it would pass this, bytes.
    pub stream_bytes: u64,
    /// Slots of a block, at most what readers accept (65536); a block is also closed by [`StreamWriter::flush`].
    pub block_slots: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { segment_bytes: 64 << 20, stream_bytes: 2 << 30, block_slots: 8192 }
    }
}

/// What a stream has written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Written {
    /// Records.
    pub records: u64,
    /// Bytes.
    pub bytes: u64,
    /// Records lost: reported by the source, or in segments that were removed.
    pub lost: u64,
    /// Segments that were removed to keep within the bound. What was told once may have been in them.
    pub removed: u64,
}

/// Streams of one lane of one source whose processes had the same number, in one run.
const MOST_NAMESAKES: u32 = 10_000;

/// A segment that is complete.
#[derive(Debug)]
struct Closed {
    file: String,
    bytes: u64,
    records: u64,
}

#[derive(Debug)]
struct Segment {
    file: File,
    name: String,
    bytes: u64,
    records: u64,
    lost: u64,
    first_ns: u64,
    last_ns: u64,
}

/// Writes one lane of one source.
///
/// Records are expected in the order of their times, which is what a merge of streams relies on.
/// Dropped without [`StreamWriter::finish`], as when another lane could not be written, it still writes what it holds.
#[derive(Debug)]
pub struct StreamWriter {
    run: Run,
    limits: Limits,
    stem: String,
    sequence: u32,
    header: BlockHeader,
    slots: Vec<Slot>,
    records: u32,
    names: HashMap<u32, Arc<str>>,
    used_names: BTreeSet<u32>,
    used_bytes: usize,
    encoded: Vec<u8>,
    segment: Option<Segment>,
    closed: VecDeque<Closed>,
    written: Written,
}

impl Run {
    /// Begins a stream: one lane of one source.
    #[must_use]
    pub fn stream(&self, source: Source, lane: u32, limits: Limits) -> StreamWriter {
        StreamWriter::new(self.clone(), source, lane, limits)
    }
}

impl StreamWriter {
    pub(crate) fn new(run: Run, source: Source, lane: u32, mut limits: Limits) -> Self {
        // The record that fills a block may bring all its slots.
        limits.block_slots = limits.block_slots.clamp(1, MOST_SLOTS - MAX_SLOTS);
        let stem = format!("{}-{}-{lane}", source.name(), std::process::id());
        Self {
            run,
            limits,
            stem,
            sequence: 0,
            header: own_header(source, lane),
            slots: Vec::with_capacity(limits.block_slots + MAX_SLOTS),
            records: 0,
            names: HashMap::new(),
            used_names: BTreeSet::new(),
            used_bytes: 0,
            encoded: Vec::new(),
            segment: None,
            closed: VecDeque::new(),
            written: Written::default(),
        }
    }

    /// Gives a dictionary id its text, of at most 65535 bytes; each block that uses the id carries it.
    pub fn define(&mut self, id: u32, text: &str) {
        let text = name_text(text);
        if self.names.get(&id).is_none_or(|known| **known != *text) {
            self.names.insert(id, Arc::from(text));
        }
    }

    /// Writes a record with its slots; `name` is the dictionary id that it uses, if any.
    ///
    /// # Errors
    /// [`WriteError::Io`] when a block is full and cannot be written; its records are then counted as lost.
    pub fn push(&mut self, record: Record, payload: &[Slot], name: Option<u32>) -> Result<(), WriteError> {
        let mut outcome = Ok(());
        if let Some(id) = name
            && !self.used_names.contains(&id)
            && let Some(text) = self.names.get(&id)
        {
            let bytes = name_bytes(text);
            if self.used_bytes + bytes > MOST_DICTIONARY {
                outcome = self.flush();
            }
            self.used_names.insert(id);
            self.used_bytes += bytes;
        }
        if self.records == 0 {
            (self.header.base_ns, self.header.end_ns) = (record.time_ns, record.time_ns);
        }
        self.header.base_ns = self.header.base_ns.min(record.time_ns);
        self.header.end_ns = self.header.end_ns.max(record.time_ns);
        append(&mut self.slots, record, payload);
        self.records += 1;
        if self.slots.len() >= self.limits.block_slots { self.flush().and(outcome) } else { outcome }
    }

    /// Counts records that the source lost; the next block tells it.
    pub fn lose(&mut self, records: u64) {
        self.header.lost = self.header.lost.saturating_add(records);
        self.written.lost = self.written.lost.saturating_add(records);
    }

    /// Closes the block and hands it to the system.
    ///
    /// # Errors
    /// [`WriteError::Io`]; the block's records are then counted as lost, and the next block that can be written tells it.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        if self.records == 0 && self.header.lost == 0 {
            return Ok(());
        }
        let outcome = self.write_block();
        match outcome {
            Ok(()) => self.header.lost = 0,
            Err(_) => self.lose(u64::from(self.records)),
        }
        self.slots.clear();
        self.used_names.clear();
        (self.records, self.used_bytes) = (0, 0);
        outcome
    }

    /// Closes block and segment; returns what was written.
    ///
    /// # Errors
    /// [`WriteError::Io`]; what reached the disk stays readable.
    pub fn finish(mut self) -> Result<Written, WriteError> {
        let flushed = self.flush();
        let closed = self.close_segment();
        flushed.and(closed).map(|()| self.written)
    }

    /// What was written so far.
    #[must_use]
    pub fn written(&self) -> Written {
        self.written
    }

    fn write_block(&mut self) -> Result<(), WriteError> {
        let size = (HEADER_BYTES + self.used_bytes + self.slots.len() * SLOT_BYTES) as u64;
        if self.segment.as_ref().is_some_and(|open| open.bytes + size > self.limits.segment_bytes) {
            self.close_segment()?;
        }
        if self.segment.is_none() {
            // Before the block is encoded, as the block tells what was lost by making room.
            self.make_room(size)?;
            self.open_segment()?;
        }
        let names = &self.names;
        let dictionary: Vec<_> =
            self.used_names.iter().filter_map(|id| names.get(id).map(|text| (*id, Arc::clone(text)))).collect();
        let bytes = &mut self.encoded;
        encode_into(bytes, &self.header, self.records, &dictionary, &self.slots);
        let Some(open) = self.segment.as_mut() else { return Ok(()) };
        if let Err(source) = open.file.write_all(bytes) {
            // Half a block would cost a reader time to get past; the file is open for appending, so the next block
            // follows the last whole one.
            let _ = open.file.set_len(open.bytes);
            return Err(WriteError::Io { path: self.run.segment_path(&open.name), source });
        }
        open.bytes += bytes.len() as u64;
        open.records += u64::from(self.records);
        open.lost = open.lost.saturating_add(self.header.lost);
        if self.records > 0 {
            open.first_ns = open.first_ns.min(self.header.base_ns);
            open.last_ns = open.last_ns.max(self.header.end_ns);
        }
        self.written.bytes += bytes.len() as u64;
        self.written.records += u64::from(self.records);
        Ok(())
    }

    /// Opens the next segment under a name that no other writer has, or had: a number of a process comes again.
    fn open_segment(&mut self) -> Result<(), WriteError> {
        let mut stem = self.stem.clone();
        for again in 2.. {
            // A stream that rotated may have removed its first segments, so no other may begin under its stem.
            if self.sequence == 0 && again < MOST_NAMESAKES && self.run.has_stream(&stem)? {
                stem = format!("{}-{again}", self.stem);
                continue;
            }
            let name = format!("{stem}.{:06}.seg", self.sequence + 1);
            let path = self.run.segment_path(&name);
            match OpenOptions::new().append(true).create_new(true).open(&path) {
                Ok(file) => {
                    (self.stem, self.sequence) = (stem, self.sequence + 1);
                    self.segment =
                        Some(Segment { file, name, bytes: 0, records: 0, lost: 0, first_ns: u64::MAX, last_ns: 0 });
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists && again < MOST_NAMESAKES => {
                    stem = format!("{}-{again}", self.stem);
                }
                Err(source) => return Err(WriteError::Io { path, source }),
            }
        }
        Ok(())
    }

    fn close_segment(&mut self) -> Result<(), WriteError> {
        let Some(open) = self.segment.take() else { return Ok(()) };
        self.closed.push_back(Closed { file: open.name.clone(), bytes: open.bytes, records: open.records });
        self.run.note(&Entry::Segment {
            file: open.name,
            bytes: open.bytes,
            records: open.records,
            lost: open.lost,
            first_ns: open.first_ns.min(open.last_ns),
            last_ns: open.last_ns,
        })
    }

    /// Removes the oldest segments until another one fits.
    fn make_room(&mut self, block_bytes: u64) -> Result<(), WriteError> {
        let another = self.limits.segment_bytes.max(block_bytes);
        while self.closed.iter().map(|closed| closed.bytes).sum::<u64>().saturating_add(another)
            > self.limits.stream_bytes
        {
            let Some(Closed { file, records, .. }) = self.closed.pop_front() else { break };
            let path: PathBuf = self.run.segment_path(&file);
            match std::fs::remove_file(&path) {
                Err(source) if source.kind() != ErrorKind::NotFound => return Err(WriteError::Io { path, source }),
                _ => {}
            }
            self.lose(records);
            self.written.removed += 1;
            self.run.note(&Entry::Removed { file, records })?;
        }
        Ok(())
    }
}

impl Drop for StreamWriter {
    fn drop(&mut self) {
        // No caller is left to take an error; after `finish` there is nothing left to write.
        let _ = self.flush();
        let _ = self.close_segment();
    }
}
