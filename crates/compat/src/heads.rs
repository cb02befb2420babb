//! Where the content of a response begins, which the originals' reports want to know.

use weir_load::response::{EndOfHead, status_line};

/// The heads of a response as its bytes come: those of interim responses, and the one that counts.
#[derive(Debug, Default)]
pub(super) struct Heads {
    /// The head that is under way, or the last one.
    head: Vec<u8>,
    end: EndOfHead,
}

impl Heads {
    /// Takes bytes; once the last head is whole, where in them the content begins.
    ///
    /// The engine bounds the length of a head, and refuses a malformed one.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut taken = 0;
        loop {
            let before = self.head.len();
            self.head.extend_from_slice(&bytes[taken..]);
            let end = self.end.find(&self.head)?;
            self.head.truncate(end);
            taken += end - before;
            // RFC 9110 15.2: interim responses come before the one that they announce.
            let is_interim = status_line(&self.head).is_ok_and(|line| line.status < 200 && line.status != 101);
            if !is_interim {
                return Some(taken);
            }
            self.clear();
        }
    }

    /// The last head, once it is whole.
    pub(super) fn last(&self) -> &[u8] {
        &self.head
    }

    /// Makes it ready for another response.
    pub(super) fn clear(&mut self) {
        self.head.clear();
        self.end = EndOfHead::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_begins_behind_all_heads_in_any_pieces() {
        let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(9000));
        for (heads, last) in [
            ("HTTP/1.1 200 OK\r\n\r\n", 19),
            ("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\n\r\n", 26),
            ("\r\nHTTP/1.1 200 OK\nA: b\n\n", 24),
            (long.as_str(), long.len()),
        ] {
            let bytes = [heads.as_bytes(), b"hello\r\n\r\n"].concat();
            for piece in [1, 2, 7, 30, bytes.len()] {
                let (mut found, mut at) = (None, 0);
                let mut reader = Heads::default();
                for part in bytes.chunks(piece) {
                    if let Some(begin) = reader.take(part) {
                        found = Some(at + begin);
                        break;
                    }
                    at += part.len();
                }
                assert_eq!((found, reader.last().len()), (Some(heads.len()), last), "{heads:.40?} by {piece}");
            }
        }
    }
}
