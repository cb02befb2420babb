//! The string code of HPACK (RFC 7541 appendix B), which QPACK has, too, read only: what we send is short enough as it is.

/// Bits of the longest code.
const LONGEST: usize = 30;
/// The symbol that ends nothing: its code only fills the last byte up.
const END: usize = 256;

/// The bits of each symbol's code; the codes follow from them, for they are the canonical ones: shorter codes first,
/// those of one length in the order of their symbols.
#[rustfmt::skip]
const LENGTHS: [u8; END + 1] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

/// The canonical code, by the length of its codes.
struct Code {
    /// The first code of each length.
    first: [u32; LONGEST + 1],
    /// How many codes have each length.
    count: [u32; LONGEST + 1],
    /// Where the symbols of each length begin in `symbols`.
    start: [u32; LONGEST + 1],
    symbols: [u16; END + 1],
}

const CODE: Code = code();

const fn code() -> Code {
    let mut code =
        Code { first: [0; LONGEST + 1], count: [0; LONGEST + 1], start: [0; LONGEST + 1], symbols: [0; END + 1] };
    let (mut next, mut place, mut length) = (0u32, 0usize, 1usize);
    while length <= LONGEST {
        next <<= 1;
        code.first[length] = next;
        code.start[length] = place as u32;
        let mut symbol = 0;
        while symbol <= END {
            if LENGTHS[symbol] as usize == length {
                code.symbols[place] = symbol as u16;
                place += 1;
                next += 1;
            }
            symbol += 1;
        }
        code.count[length] = place as u32 - code.start[length];
        length += 1;
    }
    code
}

/// Appends what `bytes` stand for to `text`; `None` if they are no such code, or are filled up wrongly.
pub(crate) fn decode(bytes: &[u8], text: &mut Vec<u8>) -> Option<()> {
    let (mut code, mut length) = (0u32, 0usize);
    for byte in bytes {
        for bit in (0..8).rev() {
            code = code << 1 | u32::from(byte >> bit & 1);
            length += 1;
            let above = code.wrapping_sub(CODE.first[length]);
            if above < CODE.count[length] {
                let symbol = CODE.symbols[(CODE.start[length] + above) as usize];
                // The end's symbol is none that may be sent.
                text.push(u8::try_from(symbol).ok()?);
                (code, length) = (0, 0);
            } else if length == LONGEST {
                return None;
            }
        }
    }
    // Less than a byte remains, all ones.
    (length < 8 && code == (1 << length) - 1).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Each symbol's code, as the appendix prints them for these; by it the others follow.
    fn code_of(symbol: usize) -> (u32, u8) {
        let length = LENGTHS[symbol];
        let before = (0..symbol).filter(|other| LENGTHS[*other] == length).count() as u32;
        (CODE.first[usize::from(length)] + before, length)
    }

    fn encode(text: &[u8]) -> Vec<u8> {
        let (mut bytes, mut bits, mut held) = (Vec::new(), 0u64, 0u32);
        for symbol in text {
            let (code, length) = code_of(usize::from(*symbol));
            (bits, held) = (bits << length | u64::from(code), held + u32::from(length));
            while held >= 8 {
                held -= 8;
                bytes.push((bits >> held) as u8);
            }
        }
        if held > 0 {
            bytes.push((bits << (8 - held)) as u8 | 0xff >> held);
        }
        bytes
    }

    fn decoded(bytes: &[u8]) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        decode(bytes, &mut text).map(|()| text)
    }

    #[test]
    fn codes_are_those_of_the_appendix() {
        for (symbol, code, length) in
            [(b'0', 0x0, 5), (b'a', 0x3, 5), (b' ', 0x14, 6), (b':', 0x5c, 7), (b'&', 0xf8, 8), (b'\\', 0x7fff0, 19)]
        {
            assert_eq!(code_of(usize::from(symbol)), (code, length), "{:?}", char::from(symbol));
        }
        assert_eq!(code_of(1), (0x007f_ffd8, 23));
        assert_eq!(code_of(249), (0x0fff_fffe, 28));
        assert_eq!(code_of(END), (0x3fff_ffff, 30));
    }

    #[test]
    fn the_examples_of_the_rfc_are_read() {
        for (bytes, text) in [
            (&b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff"[..], "www.example.com"),
            (b"\xa8\xeb\x10\x64\x9c\xbf", "no-cache"),
            (b"\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f", "custom-key"),
            (b"\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf", "custom-value"),
            (b"\xae\xc3\x77\x1a\x4b", "private"),
            (
                b"\xd0\x7a\xbe\x94\x10\x54\xd4\x44\xa8\x20\x05\x95\x04\x0b\x81\x66\xe0\x82\xa6\x2d\x1b\xff",
                "Mon, 21 Oct 2013 20:13:21 GMT",
            ),
        ] {
            assert_eq!(decoded(bytes).as_deref(), Some(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn wrong_endings_are_refused() {
        assert_eq!(decoded(&[]), Some(Vec::new()));
        // 'a' is 00011; its byte is filled up with ones and nothing else.
        assert_eq!(decoded(&[0b0001_1111]), Some(b"a".to_vec()));
        assert_eq!(decoded(&[0b0001_1000]), None);
        assert_eq!(decoded(&[0b0001_1111, 0xff]), None, "a whole byte of filling");
        assert_eq!(decoded(&[0xff; 4]), None, "the end's own code");
    }

    proptest! {
        #[test]
        fn any_text_comes_back(text in proptest::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(decoded(&encode(&text)), Some(text));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            if let Some(text) = decoded(&bytes) {
                prop_assert_eq!(encode(&text), bytes);
            }
        }
    }
}
