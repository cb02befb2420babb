//! The chunked coding of a body (RFC 9112 7.1), read only for its end.

use crate::response::{HEAD_BYTES_MAX, Malformed};
use memchr::memchr;

/// Where in a chunked body we are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In the digits of a chunk's size.
    Size,
    /// In what follows the size up to the line's end.
    Extension,
    /// In a chunk's data, so many bytes before its end.
    Data(u64),
    /// After a chunk's data: its line's end is awaited.
    DataEnd,
    /// In the lines after the last chunk.
    Trailer,
}

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
}

impl Default for Chunked {
    fn default() -> Self {
        Self { place: Place::Size, size: 0, bytes: 0, seen: 0, trailer_bytes: 0, line_empty: true }
    }
}

impl Chunked {
    /// How much data has come so far, without framing.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes bytes of the body: how many belong to it, and whether it is whole.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<(usize, bool), Malformed> {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            match self.place {
                Place::Data(left) => {
                    let taken = (bytes.len() - at).min(usize::try_from(left).unwrap_or(usize::MAX));
                    at += taken;
                    self.bytes = self.bytes.saturating_add(taken as u64);
                    let left = left - taken as u64;
                    self.place = if left == 0 { Place::DataEnd } else { Place::Data(left) };
                    continue;
                }
                Place::Size => self.size_byte(byte)?,
                Place::Extension => {
                    let end = memchr(b'\n', &bytes[at..]);
                    let taken = end.unwrap_or(bytes.len() - at);
                    self.seen = self.seen.saturating_add(u32::try_from(taken).unwrap_or(u32::MAX));
                    if self.seen as usize > HEAD_BYTES_MAX {
                        return Err(Malformed("a chunk's extension is too long"));
                    }
                    at += taken;
                    if end.is_none() {
                        break;
                    }
                    self.line_ended();
                }
                Place::DataEnd => match byte {
                    b'\r' if self.seen == 0 => self.seen = 1,
                    b'\n' => (self.place, self.size, self.seen) = (Place::Size, 0, 0),
                    _ => return Err(Malformed("a chunk is longer than its size")),
                },
                Place::Trailer => {
                    self.trailer_bytes += 1;
                    if self.trailer_bytes as usize > HEAD_BYTES_MAX {
                        return Err(Malformed("its trailers are too long"));
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
            // Sixteen digits are all that 64 bits hold.
            if self.seen > 16 {
                return Err(Malformed("a chunk's size is too large"));
            }
            self.size = self.size << 4 | u64::from(digit);
            return Ok(());
        }
        if self.seen == 0 {
            return Err(Malformed("a chunk has no size"));
        }
        match byte {
            b'\n' => self.line_ended(),
            b'\r' | b' ' | b'\t' | b';' => (self.place, self.seen) = (Place::Extension, 0),
            _ => return Err(Malformed("a chunk's size is not a number")),
        }
        Ok(())
    }

    /// The line of a chunk's size is over.
    fn line_ended(&mut self) {
        self.seen = 0;
        self.place = if self.size == 0 { Place::Trailer } else { Place::Data(self.size) };
    }
}
