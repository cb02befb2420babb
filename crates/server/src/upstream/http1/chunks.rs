//! A body whose length is not known, as chunks (RFC 9112 section 7.1).

use super::digits::hexadecimal;
use super::names::may_trail;
use crate::http::request::is_token;

/// Ends the content of a chunk.
pub(crate) const CHUNK_END: &[u8] = b"\r\n";

/// Writes what stands before the content of a chunk; [`CHUNK_END`] comes behind it. A chunk has at least one byte, as
/// one of none would end the body.
pub(crate) fn begin_chunk(bytes: usize, out: &mut Vec<u8>) {
    debug_assert!(bytes > 0, "a chunk of no bytes ends the body");
    hexadecimal(bytes as u64, out);
    out.extend_from_slice(b"\r\n");
}

/// Writes a whole chunk; nothing for no bytes.
pub(crate) fn write_chunk(content: &[u8], out: &mut Vec<u8>) {
    if !content.is_empty() {
        begin_chunk(content.len(), out);
        out.extend_from_slice(content);
        out.extend_from_slice(CHUNK_END);
    }
}

/// Ends the body. Trailers that are no fields, or that must not stand there (RFC 9110 section 6.5.1), are left away.
pub(crate) fn end_chunks<'t>(trailers: impl Iterator<Item = (&'t str, &'t [u8])>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"0\r\n");
    for (name, value) in trailers {
        if is_token(name.as_bytes()) && is_value(value) && may_trail(name.as_bytes()) {
            put(name.as_bytes(), value, out);
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// Writes a line of a field.
pub(crate) fn put(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Whether a field may have the value: no control bytes but the tabulator (RFC 9110 section 5.5).
pub(crate) fn is_value(value: &[u8]) -> bool {
    value.iter().all(|&byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::drain::{Drain, Part};
    use crate::http::framing::Framing;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn chunks_are_read_as_what_was_written(pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..8)) {
            let mut out = Vec::new();
            pieces.iter().for_each(|piece| write_chunk(piece, &mut out));
            end_chunks([("A", &b"b"[..])].into_iter(), &mut out);
            let (mut drain, mut content) = (Drain::whole(Framing::Chunked, 100), Vec::new());
            let taken = drain.read(&out, &mut |part| if let Part::Content(bytes) = part { content.extend_from_slice(bytes) });
            prop_assert_eq!((taken, content), (Ok(out.len()), pieces.concat()));
            prop_assert!(drain.is_done() && out.ends_with(b"\r\n0\r\nA: b\r\n\r\n") | out.starts_with(b"0\r\nA"));
        }
    }

    #[test]
    fn trailers_that_would_change_the_request_are_left_away() {
        let mut out = Vec::new();
        let trailers: [(&str, &[u8]); 9] = [
            ("Content-Length", b"5"),
            ("transfer-encoding", b"chunked"),
            ("Host", b"b"),
            ("X-Forwarded-For", b"1.2.3.4"),
            ("Authorization", b"Basic x"),
            ("a b", b"c"),
            ("Bad", b"a\r\nb: c"),
            ("Connection", b"close"),
            ("grpc-status", b"0"),
        ];
        end_chunks(trailers.into_iter(), &mut out);
        assert_eq!(out, b"0\r\ngrpc-status: 0\r\n\r\n");
    }
}
