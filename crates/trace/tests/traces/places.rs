//! What the heads of blocks say of where they lie is what a reader finds there, also in a damaged file.

use crate::support;

use proptest::prelude::*;
use std::fs;
use support::{Content, read};
use weir_trace::{BlockPlace, SegmentReader, Source, block_places, read_from};
use weir_wire::Record;

/// A block of some records, the first at a time, one each nanosecond.
fn content(lane: u32, begin_ns: u64, records: u64) -> Content {
    let record = |at: u64| (Record { time_ns: begin_ns + at, kind: 0x0101, lane, ..Record::default() }, Vec::new());
    Content::new(Source::Kernel, lane, 0, &[(7, "a name")], (0..records).map(record).collect())
}

proptest! {
    #[test]
    fn a_whole_segment_is_told_block_by_block_and_a_damaged_one_to_its_end(
        blocks in proptest::collection::vec((0u64..1000, 0u64..20), 0..8),
        harm in proptest::option::of((any::<prop::sample::Index>(), any::<u8>(), any::<bool>())),
    ) {
        let contents: Vec<Content> = blocks.iter().map(|(begin, records)| content(3, *begin, *records)).collect();
        let mut bytes: Vec<u8> = contents.iter().flat_map(Content::bytes).collect();
        if let Some((at, value, cut)) = harm.as_ref().filter(|_| !bytes.is_empty()) {
            let at = at.index(bytes.len());
            bytes[at] ^= value;
            bytes.truncate(if *cut { at } else { bytes.len() });
        }
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join("a.seg");
        fs::write(&path, &bytes).expect("it is written");
        let places = block_places(&path).expect("it is readable");
        // They lie one behind the other over the whole file.
        let ends: Vec<u64> = places.iter().map(|place| place.offset + place.bytes).collect();
        let begins: Vec<u64> = places.iter().map(|place| place.offset).collect();
        prop_assert_eq!(begins.first().copied().unwrap_or(0), 0);
        prop_assert!(ends.iter().zip(begins.iter().skip(1)).all(|(end, begin)| end == begin));
        prop_assert_eq!(ends.last().copied().unwrap_or(0), bytes.len() as u64);
        if harm.is_none() {
            prop_assert_eq!(places.len(), contents.len());
        }
        // Every block that a reader of the whole finds is within a place whose time it fits, and found from there, too.
        for block in read(&bytes).blocks {
            let fits = |place: &&BlockPlace| {
                place.base_ns <= block.header.base_ns && block.header.end_ns <= place.end_ns
            };
            let found = places.iter().filter(fits).any(|place| {
                let mut reader = read_from(&path, place.offset, place.bytes).expect("it is readable");
                blocks_of(&mut reader).contains(&block)
            });
            prop_assert!(found, "{places:?} {block:?}");
        }
    }
}

fn blocks_of(reader: &mut SegmentReader<std::io::Take<fs::File>>) -> Vec<Content> {
    std::iter::from_fn(|| reader.next_block().ok().flatten()).map(|block| Content::of(&block)).collect()
}
