//! The wire format of Protocol Buffers, as far as it is written here: numbers, fixed ones, texts, messages.

/// A message that is put together.
#[derive(Debug, Default, Clone)]
pub(crate) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    fn key(&mut self, field: u32, wire_type: u64) {
        self.varint(u64::from(field) << 3 | wire_type);
    }

    /// A number of a field of type `uint64`, `int64`, `bool` or an enum.
    pub(crate) fn number(&mut self, field: u32, number: u64) -> &mut Self {
        self.key(field, 0);
        self.varint(number);
        self
    }

    /// A number of type `fixed64`.
    pub(crate) fn fixed(&mut self, field: u32, number: u64) -> &mut Self {
        self.key(field, 1);
        self.bytes.extend(number.to_le_bytes());
        self
    }

    /// A text.
    pub(crate) fn text(&mut self, field: u32, text: &str) -> &mut Self {
        self.block(field, text.as_bytes())
    }

    /// A message.
    pub(crate) fn message(&mut self, field: u32, message: &Self) -> &mut Self {
        self.block(field, &message.bytes)
    }

    /// Numbers as a packed field.
    pub(crate) fn packed(&mut self, field: u32, numbers: impl Iterator<Item = u64>) -> &mut Self {
        let mut packed = Self::new();
        numbers.for_each(|number| packed.varint(number));
        self.message(field, &packed)
    }

    fn block(&mut self, field: u32, bytes: &[u8]) -> &mut Self {
        self.key(field, 2);
        self.varint(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_encoding_guide() {
        // protobuf.dev/programming-guides/encoding: 150 in field 1, "testing" in field 2, a message in field 3, and 3,
        // 270, 86942 as a packed field.
        let mut first = Message::new();
        first.number(1, 150);
        assert_eq!(first.bytes(), [0x08, 0x96, 0x01]);
        let mut second = Message::new();
        second.text(2, "testing");
        assert_eq!(second.bytes(), [0x12, 0x07, 0x74, 0x65, 0x73, 0x74, 0x69, 0x6e, 0x67]);
        let mut third = Message::new();
        third.message(3, &first);
        assert_eq!(third.bytes(), [0x1a, 0x03, 0x08, 0x96, 0x01]);
        let mut packed = Message::new();
        packed.packed(6, [3, 270, 86_942].into_iter());
        assert_eq!(packed.bytes(), [0x32, 0x06, 0x03, 0x8e, 0x02, 0x9e, 0xa7, 0x05]);
        let mut fixed = Message::new();
        fixed.fixed(1, 1).number(2, u64::MAX);
        assert_eq!(fixed.bytes()[..9], [0x09, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(fixed.bytes()[9..], [0x10, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1]);
    }
}
