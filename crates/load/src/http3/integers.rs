//! The two forms of numbers: QUIC's (RFC 9000 16) in frames, that of a prefix (RFC 7541 5.1) in blocks of fields.

use crate::http3::malformed::Malformed;

/// The largest number of QUIC's form.
pub(crate) const NUMBER_MAX: u64 = (1 << 62) - 1;

/// Takes a number off the front; `None` if it is cut off, and then nothing is taken.
pub(crate) fn take_number(rest: &mut &[u8]) -> Option<u64> {
    let first = *rest.first()?;
    let length = 1 << (first >> 6);
    let bytes = rest.get(..length)?;
    let number = bytes[1..].iter().fold(u64::from(first & 0x3f), |number, byte| number << 8 | u64::from(*byte));
    *rest = &rest[length..];
    Some(number)
}

/// Appends a number, at most [`NUMBER_MAX`], in its shortest form.
pub(crate) fn put_number(out: &mut Vec<u8>, number: u64) {
    match number {
        0..0x40 => out.push(number as u8),
        0x40..0x4000 => out.extend_from_slice(&(number as u16 | 0x4000).to_be_bytes()),
        0x4000..0x4000_0000 => out.extend_from_slice(&(number as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&(number.min(NUMBER_MAX) | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

/// Takes the number in the low `bits` of a byte and in those behind it.
pub(crate) fn take_prefixed(rest: &mut &[u8], bits: u32) -> Result<u64, Malformed> {
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

/// Appends a number in the low `bits` of a byte whose others are `high`, and in those behind it.
pub(crate) fn put_prefixed(out: &mut Vec<u8>, high: u8, bits: u32, number: usize) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_examples_of_the_rfc_are_read() {
        // RFC 9000 A.1.
        for (bytes, number) in [
            (&b"\xc2\x19\x7c\x5e\xff\x14\xe8\x8c"[..], 151_288_809_941_952_652),
            (b"\x9d\x7f\x3e\x7d", 494_878_333),
            (b"\x7b\xbd", 15_293),
            (b"\x25", 37),
            (b"\x40\x25", 37),
        ] {
            assert_eq!(take_number(&mut &*bytes), Some(number));
        }
        assert_eq!(take_number(&mut &b"\x7b"[..]), None);
    }

    proptest! {
        #[test]
        fn any_number_comes_back(number in 0..=NUMBER_MAX, small in 0usize..1 << 27, bits in 3u32..8) {
            let mut bytes = Vec::new();
            put_number(&mut bytes, number);
            let mut rest = bytes.as_slice();
            prop_assert_eq!((take_number(&mut rest), rest.len()), (Some(number), 0));
            bytes.clear();
            put_prefixed(&mut bytes, 0, bits, small);
            let mut rest = bytes.as_slice();
            prop_assert_eq!(take_prefixed(&mut rest, bits), Ok(small as u64));
            prop_assert!(rest.is_empty());
        }
    }
}
