//! What comes over streamed answers and WebSockets, in any pieces.

use weir_load::streamed::event_stream::EventStream;
use weir_load::streamed::json_lines::JsonLines;
use weir_load::websocket::frames::{Event, Opcode, Outgoing, Reader, write_message};
use weir_load::websocket::handshake::{accept, check};

/// The longest message that the reader takes here, bytes.
const MESSAGE_BYTES_MAX: u64 = 300;

/// Reads any bytes as an event stream and as lines: bytes that come one by one say the same.
pub fn load_events(input: &[u8]) {
    let (mut whole, mut single) = (EventStream::default(), EventStream::default());
    let found = whole.feed(input);
    let (mut events, mut behind) = (0, 0);
    for byte in input {
        let found = single.feed(&[*byte]);
        events += found.events;
        behind += found.behind;
    }
    assert_eq!((found.events, found.behind), (events, behind));
    assert_eq!((whole.is_done(), whole.is_unfinished()), (single.is_done(), single.is_unfinished()));
    assert!(whole.is_done() || behind == 0);
    // An event has a line of data and an empty one.
    assert!((found.events + found.behind) * 6 <= input.len() as u64);
    let (mut whole, mut single) = (JsonLines::default(), JsonLines::default());
    let lines = whole.feed(input);
    assert_eq!(lines, input.iter().map(|byte| single.feed(&[*byte])).sum::<u64>());
    assert_eq!(whole.is_unfinished(), single.is_unfinished());
}

/// Reads any bytes as what a server sends over a WebSocket, and as its answer to the upgrade; sends them as a message.
pub fn load_websocket(input: &[u8]) {
    let whole = read(&[input]);
    for bytes in [1, 7] {
        assert_eq!(whole, read(&input.chunks(bytes).collect::<Vec<_>>()));
    }
    // Only what proves that the server has read the key opens a WebSocket.
    if check(input, accept("a key"), &[]).is_ok() {
        assert!(input.windows(7).any(|window| window.eq_ignore_ascii_case(b"-Accept")));
    }
    let mut out = Vec::new();
    let fragment_bytes = usize::from(input.first().copied().unwrap_or_default()) + 1;
    write_message(&mut out, Outgoing { is_binary: true, content: input, fragment_bytes }, || [0; 4]);
    let mut sent = Vec::new();
    let mut rest = out.as_slice();
    while let [_, second, ..] = rest {
        let head = if second & 0x7f == 126 { 8 } else { 6 };
        let length = match second & 0x7f {
            126 => usize::from(u16::from_be_bytes([rest[2], rest[3]])),
            short => usize::from(short),
        };
        sent.extend_from_slice(&rest[head..head + length]);
        rest = &rest[head + length..];
    }
    assert!(rest.is_empty() && sent == input);
}

/// What a reader makes of bytes: what it read of messages and control frames, and the code of what is wrong.
fn read(pieces: &[&[u8]]) -> (Vec<(Opcode, Vec<u8>)>, Option<u16>) {
    let (mut reader, mut message, mut read) = (Reader::new(MESSAGE_BYTES_MAX), Vec::new(), Vec::new());
    for mut piece in pieces.iter().copied() {
        loop {
            let (used, event) = match reader.next(piece) {
                Ok(next) => next,
                Err(malformed) => return (read, Some(malformed.code)),
            };
            piece = &piece[used..];
            match event {
                Some(Event::Piece { content, end }) => {
                    message.extend_from_slice(content);
                    assert!(message.len() as u64 <= MESSAGE_BYTES_MAX);
                    if let Some(is_text) = end {
                        assert!(!is_text || std::str::from_utf8(&message).is_ok());
                        read.push((if is_text { Opcode::Text } else { Opcode::Binary }, std::mem::take(&mut message)));
                    }
                }
                Some(Event::Ping(content)) => read.push((Opcode::Ping, content.content().to_vec())),
                Some(Event::Pong(content)) => read.push((Opcode::Pong, content.content().to_vec())),
                Some(Event::Close(_, content)) => read.push((Opcode::Close, content.content().to_vec())),
                None => break,
            }
        }
    }
    (read, None)
}
