//! Segments survive what happens to files: whole blocks come back, damaged ones never do.

use crate::support;

use proptest::prelude::*;
use std::time::{Duration, Instant};
use support::{Content, Read, read};
use weir_trace::{HEADER_BYTES, ReadError, Source};
use weir_wire::{KINDS, MAX_SLOTS, Record, Slot, schema};

prop_compose! {
    fn record()(time_ns in 0u64..1 << 50, kind: u16, flags: u8, lane: u32, a: u64, b: u64, payload in proptest::collection::vec(any::<Slot>(), 0..=MAX_SLOTS)) -> (Record, Vec<Slot>) {
        (Record { time_ns, kind, flags, slots: payload.len() as u8, lane, a, b }, payload)
    }
}

prop_compose! {
    fn content()(
        records in proptest::collection::vec(record(), 0..12),
        names in proptest::collection::btree_map(any::<u32>(), ".{0,20}", 0..4),
        lane: u32,
        lost: u64,
        source in prop_oneof![Just(Source::Kernel), Just(Source::Client), Just(Source::Arm), Just(Source::Decisions), (5u8..).prop_map(Source::Other)],
    ) -> Content {
        let names: Vec<_> = names.iter().map(|(id, text)| (*id, text.as_str())).collect();
        Content::new(source, lane, lost, &names, records)
    }
}

/// What is done to a file.
#[derive(Debug, Clone)]
enum Harm {
    Flip(prop::sample::Index, u8),
    Cut(prop::sample::Index),
    Insert(prop::sample::Index, Vec<u8>),
    /// A piece of the file itself, magics and all, stands there a second time.
    Repeat(prop::sample::Index, prop::sample::Index, prop::sample::Index),
    Remove(prop::sample::Index, usize),
    Zero(prop::sample::Index, usize),
}

fn harm() -> impl Strategy<Value = Harm> {
    use prop::sample::Index;
    prop_oneof![
        (any::<Index>(), 1u8..).prop_map(|(at, bits)| Harm::Flip(at, bits)),
        any::<Index>().prop_map(Harm::Cut),
        (any::<Index>(), proptest::collection::vec(any::<u8>(), 1..200))
            .prop_map(|(at, bytes)| Harm::Insert(at, bytes)),
        (any::<Index>(), any::<Index>(), any::<Index>()).prop_map(|(at, from, to)| Harm::Repeat(at, from, to)),
        (any::<Index>(), 1usize..300).prop_map(|(at, bytes)| Harm::Remove(at, bytes)),
        (any::<Index>(), 1usize..300).prop_map(|(at, bytes)| Harm::Zero(at, bytes)),
    ]
}

