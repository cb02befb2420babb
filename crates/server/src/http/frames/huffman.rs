//! The string code of HPACK (RFC 7541 section 5.2 and appendix B), read only.

use weir_wire::header_tables::{CODE_BITS as LENGTHS, CODE_BITS_MAX as BITS_MAX, SYMBOLS};

/// Bits that the table of short codes looks at.
const SHORT_BITS: u32 = 9;

/// Everything that decoding looks up.
struct Tables {
    /// By the next `SHORT_BITS` bits: symbol and length; 0 = the code is longer.
    short: [(u8, u8); 1 << SHORT_BITS],
    /// By length: the first code, how many there are, and where their symbols begin.
    longer: [(u32, u32, u32); BITS_MAX + 1],
    symbols: [u16; SYMBOLS],
}

static TABLES: Tables = tables();

const fn tables() -> Tables {
    let mut tables =
        Tables { short: [(0, 0); 1 << SHORT_BITS], longer: [(0, 0, 0); BITS_MAX + 1], symbols: [0; SYMBOLS] };
    let (mut code, mut place, mut bits) = (0_u32, 0_u32, 1);
    while bits <= BITS_MAX {
        code <<= 1;
        let (first, start) = (code, place);
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if LENGTHS[symbol] as usize == bits {
                tables.symbols[place as usize] = symbol as u16;
                if bits <= SHORT_BITS as usize {
                    let unused = SHORT_BITS as usize - bits;
                    let mut filling = 0;
                    while filling < 1 << unused {
                        tables.short[(code << unused) as usize + filling] = (symbol as u8, bits as u8);
                        filling += 1;
                    }
                }
                code += 1;
                place += 1;
            }
            symbol += 1;
        }
        tables.longer[bits] = (first, code - first, start);
        bits += 1;
    }
    tables
}

/// Appends what `input` stands for; none if it is not well-formed.
pub(crate) fn decode(input: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut window = 0_u64;
    let mut held = 0_u32;
    let mut at = 0;
    loop {
        while held <= 56 && at < input.len() {
            window |= u64::from(input[at]) << (56 - held);
            held += 8;
            at += 1;
        }
        if held == 0 {
            return Some(());
        }
        // The highest bits are the next ones; the shift leaves as many as the table looks at.
        let (symbol, bits) = TABLES.short[(window >> (64 - SHORT_BITS)) as usize];
        let mut bits = u32::from(bits);
        if bits != 0 && bits <= held {
            out.push(symbol);
        } else {
            let long = longer(window, held);
            let Some((symbol, length)) = long else {
                // What is left fills the last byte up: fewer than eight bits, all of them ones.
                return (held < 8 && window.leading_ones() >= held).then_some(());
            };
            out.push(symbol);
            bits = length;
        }
        window <<= bits;
        held -= bits;
    }
}

/// The symbol of a code of any length, if `held` bits hold one that is no end.
fn longer(window: u64, held: u32) -> Option<(u8, u32)> {
    let bits_max = held.min(BITS_MAX as u32);
    (1..=bits_max).find_map(|bits| {
        let (first, count, start) = TABLES.longer[bits as usize];
        let code = (window >> (64 - bits)) as u32;
        let offset = code.checked_sub(first).filter(|&offset| offset < count)?;
        let symbol = TABLES.symbols[(start + offset) as usize];
        u8::try_from(symbol).ok().map(|symbol| (symbol, bits))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> =
            text.bytes().filter_map(|byte| (byte as char).to_digit(16).map(|digit| digit as u8)).collect();
        digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
    }

    #[test]
    fn the_examples_of_the_standard_are_read() {
        for (code, text) in [
            ("f1e3 c2e5 f23a 6ba0 ab90 f4ff", "www.example.com"),
            ("a8eb 1064 9cbf", "no-cache"),
            ("25a8 49e9 5ba9 7d7f", "custom-key"),
            ("6402", "302"),
            ("d07a be94 1054 d444 a820 0595 040b 8166 e082 a62d 1bff", "Mon, 21 Oct 2013 20:13:21 GMT"),
            (
                "94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
                "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
            ),
        ] {
            let mut out = Vec::new();
            assert_eq!(decode(&hex(code), &mut out), Some(()), "{text}");
            assert_eq!(String::from_utf8(out).expect("ASCII"), text);
        }
    }

    #[test]
    fn wrong_ends_are_refused() {
        for (code, is_well) in
            [("", true), ("ff", false), ("00", false), ("07", true), ("ffff ffff", false), ("ffff fffc", false)]
        {
            assert_eq!(decode(&hex(code), &mut Vec::new()).is_some(), is_well, "{code}");
        }
    }
}
