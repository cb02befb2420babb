//! QUIC's form of numbers (RFC 9000 16), which frames have.

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
        fn any_number_comes_back(number in 0..=NUMBER_MAX) {
            let mut bytes = Vec::new();
            put_number(&mut bytes, number);
            let mut rest = bytes.as_slice();
            prop_assert_eq!((take_number(&mut rest), rest.len()), (Some(number), 0));
        }
    }
}
