//! Header compression (RFC 7541): the decoder with its table. What is sent needs none, see `encode.rs`.

use super::huffman;
use crate::http::fields::{Bounds, ENTRY_BYTES, Fields, Unreadable};
use std::collections::VecDeque;

/// Bytes of the dynamic table: the default of SETTINGS_HEADER_TABLE_SIZE.
pub(crate) const TABLE_BYTES_MAX: usize = 4096;

/// The static table, as a value of this crate: the compiler knows what it holds.
pub(crate) static STATIC: [(&[u8], &[u8]); 61] = weir_wire::header_tables::STATIC_FIELDS;

/// Reads the blocks of one connection.
#[derive(Debug)]
pub(crate) struct Decoder {
    /// The newest first: text, and where in it the value begins.
    entries: VecDeque<(Box<[u8]>, usize)>,
    bytes: usize,
    bytes_max: usize,
}

impl Default for Decoder {
    fn default() -> Self {
        Self { entries: VecDeque::new(), bytes: 0, bytes_max: TABLE_BYTES_MAX }
    }
}

impl Decoder {
    /// A decoder with the table of another one: its bound in bytes, and its entries as [`Decoder::table`] gives them. What
    /// is beyond the bound is left away.
    pub(crate) fn of_table(bytes_max: usize, entries: impl IntoIterator<Item = (Vec<u8>, usize)>) -> Self {
        let mut decoder = Self { bytes_max: bytes_max.min(TABLE_BYTES_MAX), ..Self::default() };
        for (text, value_at) in entries {
            decoder.bytes += text.len() + ENTRY_BYTES;
            let value_at = value_at.min(text.len());
            decoder.entries.push_back((text.into(), value_at));
        }
        decoder.evict(0);
        decoder
    }

    /// The bound in bytes, and the entries, the newest first: name and value in one, and where the value begins.
    pub(crate) fn table(&self) -> (usize, impl ExactSizeIterator<Item = (&[u8], usize)>) {
        (self.bytes_max, self.entries.iter().map(|(text, value_at)| (&**text, *value_at)))
    }

    /// Reads a whole block. What is beyond the bounds is read too, as the table needs it, and then forgotten.
    pub(crate) fn decode(&mut self, block: &[u8], bounds: Bounds, out: &mut Fields) -> Result<(), Unreadable> {
        out.clear();
        let mut input = Input(block);
        let mut size = 0;
        let mut may_resize = true;
        while let Some(&first) = input.0.first() {
            let start = out.bytes.len();
            let name_end;
            if first & 0x80 != 0 {
                let index = input.integer(7)?;
                let (name, value) = self.entry(index)?;
                if out.is_too_large {
                    continue;
                }
                out.bytes.extend_from_slice(name);
                name_end = out.bytes.len();
                out.bytes.extend_from_slice(value);
            } else if first & 0xe0 == 0x20 {
                // Only at a block's beginning may the table be resized (section 4.2).
                let bytes_max = input.integer(5)?;
                if !may_resize || bytes_max > TABLE_BYTES_MAX {
                    return Err(Unreadable);
                }
                self.bytes_max = bytes_max;
                self.evict(0);
                continue;
            } else {
                let is_kept = first & 0x40 != 0;
                match input.integer(if is_kept { 6 } else { 4 })? {
                    0 => input.string(7, &mut out.bytes)?,
                    index => out.bytes.extend_from_slice(self.entry(index)?.0),
                }
                name_end = out.bytes.len();
                input.string(7, &mut out.bytes)?;
                if is_kept {
                    self.insert(&out.bytes[start..], name_end - start);
                }
            }
            may_resize = false;
            out.keep((start, name_end), &mut size, bounds)?;
        }
        Ok(())
    }

    fn entry(&self, index: usize) -> Result<(&[u8], &[u8]), Unreadable> {
        if let Some(&(name, value)) = STATIC.get(index.wrapping_sub(1)) {
            return Ok((name, value));
        }
        let (text, value_at) =
            index.checked_sub(STATIC.len() + 1).and_then(|place| self.entries.get(place)).ok_or(Unreadable)?;
        Ok(text.split_at(*value_at))
    }

    fn insert(&mut self, text: &[u8], value_at: usize) {
        let bytes = text.len() + ENTRY_BYTES;
        self.evict(bytes);
        if bytes <= self.bytes_max {
            self.bytes += bytes;
            self.entries.push_front((text.into(), value_at));
        }
    }

    /// Makes room for an entry of this size.
    fn evict(&mut self, bytes: usize) {
        while self.bytes + bytes > self.bytes_max {
            let Some((text, _)) = self.entries.pop_back() else { return };
            self.bytes -= text.len() + ENTRY_BYTES;
        }
    }
}

/// What is left of a block.
pub(crate) struct Input<'b>(pub(crate) &'b [u8]);

