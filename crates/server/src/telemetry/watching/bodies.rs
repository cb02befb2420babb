//! The beginnings of bodies that pass, for watchers who have the right to be told of them.

use serde::{Serialize, Serializer};

/// Bytes that are kept of a body; of the rest only the number is known.
const KEPT_BYTES_MAX: usize = 4096;

/// The bodies of a request and of its response.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct BodiesSeen {
    pub(super) request: BodySeen,
    pub(super) response: BodySeen,
}

/// One of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BodySeen {
    kept: Vec<u8>,
    /// Bytes that passed, whether they were kept or not.
    bytes: u64,
}

impl BodiesSeen {
    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.request.kept.len() + self.response.kept.len() + 64
    }
}

impl BodySeen {
    /// Bytes that would still be kept.
    pub(super) fn room(&self) -> usize {
        KEPT_BYTES_MAX - self.kept.len()
    }

    /// So many bytes pass, of which these are the first.
    pub(super) fn pass(&mut self, first: &[u8], bytes: u64) {
        // Behind a gap nothing is kept: what is told is the beginning as it passed.
        if self.kept.len() as u64 == self.bytes {
            self.kept.extend_from_slice(&first[..first.len().min(self.room())]);
        }
        self.bytes += bytes;
    }
}

/// A body as lines tell it: as text if what was kept of it is UTF-8, else in hexadecimal digits.
#[derive(Serialize)]
struct Told<'b> {
    bytes: u64,
    /// Bytes of the text, or of what the digits stand for.
    kept_bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'b str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
}

impl Serialize for BodySeen {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let kept = &self.kept;
        let text = match std::str::from_utf8(kept) {
            Ok(text) => Some(text),
            // A character may have been cut in two where nothing more was kept.
            Err(error) if error.error_len().is_none() && self.bytes > kept.len() as u64 => {
                std::str::from_utf8(&kept[..error.valid_up_to()]).ok()
            }
            Err(_) => None,
        };
        let hex = if text.is_some() { None } else { Some(kept.iter().map(|byte| format!("{byte:02x}")).collect()) };
        let kept_bytes = text.map_or(kept.len(), str::len);
        Told { bytes: self.bytes, kept_bytes, text, hex }.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn told(pieces: &[&[u8]]) -> Value {
        let mut body = BodySeen::default();
        pieces.iter().for_each(|piece| body.pass(piece, piece.len() as u64));
        serde_json::to_value(body).expect("JSON")
    }

    #[test]
    fn a_body_is_told_as_text_or_in_digits() {
        assert_eq!(told(&[]), json!({ "bytes": 0, "kept_bytes": 0, "text": "" }));
        assert_eq!(told(&[b"a=\xc3", b"\xa4\n"]), json!({ "bytes": 5, "kept_bytes": 5, "text": "a=\u{e4}\n" }));
        assert_eq!(told(&[b"\xff\0"]), json!({ "bytes": 2, "kept_bytes": 2, "hex": "ff00" }));
        // Half a character at the end of a body is no text.
        assert_eq!(told(&[b"a\xc3"]), json!({ "bytes": 2, "kept_bytes": 2, "hex": "61c3" }));
        let long = told(&[&[b'x'; KEPT_BYTES_MAX - 1], "\u{e4}".as_bytes(), b"more"]);
        assert_eq!((&long["bytes"], &long["kept_bytes"]), (&json!(KEPT_BYTES_MAX + 5), &json!(KEPT_BYTES_MAX - 1)));
    }

    proptest! {
        #[test]
        fn what_is_kept_is_the_beginning_of_what_passed_and_bounded(
            pieces in proptest::collection::vec((0_usize..3000, 0_usize..3000), 0..10),
        ) {
            let (mut body, mut all) = (BodySeen::default(), Vec::new());
            for (number, (bytes, first)) in pieces.into_iter().enumerate() {
                let piece = vec![number as u8; bytes];
                body.pass(&piece[..first.min(bytes)], bytes as u64);
                all.extend(piece);
            }
            prop_assert!(body.kept.len() <= KEPT_BYTES_MAX && all.starts_with(&body.kept));
            prop_assert_eq!(body.bytes, all.len() as u64);
        }
    }
}
