//! What was written to streams comes back from their merge, in the order of time.

use crate::support;

use proptest::prelude::*;
use weir_testkit::seeded::Choice;
use weir_trace::{Damage, Limits, Run, RunReader, Source, Written};
use weir_wire::client::{ClientRequest, Outcome};
use weir_wire::{MAX_SLOTS, Record, Slot};

/// A record to be written, and whether the block is closed behind it.
#[derive(Debug, Clone)]
struct Step {
    after_ns: u64,
    kind: u16,
    payload: Vec<Slot>,
    flush: bool,
}

prop_compose! {
    fn step()(after_ns in 0u64..50, kind: u16, payload in proptest::collection::vec(any::<Slot>(), 0..=MAX_SLOTS), flush in prop::bool::weighted(0.1)) -> Step {
        Step { after_ns, kind, payload, flush }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn records_come_back_in_the_order_of_time(
        streams in proptest::collection::vec(proptest::collection::vec(step(), 0..60), 1..6),
        block_slots in 0usize..40,
        segment_bytes in 0u64..4000,
    ) {
        // A run of which nothing was written is none.
        prop_assume!(streams.iter().any(|steps| !steps.is_empty()));
        let directory = tempfile::tempdir().expect("a directory");
        let run = Run::create(&directory.path().join("run")).expect("a run");
        let limits = Limits { block_slots, segment_bytes, ..Limits::default() };
        let mut expected = Vec::new();
        let mut written = Written::default();
        for (lane, steps) in streams.iter().enumerate() {
            let mut stream = run.stream(Source::Kernel, lane as u32, limits);
            let mut time_ns = 0;
            for (number, step) in steps.iter().enumerate() {
                time_ns += step.after_ns;
                let slots = step.payload.len() as u8;
                let record = Record { time_ns, kind: step.kind, slots, lane: lane as u32, a: number as u64, ..Record::default() };
                stream.push(record, &step.payload, None).expect("it is written");
                expected.push((record, step.payload.clone()));
                if step.flush {
                    stream.flush().expect("it is written");
                }
            }
            let one = stream.finish().expect("it is written");
            written.records += one.records;
            written.bytes += one.bytes;
        }
        prop_assert_eq!(written.records, expected.len() as u64);
        let reader = RunReader::open(run.directory()).expect("a run");
        let mut merge = reader.merge();
        let mut got = Vec::new();
        // In two goes: ending early loses nothing.
        let mut left = expected.len() / 2;
        merge.each(|sourced| {
            got.push((sourced.record, sourced.payload.to_vec()));
            left = left.saturating_sub(1);
            left > 0
        });
        merge.each(|sourced| {
            got.push((sourced.record, sourced.payload.to_vec()));
            true
        });
        prop_assert!(got.windows(2).all(|pair| pair[0].0.time_ns <= pair[1].0.time_ns));
        for lane in 0..streams.len() as u32 {
            let of_lane = |records: &[(Record, Vec<Slot>)]| records.iter().filter(|(record, _)| record.lane == lane).cloned().collect::<Vec<_>>();
            prop_assert_eq!(of_lane(&got), of_lane(&expected), "a lane keeps its own order");
        }
        prop_assert_eq!(got.len(), expected.len());
        prop_assert_eq!(merge.damage(), &Damage::default());
        let bytes: u64 = std::fs::read_dir(run.directory().join("segments")).expect("a folder")
            .map(|file| file.expect("a file").metadata().expect("its size").len()).sum();
        prop_assert_eq!(written.bytes, bytes);
    }
}

#[test]
fn sixty_four_streams_keep_the_order() {
    let mut choice = Choice::from_seed(64);
    let directory = tempfile::tempdir().expect("a directory");
    let run = Run::create(directory.path()).expect("a run");
    let limits = Limits { block_slots: 100, segment_bytes: 20_000, ..Limits::default() };
    let mut streams: Vec<_> = (0..64).map(|lane| run.stream(Source::Kernel, lane, limits)).collect();
    let mut time_ns = 0;
    let count = 200_000;
    for number in 0..count {
        // Some at the same time: those may come in any order.
        time_ns += choice.below(3);
        let lane = choice.below(64);
        let record = Record { time_ns, kind: 0x102, lane: lane as u32, a: number, ..Record::default() };
        streams[lane as usize].push(record, &[], None).expect("it is written");
    }
    for stream in streams {
        stream.finish().expect("it is written");
    }
    let records = support::merged(run.directory());
    assert_eq!(records.len() as u64, count);
    assert!(records.windows(2).all(|pair| pair[0].time_ns <= pair[1].time_ns));
    let mut seen: Vec<_> = records.iter().map(|record| record.a).collect();
    seen.sort_unstable();
    assert!(seen.iter().copied().eq(0..count));
}

fn request(name: u32, done_ns: u64) -> ClientRequest {
    ClientRequest {
        connection: 1,
        intended_ns: 1,
        started_ns: 1,
        sent_ns: 1,
        first_byte_ns: 1,
        done_ns,
        request_offset: 0,
        request_bytes: 1,
        response_offset: 0,
        response_bytes: 1,
        status: 200,
        name,
        outcome: Outcome::Done,
        opened_connection: false,
        encrypted: false,
        retried: false,
        http_version: 1,
        stream: 0,
    }
}

/// Each block carries the names that it uses and no others, however large they are together.
#[test]
fn every_block_decodes_alone_with_the_names_it_uses() {
    let directory = tempfile::tempdir().expect("a directory");
    let run = Run::create(directory.path()).expect("a run");
    let mut stream = run.stream(Source::Client, 0, Limits::default());
    // Together 6 MB, of which a block's dictionary holds 1 MiB; the last is longer than any name may be.
    let text = |id: u32| format!("GET /{id}/{}", "ä".repeat(if id == 99 { 40_000 } else { 30_000 }));
    for id in 0..100 {
        stream.define(id, &text(id));
    }
    let ids: Vec<u32> = (0..100).chain([7, 7, 99, 1000]).collect();
    for (time, id) in ids.iter().enumerate() {
        let (record, slots) = request(*id, time as u64).write(0);
        stream.push(record, &slots, Some(*id)).expect("it is written");
    }
    stream.finish().expect("it is written");
    let segment = std::fs::read_dir(directory.path().join("segments")).expect("a folder").next().expect("a segment");
    let bytes = std::fs::read(segment.expect("a file").path()).expect("readable");
    let read = support::read(&bytes);
    assert!(read.error.is_none() && read.damaged_bytes == 0 && read.blocks.len() > 5, "{}", read.damaged_bytes);
    let mut seen: Vec<u32> = Vec::new();
    for block in &read.blocks {
        let mut used: Vec<u32> = Vec::new();
        for (record, slots) in &block.records {
            used.push(ClientRequest::read(record, slots).expect("a request").name);
        }
        seen.extend(used.iter());
        used.sort_unstable();
        used.dedup();
        used.retain(|id| *id != 1000);
        assert_eq!(block.names.iter().map(|(id, _)| *id).collect::<Vec<_>>(), used);
        for (id, name) in &block.names {
            let whole = text(*id);
            assert!(whole == *name || (*id == 99 && whole.starts_with(name.as_str()) && name.len() > 65_000));
        }
        let alone = support::read(&block.bytes());
        assert_eq!(&alone.blocks, std::slice::from_ref(block));
    }
    assert_eq!(seen, ids);
}

#[test]
fn losses_are_told_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let run = Run::create(directory.path()).expect("a run");
    let mut stream = run.stream(Source::Kernel, 0, Limits::default());
    stream.push(Record::default(), &[], None).expect("it is written");
    stream.lose(5);
    stream.flush().expect("it is written");
    stream.flush().expect("nothing to write");
    stream.lose(2);
    stream.lose(u64::MAX);
    let written = stream.finish().expect("it is written");
    assert_eq!((written.records, written.lost), (1, u64::MAX));
    let mut merge = RunReader::open(directory.path()).expect("a run").merge();
    merge.each(|_| true);
    assert_eq!(merge.damage().lost, u64::MAX);
}
