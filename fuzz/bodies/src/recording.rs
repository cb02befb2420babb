//! Everything that reads what was recorded.

use crate::Choices;
use std::path::Path;
use weir_capture::Expander;
use weir_timeline::{Samples, Stacks};
use weir_trace::{HEADER_BYTES, Merge, SegmentReader, parse_manifest};
use weir_wire::client::{ClientConnection, ClientRequest};
use weir_wire::socket::SocketOpen;
use weir_wire::stack::StackSample;
use weir_wire::task::Switch;
use weir_wire::{Kind, MAX_SLOTS, Record, SLOT_BYTES, Slot, ring, text_from_slots, text_slots};

/// Reads any bytes as a segment, once as they are and once with the CRCs put right: no fuzzer finds those by itself.
pub fn segment_reader(input: &[u8]) {
    read_segment(input);
    let mut input = input.to_vec();
    put_checksums_right(&mut input);
    read_segment(&input);
    let (first, second) = input.split_at(input.len() / 2);
    let stream = |bytes| [SegmentReader::new(bytes, Path::new("a.seg"))].into();
    let mut merge = Merge::new(vec![stream(first), stream(second)]);
    merge.each(|sourced| sourced.payload.len() <= 255);
    assert!(merge.damage().bytes <= input.len() as u64);
}

fn read_segment(input: &[u8]) {
    let mut reader = SegmentReader::new(input, Path::new("a.seg"));
    let mut bytes = 0;
    while let Ok(Some(block)) = reader.next_block() {
        let slots: usize = block.iter().map(|(_, payload)| 1 + payload.len()).sum();
        bytes += HEADER_BYTES + slots * SLOT_BYTES;
        for name in block.dictionary.values() {
            assert!(name.len() <= 3 * usize::from(u16::MAX));
        }
    }
    let damaged = reader.damaged_bytes() as usize;
    assert!(bytes + damaged <= input.len(), "{bytes} + {damaged} of {}", input.len());
}

/// Gives every block its CRC, as the format says and by no code of the reader's.
fn put_checksums_right(input: &mut [u8]) {
    let mut at = 0;
    while at + HEADER_BYTES <= input.len() {
        let word = |offset: usize| {
            let bytes = &input[at + offset..at + offset + 4];
            u64::from(bytes[0]) | u64::from(bytes[1]) << 8 | u64::from(bytes[2]) << 16 | u64::from(bytes[3]) << 24
        };
        let length = HEADER_BYTES as u64 + word(28) + word(20) * SLOT_BYTES as u64;
        if &input[at..at + 8] != b"weirblk\n" || length > (input.len() - at) as u64 {
            at += 1;
            continue;
        }
        let block = &mut input[at..at + length as usize];
        block[60..64].fill(0);
        let crc = crc32fast::hash(block);
        block[60..64].copy_from_slice(&crc.to_le_bytes());
        at += length as usize;
    }
}

/// Reads any bytes as a manifest.
pub fn manifest(input: &[u8]) {
    match parse_manifest(input, Path::new("manifest.jsonl")) {
        Ok(manifest) => assert!(manifest.entries.len() <= input.len() / 2),
        Err(error) => assert!(error.to_string().contains("manifest.jsonl:")),
    }
    // A cut never costs more than the line that it is in.
    let lines = input.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let path = Path::new("manifest.jsonl");
    if let Ok(whole) = parse_manifest(&input[..lines], path)
        && let Ok(more) = parse_manifest(&input[..(lines + input.len()) / 2], path)
    {
        assert_eq!(more.entries[..whole.entries.len()], whole.entries);
        assert!(more.cut <= whole.cut + 1);
    }
}

/// Expands any words as the probes might have written them.
pub fn bpf_expand(input: &[u8]) {
    let mut choices = Choices(input);
    let mut expander = Expander::new(3);
    // Times that repeat, as those of the pieces of one opening do.
    while !choices.is_empty() {
        let (time_ns, head, argument) = (u64::from(choices.byte() & 3), choices.word(), choices.word());
        let mut records = 0;
        expander.push(time_ns, head, argument, &mut |record, slots| {
            records += 1;
            assert_eq!((record.time_ns, record.lane), (time_ns, 3));
            assert!(Kind::from_code(record.kind).is_some_and(|kind| kind.spec().bpf != 0));
            assert_eq!(usize::from(record.slots), slots.len());
            assert_eq!(record.kind == Kind::SocketOpen as u16, SocketOpen::read(&record, slots).is_some());
        });
        assert!(records <= 1);
    }
}

