//! Numbers and texts in blocks of fields, as HPACK and QPACK have them (RFC 7541 5, RFC 9204 4.1).

use crate::heads::huffman;

/// What breaks a block of fields, in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotABlock(pub(crate) &'static str);

const CUT_NUMBER: NotABlock = NotABlock("a number that is cut off");
const CUT_TEXT: NotABlock = NotABlock("a text that is cut off");

/// Takes the number in the low `bits` of a byte and in those behind it (RFC 7541 5.1).
pub(crate) fn take_number(rest: &mut &[u8], bits: u32) -> Result<u64, NotABlock> {
    let full = (1u64 << bits) - 1;
    let first = u64::from(*rest.split_off_first().ok_or(CUT_NUMBER)?) & full;
    if first < full {
        return Ok(first);
    }
    let mut number = first;
    // Four more bytes reach further than any length or number that is allowed.
    for shift in [0, 7, 14, 21] {
        let byte = *rest.split_off_first().ok_or(CUT_NUMBER)?;
        number += u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(NotABlock("a number that is too large"))
}

/// Appends a number in the low `bits` of a byte whose others are `high`, and in those behind it.
pub(crate) fn put_number(out: &mut Vec<u8>, high: u8, bits: u32, number: usize) {
    let full = (1usize << bits) - 1;
    if number < full {
        out.push(high | number as u8);
        return;
    }
    out.push(high | full as u8);
    let mut rest = number - full;
    while rest >= 0x80 {
        out.push(0x80 | (rest & 0x7f) as u8);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Takes a text whose length has so many bits, behind one that says whether it is in the string code (RFC 7541 5.2).
pub(crate) fn take_text(rest: &mut &[u8], bits: u32, text: &mut Vec<u8>) -> Result<(), NotABlock> {
    let is_coded = rest.first().ok_or(CUT_TEXT)? >> bits & 1 != 0;
    let length = usize::try_from(take_number(rest, bits)?).map_err(|_| CUT_TEXT)?;
    let bytes = rest.split_off(..length).ok_or(CUT_TEXT)?;
    if is_coded {
        return huffman::decode(bytes, text).ok_or(NotABlock("a text whose code cannot be read"));
    }
    text.extend_from_slice(bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_example_of_the_rfc_is_read() {
        // RFC 7541 C.1.2: the number 1337 after a prefix of five bits.
        assert_eq!(take_number(&mut &b"\x1f\x9a\x0a"[..], 5), Ok(1337));
    }

    proptest! {
        #[test]
        fn any_number_comes_back(number in 0usize..1 << 27, bits in 3u32..8) {
            let mut bytes = Vec::new();
            put_number(&mut bytes, 0, bits, number);
            let mut rest = bytes.as_slice();
            prop_assert_eq!(take_number(&mut rest, bits), Ok(number as u64));
            prop_assert!(rest.is_empty());
        }
    }
}
