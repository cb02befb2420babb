//! The frame reader is fed all that a network may do to a connection of HTTP/2.

use proptest::prelude::*;
use weir_load::http2::frames::{Event, Reader, Settings};
use weir_load::http2::hpack::{Decoder, Head};

/// Frames as they go over the wire, and what they mean.
#[derive(Debug, Clone)]
struct Expected {
    bytes: Vec<u8>,
    event: Option<Event>,
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

fn stream() -> impl Strategy<Value = u32> {
    (0u32..1000).prop_map(|number| 2 * number + 1)
}

fn content() -> impl Strategy<Value = Expected> {
    (stream(), proptest::collection::vec(any::<u8>(), 0..400), proptest::option::of(0u8..50), any::<bool>()).prop_map(
        |(stream, data, padding, end)| {
            let mut payload = Vec::new();
            payload.extend(padding);
            payload.extend(&data);
            payload.extend(vec![0; usize::from(padding.unwrap_or(0))]);
            let flags = u8::from(end) | if padding.is_some() { 8 } else { 0 };
            let event = Event::Data {
                stream,
                content: data.len() as u32,
                flow: payload.len() as u32,
                bytes: payload.len() as u32 + 9,
                end,
            };
            Expected { bytes: frame(0, flags, stream, &payload), event: Some(event) }
        },
    )
}

/// A block of headers in one frame or several, with padding and priority now and then.
fn headers() -> impl Strategy<Value = Expected> {
    let fields = proptest::collection::vec(("[a-z]{1,10}", "[ -~]{0,60}"), 0..8);
    let how = (any::<bool>(), proptest::option::of(0u8..50), any::<bool>(), 1usize..5);
    (stream(), 200u16..600, proptest::option::of(0u64..1_000_000), fields, how).prop_map(
        |(stream, status, length, fields, (end, padding, priority, pieces))| {
            let mut block = b"\x08\x03".to_vec();
            block.extend(status.to_string().bytes());
            for (name, value) in &fields {
                block.extend([0, name.len() as u8]);
                block.extend(name.bytes());
                block.push(value.len() as u8);
                block.extend(value.bytes());
            }
            if let Some(length) = length {
                block.extend([0x0f, 0x0d, length.to_string().len() as u8]);
                block.extend(length.to_string().bytes());
            }
            let mut bytes = Vec::new();
            let pieces: Vec<_> = block.chunks(block.len().div_ceil(pieces)).collect();
            for (number, piece) in pieces.iter().enumerate() {
                let last = if number + 1 == pieces.len() { 4 } else { 0 };
                if number > 0 {
                    bytes.extend(frame(9, last, stream, piece));
                    continue;
                }
                let mut payload = Vec::new();
                payload.extend(padding);
                payload.extend(if priority { &[0x80, 0, 0, 3, 16][..] } else { &[] });
                payload.extend(*piece);
                payload.extend(vec![0; usize::from(padding.unwrap_or(0))]);
                let flags = u8::from(end) | u8::from(padding.is_some()) << 3 | u8::from(priority) << 5 | last;
                bytes.extend(frame(1, flags, stream, &payload));
            }
            let event = Event::Headers { stream, head: Head { status, length }, end, bytes: bytes.len() as u32 };
            Expected { bytes, event: Some(event) }
        },
    )
}

fn control() -> impl Strategy<Value = Expected> {
    let some = |bytes, event| Expected { bytes, event: Some(event) };
    let none = |bytes| Expected { bytes, event: None };
    prop_oneof![
        (stream(), any::<u32>()).prop_map(move |(stream, code)| some(
            frame(3, 0, stream, &code.to_be_bytes()),
            Event::Reset { stream, code }
        )),
        any::<[u8; 8]>().prop_map(move |number| some(frame(6, 0, 0, &number), Event::Ping(number))),
        any::<[u8; 8]>().prop_map(move |number| none(frame(6, 1, 0, &number))),
        (0u32..1 << 31, any::<u32>(), "[ -~]{0,30}").prop_map(move |(last, code, why)| {
            let payload = [&last.to_be_bytes()[..], &code.to_be_bytes(), why.as_bytes()].concat();
            some(frame(7, 0, 0, &payload), Event::Goaway { last, code })
        }),
        (0u32..50, 1u32..1 << 31).prop_map(move |(stream, more)| some(
            frame(8, 0, stream, &more.to_be_bytes()),
            Event::Window { stream, more }
        )),
        Just(some(frame(4, 1, 0, &[]), Event::SettingsTaken)),
        (any::<u32>(), 0u32..1 << 31, 16_384u32..1 << 24).prop_map(move |(streams, window, frame_bytes)| {
            let values = [(3u16, streams), (4, window), (5, frame_bytes), (8, 1), (0x1234, 7)];
            let payload: Vec<u8> = values
                .iter()
                .flat_map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat())
                .collect();
            let (streams, window, frame_bytes) = (Some(streams), Some(window), Some(frame_bytes));
            let settings = Settings { streams, window, frame_bytes, connect: Some(true) };
            some(frame(4, 0, 0, &payload), Event::Settings(settings))
        }),
        stream().prop_map(move |stream| none(frame(2, 0, stream, &[0; 5]))),
        (10u8..=255, any::<u8>(), any::<u32>(), proptest::collection::vec(any::<u8>(), 0..50))
            .prop_map(move |(kind, flags, stream, payload)| none(frame(kind, flags, stream, &payload))),
    ]
}

