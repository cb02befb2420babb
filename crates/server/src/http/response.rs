//! A response as a value: everything that is needed to continue it, in this process or another.

use serde::{Deserialize, Serialize};
use std::fmt;

/// An unfinished response: plain data that can be kept, sent to another process and continued there.
///
/// It owns no descriptor. The stream that it stands for is, for each part, the bytes of `head` up to the part's
/// `head_end` and then the part's bytes of the content; after the last part comes the rest of `head`. So `head`
/// holds the head proper, the small heads between the ranges of a `multipart/byteranges` body, and the whole
/// page where a page was made for this response.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response {
    /// Literal bytes.
    pub head: Vec<u8>,
    /// Which content the parts are taken from; none if there are no parts.
    #[serde(rename = "atom")]
    pub resource: Option<ResourceId>,
    /// Which form of the content.
    pub variant: Variant,
    /// What is taken from the content, in the order of sending.
    pub parts: Vec<Part>,
    /// Bytes of the stream that the socket has taken already.
    pub offset: u64,
}

/// The identity of content: as long as these are equal, the bytes are taken to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ResourceId {
    /// The device of the file.
    pub dev: u64,
    /// The inode of the file.
    pub ino: u64,
    /// The last change of the content, in nanoseconds since 1970; negative before.
    pub mtime_ns: i64,
    /// Bytes of the whole content.
    pub size: u64,
}

/// A SHA-256 of content, shown as 64 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Digest(pub [u8; 32]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The form in which content is sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Variant {
    /// The bytes as they are in the file.
    #[default]
    Identity,
    /// Compressed by gzip (RFC 1952).
    Gzip,
    /// Compressed by Brotli (RFC 7932).
    Brotli,
    /// Compressed by Zstandard (RFC 8878, windows of at most 8 MiB as RFC 9659 has it).
    Zstd,
}

impl Variant {
    /// The name in Content-Encoding; none for the plain bytes.
    pub fn coding(self) -> Option<&'static str> {
        match self {
            Self::Identity => None,
            Self::Gzip => Some("gzip"),
            Self::Brotli => Some("br"),
            Self::Zstd => Some("zstd"),
        }
    }

    /// The ending of a file that holds this form of the file without it.
    pub(crate) fn suffix(self) -> &'static [u8] {
        match self {
            Self::Identity => b"",
            Self::Gzip => b".gz",
            Self::Brotli => b".br",
            Self::Zstd => b".zst",
        }
    }
}

/// A range of the content, sent after a portion of the head bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// End, in `head`, of the literal bytes that come before this part.
    pub head_end: u64,
    /// First byte of the content.
    pub start: u64,
    /// One past the last byte of the content.
    pub end: u64,
}

/// A contiguous piece of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'r> {
    /// These bytes.
    Head(&'r [u8]),
    /// Bytes of the content.
    Content {
        /// First byte.
        start: u64,
        /// How many, at least 1.
        len: u64,
    },
}

impl Response {
    /// Bytes of the whole stream.
    pub fn len(&self) -> u64 {
        let content: u64 = self.parts.iter().map(|part| part.end.saturating_sub(part.start)).sum();
        self.head.len() as u64 + content
    }

    /// Whether the stream has no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether everything has been taken.
    pub fn is_finished(&self) -> bool {
        self.offset >= self.len()
    }

    /// What is still to be sent, in order. A value from elsewhere may be nonsense; then pieces are missing, but
    /// nothing is read beyond the head.
    pub fn rest(&self) -> Rest<'_> {
        self.from(self.offset)
    }

    /// The same of what stands behind so many bytes, whether it was sent or not.
    pub(crate) fn from(&self, offset: u64) -> Rest<'_> {
        Rest { response: self, skip: offset, part: 0, head_at: 0, content_next: false }
    }

    /// Leaves away what has not been sent.
    pub(crate) fn cut_off(&mut self) {
        self.head.clear();
        self.parts.clear();
    }

    /// Makes the value new while it keeps its memory.
    pub(crate) fn reset(&mut self) {
        self.head.clear();
        self.resource = None;
        self.variant = Variant::Identity;
        self.parts.clear();
        self.offset = 0;
    }
}

