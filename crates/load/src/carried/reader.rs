//! Bytes that another host made, read from their beginning.

use crate::carried::CarriedError;

/// Bytes that another host made, as far as they are not read.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// How many bytes are left.
    pub(crate) fn left(&self) -> usize {
        self.rest.len()
    }

    /// A number of base 128 in its fewest bytes, at most `most`.
    pub(crate) fn number(&mut self, most: u64) -> Result<u64, CarriedError> {
        let mut number: u64 = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.rest.split_first().ok_or(CarriedError::Short)?;
            self.rest = rest;
            let digit = u64::from(byte & 0x7f);
            if digit << shift >> shift != digit || (byte == 0 && shift > 0) {
                return Err(CarriedError::Number);
            }
            number |= digit << shift;
            if byte & 0x80 == 0 {
                return if number <= most { Ok(number) } else { Err(CarriedError::Number) };
            }
        }
        Err(CarriedError::Number)
    }

    /// So many bytes.
    pub(crate) fn bytes(&mut self, length: usize) -> Result<&'a [u8], CarriedError> {
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(CarriedError::Short)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// All that is left.
    pub(crate) fn all(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// So many bytes as an array.
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], CarriedError> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(CarriedError::Short)?;
        self.rest = rest;
        Ok(*bytes)
    }

    /// That nothing is left.
    pub(crate) fn end(&self) -> Result<(), CarriedError> {
        if self.rest.is_empty() { Ok(()) } else { Err(CarriedError::Left { bytes: self.rest.len() }) }
    }
}