/// Reads any slots as records of stacks: each stack has an end, and each sample is told once at most.
pub fn stack_records(input: &[u8]) {
    let (mut stacks, mut samples, mut told, mut given) = (Stacks::default(), Samples::default(), 0u64, 0u64);
    let mut choices = Choices(input);
    while !choices.is_empty() {
        let kind = Kind::StackSample as u16 + u16::from(choices.byte() % 5);
        // Small numbers meet each other; whole words are what damage looks like.
        let a = if choices.byte() % 2 == 0 {
            u64::from(choices.byte() % 16) | u64::from(choices.byte() % 16) << 32
        } else {
            choices.word()
        };
        let (time_ns, b) = (u64::from(choices.byte()) << 24, choices.word());
        let payload: Vec<Slot> =
            (0..choices.byte() % 3).map(|_| [choices.word(), choices.word(), choices.word(), choices.word()]).collect();
        let record = Record { time_ns, kind, flags: choices.byte(), slots: payload.len() as u8, lane: 0, a, b };
        stacks.push(&record, &payload);
        given += u64::from(StackSample::read(&record, &payload).is_some());
        samples.push(&record, &payload, &mut |one| {
            told += 1;
            assert!(one.class.is_none(), "there is no response");
        });
        assert!(stacks.frames(stacks.number(a as u32)).len() <= 512);
    }
    samples.finish(&mut |_| told += 1);
    assert_eq!((told, samples.held()), (given, 0));
}

/// Reads any slots as each kind of record with operands of its own: what can be read is written to be read the same.
pub fn client_records(input: &[u8]) {
    let slots: Vec<Slot> = input
        .chunks_exact(SLOT_BYTES)
        .map(|raw| {
            let mut choices = Choices(raw);
            std::array::from_fn(|_| choices.word())
        })
        .collect();
    let Some((first, payload)) = slots.split_first() else { return };
    let payload = &payload[..payload.len().min(MAX_SLOTS)];
    let given = Record::from_slot(*first);
    for kind in [
        given.kind,
        Kind::ClientRequest as u16,
        Kind::ClientConnection as u16,
        Kind::SocketOpen as u16,
        Kind::Switch as u16,
    ] {
        let record = Record { kind, ..given };
        if let Some(request) = ClientRequest::read(&record, payload) {
            let (record, slots) = request.write(given.lane);
            assert_eq!(ClientRequest::read(&record, &slots), Some(request));
        }
        if let Some(connection) = ClientConnection::read(&record, payload) {
            let (record, slots) = connection.write(given.lane);
            assert_eq!(ClientConnection::read(&record, &slots), Some(connection));
        }
        if let Some(open) = SocketOpen::read(&record, payload) {
            let (record, slots) = open.write(given.time_ns, given.lane);
            assert_eq!(SocketOpen::read(&record, &slots), Some(open));
        }
        if let Some(switch) = Switch::read(&record) {
            assert_eq!(Switch::read(&switch.write(given.time_ns, given.lane)), Some(switch));
        }
    }
    let text = text_from_slots(payload);
    let again = text_slots(&text);
    assert!(again.len() <= MAX_SLOTS && text.starts_with(&text_from_slots(&again)));
}

/// Pushes and drains in any order: what comes out is what went in, whole and in its order, and the rest is counted.
pub fn ring_consumer(input: &[u8]) {
    let mut choices = Choices(input);
    let (mut producer, mut consumer) = ring(usize::from(choices.byte()) % 64);
    let (mut pushed, mut refused, mut seen, mut last) = (0u64, 0u64, 0u64, None);
    let mut take = |record: Record, payload: &[Slot]| {
        assert!(last.is_none_or(|last| last < record.time_ns));
        assert!(payload.iter().all(|slot| *slot == [record.time_ns; 4]));
        assert_eq!(payload.len() as u64, record.a.min(MAX_SLOTS as u64));
        last = Some(record.time_ns);
        seen += 1;
    };
    while !choices.is_empty() {
        let choice = choices.byte();
        if choice & 1 == 0 {
            let slots = usize::from(choice >> 1) % 12;
            let record = Record { time_ns: pushed, slots: choice, a: slots as u64, ..Record::default() };
            refused += u64::from(!producer.push(record, &vec![[pushed; 4]; slots]));
            pushed += 1;
        } else {
            let most = usize::from(choice >> 1) % 8;
            assert!(consumer.drain(most, &mut take) <= most);
        }
    }
    consumer.drain(usize::MAX, &mut take);
    assert_eq!((seen + refused, consumer.dropped()), (pushed, refused));
}

/// Reads any bytes as a run that another host sends: no file of it lies elsewhere, and each look takes some bytes.
pub fn sent_run(input: &[u8]) {
    let mut rest = input;
    if weir_trace::sent::greet(&mut rest).is_err() {
        return;
    }
    while !rest.is_empty() {
        let before = rest.len();
        match weir_trace::sent::next(&mut rest) {
            Ok(weir_trace::sent::Frame::File { path, bytes }) => {
                assert!(path.components().all(|one| matches!(one, std::path::Component::Normal(_))), "{path:?}");
                rest = rest.get(usize::try_from(bytes).unwrap_or(usize::MAX)..).unwrap_or_default();
            }
            Ok(_) => {}
            Err(_) => return,
        }
        assert!(rest.len() < before);
    }
}
