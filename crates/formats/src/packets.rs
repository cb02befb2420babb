//! The messages that a field of an outermost protobuf message repeats, read one at a time.

use crate::ReadError;
use std::io::{ErrorKind, Read};

/// Bytes of one message.
const MESSAGE_MAX: u64 = 64 << 20;

/// Reads messages of field 1 and passes over others.
pub(crate) struct Packets<R> {
    input: R,
    at: u64,
    message: Vec<u8>,
    within: &'static str,
}

impl<R: Read> Packets<R> {
    pub(crate) fn new(input: R, within: &'static str) -> Self {
        Self { input, at: 0, message: Vec::new(), within }
    }

    /// The next message, with the byte at which it begins.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, &[u8])>, ReadError> {
        loop {
            let begin = self.at;
            let Some(key) = self.varint(true)? else { return Ok(None) };
            let cut = ReadError::Cut { at: begin, within: self.within };
            match key & 7 {
                0 => drop(self.varint(false)?),
                1 => self.fill(8, begin)?,
                5 => self.fill(4, begin)?,
                2 => {
                    let size = self.varint(false)?.ok_or(cut)?;
                    if size > MESSAGE_MAX {
                        let what = format!("{} has {size} bytes; at most {MESSAGE_MAX} are read", self.within);
                        return Err(ReadError::wrong(begin, what));
                    }
                    self.fill(size, begin)?;
                    if key >> 3 == 1 {
                        return Ok(Some((begin, &self.message)));
                    }
                }
                _ => return Err(ReadError::wrong(begin, format!("{} is no message of protobuf", self.within))),
            }
        }
    }

    /// A number; none at the file's end, where one may end.
    fn varint(&mut self, may_end: bool) -> Result<Option<u64>, ReadError> {
        let (mut number, begin) = (0u64, self.at);
        for index in 0..10 {
            let mut byte = [0];
            match self.input.read_exact(&mut byte) {
                Ok(()) => self.at += 1,
                Err(error) if error.kind() == ErrorKind::UnexpectedEof && index == 0 && may_end => return Ok(None),
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    return Err(ReadError::Cut { at: begin, within: self.within });
                }
                Err(source) => return Err(ReadError::Io { at: self.at, source }),
            }
            number |= u64::from(byte[0] & 0x7f).checked_shl(7 * index).unwrap_or(0);
            if byte[0] & 0x80 == 0 {
                return Ok(Some(number));
            }
        }
        Err(ReadError::wrong(begin, format!("{} begins with a number that has no end", self.within)))
    }

    fn fill(&mut self, size: u64, begin: u64) -> Result<(), ReadError> {
        self.message.clear();
        let io = |source| ReadError::Io { at: begin, source };
        // What is not there takes no memory.
        let read = self.input.by_ref().take(size).read_to_end(&mut self.message).map_err(io)? as u64;
        self.at += read;
        if read < size { Err(ReadError::Cut { at: begin, within: self.within }) } else { Ok(()) }
    }
}
