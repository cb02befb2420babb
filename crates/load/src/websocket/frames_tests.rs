use super::*;
use proptest::prelude::*;

/// What was read.
#[derive(Debug, PartialEq, Eq)]
struct Read {
    /// Messages and control frames.
    what: Vec<(Opcode, Vec<u8>)>,
    malformed: Option<Malformed>,
    /// Whether something has begun and is not whole.
    is_within: bool,
}

/// What a reader makes of bytes that come in these pieces: messages and control frames, or what is wrong.
fn read(pieces: &[&[u8]]) -> Read {
    let (mut reader, mut message, mut read) = (Reader::new(1000), Vec::new(), Vec::new());
    for mut piece in pieces.iter().copied() {
        loop {
            let (used, event) = match reader.next(piece) {
                Ok(next) => next,
                Err(malformed) => return Read { what: read, malformed: Some(malformed), is_within: false },
            };
            piece = &piece[used..];
            match event {
                Some(Event::Piece { content, end }) => {
                    message.extend_from_slice(content);
                    if let Some(is_text) = end {
                        let opcode = if is_text { Opcode::Text } else { Opcode::Binary };
                        read.push((opcode, std::mem::take(&mut message)));
                    }
                }
                Some(Event::Ping(content)) => read.push((Opcode::Ping, content.content().to_vec())),
                Some(Event::Pong(content)) => read.push((Opcode::Pong, content.content().to_vec())),
                Some(Event::Close(_, content)) => read.push((Opcode::Close, content.content().to_vec())),
                None => break,
            }
        }
    }
    Read { what: read, malformed: None, is_within: reader.is_within() }
}

fn whole(bytes: &[u8]) -> Read {
    read(&[bytes])
}

/// A frame of a server.
fn frame(first: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    match content.len() {
        short @ 0..126 => bytes.push(short as u8),
        middle => bytes.extend([&[126][..], &(middle as u16).to_be_bytes()].concat()),
    }
    bytes.extend_from_slice(content);
    bytes
}

#[test]
fn the_examples_of_the_standard_are_read() {
    // RFC 6455 5.7, those without a mask.
    assert_eq!(whole(b"\x81\x05Hello").what, [(Opcode::Text, b"Hello".to_vec())]);
    assert_eq!(whole(b"\x01\x03Hel\x80\x02lo").what, [(Opcode::Text, b"Hello".to_vec())]);
    assert_eq!(whole(b"\x89\x05Hello").what, [(Opcode::Ping, b"Hello".to_vec())]);
    let long = whole(&[&[0x82, 0x7e, 1, 0][..], &[7; 256]].concat());
    assert_eq!(long.what, [(Opcode::Binary, vec![7; 256])]);
    // The one with a mask is what this side sends.
    let mut out = Vec::new();
    write(&mut out, Opcode::Text, true, [0x37, 0xfa, 0x21, 0x3d], b"Hello");
    assert_eq!(out, [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58]);
}

#[test]
fn control_frames_may_stand_within_a_message() {
    let read = whole(b"\x01\x01a\x89\x01p\x00\x00\x8a\x00\x80\x01b\x88\x02\x03\xe8");
    let kinds: Vec<_> = read.what.iter().map(|(opcode, content)| (*opcode, content.as_slice())).collect();
    assert_eq!(
        kinds,
        [(Opcode::Ping, &b"p"[..]), (Opcode::Pong, b""), (Opcode::Text, b"ab"), (Opcode::Close, b"\x03\xe8"),]
    );
    assert_eq!((read.malformed, read.is_within), (None, false));
    assert!([&b"\x01\x01a"[..], b"\x81", b"\x89\x02p"].into_iter().all(|bytes| whole(bytes).is_within));
}

