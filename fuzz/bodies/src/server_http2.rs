//! What the server reads of HTTP/2. It keeps its parsers to itself, so they are compiled a second time, from the same files.

use crate::Choices;
use crate::http::fields;
use crate::http::limits;

#[allow(dead_code, reason = "not all of it is fuzzed")]
#[path = "../../../crates/server/src/http2/encode.rs"]
pub(crate) mod encode;
#[allow(dead_code, reason = "not all of it is fuzzed")]
#[path = "../../../crates/server/src/http/frames/frame.rs"]
pub(crate) mod frame;
#[allow(dead_code, reason = "not all of it is fuzzed")]
#[path = "../../../crates/server/src/http/frames/hpack.rs"]
pub(crate) mod hpack;
#[path = "../../../crates/server/src/http/frames/huffman.rs"]
mod huffman;
#[allow(dead_code, reason = "not all of it is fuzzed")]
#[path = "../../../crates/server/src/http2/message.rs"]
pub(crate) mod message;

/// Reads any bytes as frames: what they carry, and blocks of fields as requests, which keep what HTTP/1.1 could not say.
pub fn server_http2(input: &[u8]) {
    let mut choices = Choices(input);
    let bounds =
        fields::Bounds { bytes_max: 64 << (choices.byte() % 9), fields_max: 1 + usize::from(choices.byte() % 96) };
    let limits = limits::Limits::default();
    let (mut decoder, mut fields) = (hpack::Decoder::default(), fields::Fields::default());
    let mut input = choices.0;
    while let Some(head) = frame::Head::read(input) {
        let payload = &input[frame::HEAD_BYTES..];
        let payload = &payload[..head.len.min(payload.len())];
        input = &input[frame::HEAD_BYTES + payload.len()..];
        if let Ok(settings) = frame::read_settings(payload) {
            assert!(payload.len().is_multiple_of(6));
            assert!(settings.window.is_none_or(|window| (0..=frame::WINDOW_MAX).contains(&window)));
        }
        if let Ok(data) = frame::unpadded(&head, payload) {
            assert!(data.len() <= payload.len());
        }
        let Ok((block, _)) = frame::headers(&head, payload) else { continue };
        if decoder.decode(block, bounds, &mut fields).is_err() {
            return;
        }
        let (mut count, mut bytes) = (0, 0);
        for (name, value) in fields.iter() {
            (count, bytes) = (count + 1, bytes + name.len() + value.len() + 32);
        }
        assert!(count <= bounds.fields_max && bytes <= bounds.bytes_max, "more than was wanted");
        let _ = message::are_trailers(&fields);
        if let Ok(request) = message::request(&fields, 2, &limits) {
            assert!(!fields.is_too_large && request.target.len() <= limits.target_bytes_max);
            for text in [request.method_text, request.target] {
                assert!(!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()), "{text}");
            }
            assert!(request.target.starts_with('/') || ["CONNECT", "OPTIONS"].contains(&request.method_text));
        }
        // What was read may be a head of ours as well.
        encode::block(payload, &mut Vec::new());
    }
}
