//! Parameters of a query, as forms encode them.

use std::borrow::Cow;

/// Names and values of a query without its question mark, decoded; what is no text is shown as such.
pub(crate) fn pairs(query: &str) -> impl Iterator<Item = (String, String)> {
    let text = |part: &str| String::from_utf8_lossy(&decoded(part.as_bytes())).into_owned();
    query.split('&').filter(|pair| !pair.is_empty()).map(move |pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (text(name), text(value))
    })
}

/// What a form encoded; what is no encoding stays as it is.
pub(crate) fn decoded(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr2(b'%', b'+', text).is_none() {
        return Cow::Borrowed(text);
    }
    let digit = |at: usize| text.get(at).and_then(|byte| (*byte as char).to_digit(16));
    let (mut out, mut at) = (Vec::with_capacity(text.len()), 0);
    while let Some(&byte) = text.get(at) {
        match (byte, digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                // Two hexadecimal digits make a byte.
                out.push((high * 16 + low) as u8);
                at += 2;
            }
            (b'+', _, _) => out.push(b' '),
            _ => out.push(byte),
        }
        at += 1;
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_taken_apart() {
        let found: Vec<_> = pairs("url=http%3A%2F%2Fa.org%2Fx%3Fy&&b=1+2&c").collect();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(found, [pair("url", "http://a.org/x?y"), pair("b", "1 2"), pair("c", "")]);
    }
}
