//! The stream of variables in struct mode: a line `!!<n>`, then n bytes of `{ u16 length, NAME=VALUE, 0 }` and a zero
//! u16, lengths in native order.

use crate::streams::read;
use std::io;
use std::os::fd::RawFd;

/// Bytes of the variables of a request, at most.
pub const BLOCK_BYTES_MAX: usize = 4 << 20;
/// Bytes of the line before them, at most.
const LINE_BYTES_MAX: usize = 16;
/// Room for the first read, so that one read is enough for a request.
const ROOM_BYTES: usize = 64 << 10;

/// The stream does not hold what it must.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A request does not begin with its line.
    #[error("a request does not begin with `!!` and a number: this program needs the variables in struct mode")]
    NoLine,
    /// The number is beyond [`BLOCK_BYTES_MAX`].
    #[error("the variables of a request have more than {BLOCK_BYTES_MAX} bytes")]
    TooLong,
    /// A length leads out of the block, or there is no zero at the end.
    #[error("the variables of a request are cut off")]
    CutOff,
    /// A record does not end with a zero byte.
    #[error("a variable of a request does not end with a zero byte")]
    NoVariable,
}

/// The stream ends badly.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StreamError {
    /// What arrived is wrong.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The descriptor cannot be read.
    #[error("the stream of variables cannot be read: {0}")]
    Unreadable(#[from] io::Error),
}

/// What [`head`] finds.
#[derive(Debug, PartialEq, Eq)]
pub enum Head {
    /// The line is not yet there.
    Incomplete,
    /// The line has so many bytes with its end, and this many bytes of variables follow.
    Line {
        /// Bytes of the line.
        line: usize,
        /// Bytes of the variables.
        block: usize,
    },
}

/// Reads the line before the variables.
///
/// # Errors
/// If it is not `!!<n>`, or n is too large.
pub fn head(input: &[u8]) -> Result<Head, Malformed> {
    let Some(end) = input.iter().take(LINE_BYTES_MAX).position(|&byte| byte == b'\n') else {
        let is_begun = input.iter().zip(b"!!").all(|(byte, expected)| byte == expected);
        return if input.len() < LINE_BYTES_MAX && is_begun { Ok(Head::Incomplete) } else { Err(Malformed::NoLine) };
    };
    let digits = input[..end].strip_prefix(b"!!").ok_or(Malformed::NoLine)?;
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Malformed::NoLine);
    }
    let block = digits.iter().fold(0_usize, |sum, digit| sum * 10 + usize::from(digit - b'0'));
    if block > BLOCK_BYTES_MAX {
        return Err(Malformed::TooLong);
    }
    Ok(Head::Line { line: end + 1, block })
}

/// Where a variable lies: from its name to the zero byte behind its value.
#[derive(Clone, Copy, Debug)]
struct Record {
    begin: u32,
    zero: u32,
}

/// The variables of a request. Names are only looked at when one is asked for: extensions ask for few.
#[derive(Debug, Default)]
pub struct Variables {
    bytes: Vec<u8>,
    records: Vec<Record>,
}

impl Variables {
    /// Takes a block apart that lies at `from` of the bytes and is `length` long.
    fn split(&mut self, from: usize, length: usize) -> Result<(), Malformed> {
        self.records.clear();
        let block = self.bytes.get(..from + length).ok_or(Malformed::CutOff)?;
        let mut at = from;
        loop {
            let size = block.get(at..at + 2).ok_or(Malformed::CutOff)?;
            let size = usize::from(u16::from_ne_bytes([size[0], size[1]]));
            if size == 0 {
                return Ok(());
            }
            at += 2;
            if *block.get(at + size - 1).ok_or(Malformed::CutOff)? != 0 {
                return Err(Malformed::NoVariable);
            }
            // Below 4 GiB: the block is at most 4 MiB long.
            let place = |offset: usize| u32::try_from(offset).unwrap_or(u32::MAX);
            self.records.push(Record { begin: place(at), zero: place(at + size - 1) });
            at += size;
        }
    }

    /// Variables of a block as it stands on the stream, for tests and fuzzing.
    ///
    /// # Errors
    /// If the block is malformed.
    pub fn parse(block: &[u8]) -> Result<Self, Malformed> {
        let mut variables = Self { bytes: block.to_vec(), records: Vec::new() };
        variables.split(0, block.len())?;
        Ok(variables)
    }

    fn text(&self, record: Record) -> &[u8] {
        &self.bytes[record.begin as usize..record.zero as usize]
    }

