//! Header compression (RFC 7541) as an observer reads it: each direction of a connection has a table, which its blocks
//! fill in their order.

use super::huffman;
use std::collections::VecDeque;

static STATIC: [(&[u8], &[u8]); 61] = weir_wire::header_tables::STATIC_FIELDS;

/// Bytes of the dynamic table before it is resized.
const TABLE_BYTES: usize = 4096;
/// The largest table that is followed, bytes; browsers ask for 64 KiB.
const TABLE_BYTES_MAX: usize = 1 << 17;
/// What an entry counts beside its text, bytes.
const ENTRY_BYTES: usize = 32;
/// The longest text of one field, bytes.
const TEXT_BYTES_MAX: usize = 1 << 16;

/// A block that cannot be read: from there on the table is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unreadable;

/// A field's name and value.
type Field = (Box<[u8]>, Box<[u8]>);

/// Reads the blocks of one direction.
#[derive(Debug)]
pub struct Decoder {
    /// The newest first.
    entries: VecDeque<Field>,
    bytes: usize,
    bytes_max: usize,
}

impl Default for Decoder {
    fn default() -> Self {
        Self { entries: VecDeque::new(), bytes: 0, bytes_max: TABLE_BYTES }
    }
}

impl Decoder {
    /// Reads a whole block; gives each field, name and value, in their order.
    ///
    /// # Errors
    /// [`Unreadable`]; the decoder is of no use then.
    pub fn decode(&mut self, block: &[u8], take: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Unreadable> {
        let mut rest = block;
        while let Some(first) = rest.first().copied() {
            if first & 0x80 != 0 {
                let (name, value) = self.entry(integer(&mut rest, 7)?)?;
                take(name, value);
            } else if first & 0xe0 == 0x20 {
                let bytes_max = integer(&mut rest, 5)?;
                if bytes_max > TABLE_BYTES_MAX {
                    return Err(Unreadable);
                }
                self.bytes_max = bytes_max;
                self.make_room(0);
            } else {
                let is_kept = first & 0x40 != 0;
                let name = match integer(&mut rest, if is_kept { 6 } else { 4 })? {
                    0 => string(&mut rest)?,
                    index => self.entry(index)?.0.to_vec(),
                };
                let value = string(&mut rest)?;
                take(&name, &value);
                if is_kept {
                    self.insert(name.into(), value.into());
                }
            }
        }
        Ok(())
    }

    /// Bytes that the table holds, as the standard counts them.
    #[must_use]
    pub fn held(&self) -> usize {
        self.bytes
    }

    fn entry(&self, index: usize) -> Result<(&[u8], &[u8]), Unreadable> {
        if let Some((name, value)) = STATIC.get(index.wrapping_sub(1)) {
            return Ok((name, value));
        }
        let place = index.checked_sub(STATIC.len() + 1).ok_or(Unreadable)?;
        self.entries.get(place).map(|(name, value)| (&**name, &**value)).ok_or(Unreadable)
    }

    fn insert(&mut self, name: Box<[u8]>, value: Box<[u8]>) {
        let bytes = name.len() + value.len() + ENTRY_BYTES;
        self.make_room(bytes);
        if bytes <= self.bytes_max {
            self.bytes += bytes;
            self.entries.push_front((name, value));
        }
    }

    fn make_room(&mut self, bytes: usize) {
        while self.bytes + bytes > self.bytes_max {
            let Some((name, value)) = self.entries.pop_back() else { return };
            self.bytes -= name.len() + value.len() + ENTRY_BYTES;
        }
    }
}

/// A number whose first byte gives so many bits (5.1).
fn integer(rest: &mut &[u8], bits: u32) -> Result<usize, Unreadable> {
    let full = (1_usize << bits) - 1;
    let mut number = usize::from(*rest.split_off_first().ok_or(Unreadable)?) & full;
    if number < full {
        return Ok(number);
    }
    for shift in [0, 7, 14, 21] {
        let byte = *rest.split_off_first().ok_or(Unreadable)?;
        number += usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(Unreadable)
}

/// A text, plain or coded (5.2).
fn string(rest: &mut &[u8]) -> Result<Vec<u8>, Unreadable> {
    let is_coded = rest.first().is_some_and(|byte| byte & 0x80 != 0);
    let length = integer(rest, 7)?;
    let bytes = rest.split_off(..length).filter(|bytes| bytes.len() <= TEXT_BYTES_MAX).ok_or(Unreadable)?;
    if !is_coded {
        return Ok(bytes.to_vec());
    }
    let mut text = Vec::with_capacity(2 * bytes.len());
    huffman::decode(bytes, &mut text).ok_or(Unreadable)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<String>, Unreadable> {
        let mut found = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        decoder.decode(block, &mut |name, value| found.push(format!("{}={}", text(name), text(value))))?;
        Ok(found)
    }

    /// RFC 7541 C.4: three requests on one connection, in the string code.
    #[test]
    fn the_table_is_filled_as_the_rfc_shows() {
        let mut decoder = Decoder::default();
        let first = b"\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff";
        let expected = [":method=GET", ":scheme=http", ":path=/", ":authority=www.example.com"];
        assert_eq!(read(&mut decoder, first).expect("a block"), expected);
        let second = b"\x82\x86\x84\xbe\x58\x86\xa8\xeb\x10\x64\x9c\xbf";
        assert_eq!(
            read(&mut decoder, second).expect("a block")[3..],
            [":authority=www.example.com", "cache-control=no-cache"]
        );
        let third = b"\x82\x87\x85\xbf\x40\x88\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f\x89\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf";
        let found = read(&mut decoder, third).expect("a block");
        assert_eq!(found[3..], [":authority=www.example.com", "custom-key=custom-value"]);
        assert_eq!(decoder.held(), 164);
        // A table of no bytes forgets all.
        assert!(read(&mut decoder, b"\x20\x82").is_ok() && decoder.held() == 0);
        assert_eq!(read(&mut decoder, b"\xbe"), Err(Unreadable));
    }

    #[test]
    fn what_is_cut_or_not_there_is_unreadable() {
        for block in
            [&b"\x80"[..], b"\xbe", b"\x40\x05ab", b"\x7f\xff\xff\xff\xff\x7f", b"\x3f\xe1\xff\x7f", b"\x41\x81\x00"]
        {
            assert_eq!(read(&mut Decoder::default(), block), Err(Unreadable), "{block:02x?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(blocks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..8)) {
            let mut decoder = Decoder::default();
            for block in blocks {
                let _ = read(&mut decoder, &block);
                prop_assert!(decoder.held() <= decoder.bytes_max);
            }
        }

        /// Literal fields, as an encoder without a table writes them.
        #[test]
        fn fields_come_back(fields in proptest::collection::vec(("[a-z-]{1,20}", "[ -~]{0,90}"), 0..10), kept: bool) {
            let mut block = Vec::new();
            for (name, value) in &fields {
                block.push(if kept { 0x40 } else { 0 });
                for text in [name, value] {
                    block.push(text.len() as u8);
                    block.extend_from_slice(text.as_bytes());
                }
            }
            let expected: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
            prop_assert_eq!(read(&mut Decoder::default(), &block), Ok(expected));
        }
    }
}