impl Harm {
    /// Does it; returns the bytes and the range of the original that is no longer as it was.
    fn apply(&self, bytes: &[u8]) -> (Vec<u8>, std::ops::Range<usize>) {
        let length = bytes.len();
        match self {
            Self::Flip(at, bits) => {
                let (mut out, at) = (bytes.to_vec(), at.index(length));
                out[at] ^= bits;
                (out, at..at + 1)
            }
            Self::Cut(at) => (bytes[..at.index(length)].to_vec(), at.index(length)..length),
            Self::Insert(at, garbage) => {
                let at = at.index(length + 1);
                ([&bytes[..at], garbage, &bytes[at..]].concat(), at..at)
            }
            Self::Repeat(at, from, to) => {
                let (at, from, to) = (at.index(length + 1), from.index(length), to.index(length));
                ([&bytes[..at], &bytes[from.min(to)..from.max(to)], &bytes[at..]].concat(), at..at)
            }
            Self::Remove(at, count) => {
                let (from, to) = (at.index(length), (at.index(length) + count).min(length));
                ([&bytes[..from], &bytes[to..]].concat(), from..to)
            }
            Self::Zero(at, count) => {
                let (from, to) = (at.index(length), (at.index(length) + count).min(length));
                ([&bytes[..from], &vec![0; to - from], &bytes[to..]].concat(), from..to)
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn blocks_come_back_as_they_were_written(contents in proptest::collection::vec(content(), 0..6)) {
        let bytes: Vec<u8> = contents.iter().flat_map(Content::bytes).collect();
        let Read { blocks, damaged_bytes, cut, error } = read(&bytes);
        prop_assert_eq!(blocks, contents);
        prop_assert!((damaged_bytes, cut, error.is_none()) == (0, false, true));
    }

    #[test]
    fn harm_costs_no_block_that_it_does_not_touch(contents in proptest::collection::vec(content(), 1..6), harm in harm()) {
        let mut ends = Vec::new();
        let mut bytes = Vec::new();
        for content in &contents {
            bytes.extend(content.bytes());
            ends.push(bytes.len());
        }
        let (harmed, range) = harm.apply(&bytes);
        let Read { blocks, damaged_bytes, error, .. } = read(&harmed);
        let mut untouched = Vec::new();
        let mut begin = 0;
        for (content, end) in contents.iter().zip(ends) {
            // An insertion between two blocks touches neither.
            if range.end <= begin || range.start >= end {
                untouched.push(content.clone());
            }
            begin = end;
        }
        // The reader gives nothing that was not written, and all that is whole, in its order.
        prop_assert!(blocks.iter().all(|block| contents.contains(block)));
        let mut rest = blocks.iter();
        for content in &untouched {
            prop_assert!(rest.any(|block| block == content), "an untouched block is missing");
        }
        let read_bytes: usize = blocks.iter().map(|block| block.bytes().len()).sum();
        if error.is_none() {
            prop_assert_eq!(read_bytes as u64 + damaged_bytes, harmed.len() as u64, "every byte is read or counted");
        } else {
            prop_assert!(untouched.is_empty() && blocks.is_empty(), "{error:?}");
        }
    }

    #[test]
    fn any_bytes_are_foreign_or_nothing(bytes in proptest::collection::vec(any::<u8>(), 1..500)) {
        let Read { blocks, error, .. } = read(&bytes);
        prop_assert!(blocks.is_empty());
        let is_foreign = matches!(error, Some(ReadError::Foreign { .. }));
        prop_assert!(is_foreign || b"weirblk\n".starts_with(&bytes));
    }
}

fn one(time_ns: u64) -> Content {
    Content::new(Source::Kernel, 0, 0, &[], vec![(Record { time_ns, kind: 1, ..Record::default() }, Vec::new())])
}

#[test]
fn every_cut_keeps_what_is_whole_before_it() {
    let contents: Vec<_> = (1..4).map(one).collect();
    let bytes: Vec<u8> = contents.iter().flat_map(Content::bytes).collect();
    let block = contents[0].bytes().len();
    for length in 0..bytes.len() {
        let Read { blocks, damaged_bytes, cut, error } = read(&bytes[..length]);
        assert!(error.is_none(), "cut at {length}: {error:?}");
        assert_eq!(blocks, contents[..length / block], "cut at {length}");
        assert_eq!((damaged_bytes, cut), ((length % block) as u64, length % block > 0), "cut at {length}");
    }
}

#[test]
fn every_flip_of_a_bit_costs_its_block_only() {
    let contents: Vec<_> = (1..4).map(one).collect();
    let bytes: Vec<u8> = contents.iter().flat_map(Content::bytes).collect();
    let block = contents[0].bytes().len();
    for bit in 0..bytes.len() * 8 {
        let mut harmed = bytes.clone();
        harmed[bit / 8] ^= 1 << (bit % 8);
        let Read { blocks, damaged_bytes, cut, error } = read(&harmed);
        assert!(error.is_none(), "bit {bit}: {error:?}");
        let mut left = contents.clone();
        left.remove(bit / 8 / block);
        assert_eq!(blocks, left, "bit {bit}");
        assert_eq!(damaged_bytes, block as u64, "bit {bit}");
        // Only a damaged length of the last block looks like a cut.
        assert!(!cut || bit / 8 >= 2 * block, "bit {bit}");
    }
}

#[test]
fn a_foreign_file_is_named_with_a_remedy() {
    for bytes in
        [&b"\x7fELF\x02\x01\x01 and so on, for longer than a head of ours would be: not a segment at all"[..], b"GET /"]
    {
        let error = read(bytes).error.expect("an error");
        assert!(matches!(error, ReadError::Foreign { .. }));
        let message = error.to_string();
        assert!(message.contains("a.seg: not a weir segment") && message.contains("segments"), "{message}");
    }
}

#[test]
fn a_large_foreign_file_is_refused_before_its_end() {
    struct Endless(u64);
    impl std::io::Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.0 += buffer.len() as u64;
            assert!(self.0 < 64 << 20, "it goes on reading");
            buffer.fill(b'x');
            Ok(buffer.len())
        }
    }
    let outcome = weir_trace::SegmentReader::new(Endless(0), std::path::Path::new("big.seg")).next_block();
    assert!(matches!(outcome, Err(ReadError::Foreign { .. })));
}

/// A block of this schema, as a later weir would write it.
fn of_schema(major: u16, minor: u16) -> Vec<u8> {
    let mut content = one(1);
    content.header.schema = (major, minor);
    content.records[0].0.kind = 0x7abc;
    content.records[0].1 = vec![[7; 4]; 3];
    content.records.push(one(2).records.remove(0));
    content.bytes()
}

#[test]
fn a_newer_major_is_refused_with_a_remedy() {
    let error = read(&of_schema(schema::VERSION.0 + 1, 4)).error.expect("an error");
    assert!(matches!(error, ReadError::Newer { .. }));
    let message = error.to_string();
    assert!(message.contains("a.seg") && message.contains("use a newer weir"), "{message}");
    // Also where the rest of the block was laid out in another way, so that its CRC means nothing here.
    let mut bytes = of_schema(schema::VERSION.0 + 1, 0);
    bytes.truncate(HEADER_BYTES + 5);
    bytes[60] ^= 1;
    assert!(matches!(read(&bytes).error, Some(ReadError::Newer { .. })));
}

#[test]
fn unknown_kinds_of_a_newer_minor_are_passed_by_their_length_and_survive() {
    let Read { blocks, error, .. } = read(&of_schema(schema::VERSION.0, schema::VERSION.1 + 1));
    assert!(error.is_none());
    assert!(KINDS.iter().all(|spec| spec.code != 0x7abc));
    let records = &blocks[0].records;
    assert_eq!((records[0].0.kind, &records[0].1), (0x7abc, &vec![[7; 4]; 3]));
    assert_eq!((records[1].0.kind, records[1].0.time_ns), (1, 2));
    assert_eq!(blocks[0].bytes(), of_schema(schema::VERSION.0, schema::VERSION.1 + 1), "a copy loses nothing");
}

/// Heads within heads, each of which promises the largest block, make a reader check each byte again and again.
#[test]
fn malice_takes_no_quadratic_time() {
    let mut head = one(1).bytes()[..HEADER_BYTES].to_vec();
    head[20..24].copy_from_slice(&65_536u32.to_le_bytes());
    let mut bytes = head.repeat((16 << 20) / HEADER_BYTES);
    bytes.extend(one(5).bytes());
    let begin = Instant::now();
    let Read { damaged_bytes, error, .. } = read(&bytes);
    assert!(error.is_none());
    assert!(damaged_bytes >= 16 << 20);
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
}
