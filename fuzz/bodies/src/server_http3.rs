//! What the server reads of HTTP/3. It keeps its parsers to itself, so they are compiled a second time, from the same files.

use crate::Choices;
use crate::http::fields;
use crate::http::limits;
use crate::server_http2::message;

#[allow(dead_code, reason = "not all of it is fuzzed")]
#[path = "../../../crates/server/src/http3/encode.rs"]
mod encode;
#[allow(dead_code, reason = "not all of it is fuzzed")]
#[path = "../../../crates/server/src/http3/frame.rs"]
mod frame;
#[allow(dead_code, reason = "not all of it is fuzzed")]
#[path = "../../../crates/server/src/http3/inbound.rs"]
mod inbound;
#[path = "../../../crates/server/src/http3/qpack.rs"]
mod qpack;

/// Reads any bytes as a stream of requests and as one about the connection, in one piece and in many, which makes no
/// difference; and what the frames carry as fields and as requests, which keep what HTTP/1.1 could not say.
pub fn server_http3(input: &[u8]) {
    let mut choices = Choices(input);
    let bounds =
        fields::Bounds { bytes_max: 64 << (choices.byte() % 9), fields_max: 1 + usize::from(choices.byte() % 96) };
    let kept_bytes_max = 1 << (choices.byte() % 12);
    let piece = 1 + usize::from(choices.byte() % 32);
    let input = choices.0;
    let (whole, is_between) = frames(input, kept_bytes_max, usize::MAX);
    assert!((whole.clone(), is_between) == frames(input, kept_bytes_max, piece));
    assert_eq!(inbound(input, usize::MAX), inbound(input, piece));
    for (kind, _, content) in whole {
        if kind == frame::kind::SETTINGS {
            let _ = frame::check_settings(&content);
        }
        if kind == frame::kind::HEADERS {
            fields(&content, bounds);
        }
        encode::block(&content, &mut Vec::new());
    }
    fields(input, bounds);
}

/// Kind, length and content of each frame, and whether the stream may end then. Of what is passed over there is nothing.
fn frames(input: &[u8], kept_bytes_max: usize, piece: usize) -> (Vec<(u64, u64, Vec<u8>)>, bool) {
    let (mut reader, mut out) = (frame::Reader::default(), Vec::<(u64, u64, Vec<u8>)>::new());
    for mut piece in input.chunks(piece) {
        while let Some(item) = reader.next(&mut piece, kept_bytes_max) {
            match item {
                frame::Item::Begun { kind, len } => out.push((kind, len, Vec::new())),
                frame::Item::Data(bytes) => {
                    let (kind, len, content) = out.last_mut().expect("it was begun");
                    content.extend_from_slice(bytes);
                    assert!(*kind == frame::kind::DATA && content.len() as u64 <= *len);
                }
                frame::Item::Whole { kind, content } => {
                    assert!(content.len() <= kept_bytes_max);
                    let last = out.last_mut().expect("it was begun");
                    assert_eq!((last.0, last.1), (kind, content.len() as u64));
                    last.2 = content.to_vec();
                }
            }
        }
        assert!(piece.is_empty(), "all is taken");
    }
    (out, reader.is_between_frames())
}

/// How a stream about the connection ends, and after how many frames.
fn inbound(input: &[u8], piece: usize) -> Result<(u64, bool), frame::Code> {
    let (mut stream, mut opened, mut sum) = (inbound::Inbound::default(), inbound::Opened::default(), 0);
    for piece in input.chunks(piece) {
        match stream.take(piece, &mut opened)? {
            inbound::Taken::Frames(frames) => sum += frames,
            inbound::Taken::Unwanted => return Ok((0, true)),
        }
    }
    Ok((sum, stream.end().is_ok()))
}

fn fields(block: &[u8], bounds: fields::Bounds) {
    let mut fields = fields::Fields::default();
    if qpack::decode(block, bounds, &mut fields).is_err() {
        return;
    }
    let (mut count, mut bytes) = (0, 0);
    for (name, value) in fields.iter() {
        (count, bytes) = (count + 1, bytes + name.len() + value.len() + 32);
    }
    assert!(count <= bounds.fields_max && bytes <= bounds.bytes_max, "more than was wanted");
    let _ = message::are_trailers(&fields);
    let limits = limits::Limits::default();
    if let Ok(request) = message::request(&fields, 3, &limits) {
        assert!(!fields.is_too_large && request.target.len() <= limits.target_bytes_max && request.minor == 3);
        for text in [request.method_text, request.target] {
            assert!(!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()), "{text}");
        }
        assert!(request.target.starts_with('/') || ["CONNECT", "OPTIONS"].contains(&request.method_text));
    }
}
