//! Bytes of a header, read with bounds.

use crate::ReadError;

/// A part of a file that is in memory, and where it stands in the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Section<'a> {
    bytes: &'a [u8],
    at: u64,
    is_big_endian: bool,
    within: &'static str,
}

impl<'a> Section<'a> {
    pub(crate) fn new(bytes: &'a [u8], at: u64, is_big_endian: bool, within: &'static str) -> Self {
        Self { bytes, at, is_big_endian, within }
    }

    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn take(&mut self, count: u64) -> Result<&'a [u8], ReadError> {
        let cut = ReadError::Cut { at: self.at, within: self.within };
        let count = usize::try_from(count).ok().filter(|count| *count <= self.bytes.len()).ok_or(cut)?;
        let (taken, rest) = self.bytes.split_at(count);
        (self.bytes, self.at) = (rest, self.at + count as u64);
        Ok(taken)
    }

    pub(crate) fn take_all(&mut self) -> &'a [u8] {
        let all = std::mem::take(&mut self.bytes);
        self.at += all.len() as u64;
        all
    }

    /// A number of so many bytes.
    fn number(&mut self, bytes: usize) -> Result<u64, ReadError> {
        let taken = self.take(bytes as u64)?;
        Ok(unsigned(taken, self.is_big_endian))
    }

    pub(crate) fn u8(&mut self) -> Result<u8, ReadError> {
        Ok(self.number(1)? as u8)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, ReadError> {
        Ok(self.number(2)? as u16)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, ReadError> {
        Ok(self.number(4)? as u32)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, ReadError> {
        self.number(8)
    }

    /// Text up to a zero byte.
    pub(crate) fn text(&mut self) -> Result<String, ReadError> {
        let end = memchr::memchr(0, self.bytes).ok_or(ReadError::Cut { at: self.at, within: self.within })?;
        let text = self.take(end as u64)?;
        self.take(1)?;
        Ok(String::from_utf8_lossy(text).into_owned())
    }
}

/// A number of at most eight bytes.
pub(crate) fn unsigned(bytes: &[u8], is_big_endian: bool) -> u64 {
    // Most numbers of a trace: readers ask for several of each event.
    match (bytes, is_big_endian) {
        ([a, b], false) => return u64::from(u16::from_le_bytes([*a, *b])),
        ([a, b, c, d], false) => return u64::from(u32::from_le_bytes([*a, *b, *c, *d])),
        ([a, b, c, d, e, f, g, h], false) => return u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h]),
        _ => {}
    }
    let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
    if is_big_endian { bytes.iter().fold(0, add) } else { bytes.iter().rev().fold(0, add) }
}