/// Iterator over the pieces that remain; see [`Response::rest`].
#[derive(Debug, Clone)]
pub struct Rest<'r> {
    response: &'r Response,
    skip: u64,
    part: usize,
    head_at: usize,
    content_next: bool,
}

impl<'r> Rest<'r> {
    /// The next piece as if nothing had been sent yet; it may be empty.
    fn next_whole(&mut self) -> Option<Piece<'r>> {
        let head = self.response.head.as_slice();
        let part = self.response.parts.get(self.part);
        if self.content_next {
            let part = part?;
            self.content_next = false;
            self.part += 1;
            return Some(Piece::Content { start: part.start, len: part.end.saturating_sub(part.start) });
        }
        let end = match part {
            Some(part) => {
                self.content_next = true;
                usize::try_from(part.head_end).unwrap_or(usize::MAX).clamp(self.head_at, head.len())
            }
            None if self.head_at < head.len() => head.len(),
            None => return None,
        };
        let piece = &head[self.head_at..end];
        self.head_at = end;
        Some(Piece::Head(piece))
    }
}

impl<'r> Iterator for Rest<'r> {
    type Item = Piece<'r>;

    fn next(&mut self) -> Option<Piece<'r>> {
        loop {
            let piece = self.next_whole()?;
            let len = match piece {
                Piece::Head(bytes) => bytes.len() as u64,
                Piece::Content { len, .. } => len,
            };
            if self.skip >= len {
                self.skip -= len;
                continue;
            }
            let skip = std::mem::take(&mut self.skip);
            return Some(match piece {
                // The skip is below the slice's length, so it fits.
                Piece::Head(bytes) => Piece::Head(&bytes[skip as usize..]),
                Piece::Content { start, len } => Piece::Content { start: start + skip, len: len - skip },
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stream(response: &Response, content: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for piece in response.rest() {
            match piece {
                Piece::Head(bytes) => out.extend_from_slice(bytes),
                Piece::Content { start, len } => {
                    out.extend_from_slice(&content[start as usize..(start + len) as usize]);
                }
            }
        }
        out
    }

    proptest! {
        #[test]
        fn the_rest_after_any_offset_is_the_end_of_the_stream(
            texts in proptest::collection::vec(0_usize..5, 1..5),
            spans in proptest::collection::vec((0_u64..20, 0_u64..20), 0..4),
            cut in 0_u64..120,
        ) {
            let content: Vec<u8> = (0..40).collect();
            let mut response = Response { head: vec![b'h'; texts.iter().sum()], ..Response::default() };
            let mut head_end = 0;
            for (text, (start, len)) in texts.iter().zip(&spans) {
                head_end += *text as u64;
                response.parts.push(Part { head_end, start: *start, end: start + len });
            }
            let whole = stream(&response, &content);
            prop_assert_eq!(whole.len() as u64, response.len());
            response.offset = cut.min(response.len());
            let carried: Response = serde_json::from_str(&serde_json::to_string(&response).expect("serialises")).expect("restores");
            prop_assert_eq!(stream(&carried, &content), &whole[response.offset as usize..]);
            prop_assert_eq!(carried.is_finished(), response.rest().next().is_none());
        }
    }

    #[test]
    fn a_nonsense_value_from_elsewhere_does_not_panic() {
        let part = Part { head_end: 900, start: 9, end: 3 };
        let response =
            Response { head: vec![1; 4], parts: vec![part, Part { head_end: 1, ..part }], ..Response::default() };
        assert_eq!(response.rest().collect::<Vec<_>>(), [Piece::Head(&[1; 4])]);
    }
}
