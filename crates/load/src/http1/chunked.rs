//! The chunked coding of a body (RFC 9112 7.1), read only for its end.

use crate::http1::malformed::{HEAD_BYTES_MAX, Malformed};
use memchr::memchr;

/// Where in a chunked body we are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In the digits of a chunk's size.
    Size,
    /// In what follows the size up to the line's end: behind its carriage return, if `returned`, which ends the line.
    Extension { returned: bool },
    /// In a chunk's data, so many bytes before its end.
    Data(u64),
    /// After a chunk's data: its line's end is awaited.
    DataEnd,
    /// In the lines after the last chunk.
    Trailer,
}

/// The longest line of a size, in bytes.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// The state between two pieces of a chunked body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunked {
    place: Place,
    size: u64,
    /// Bytes of data so far.
    bytes: u64,
    /// Digits of the size, or bytes of the line that have come: both are bounded.
    seen: u32,
    /// Bytes of all trailers so far, and whether the line that we are in is empty so far.
    trailer_bytes: u32,
    line_empty: bool,
    /// Whether a line of a size had more than the size and an extension, and whether one had no carriage return.
    odd: bool,
    bare: bool,
}

impl Default for Chunked {
    fn default() -> Self {
        Self {
            place: Place::Size,
            size: 0,
            bytes: 0,
            seen: 0,
            trailer_bytes: 0,
            line_empty: true,
            odd: false,
            bare: false,
        }
    }
}

impl Chunked {
    /// How much data has come so far, without framing.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether a line of a size had more than the size and an extension.
    pub(crate) fn is_odd(&self) -> bool {
        self.odd
    }

    /// Whether a line had no carriage return.
    pub(crate) fn is_bare(&self) -> bool {
        self.bare
    }

    /// Takes bytes of the body: how many belong to it, and whether it is whole; pieces of data go to `content`.
    #[inline]
    pub(crate) fn feed_into(
        &mut self,
        bytes: &[u8],
        mut content: impl FnMut(&[u8]),
    ) -> Result<(usize, bool), Malformed> {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            match self.place {
                Place::Data(left) => {
                    let taken = (bytes.len() - at).min(usize::try_from(left).unwrap_or(usize::MAX));
                    content(&bytes[at..at + taken]);
                    at += taken;
                    self.bytes = self.bytes.saturating_add(taken as u64);
                    let left = left - taken as u64;
                    self.place = if left == 0 { Place::DataEnd } else { Place::Data(left) };
                    continue;
                }
                Place::Size => self.size_byte(byte)?,
                Place::Extension { returned } => {
                    let end = memchr(b'\n', &bytes[at..]);
                    let rest = &bytes[at..end.map_or(bytes.len(), |end| at + end)];
                    self.seen = self.seen.saturating_add(u32::try_from(rest.len()).unwrap_or(u32::MAX));
                    if self.seen as usize > LINE_BYTES_MAX {
                        return Err(Malformed::new("a chunk's extension is too long"));
                    }
                    self.extension(rest, returned);
                    at += rest.len();
                    if end.is_none() {
                        break;
                    }
                    let Place::Extension { returned } = self.place else { break };
                    self.bare |= !returned;
                    self.line_ended();
                }
                Place::DataEnd => match byte {
                    b'\r' if self.seen == 0 => self.seen = 1,
                    b'\n' => {
                        self.bare |= self.seen == 0;
                        (self.place, self.size, self.seen) = (Place::Size, 0, 0);
                    }
                    _ => return Err(Malformed::new("a chunk is longer than its size")),
                },
                Place::Trailer => {
                    self.trailer_bytes += 1;
                    if self.trailer_bytes as usize > HEAD_BYTES_MAX {
                        return Err(Malformed::new("its trailers are too long"));
                    }
                    match byte {
                        b'\n' if self.line_empty => return Ok((at + 1, true)),
                        b'\n' => self.line_empty = true,
                        b'\r' => {}
                        _ => self.line_empty = false,
                    }
                }
            }
            at += 1;
        }
        Ok((at, false))
    }

    fn size_byte(&mut self, byte: u8) -> Result<(), Malformed> {
        if let Some(digit) = char::from(byte).to_digit(16) {
            self.seen += 1;
            if self.seen as usize > LINE_BYTES_MAX {
                return Err(Malformed::new("a chunk's size has too many digits"));
            }
            // Sixteen digits are all that 64 bits hold; zeros before them are none.
            if self.size >> 60 != 0 {
                return Err(Malformed::new("a chunk's size is too large"));
            }
            self.size = self.size << 4 | u64::from(digit);
            return Ok(());
        }
        match byte {
            // Old servers fill the line's place up with blanks, on either side.
            b' ' | b'\t' if self.seen == 0 && self.trailer_bytes as usize <= LINE_BYTES_MAX => {
                (self.odd, self.trailer_bytes) = (true, self.trailer_bytes + 1);
            }
            _ if self.seen == 0 => return Err(Malformed::new("a chunk has no size")),
            b'\n' => {
                self.bare = true;
                self.line_ended();
            }
            b'\r' => (self.place, self.seen) = (Place::Extension { returned: true }, 0),
            b' ' | b'\t' => {
                self.odd = true;
                (self.place, self.seen) = (Place::Extension { returned: false }, 0);
            }
            b';' => (self.place, self.seen) = (Place::Extension { returned: false }, 0),
            _ => return Err(Malformed::new("a chunk's size is not a number")),
        }
        Ok(())
    }

    /// Looks at more of what follows a size.
    fn extension(&mut self, bytes: &[u8], returned: bool) {
        let Some(last) = bytes.last() else { return };
        // Only the last return ends the line; one before is odd (RFC 9112 2.2).
        self.odd |= returned || bytes[..bytes.len() - 1].contains(&b'\r');
        self.place = Place::Extension { returned: *last == b'\r' };
    }

    /// The line of a chunk's size is over.
    fn line_ended(&mut self) {
        (self.seen, self.trailer_bytes) = (0, 0);
        self.place = if self.size == 0 { Place::Trailer } else { Place::Data(self.size) };
    }
}