/// What comes out of the reader, pieces of content put together again.
fn read(reader: &mut Reader, bytes: &[u8], cuts: &[usize]) -> Vec<Event> {
    let (mut decoder, mut events, mut begin) = (Decoder::default(), Vec::<Event>::new(), 0);
    let mut whole = true;
    let ends = cuts.iter().map(|cut| cut % bytes.len().max(1)).chain([bytes.len()]);
    let mut ends: Vec<usize> = ends.collect();
    ends.sort_unstable();
    // Pieces of one frame of content follow each other: the frame's own length tells which belong together.
    let mut left = 0;
    for end in ends {
        while begin < end {
            let (used, event) = reader.next(&mut decoder, &bytes[begin..end]).expect("frames as they should be");
            assert!(used > 0 && used <= end - begin);
            begin += used;
            let Some(event) = event else { continue };
            let Event::Data { content, flow, bytes: more, end: over, .. } = event else {
                assert!(whole);
                events.push(event);
                continue;
            };
            if whole {
                events.push(event);
                left = 0;
            } else if let Some(Event::Data { content: c, flow: f, bytes: b, end: e, .. }) = events.last_mut() {
                (*c, *f, *b, *e) = (*c + content, *f + flow, *b + more, over);
            }
            left += more;
            whole = !reader.is_within_content();
        }
    }
    assert!(whole && left < 20_000);
    events
}

proptest! {
    #[test]
    fn any_split_means_the_same(
        frames in proptest::collection::vec(prop_oneof![content(), headers(), control()], 0..20),
        cuts in proptest::collection::vec(any::<usize>(), 0..40),
    ) {
        let mut bytes = frame(4, 0, 0, &[]);
        let mut expected = vec![Event::Settings(Settings::default())];
        for frame in &frames {
            bytes.extend(&frame.bytes);
            expected.extend(frame.event);
        }
        let mut reader = Reader::default();
        prop_assert_eq!(read(&mut reader, &bytes, &cuts), expected.clone());
        // Used again for another connection, byte by byte.
        reader.reset();
        let all: Vec<usize> = (0..bytes.len()).collect();
        prop_assert_eq!(read(&mut reader, &bytes, &all), expected);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..2000), small in any::<bool>()) {
        let mut bytes = bytes;
        if small {
            // Short frames of known kinds get further than random ones.
            for at in (0..bytes.len().saturating_sub(9)).step_by(13) {
                (bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]) = (0, 0, 4, bytes[at + 3] % 10);
            }
        }
        let bytes = [frame(4, 0, 0, &[]), bytes].concat();
        let read = |size: usize| {
            let (mut reader, mut decoder) = (Reader::default(), Decoder::default());
            let mut events = Vec::new();
            for piece in bytes.chunks(size) {
                let mut at = 0;
                while at < piece.len() {
                    match reader.next(&mut decoder, &piece[at..]) {
                        Ok((used, event)) => {
                            assert!(used > 0 && at + used <= piece.len());
                            at += used;
                            events.extend(event.filter(|event| !matches!(event, Event::Data { .. })));
                        }
                        Err(error) => return (events, Some(error)),
                    }
                }
            }
            (events, None)
        };
        let whole = read(bytes.len());
        prop_assert_eq!(&read(1), &whole);
        prop_assert_eq!(&read(7), &whole);
    }
}
