//! What calls of gRPC read: messages behind their lengths, and the files, descriptors and texts that say what is sent.

use weir_load::grpc::messages::{Part, Reader, prefixed};
use weir_load::grpc::{Schema, reflection};

/// The method that a schema is asked for.
const METHOD: &str = "/t.S/M";

/// Reads any bytes as messages: in pieces they are the same, and those that are whole go out as they came.
pub fn load_grpc_messages(input: &[u8]) {
    let whole = read(&[input]);
    for bytes in [1, 3, 7] {
        assert_eq!(whole, read(&input.chunks(bytes).collect::<Vec<_>>()));
    }
    let mut again = Vec::new();
    whole.0.iter().for_each(|(_, message)| prefixed(&mut again, message));
    assert!(again.len() <= input.len());
    let is_plain = whole.0.iter().all(|(flag, _)| *flag == 0);
    assert!(!is_plain || input.starts_with(&again));
    assert_eq!(whole.1, again.len() == input.len());
}

/// The messages in some bytes with their flags, and whether nothing follows the last.
fn read(pieces: &[&[u8]]) -> (Vec<(u8, Vec<u8>)>, bool) {
    let (mut reader, mut messages, mut current) = (Reader::default(), Vec::new(), (0, Vec::new()));
    for mut piece in pieces.iter().copied() {
        while let Some(part) = reader.next(&mut piece) {
            match part {
                Part::Begin { flag, .. } => current.0 = flag,
                Part::Content(content) => current.1.extend_from_slice(content),
                Part::End => messages.push(std::mem::take(&mut current)),
            }
        }
        assert!(piece.is_empty());
    }
    (messages, reader.is_between())
}

/// Reads any bytes as a descriptor set, as an answer of a server's reflection, and as a `.proto` file, behind whose first
/// zero byte a message in JSON stands.
pub fn load_grpc_proto(input: &[u8]) {
    let told = Schema::of_bytes(input).ok().or_else(|| reflection::read_answer(input).ok());
    let (proto, json) = match input.iter().position(|byte| *byte == 0) {
        Some(end) => (&input[..end], &input[end + 1..]),
        None => (input, &b"{}"[..]),
    };
    let written = std::str::from_utf8(proto).ok().map(|text| Schema::of_text("f.proto", text));
    if let Some(Err(error)) = &written {
        assert!(!error.to_string().is_empty());
    }
    let Ok(json) = std::str::from_utf8(json) else { return };
    for schema in told.into_iter().chain(written.and_then(Result::ok)) {
        let Ok(method) = schema.method(METHOD) else { continue };
        let (mut once, mut twice) = (Vec::new(), Vec::new());
        if method.read("f", json, &mut once).is_ok() {
            method.read("f", json, &mut twice).expect("as before");
            assert_eq!(once, twice);
            assert_eq!(method.check_count(once.len()).is_ok(), once.len() == 1 || method.kind().client_streams());
        }
    }
}
