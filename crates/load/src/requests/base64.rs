//! Base64 (RFC 4648 4), as pins and proxies' credentials are written in.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The text of some bytes, padded.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let at = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place)) as usize & 63];
            text.push(if place > group.len() { '=' } else { char::from(digit) });
        }
    }
    text
}

/// The bytes of a padded text; `None` where it is none.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let given = text.as_bytes();
    let body = given.strip_suffix(b"==").or_else(|| given.strip_suffix(b"=")).unwrap_or(given);
    if !given.len().is_multiple_of(4) {
        return None;
    }
    let (mut bytes, mut bits, mut held) = (Vec::with_capacity(body.len() * 3 / 4), 0u32, 0);
    for byte in body {
        let digit = DIGITS.iter().position(|digit| digit == byte)?;
        // At most two digits' worth of bits is held, so nothing is shifted out that was not given away.
        (bits, held) = ((bits << 6 | digit as u32) & 0xfff, held + 6);
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    // What is left over must be nothing, or two texts would mean the same bytes.
    (bits & ((1 << held) - 1) == 0).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_examples_of_the_standard() {
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text).as_deref(), Some(bytes.as_bytes()));
        }
        for wrong in ["Z", "Zg", "Zg=", "Zh==", "Z===", "====", "Zm9v\n", "Zm9-"] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn bytes_come_back(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(decode(&encode(&bytes)), Some(bytes));
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,40}") {
            if let Some(bytes) = decode(&text) {
                prop_assert_eq!(encode(&bytes), text);
            }
        }
    }
}
