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
    /// The run that it is of, counted from 0, where several are merged.
    pub run: usize,
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
    run: usize,
    readers: VecDeque<SegmentReader<R>>,
    block: Option<Block>,
    position: usize,
}

/// What a time of a run is by the clock to which several runs are merged, nanoseconds. It must not run backwards: what is
/// later stays later.
pub type ToClock = Box<dyn Fn(u64) -> u64>;

/// Merges streams.
pub struct Merge<R> {
    streams: Vec<Stream<R>>,
    /// Of each run; without any, times stay what they are.
    clocks: Vec<ToClock>,
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

    /// Merges the streams of several runs by one clock: of each run its streams ([`crate::RunReader::streams`]), and what
    /// its times are by that clock. Only the times of the records themselves are changed, not those that records hold.
    #[must_use]
    pub fn of_runs(runs: Vec<(Vec<Vec<PathBuf>>, ToClock)>) -> Self {
        let mut all = Self::new(Vec::new());
        for (run, (streams, clock)) in runs.into_iter().enumerate() {
            let own = Self::of_files(streams).streams;
            all.streams.extend(own.into_iter().map(|stream| Stream { run, ..stream }));
            all.clocks.push(clock);
        }
        all
    }
}

impl<R: Read> Merge<R> {
    /// Merges streams, each given as the readers of its segments in their order.
    #[must_use]
    pub fn new(streams: Vec<VecDeque<SegmentReader<R>>>) -> Self {
        let streams = streams.into_iter().map(|readers| Stream { run: 0, readers, block: None, position: 0 }).collect();
        Self { streams, clocks: Vec::new(), heap: BinaryHeap::new(), damage: Damage::default(), begun: false }
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
            let (run, clock) = (stream.run, self.clocks.get(stream.run));
            let mut go_on = true;
            if let Some(block) = &stream.block {
                while let Some((mut record, payload, next)) = block.at(stream.position) {
                    record.time_ns = clock.map_or(record.time_ns, |clock| clock(record.time_ns));
                    if record.time_ns > until || !go_on {
                        break;
                    }
                    stream.position = next;
                    go_on = take(Sourced { record, payload, source: block.header.source, run, block });
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
                let time_ns = self.clocks.get(stream.run).map_or(record.time_ns, |clock| clock(record.time_ns));
                self.heap.push(Reverse((time_ns, index)));
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
