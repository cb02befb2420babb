//! Escapes of logs: what stands for a byte that a log does not hold as it is.

use std::borrow::Cow;

/// Which escapes a log has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Escapes {
    /// A backslash, as nginx (`\xHH`) and Apache (`\"`, `\\`, `\n`, `\t`, `\xhh`) write it.
    Backslash,
    /// `#HH`, as HAProxy writes it (configuration manual, 8.6).
    Hash,
    /// None, or they are undone, as those of JSON.
    None,
}

/// A target as it is asked for: each byte that an escape stands for, and each that a request line cannot hold, is `%HH`
/// (RFC 3986 2.1).
pub(crate) fn target(text: &str, escapes: Escapes) -> Cow<'_, str> {
    let stays = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b'#');
    if text.bytes().all(stays) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let (byte, after) = match (byte, escapes) {
            (b'\\', Escapes::Backslash) => backslash(after),
            (b'#', Escapes::Hash) => hex(after).unwrap_or((b'#', after)),
            _ => (byte, after),
        };
        rest = after;
        if stays(byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.extend([byte >> 4, byte & 15].map(|digit| char::from(b"0123456789ABCDEF"[usize::from(digit)])));
        }
    }
    Cow::Owned(out)
}

/// The byte for which a backslash and what follows it stand, and the rest.
fn backslash(after: &[u8]) -> (u8, &[u8]) {
    let Some((&letter, rest)) = after.split_first() else { return (b'\\', after) };
    match letter {
        b'x' => hex(rest).unwrap_or((b'\\', after)),
        b'"' | b'\\' => (letter, rest),
        b'n' => (b'\n', rest),
        b'r' => (b'\r', rest),
        b't' => (b'\t', rest),
        b'b' => (8, rest),
        b'v' => (11, rest),
        b'f' => (12, rest),
        _ => (b'\\', after),
    }
}

fn hex(text: &[u8]) -> Option<(u8, &[u8])> {
    let (digits, rest) = text.split_first_chunk::<2>()?;
    let digit = |byte: u8| char::from(byte).to_digit(16);
    Some(((digit(digits[0])? * 16 + digit(digits[1])?) as u8, rest))
}

/// A line that is no UTF-8, each byte that is none as `\xHH`.
pub(crate) fn with_escapes(line: &[u8]) -> String {
    line.utf8_chunks().fold(String::with_capacity(line.len() + 16), |mut out, chunk| {
        out.push_str(chunk.valid());
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02X}"));
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_escape_is_its_byte() {
        for (logged, asked) in [
            ("/a?b=c%20d&e=[f]{g}|^~", "/a?b=c%20d&e=[f]{g}|^~"),
            (r"/q?x=\x22a\x22", "/q?x=%22a%22"),
            (r"/caf\xC3\xA9.html", "/caf%C3%A9.html"),
            (r"/caf\xc3\xa9.html", "/caf%C3%A9.html"),
            ("/café", "/caf%C3%A9"),
            (r"/a\\b", "/a%5Cb"),
            (r"/a\x5Cb", "/a%5Cb"),
            (r#"/\"\t\n"#, "/%22%09%0A"),
            (r"/a\q\x2", "/a%5Cq%5Cx2"),
            (r"/a\", "/a%5C"),
            ("/a b", "/a%20b"),
            ("/a#b", "/a%23b"),
        ] {
            assert_eq!(target(logged, Escapes::Backslash), asked, "{logged}");
        }
        assert_eq!(target("/a#22#C3#A9#2", Escapes::Hash), "/a%22%C3%A9%232");
        assert_eq!(target(r"/a\x22", Escapes::None), "/a%5Cx22");
        assert_eq!(with_escapes(b"/caf\xe9 \xc3\xa9"), "/caf\\xE9 é");
    }

    proptest! {
        /// What nginx writes of any bytes, read again.
        #[test]
        fn nginx_escapes_are_undone(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let logged: String = bytes.iter().map(|&byte| match byte {
                b'"' | b'\\' | 0..32 | 127.. => format!("\\x{byte:02X}"),
                byte => char::from(byte).to_string(),
            }).collect();
            let asked = target(&logged, Escapes::Backslash);
            prop_assert!(asked.bytes().all(|byte| byte.is_ascii_graphic()));
            let mut back = Vec::new();
            let mut rest = asked.as_bytes();
            while let Some((&byte, after)) = rest.split_first() {
                // A percent sign that was asked for stays as it is.
                let coded = (byte == b'%').then(|| hex(after)).flatten();
                let is_coded = coded.is_some_and(|(code, _)| !code.is_ascii_graphic() || b"\"\\#".contains(&code));
                let (byte, after) = if is_coded { coded.expect("it is") } else { (byte, after) };
                back.push(byte);
                rest = after;
            }
            if !bytes.contains(&b'%') {
                prop_assert_eq!(back, bytes);
            }
        }
    }
}
