//! The wire format of protobuf, read without a schema's code: <https://protobuf.dev/programming-guides/encoding/>.

/// A field of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field<'a> {
    /// A number of any length, or of 32 or 64 bits.
    Number(u64),
    /// A message, a text or packed numbers.
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    pub(crate) fn number(self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(number),
            Self::Bytes(_) => None,
        }
    }

    pub(crate) fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Self::Number(_) => None,
            Self::Bytes(bytes) => Some(bytes),
        }
    }

    pub(crate) fn text(self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }
}

/// The fields of a message, one after the other.
#[derive(Debug, Clone)]
pub(crate) struct Message<'a> {
    bytes: &'a [u8],
    /// Its bytes ended within a field, or are none of a message.
    pub(crate) is_cut: bool,
}

impl<'a> Message<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, is_cut: false }
    }

    fn varint(&mut self) -> Option<u64> {
        let (number, used) = varint(self.bytes)?;
        self.bytes = &self.bytes[used..];
        Some(number)
    }

    fn take(&mut self, count: u64) -> Option<&'a [u8]> {
        let count = usize::try_from(count).ok().filter(|count| *count <= self.bytes.len())?;
        let (taken, rest) = self.bytes.split_at(count);
        self.bytes = rest;
        Some(taken)
    }

    fn field(&mut self) -> Option<(u32, Field<'a>)> {
        let key = self.varint()?;
        let field = match key & 7 {
            0 => Field::Number(self.varint()?),
            1 => Field::Number(little_endian(self.take(8)?)),
            2 => {
                let count = self.varint()?;
                Field::Bytes(self.take(count)?)
            }
            5 => Field::Number(little_endian(self.take(4)?)),
            _ => return None,
        };
        Some(((key >> 3) as u32, field))
    }

    /// The next field of a message that may be cut at the end of what is there: what is there of it.
    pub(crate) fn next_within(&mut self) -> Option<(u32, Field<'a>)> {
        let before = self.bytes;
        let field = self.field();
        if field.is_some() || before.is_empty() {
            return field;
        }
        self.bytes = before;
        let key = self.varint()?;
        self.varint()?;
        (key & 7 == 2).then_some(((key >> 3) as u32, Field::Bytes(std::mem::take(&mut self.bytes))))
    }
}

impl<'a> Iterator for Message<'a> {
    type Item = (u32, Field<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.bytes.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            (self.bytes, self.is_cut) = (&[], true);
        }
        field
    }
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// A number of up to ten bytes at the begin, and how many it has.
pub(crate) fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut number = 0u64;
    for (index, byte) in bytes.iter().take(10).enumerate() {
        number |= u64::from(byte & 0x7f).checked_shl(7 * index as u32).unwrap_or(0);
        if byte & 0x80 == 0 {
            return Some((number, index + 1));
        }
    }
    None
}

/// Packed numbers.
pub(crate) fn packed(mut bytes: &[u8]) -> impl Iterator<Item = u64> {
    std::iter::from_fn(move || {
        let (number, used) = varint(bytes)?;
        bytes = &bytes[used..];
        Some(number)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_of_each_sort_are_read() {
        let bytes = [0x08, 0x96, 0x01, 0x12, 2, b'o', b'k', 0x1d, 1, 0, 0, 0, 0x21, 2, 0, 0, 0, 0, 0, 0, 0];
        let fields: Vec<_> = Message::new(&bytes).collect();
        let expected =
            [(1, Field::Number(150)), (2, Field::Bytes(b"ok")), (3, Field::Number(1)), (4, Field::Number(2))];
        assert_eq!(fields, expected);
        let mut cut = Message::new(&bytes[..6]);
        assert_eq!((cut.by_ref().count(), cut.is_cut), (1, true));
    }

    proptest! {
        #[test]
        fn any_bytes_end(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Message::new(&bytes).count() <= bytes.len());
            prop_assert!(packed(&bytes).count() <= bytes.len());
        }
    }
}