    /// Names and values, in their order; what has no `=` is left out.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.records.iter().filter_map(|&record| {
            let text = self.text(record);
            let equals = text.iter().position(|&byte| byte == b'=')?;
            Some((&text[..equals], &text[equals + 1..]))
        })
    }

    /// The value of a variable. A name is not empty and has no `=`.
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.find(name).map(|place| &self.bytes[place.begin as usize..place.zero as usize])
    }

    /// Where the value of a variable stands.
    fn find(&self, name: &[u8]) -> Option<Record> {
        let is_it = |record: &&Record| {
            let (begin, equals) = (record.begin as usize, record.begin as usize + name.len());
            equals < record.zero as usize && self.bytes[equals] == b'=' && self.bytes[begin..equals] == *name
        };
        let record = self.records.iter().find(is_it)?;
        let skipped = u32::try_from(name.len() + 1).ok()?;
        Some(Record { begin: record.begin + skipped, zero: record.zero })
    }

    /// The value of a variable as a text of C, which ends with a zero byte.
    pub(crate) fn c_text(&mut self, name: &[u8]) -> Option<*mut std::ffi::c_char> {
        let place = self.find(name)?;
        Some(self.bytes[place.begin as usize..=place.zero as usize].as_mut_ptr().cast())
    }
}

/// The stream, and what was read beyond a request.
#[derive(Debug)]
pub(crate) struct RequestStream {
    from: RawFd,
    ahead: Vec<u8>,
}

impl RequestStream {
    pub(crate) fn new(from: RawFd) -> Self {
        Self { from, ahead: Vec::new() }
    }

    /// Waits for the next request. Returns false at the end of the stream, or if `is_ending` says so when a signal
    /// interrupts the wait.
    pub(crate) fn next(&mut self, to: &mut Variables, is_ending: impl Fn() -> bool) -> Result<bool, StreamError> {
        to.records.clear();
        let mut filled = self.ahead.len();
        if to.bytes.len() < ROOM_BYTES.max(filled) {
            to.bytes.resize(ROOM_BYTES.max(filled), 0);
        }
        to.bytes[..filled].copy_from_slice(&self.ahead);
        self.ahead.clear();
        loop {
            if let Head::Line { line, block } = head(&to.bytes[..filled])? {
                let whole = line + block;
                if filled >= whole {
                    self.ahead.extend_from_slice(&to.bytes[whole..filled]);
                    to.split(line, block)?;
                    return Ok(true);
                }
                if to.bytes.len() < whole {
                    to.bytes.resize(whole, 0);
                }
            }
            match read(self.from, &mut to.bytes[filled..]) {
                Ok(0) if filled == 0 => return Ok(false),
                Ok(0) => return Err(Malformed::CutOff.into()),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    if is_ending() {
                        return Ok(false);
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn block(variables: &[(String, String)]) -> Vec<u8> {
        let mut block = Vec::new();
        for (name, value) in variables {
            let length = u16::try_from(name.len() + value.len() + 2).expect("a short one");
            block.extend_from_slice(&length.to_ne_bytes());
            block.extend_from_slice(format!("{name}={value}\0").as_bytes());
        }
        block.extend_from_slice(&[0, 0]);
        block
    }

    #[test]
    fn the_line_is_read_or_refused() {
        assert_eq!(head(b""), Ok(Head::Incomplete));
        assert_eq!(head(b"!!12"), Ok(Head::Incomplete));
        assert_eq!(head(b"!!12\nxx"), Ok(Head::Line { line: 5, block: 12 }));
        for wrong in ["!\n", "!!\n", "!!x\n", "GET", "!!-1\n", "!!1111111111111111111"] {
            assert_eq!(head(wrong.as_bytes()), Err(Malformed::NoLine), "{wrong}");
        }
        assert_eq!(head(b"!!4194305\n"), Err(Malformed::TooLong));
    }

    #[test]
    fn damaged_variables_are_refused() {
        for (wrong, why) in [
            (&b""[..], Malformed::CutOff),
            (b"\x04\x00A=b", Malformed::CutOff),
            (b"\x04\x00A=b\0", Malformed::CutOff),
            (b"\x04\x00A=bc\0\0", Malformed::NoVariable),
        ] {
            assert_eq!(Variables::parse(wrong).err(), Some(why), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(variables in prop::collection::vec(("[A-Z_]{1,12}", "[^\0]{0,40}"), 0..20)) {
            let parsed = Variables::parse(&block(&variables)).expect("a good block");
            let read: Vec<_> = parsed
                .iter()
                .map(|(name, value)| {
                    (String::from_utf8_lossy(name).into_owned(), String::from_utf8_lossy(value).into_owned())
                })
                .collect();
            prop_assert_eq!(read, variables);
        }

        #[test]
        fn any_bytes_are_borne(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = head(&bytes);
            if let Ok(variables) = Variables::parse(&bytes) {
                for (name, _) in variables.iter() {
                    prop_assert!(!name.contains(&b'=') && variables.get(name).is_some());
                }
            }
        }
    }
}
