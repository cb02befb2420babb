//! Header blocks of responses (RFC 7541), read as far as they decide anything: the status and the length of the content.
//!
//! The server is told to keep no table of headers, so a block means the same wherever it stands: it is decoded without
//! any state, and one that comes again byte for byte is not decoded again.

use super::Malformed;
use super::huffman;

/// The longest block that is read, in bytes, with all its continuations.
pub const BLOCK_BYTES_MAX: usize = 64 * 1024;
/// The longest block that is remembered, in bytes.
const REMEMBERED_BYTES_MAX: usize = 1024;
/// The names of the static table (RFC 7541 appendix A) by their numbers, which begin with 1.
const STATIC_NAMES: u64 = 61;
/// Which of them is `content-length`.
const CONTENT_LENGTH: u64 = 28;
/// The statuses that have a number of their own, from 8 on.
const STATUSES: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];

/// What a block says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Head {
    /// The status; 0 in a block of trailers, which has none.
    pub status: u16,
    /// The length of the content in bytes, if it is told.
    pub length: Option<u64>,
}

/// Reads blocks, and remembers the last.
#[derive(Debug, Default)]
pub struct Decoder {
    last: Option<Head>,
    last_bytes: Vec<u8>,
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Decoder {
    /// What a whole block says.
    ///
    /// # Errors
    /// [`Malformed`] where it breaks RFC 7541, or RFC 9113 8.2 and 8.3 for a response.
    #[inline]
    pub fn decode(&mut self, block: &[u8]) -> Result<Head, Malformed> {
        if let Some(head) = self.last
            && self.last_bytes == block
        {
            return Ok(head);
        }
        let head = self.read(block)?;
        if block.len() <= REMEMBERED_BYTES_MAX {
            self.last = Some(head);
            self.last_bytes.clear();
            self.last_bytes.extend_from_slice(block);
        }
        Ok(head)
    }

    fn read(&mut self, block: &[u8]) -> Result<Head, Malformed> {
        let mut rest = block;
        let (mut head, mut fields) = (Head::default(), 0);
        while let Some(first) = rest.first().copied() {
            match first {
                // An indexed field.
                0x80.. => self.indexed(integer(&mut rest, 7)?, &mut head, &mut fields)?,
                // A literal one, to be kept in the table, which holds nothing: so it is like the other literal ones.
                0x40.. => self.literal(&mut rest, 6, &mut head, &mut fields)?,
                0x20.. => {
                    if fields > 0 || integer(&mut rest, 5)? > 0 {
                        return Err(Malformed::compression("it wants a table of headers that we refused"));
                    }
                }
                _ => self.literal(&mut rest, 4, &mut head, &mut fields)?,
            }
        }
        Ok(head)
    }

    fn indexed(&mut self, index: u64, head: &mut Head, fields: &mut u32) -> Result<(), Malformed> {
        *fields += 1;
        match index {
            8..=14 => set_status(head, STATUSES[index as usize - 8], *fields),
            1..=7 => Err(Malformed::protocol("a response with a field of requests")),
            // Of the static table's other fields none has a value that decides anything: `content-length` has none there.
            15..=STATIC_NAMES => Ok(()),
            _ => Err(Malformed::compression("a field of a table that does not exist")),
        }
    }

    fn literal(&mut self, rest: &mut &[u8], bits: u32, head: &mut Head, fields: &mut u32) -> Result<(), Malformed> {
        let index = integer(rest, bits)?;
        self.name.clear();
        self.value.clear();
        if index == 0 {
            string(rest, &mut self.name)?;
        }
        string(rest, &mut self.value)?;
        *fields += 1;
        match index {
            0 => {
                if self.name.is_empty() || self.name.iter().any(u8::is_ascii_uppercase) {
                    return Err(Malformed::protocol("a field without a name, or with capitals in it"));
                }
                match self.name.as_slice() {
                    b":status" => set_status(head, status(&self.value)?, *fields),
                    b"content-length" => set_length(head, &self.value),
                    [b':', ..] => Err(Malformed::protocol("a response with a field of requests")),
                    _ => Ok(()),
                }
            }
            8..=14 => set_status(head, status(&self.value)?, *fields),
            1..=7 => Err(Malformed::protocol("a response with a field of requests")),
            CONTENT_LENGTH => set_length(head, &self.value),
            15..=STATIC_NAMES => Ok(()),
            _ => Err(Malformed::compression("a name of a table that does not exist")),
        }
    }
}

/// The status comes before everything else, and once.
fn set_status(head: &mut Head, status: u16, fields: u32) -> Result<(), Malformed> {
    if fields > 1 {
        return Err(Malformed::protocol("the status does not come first, or comes twice"));
    }
    head.status = status;
    Ok(())
}

fn status(digits: &[u8]) -> Result<u16, Malformed> {
    match decimal(digits) {
        Some(number @ 100..=999) if digits.len() == 3 => Ok(number as u16),
        _ => Err(Malformed::protocol("its status is not a number of three digits")),
    }
}

fn set_length(head: &mut Head, digits: &[u8]) -> Result<(), Malformed> {
    let length = decimal(digits).ok_or(Malformed::protocol("its length is not a number"))?;
    if head.length.replace(length).is_some_and(|other| other != length) {
        return Err(Malformed::protocol("it gives two lengths"));
    }
    Ok(())
}

/// A number of digits only, as RFC 9110 8.6 wants it.
fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// A number in the low `bits` of a byte and in those behind it (RFC 7541 5.1).
fn integer(rest: &mut &[u8], bits: u32) -> Result<u64, Malformed> {
    let cut = Malformed::compression("a number that is cut off");
    let full = (1u64 << bits) - 1;
    let first = u64::from(*rest.split_off_first().ok_or(cut)?) & full;
    if first < full {
        return Ok(first);
    }
    let mut number = first;
    // Four more bytes reach further than any length or number that is allowed.
    for shift in [0, 7, 14, 21] {
        let byte = *rest.split_off_first().ok_or(cut)?;
        number += u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(Malformed::compression("a number that is too large"))
}

/// A text, plain or in the string code (RFC 7541 5.2).
fn string(rest: &mut &[u8], text: &mut Vec<u8>) -> Result<(), Malformed> {
    let cut = Malformed::compression("a text that is cut off");
    let coded = rest.first().ok_or(cut)? & 0x80 != 0;
    let length = usize::try_from(integer(rest, 7)?).map_err(|_| cut)?;
    let bytes = rest.split_off(..length).ok_or(cut)?;
    if coded {
        return huffman::decode(bytes, text).ok_or(Malformed::compression("a text whose code cannot be read"));
    }
    text.extend_from_slice(bytes);
    Ok(())
}
