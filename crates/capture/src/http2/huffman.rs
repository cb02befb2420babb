//! The string code of HPACK (RFC 7541 appendix B): a canonical code, given by the length of each symbol's code.

use weir_wire::header_tables::{CODE_BITS as LENGTHS, CODE_BITS_MAX as BITS_MAX, SYMBOLS};

/// By length: the first code, how many there are, and where their symbols begin in [`ORDER`].
static BY_LENGTH: [(u32, u32, u32); BITS_MAX + 1] = by_length();
/// The symbols in the order of their codes.
static ORDER: [u16; SYMBOLS] = order();

const fn by_length() -> [(u32, u32, u32); BITS_MAX + 1] {
    let mut found = [(0, 0, 0); BITS_MAX + 1];
    let (mut code, mut begin, mut bits) = (0_u32, 0_u32, 1);
    while bits <= BITS_MAX {
        code <<= 1;
        let (mut count, mut symbol) = (0, 0);
        while symbol < SYMBOLS {
            count += (LENGTHS[symbol] as usize == bits) as u32;
            symbol += 1;
        }
        found[bits] = (code, count, begin);
        code += count;
        begin += count;
        bits += 1;
    }
    found
}

const fn order() -> [u16; SYMBOLS] {
    let mut found = [0; SYMBOLS];
    let (mut place, mut bits) = (0, 1);
    while bits <= BITS_MAX {
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if LENGTHS[symbol] as usize == bits {
                found[place] = symbol as u16;
                place += 1;
            }
            symbol += 1;
        }
        bits += 1;
    }
    found
}

/// Appends what `input` stands for; none if it is not well-formed.
pub(super) fn decode(input: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (mut code, mut bits, mut ones) = (0_u32, 0_usize, true);
    for at in 0..8 * input.len() {
        let bit = u32::from(input[at / 8] >> (7 - at % 8) & 1);
        (code, bits, ones) = (code << 1 | bit, bits + 1, ones && bit == 1);
        if bits > BITS_MAX {
            return None;
        }
        let (first, count, begin) = BY_LENGTH[bits];
        if let Some(offset) = code.checked_sub(first).filter(|offset| *offset < count) {
            // The end's own code may not come.
            out.push(u8::try_from(ORDER[(begin + offset) as usize]).ok()?);
            (code, bits, ones) = (0, 0, true);
        }
    }
    // The last byte is filled up with ones.
    (bits < 8 && ones).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_rfc_are_read() {
        let read = |input: &[u8]| {
            let mut out = Vec::new();
            decode(input, &mut out).map(|()| String::from_utf8_lossy(&out).into_owned())
        };
        let www = [0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff];
        assert_eq!(read(&www).as_deref(), Some("www.example.com"));
        assert_eq!(read(&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf]).as_deref(), Some("no-cache"));
        assert_eq!(read(&[]).as_deref(), Some(""));
        // Filled with zeros, with more than seven ones, and the end's code.
        assert_eq!([read(&[0x00]), read(&[0xff]), read(&[0xff; 4])], [const { None }; 3]);
    }
}
