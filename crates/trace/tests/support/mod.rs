//! What the tests share: blocks as values, and reading bytes with everything that a reader says of them.
#![allow(dead_code, reason = "each test binary uses its share")]

use std::path::Path;
use weir_trace::{Block, BlockHeader, Clock, ReadError, RunReader, SegmentReader, Source, encode};
use weir_wire::{Record, Slot, schema};

/// A block as a value that can be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) header: BlockHeader,
    pub(crate) names: Vec<(u32, String)>,
    pub(crate) records: Vec<(Record, Vec<Slot>)>,
}

impl Content {
    /// The block of some records, its head made from them.
    pub(crate) fn new(
        source: Source,
        lane: u32,
        lost: u64,
        names: &[(u32, &str)],
        records: Vec<(Record, Vec<Slot>)>,
    ) -> Self {
        let times = || records.iter().map(|(record, _)| record.time_ns);
        let header = BlockHeader {
            schema: schema::VERSION,
            clock: Clock::Monotonic,
            source,
            lane,
            base_ns: times().min().unwrap_or(0),
            end_ns: times().max().unwrap_or(0),
            lost,
        };
        Self { header, names: names.iter().map(|(id, text)| (*id, (*text).to_owned())).collect(), records }
    }

    /// What a reader gave.
    pub(crate) fn of(block: &Block) -> Self {
        let mut names: Vec<_> = block.dictionary.iter().map(|(id, text)| (*id, text.to_string())).collect();
        names.sort();
        let records: Vec<_> = block.iter().map(|(record, payload)| (record, payload.to_vec())).collect();
        assert_eq!(records.len(), block.records as usize, "the head counts the records");
        Self { header: block.header.clone(), names, records }
    }

    /// Its bytes; the records' numbers of slots are set from their payloads.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut slots = Vec::new();
        for (record, payload) in &self.records {
            slots.push(Record { slots: payload.len() as u8, ..*record }.to_slot());
            slots.extend(payload);
        }
        let names: Vec<_> = self.names.iter().map(|(id, text)| (*id, text.as_str().into())).collect();
        encode(&self.header, self.records.len() as u32, &names, &slots)
    }
}

/// All that a reader says of some bytes.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) blocks: Vec<Content>,
    pub(crate) damaged_bytes: u64,
    pub(crate) cut: bool,
    pub(crate) error: Option<ReadError>,
}

/// Reads bytes as a segment.
pub(crate) fn read(bytes: &[u8]) -> Read {
    let mut reader = SegmentReader::new(bytes, Path::new("a.seg"));
    let mut blocks = Vec::new();
    let error = loop {
        match reader.next_block() {
            Ok(Some(block)) => blocks.push(Content::of(&block)),
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    Read { blocks, damaged_bytes: reader.damaged_bytes(), cut: reader.cut(), error }
}

/// All records of a run, merged.
pub(crate) fn merged(run: &Path) -> Vec<Record> {
    let mut records = Vec::new();
    RunReader::open(run).expect("a run").merge().each(|sourced| {
        records.push(sourced.record);
        true
    });
    records
}