impl Input<'_> {
    fn byte(&mut self) -> Result<u8, Unreadable> {
        let (&byte, rest) = self.0.split_first().ok_or(Unreadable)?;
        self.0 = rest;
        Ok(byte)
    }

    /// An integer whose first byte gives so many bits (section 5.1).
    pub(crate) fn integer(&mut self, prefix_bits: u32) -> Result<usize, Unreadable> {
        let mask = (1_usize << prefix_bits) - 1;
        let mut value = usize::from(self.byte()?) & mask;
        if value < mask {
            return Ok(value);
        }
        // Four more bytes say more than anything here may be.
        for shift in [0, 7, 14, 21] {
            let byte = self.byte()?;
            value += usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Unreadable)
    }

    /// A text whose length begins in so many bits; the one before them says whether it is coded (section 5.2).
    pub(crate) fn string(&mut self, prefix_bits: u32, out: &mut Vec<u8>) -> Result<(), Unreadable> {
        let is_coded = self.0.first().is_some_and(|byte| byte >> prefix_bits & 1 != 0);
        let len = self.integer(prefix_bits)?;
        let (text, rest) = self.0.split_at_checked(len).ok_or(Unreadable)?;
        self.0 = rest;
        if is_coded {
            huffman::decode(text, out).ok_or(Unreadable)
        } else {
            out.extend_from_slice(text);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOUNDS: Bounds = Bounds { bytes_max: 10_000, fields_max: 100 };

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> =
            text.bytes().filter_map(|byte| (byte as char).to_digit(16).map(|digit| digit as u8)).collect();
        digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
    }

    fn read(decoder: &mut Decoder, block: &str) -> String {
        let mut fields = Fields::default();
        decoder.decode(&hex(block), BOUNDS, &mut fields).expect("well-formed");
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("ASCII");
        fields.iter().map(|(name, value)| format!("{}: {}\n", text(name), text(value))).collect()
    }

    #[test]
    fn the_examples_of_the_standard_are_read() {
        // RFC 7541 appendix C.4: three requests with the string code.
        let mut decoder = Decoder::default();
        let first = ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\n";
        assert_eq!(read(&mut decoder, "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff"), first);
        assert_eq!(read(&mut decoder, "8286 84be 5886 a8eb 1064 9cbf"), format!("{first}cache-control: no-cache\n"));
        let third =
            ":method: GET\n:scheme: https\n:path: /index.html\n:authority: www.example.com\ncustom-key: custom-value\n";
        assert_eq!(read(&mut decoder, "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf"), third);
        assert_eq!(decoder.bytes, 164);
        // A table of no bytes forgets everything.
        assert_eq!(read(&mut decoder, "20 82"), ":method: GET\n");
        assert!(decoder.entries.is_empty() && decoder.bytes == 0);
    }

    #[test]
    fn what_is_not_well_formed_is_refused() {
        for block in ["80", "c0", "ff ff ff ff ff 0f", "82 20", "3f e2 1f", "40 05 61", "04 82 00", "be"] {
            let outcome = Decoder::default().decode(&hex(block), BOUNDS, &mut Fields::default());
            assert_eq!(outcome, Err(Unreadable), "{block}");
        }
    }

    #[test]
    fn what_is_too_large_is_read_past_and_the_table_stays_right() {
        let mut decoder = Decoder::default();
        let mut fields = Fields::default();
        let block = hex("40 01 61 01 62 40 01 63 01 64");
        decoder.decode(&block, Bounds { bytes_max: 40, fields_max: 9 }, &mut fields).expect("well-formed");
        assert!(fields.is_too_large && fields.iter().count() == 1);
        assert_eq!(read(&mut decoder, "be bf"), "c: d\na: b\n");
    }

    #[test]
    fn a_table_goes_on_in_another_decoder() {
        let mut decoder = Decoder::default();
        let first = read(&mut decoder, "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff 40 0161 0162");
        assert!(first.ends_with(":authority: www.example.com\na: b\n"), "{first}");
        let (bytes_max, entries) = decoder.table();
        let entries: Vec<_> = entries.map(|(text, value_at)| (text.to_vec(), value_at)).collect();
        let mut other = Decoder::of_table(bytes_max, entries.clone());
        assert_eq!(read(&mut other, "bebf"), "a: b\n:authority: www.example.com\n");
        assert_eq!((other.bytes, other.entries), (decoder.bytes, decoder.entries.clone()));
        // What is beyond a smaller bound is left away.
        assert!(Decoder::of_table(40, entries).table().1.eq([(&b"ab"[..], 1)]));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic_and_within_bounds(blocks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 1..5)) {
            let mut decoder = Decoder::default();
            let mut fields = Fields::default();
            for block in blocks {
                let outcome = decoder.decode(&block, Bounds { bytes_max: 300, fields_max: 5 }, &mut fields);
                let bytes: usize = decoder.entries.iter().map(|(text, _)| text.len() + ENTRY_BYTES).sum();
                prop_assert!(bytes == decoder.bytes && bytes <= TABLE_BYTES_MAX);
                prop_assert!(fields.iter().count() <= 5);
                if outcome.is_err() { break; }
            }
        }
    }
}
