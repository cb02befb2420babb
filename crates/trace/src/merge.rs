//! All streams as one, in the order of their times, in memory bounded by a block for each stream.

use crate::block::{Block, Source};
use crate::segment::SegmentReader;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;
use weir_wire::{Record, Slot};

/// A record with what its block says of it.
#[derive(Debug, Clone, Copy)]
pub struct Sourced<'a> {
    /// The record.
    pub record: Record,
    /// Its continuation slots.
    pub payload: &'a [Slot],
    /// Who wrote it.
    pub source: Source,
    block: &'a Block,
}

impl Sourced<'_> {
    /// The text of a dictionary id, in the block of this record.
    #[must_use]
    pub fn name(&self, id: u32) -> Option<&Arc<str>> {
        self.block.dictionary.get(&id)
    }
}

/// What could not be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Damage {
    /// Bytes that belonged to no readable block.
    pub bytes: u64,
    /// Segments that end in the middle of a block.
    pub cut_segments: u64,
    /// Records that their sources lost.
    pub lost: u64,
    /// Segments that could not be read at all, and why.
    pub refused: Vec<String>,
}

struct Stream<R> {
    readers: VecDeque<SegmentReader<R>>,
    block: Option<Block>,
    position: usize,
}

/// Merges streams.
pub struct Merge<R> {
    streams: Vec<Stream<R>>,
    /// (time of the stream's next record, stream), earliest first.
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    damage: Damage,
    begun: bool,
}

/// A segment's file, opened when its turn comes: a long run has more segments than a process may have descriptors.
#[derive(Debug)]
pub struct SegmentFile {
    path: PathBuf,
    file: Option<File>,
}

impl Read for SegmentFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(File::open(&self.path)?),
        };
        file.read(buffer)
    }
}

impl Merge<SegmentFile> {
    pub(crate) fn of_files(streams: Vec<Vec<PathBuf>>) -> Self {
        let reader = |path: PathBuf| SegmentReader::new(SegmentFile { path: path.clone(), file: None }, &path);
        Self::new(streams.into_iter().map(|segments| segments.into_iter().map(reader).collect()).collect())
    }
}

impl<R: Read> Merge<R> {
    /// Merges streams, each given as the readers of its segments in their order.
    #[must_use]
    pub fn new(streams: Vec<VecDeque<SegmentReader<R>>>) -> Self {
        let streams = streams.into_iter().map(|readers| Stream { readers, block: None, position: 0 }).collect();
        Self { streams, heap: BinaryHeap::new(), damage: Damage::default(), begun: false }
    }

    /// Hands every record to `take`, earliest first; false from `take` ends it early.
    pub fn each(&mut self, mut take: impl FnMut(Sourced<'_>) -> bool) {
        if !self.begun {
            self.begun = true;
            for index in 0..self.streams.len() {
                self.schedule(index);
            }
        }
        while let Some(Reverse((_, index))) = self.heap.pop() {
            // The records of this stream up to the next of any other one, without touching the heap.
            let until = self.heap.peek().map_or(u64::MAX, |Reverse((time, _))| *time);
            let stream = &mut self.streams[index];
            let mut go_on = true;
            if let Some(block) = &stream.block {
                while let Some((record, payload, next)) = block.at(stream.position) {
                    if record.time_ns > until || !go_on {
                        break;
                    }
                    stream.position = next;
                    go_on = take(Sourced { record, payload, source: block.header.source, block });
                }
            }
            self.schedule(index);
            if !go_on {
                return;
            }
        }
    }

    /// What could not be read so far.
    #[must_use]
    pub fn damage(&self) -> &Damage {
        &self.damage
    }

    /// Puts the stream's next record on the heap, reading on where its block is used up.
    fn schedule(&mut self, index: usize) {
        let stream = &mut self.streams[index];
        loop {
            if let Some(block) = &stream.block
                && let Some((record, ..)) = block.at(stream.position)
            {
                self.heap.push(Reverse((record.time_ns, index)));
                return;
            }
            stream.block = None;
            stream.position = 0;
            let Some(reader) = stream.readers.front_mut() else { return };
            match reader.next_block() {
                Ok(Some(block)) => {
                    self.damage.lost = self.damage.lost.saturating_add(block.header.lost);
                    stream.block = Some(block);
                }
                outcome => {
                    self.damage.bytes += reader.damaged_bytes();
                    self.damage.cut_segments += u64::from(reader.cut());
                    if let Err(error) = outcome {
                        self.damage.refused.push(error.to_string());
                    }
                    stream.readers.pop_front();
                }
            }
        }
    }
}
