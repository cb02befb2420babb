//! Protocol Buffers, as much as OTLP needs: messages written into one buffer, and read without copying.

/// Writes the fields of a message, and of messages in it.
#[derive(Debug, Default, Clone)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

/// How a field's content is laid out.
const VARINT: u8 = 0;
const FIXED64: u8 = 1;
const BYTES: u8 = 2;
const FIXED32: u8 = 5;

impl Writer {
    /// What was written.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The buffer itself.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// How many bytes were written.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// A number that is not negative, or an enumeration; 0 is what stands for a field that is not there.
    pub(crate) fn unsigned(&mut self, field: u32, number: u64) {
        if number != 0 {
            self.tag(field, VARINT);
            self.varint(number);
        }
    }

    /// A number of a `oneof`, where 0 is a value.
    pub(crate) fn int(&mut self, field: u32, number: i64) {
        self.tag(field, VARINT);
        self.varint(number as u64);
    }

    /// A boolean of a `oneof`.
    pub(crate) fn bool(&mut self, field: u32, truth: bool) {
        self.tag(field, VARINT);
        self.varint(u64::from(truth));
    }

    /// Eight bytes.
    pub(crate) fn fixed64(&mut self, field: u32, number: u64) {
        self.tag(field, FIXED64);
        self.bytes.extend_from_slice(&number.to_le_bytes());
    }

    /// Four bytes.
    pub(crate) fn fixed32(&mut self, field: u32, number: u32) {
        self.tag(field, FIXED32);
        self.bytes.extend_from_slice(&number.to_le_bytes());
    }

    /// A floating-point number.
    pub(crate) fn double(&mut self, field: u32, number: f64) {
        self.fixed64(field, number.to_bits());
    }

    /// Bytes; an empty string is what stands for a field that is not there.
    pub(crate) fn content(&mut self, field: u32, content: &[u8]) {
        if !content.is_empty() {
            self.whole(field, content);
        }
    }

    /// Bytes of a `oneof` or of a message that was written before, where nothing is a value.
    pub(crate) fn whole(&mut self, field: u32, content: &[u8]) {
        self.tag(field, BYTES);
        self.varint(content.len() as u64);
        self.bytes.extend_from_slice(content);
    }

    /// A text.
    pub(crate) fn text(&mut self, field: u32, text: &str) {
        self.content(field, text.as_bytes());
    }

    /// A message within this one.
    pub(crate) fn message(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        self.tag(field, BYTES);
        let at = self.bytes.len();
        // Most are shorter than 128 bytes, whose length takes one byte; what is longer is moved up.
        self.bytes.push(0);
        write(self);
        let mut length = self.bytes.len() - at - 1;
        let mut place = at;
        while length >= 0x80 {
            self.bytes[place] = length as u8 | 0x80;
            length >>= 7;
            place += 1;
            self.bytes.insert(place, 0);
        }
        self.bytes[place] = length as u8;
    }

    /// Fields that were written before.
    pub(crate) fn append(&mut self, fields: &[u8]) {
        self.bytes.extend_from_slice(fields);
    }

    /// Numbers of eight bytes in a row.
    pub(crate) fn packed(&mut self, field: u32, numbers: impl ExactSizeIterator<Item = u64>) {
        self.tag(field, BYTES);
        self.varint(numbers.len() as u64 * 8);
        for number in numbers {
            self.bytes.extend_from_slice(&number.to_le_bytes());
        }
    }

    fn tag(&mut self, field: u32, layout: u8) {
        self.varint(u64::from(field) << 3 | u64::from(layout));
    }

    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }
}

/// A field's content as it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content<'a> {
    /// A number of variable length.
    Varint(u64),
    /// Eight bytes.
    Fixed64(u64),
    /// Bytes, a text or a message.
    Bytes(&'a [u8]),
    /// Four bytes.
    Fixed32(u32),
}

/// The fields of a message in their order; it ends where the bytes do, or where they make no sense.
///
/// Public for the fuzz target.
pub fn fields(mut rest: &[u8]) -> impl Iterator<Item = (u32, Content<'_>)> {
    std::iter::from_fn(move || {
        let tag = varint(&mut rest)?;
        let field = u32::try_from(tag >> 3).ok().filter(|field| *field != 0)?;
        let content = match (tag & 7) as u8 {
            VARINT => Content::Varint(varint(&mut rest)?),
            FIXED64 => Content::Fixed64(u64::from_le_bytes(*taken(&mut rest, 8)?.first_chunk()?)),
            BYTES => {
                let length = usize::try_from(varint(&mut rest)?).ok()?;
                Content::Bytes(taken(&mut rest, length)?)
            }
            FIXED32 => Content::Fixed32(u32::from_le_bytes(*taken(&mut rest, 4)?.first_chunk()?)),
            _ => return None,
        };
        Some((field, content))
    })
}

fn taken<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(taken)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn it_is_as_the_specification_writes_it() {
        // The examples of protobuf.dev/programming-guides/encoding: 150, "testing", and 150 within a message.
        let mut writer = Writer::default();
        writer.unsigned(1, 150);
        writer.text(2, "testing");
        writer.message(3, |inner| inner.unsigned(1, 150));
        let bytes = [8, 0x96, 1, 0x12, 7, b't', b'e', b's', b't', b'i', b'n', b'g', 0x1a, 3, 8, 0x96, 1];
        assert_eq!(writer.bytes(), bytes);
    }

    proptest! {
        #[test]
        fn what_is_written_comes_back(number in 1u64.., text in ".{0,400}", deep in 0usize..4, fixed: u64) {
            fn nest(writer: &mut Writer, deep: usize, text: &str) {
                match deep {
                    0 => writer.whole(7, text.as_bytes()),
                    _ => writer.message(7, |inner| nest(inner, deep - 1, text)),
                }
            }
            let mut writer = Writer::default();
            writer.unsigned(3, number);
            nest(&mut writer, deep, &text);
            writer.fixed64(5, fixed);
            writer.fixed32(6, fixed as u32);
            writer.packed(8, [fixed, number].into_iter());
            let read: Vec<_> = fields(writer.bytes()).collect();
            prop_assert_eq!(read[0], (3, Content::Varint(number)));
            let mut inner = read[1].1;
            for _ in 0..deep {
                let Content::Bytes(bytes) = inner else { panic!("a message") };
                inner = fields(bytes).next().expect("a field").1;
            }
            prop_assert_eq!(inner, Content::Bytes(text.as_bytes()));
            prop_assert_eq!(&read[2..4], &[(5, Content::Fixed64(fixed)), (6, Content::Fixed32(fixed as u32))]);
            let packed: Vec<u8> = [fixed, number].iter().flat_map(|number| number.to_le_bytes()).collect();
            prop_assert_eq!(read[4], (8, Content::Bytes(&packed)));
        }

        #[test]
        fn no_bytes_break_it(bytes: Vec<u8>) {
            prop_assert!(fields(&bytes).count() <= bytes.len());
        }
    }
}