#[test]
fn what_breaks_the_standard_is_told_by_its_code() {
    let long = vec![0; 126];
    for (bytes, code, words) in [
        (frame(0xc1, b""), 1002, "reserved bit"),
        (vec![0x81, 0x80, 0, 0, 0, 0], 1002, "mask"),
        (frame(0x83, b""), 1002, "opcode"),
        (frame(0x8b, b""), 1002, "opcode"),
        (frame(0x09, b""), 1002, "fragments"),
        (frame(0x89, &long), 1002, "125"),
        (frame(0x80, b""), 1002, "none is under way"),
        ([frame(0x01, b"a"), frame(0x81, b"b")].concat(), 1002, "within another"),
        (vec![0x81, 126, 0, 125], 1002, "fewest"),
        (vec![0x81, 127, 0, 0, 0, 0, 0, 0, 255, 255], 1002, "fewest"),
        (vec![0x81, 127, 128, 0, 0, 0, 0, 1, 0, 0], 1002, "highest bit"),
        (vec![0x82, 127, 0, 0, 0, 1, 0, 0, 0, 0], 1009, "longer"),
        ([frame(0x02, &[0; 900]), frame(0x80, &[0; 101])].concat(), 1009, "longer"),
        (frame(0x81, b"\xff"), 1007, "UTF-8"),
        // Cut within a character, at the end of a message; between frames it may be.
        (frame(0x81, b"\xe2\x82"), 1007, "UTF-8"),
        (frame(0x88, b"\x03"), 1002, "half"),
        (frame(0x88, b"\x03\xed"), 1002, "none may have"),
        (frame(0x88, b"\x03\xe7"), 1002, "none may have"),
        (frame(0x88, b"\x13\x88"), 1002, "none may have"),
        (frame(0x88, b"\x03\xe8\xff"), 1007, "UTF-8"),
    ] {
        let malformed = whole(&bytes).malformed.unwrap_or_else(|| panic!("{words}: taken"));
        assert!(malformed.code == code && malformed.what.contains(words), "{words}: {malformed:?}");
    }
    assert_eq!(whole(&[frame(0x01, b"\xe2"), frame(0x80, b"\x82\xac")].concat()).malformed, None);
}

proptest! {
    #[test]
    fn pieces_say_the_same_as_the_whole(
        frames in proptest::collection::vec(
            (prop_oneof![Just(0x01u8), Just(0x81), Just(0x02), Just(0x80), Just(0x00), Just(0x89), Just(0x8a), Just(0x88)],
             proptest::collection::vec(prop_oneof![Just(b'a'), Just(0xe2), Just(0x82), Just(0xac), any::<u8>()], 0..140)),
            0..6),
        cuts in proptest::collection::vec(0usize..300, 0..6),
    ) {
        let bytes: Vec<u8> = frames.iter().flat_map(|(first, content)| frame(*first, content)).collect();
        let expected = whole(&bytes);
        prop_assert_eq!(&read(&bytes.chunks(1).collect::<Vec<_>>()), &expected, "byte by byte");
        let mut ends: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).chain([0, bytes.len()]).collect();
        ends.sort_unstable();
        let pieces: Vec<&[u8]> = ends.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        prop_assert_eq!(&read(&pieces), &expected);
    }

    #[test]
    fn a_message_goes_out_in_fragments_that_make_it_up(
        content in proptest::collection::vec(any::<u8>(), 0..400),
        fragment_bytes in 1usize..200,
        mask in any::<[u8; 4]>(),
    ) {
        let mut out = Vec::new();
        write_message(&mut out, Outgoing { is_binary: true, content: &content, fragment_bytes }, || mask);
        // Off with the masks, and it is what a server could have sent.
        let (mut bytes, mut at, mut count) = (Vec::new(), 0, 0);
        while at < out.len() {
            let (head, length) = match out[at + 1] & 0x7f {
                126 => (4, usize::from(u16::from_be_bytes([out[at + 2], out[at + 3]]))),
                short => (2, usize::from(short)),
            };
            prop_assert!(out[at + 1] & 0x80 != 0 && out[at + head..at + head + 4] == mask);
            bytes.extend([out[at], out[at + 1] & 0x7f]);
            bytes.extend_from_slice(&out[at + 2..at + head]);
            let mut covered = out[at + head + 4..at + head + 4 + length].to_vec();
            cover(&mut covered, mask);
            bytes.extend(covered);
            at += head + 4 + length;
            count += 1;
        }
        prop_assert_eq!(count, content.len().div_ceil(fragment_bytes).max(1));
        prop_assert_eq!(whole(&bytes).what, [(Opcode::Binary, content)]);
    }
}
