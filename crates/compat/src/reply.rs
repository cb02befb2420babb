//! A reply as its bytes come: head, content, footer.

use weir_load::response::{EndOfHead, HEAD_BYTES_MAX, status_line};

/// Of a content that is kept, the most that is.
const CONTENT_BYTES_MAX: usize = 8 << 20;
/// Lines around chunks: longer ones are cut.
const LINE_BYTES_MAX: usize = 1024;

/// What came of a reply.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    pub(crate) head: Vec<u8>,
    /// The content, if it is wanted.
    pub(crate) content: Vec<u8>,
    pub(crate) content_bytes: u64,
    pub(crate) footer_bytes: u64,
    pub(crate) bytes: u64,
    /// Where the head of the final reply begins: behind those of replies with a status of 1xx.
    head_begin: usize,
    end_of_head: EndOfHead,
    place: Place,
    line: Vec<u8>,
}

/// Where in a reply we are.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Place {
    #[default]
    Head,
    Content,
    /// In the line before a chunk.
    ChunkSize,
    /// So many bytes before a chunk's end.
    Chunk(u64),
    /// In the line's end behind a chunk.
    ChunkEnd,
    Footer,
}

impl Reply {
    /// Makes it ready for the next reply.
    pub(crate) fn clear(&mut self) {
        self.head.clear();
        self.content.clear();
        self.line.clear();
        (self.content_bytes, self.footer_bytes, self.bytes) = (0, 0, 0);
        (self.head_begin, self.place, self.end_of_head) = (0, Place::Head, EndOfHead::default());
    }

    /// Takes bytes; the content is kept only if it is wanted.
    pub(crate) fn take(&mut self, bytes: &[u8], keep: bool) {
        self.bytes += bytes.len() as u64;
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = match self.place {
                Place::Head => self.take_head(rest),
                Place::Content => self.take_content(rest, rest.len(), keep),
                Place::Chunk(left) => {
                    let count = rest.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    let left = left - count as u64;
                    self.place = if left == 0 { Place::ChunkEnd } else { Place::Chunk(left) };
                    self.take_content(rest, count, keep)
                }
                Place::ChunkSize | Place::ChunkEnd => self.take_line(rest),
                Place::Footer => {
                    self.footer_bytes += rest.len() as u64;
                    &[]
                }
            };
        }
    }

    fn take_head<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let before = self.head.len();
        self.head.extend_from_slice(bytes);
        let end = self.end_of_head.find(&self.head[self.head_begin..]).map(|end| self.head_begin + end);
        let Some(end) = end.or((self.head.len() > HEAD_BYTES_MAX).then_some(self.head.len())) else { return &[] };
        self.head.truncate(end);
        if self.status() / 100 == 1 && self.status() != 101 {
            // The final reply follows, and its head with it: both count as head.
            self.head_begin = end;
            self.end_of_head = EndOfHead::default();
        } else {
            let coding = self.header("transfer-encoding");
            let chunked = coding.is_some_and(|coding| coding.to_ascii_lowercase().ends_with(b"chunked"));
            self.place = if chunked { Place::ChunkSize } else { Place::Content };
        }
        &bytes[end - before..]
    }

    fn take_content<'b>(&mut self, bytes: &'b [u8], count: usize, keep: bool) -> &'b [u8] {
        self.content_bytes += count as u64;
        if keep {
            let room = CONTENT_BYTES_MAX.saturating_sub(self.content.len());
            self.content.extend_from_slice(&bytes[..count.min(room)]);
        }
        &bytes[count..]
    }

    /// Takes the lines between chunks.
    fn take_line<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(bytes.len(), |end| end + 1);
        let room = LINE_BYTES_MAX.saturating_sub(self.line.len());
        self.line.extend_from_slice(&bytes[..taken.min(room)]);
        if end.is_some() {
            self.place = match self.place {
                Place::ChunkEnd => Place::ChunkSize,
                _ => {
                    let digits: Vec<u8> =
                        self.line.iter().copied().take_while(u8::is_ascii_hexdigit).take(16).collect();
                    // Digits of the basic character set are text.
                    let size =
                        std::str::from_utf8(&digits).ok().and_then(|digits| u64::from_str_radix(digits, 16).ok());
                    match size {
                        None | Some(0) => Place::Footer,
                        Some(size) => Place::Chunk(size),
                    }
                }
            };
            self.line.clear();
        }
        &bytes[taken..]
    }

    /// Its status, 0 while none is known.
    pub(crate) fn status(&self) -> u16 {
        status_line(&self.head[self.head_begin..]).map_or(0, |line| line.status)
    }

    /// The fields of the final head, each with its name as it came; names repeat if they came so.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.head[self.head_begin..].split(|byte| *byte == b'\n').skip(1).filter_map(|line| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            Some((line[..colon].trim_ascii_end(), line[colon + 1..].trim_ascii()))
        })
    }

    /// Whether the content is longer than what is kept of one.
    pub(crate) fn is_cut(&self) -> bool {
        self.content_bytes > self.content.len() as u64
    }

    /// The last value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&[u8]> {
        self.head.split(|byte| *byte == b'\n').skip(1).fold(None, |found, line| {
            let colon = line.iter().position(|byte| *byte == b':');
            match colon.filter(|at| line[..*at].trim_ascii_end().eq_ignore_ascii_case(name.as_bytes())) {
                Some(at) => Some(line[at + 1..].trim_ascii()),
                None => found,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(bytes: &[u8], piece: usize) -> Reply {
        let mut reply = Reply::default();
        bytes.chunks(piece).for_each(|piece| reply.take(piece, true));
        reply
    }

    #[test]
    fn head_content_and_footer_are_told_apart() {
        let plain = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nset-cookie: a=b; path=/\r\n\r\nhello";
        // Book example: content 6, footer 2.
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6;x=y\r\nHello\n\r\n0\r\n\r\n";
        for piece in 1..80 {
            let reply = read(plain, piece);
            assert_eq!(
                (reply.status(), reply.head.len(), reply.content_bytes, reply.footer_bytes),
                (200, plain.len() - 5, 5, 0)
            );
            assert_eq!(reply.header("Set-Cookie"), Some(&b"a=b; path=/"[..]));
            let reply = read(chunked, piece);
            assert_eq!(
                (reply.head.len(), reply.content.as_slice(), reply.footer_bytes),
                (47, &b"Hello\n"[..], 2),
                "{piece}"
            );
        }
        let early = read(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\n\r\n", 7);
        assert_eq!((early.content_bytes, early.bytes), (0, 44));
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(bytes in "HTTP/1.1 [0-9]{3} x\r\n(transfer-encoding: chunked\r\n)?(.{0,4}\r\n){0,3}\r\n([0-9a-f]{1,2}\r\n|.{0,9}){0,5}", piece in 1usize..20) {
            let (whole, pieces) = (read(bytes.as_bytes(), usize::MAX), read(bytes.as_bytes(), piece));
            prop_assert_eq!(whole.content, pieces.content);
            prop_assert_eq!((whole.head, whole.footer_bytes), (pieces.head, pieces.footer_bytes));
        }

        #[test]
        fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            read(&bytes, 3);
        }
    }
}
