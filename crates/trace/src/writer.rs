//! Writing streams: blocks into segments, rotated and bounded.

use crate::block::{append, encode, own_header};
use crate::error::WriteError;
use crate::manifest::Entry;
use crate::run::Run;
use crate::{BlockHeader, Source};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use weir_wire::{MAX_SLOTS, Record, Slot};

/// Bounds of a stream.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// A segment is closed when it reaches this, bytes.
    pub segment_bytes: u64,
    /// The oldest segments of the stream are removed when it would pass this, bytes.
    pub stream_bytes: u64,
    /// Slots of a block; a block is also closed by [`StreamWriter::flush`].
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
    segment: Option<Segment>,
    closed: VecDeque<(String, u64, u64)>,
    written: Written,
}

impl StreamWriter {
    pub(crate) fn new(run: Run, source: Source, lane: u32, limits: Limits) -> Self {
        let stem = format!("{}-{}-{lane}", source.name(), std::process::id());
        Self {
            run,
            limits,
            stem,
            sequence: 0,
            header: own_header(source, lane),
            slots: Vec::with_capacity(limits.block_slots + MAX_SLOTS + 1),
            records: 0,
            names: HashMap::new(),
            used_names: BTreeSet::new(),
            segment: None,
            closed: VecDeque::new(),
            written: Written::default(),
        }
    }

    /// Gives a dictionary id its text; each block that uses the id carries it.
    pub fn define(&mut self, id: u32, text: &str) {
        self.names.insert(id, Arc::from(text));
    }

    /// Writes a record with its slots; `name` is the dictionary id that it uses, if any.
    ///
    /// # Errors
    /// [`WriteError::Io`] when a block is full and cannot be written.
    pub fn push(&mut self, record: Record, payload: &[Slot], name: Option<u32>) -> Result<(), WriteError> {
        if self.records == 0 {
            (self.header.base_ns, self.header.end_ns) = (record.time_ns, record.time_ns);
        }
        self.header.base_ns = self.header.base_ns.min(record.time_ns);
        self.header.end_ns = self.header.end_ns.max(record.time_ns);
        append(&mut self.slots, record, payload);
        self.records += 1;
        if let Some(id) = name {
            self.used_names.insert(id);
        }
        if self.slots.len() >= self.limits.block_slots { self.flush() } else { Ok(()) }
    }

    /// Counts records that the source lost; the next block tells it.
    pub fn lose(&mut self, records: u64) {
        self.header.lost += records;
        self.written.lost += records;
    }

    /// Closes the block and hands it to the system.
    ///
    /// # Errors
    /// [`WriteError::Io`]; the block's records are then counted as lost.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        if self.records == 0 && self.header.lost == 0 {
            return Ok(());
        }
        let names = &self.names;
        let dictionary: Vec<_> =
            self.used_names.iter().filter_map(|id| names.get(id).map(|text| (*id, Arc::clone(text)))).collect();
        let bytes = encode(&self.header, self.records, &dictionary, &self.slots);
        let outcome = self.write(&bytes);
        if outcome.is_err() {
            self.written.lost += u64::from(self.records);
        }
        self.slots.clear();
        self.used_names.clear();
        (self.records, self.header.lost) = (0, 0);
        outcome
    }

    /// Closes block and segment; returns what was written.
    ///
    /// # Errors
    /// [`WriteError::Io`]; what reached the disk stays readable.
    pub fn finish(mut self) -> Result<Written, WriteError> {
        self.flush()?;
        self.close_segment()?;
        Ok(self.written)
    }

    /// What was written so far.
    #[must_use]
    pub fn written(&self) -> Written {
        self.written
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        if self.segment.as_ref().is_some_and(|open| open.bytes + bytes.len() as u64 > self.limits.segment_bytes) {
            self.close_segment()?;
        }
        if self.segment.is_none() {
            self.make_room()?;
            self.sequence += 1;
            let name = format!("{}.{:06}.seg", self.stem, self.sequence);
            let path = self.run.segment_path(&name);
            let file = File::create(&path).map_err(|source| WriteError::Io { path, source })?;
            let first_ns = self.header.base_ns;
            self.segment = Some(Segment { file, name, bytes: 0, records: 0, lost: 0, first_ns, last_ns: first_ns });
        }
        let Some(open) = self.segment.as_mut() else { return Ok(()) };
        if let Err(source) = open.file.write_all(bytes) {
            // Half a block would hide the next one from a reader that trusts lengths: cut it off again.
            let _ = open.file.set_len(open.bytes);
            return Err(WriteError::Io { path: self.run.segment_path(&open.name), source });
        }
        open.bytes += bytes.len() as u64;
        open.records += u64::from(self.records);
        open.lost += self.header.lost;
        open.first_ns = open.first_ns.min(self.header.base_ns);
        open.last_ns = open.last_ns.max(self.header.end_ns);
        self.written.bytes += bytes.len() as u64;
        self.written.records += u64::from(self.records);
        Ok(())
    }

    fn close_segment(&mut self) -> Result<(), WriteError> {
        let Some(open) = self.segment.take() else { return Ok(()) };
        self.closed.push_back((open.name.clone(), open.bytes, open.records));
        self.run.note(&Entry::Segment {
            file: open.name,
            bytes: open.bytes,
            records: open.records,
            lost: open.lost,
            first_ns: open.first_ns,
            last_ns: open.last_ns,
        })
    }

    /// Removes the oldest segments until another one fits.
    fn make_room(&mut self) -> Result<(), WriteError> {
        let kept = |closed: &VecDeque<(String, u64, u64)>| closed.iter().map(|(_, bytes, _)| bytes).sum::<u64>();
        while kept(&self.closed) + self.limits.segment_bytes > self.limits.stream_bytes {
            let Some((file, _, records)) = self.closed.pop_front() else { break };
            let path: PathBuf = self.run.segment_path(&file);
            std::fs::remove_file(&path).map_err(|source| WriteError::Io { path, source })?;
            self.written.lost += records;
            self.header.lost += records;
            self.run.note(&Entry::Removed { file, records })?;
        }
        Ok(())
    }
}
