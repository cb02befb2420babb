//! Names in certificates (X.501) as text (RFC 4514).

use super::der::{Der, OBJECT, SEQUENCE};
use std::fmt::Write as _;

const SET: u8 = 0x31;
/// Attributes of a name that are read; one with more is none that an authority writes.
const ATTRIBUTES_MAX: usize = 64;

/// Types of attributes, by their content in DER, with the names that RFC 4514 and OpenSSL have for them.
const TYPES: &[(&[u8], &str)] = &[
    (&[0x55, 4, 3], "CN"),
    (&[0x55, 4, 4], "SN"),
    (&[0x55, 4, 5], "serialNumber"),
    (&[0x55, 4, 6], "C"),
    (&[0x55, 4, 7], "L"),
    (&[0x55, 4, 8], "ST"),
    (&[0x55, 4, 9], "street"),
    (&[0x55, 4, 10], "O"),
    (&[0x55, 4, 11], "OU"),
    (&[0x55, 4, 12], "title"),
    (&[0x55, 4, 42], "GN"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1], "UID"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25], "DC"),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1], "emailAddress"),
];

/// An attribute of a name.
struct Attribute<'d> {
    kind: &'d [u8],
    value: Value<'d>,
}

enum Value<'d> {
    Text(String),
    /// Of a type that is no text: its tag and its content.
    Other(u8, &'d [u8]),
}

/// A name as text, the last attribute first; none if it cannot be read. `content` is that of its sequence.
pub(crate) fn text(content: &[u8]) -> Option<String> {
    let mut out = String::new();
    for set in sets(content)?.iter().rev() {
        for (place, attribute) in set.iter().enumerate() {
            if !out.is_empty() {
                out.push(if place == 0 { ',' } else { '+' });
            }
            write_attribute(attribute, &mut out);
        }
    }
    Some(out)
}

/// The last common name (CN) of a name, if it has one.
pub(crate) fn common_name(content: &[u8]) -> Option<String> {
    let sets = sets(content)?;
    let last = sets.iter().flatten().rfind(|attribute| attribute.kind == TYPES[0].0)?;
    if let Value::Text(text) = &last.value { Some(text.clone()) } else { None }
}

/// The attributes of a name, in its order.
fn sets(content: &[u8]) -> Option<Vec<Vec<Attribute<'_>>>> {
    let (mut name, mut sets, mut count) = (Der(content), Vec::new(), 0);
    while !name.0.is_empty() {
        let mut set = name.take(SET)?;
        let mut attributes = Vec::new();
        while !set.0.is_empty() {
            let mut attribute = set.take(SEQUENCE)?;
            let kind = attribute.take(OBJECT)?.0;
            let (tag, value) = attribute.next()?;
            attributes.push(Attribute { kind, value: decoded(tag, value.0) });
            count += 1;
            if count > ATTRIBUTES_MAX {
                return None;
            }
        }
        sets.push(attributes);
    }
    Some(sets)
}

fn decoded(tag: u8, bytes: &[u8]) -> Value<'_> {
    let utf16 = || bytes.chunks(2).map(|pair| u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
    match tag {
        // UTF8String, NumericString, PrintableString, IA5String, VisibleString.
        0x0c | 0x12 | 0x13 | 0x16 | 0x1a => Value::Text(String::from_utf8_lossy(bytes).into_owned()),
        // T61String, which authorities fill with Latin-1.
        0x14 => Value::Text(bytes.iter().map(|byte| char::from(*byte)).collect()),
        // BMPString.
        0x1e => Value::Text(char::decode_utf16(utf16()).map(|letter| letter.unwrap_or('\u{fffd}')).collect()),
        _ => Value::Other(tag, bytes),
    }
}

/// Writes `TYPE=VALUE` (section 2.4); what is not ASCII as bytes in hexadecimal digits.
fn write_attribute(attribute: &Attribute<'_>, out: &mut String) {
    match TYPES.iter().find(|(kind, _)| *kind == attribute.kind) {
        Some((_, name)) => out.push_str(name),
        None => dotted(attribute.kind, out),
    }
    out.push('=');
    let text = match &attribute.value {
        Value::Text(text) => text,
        Value::Other(tag, bytes) => {
            // Strings take any number of bytes.
            let _ = write!(out, "#{tag:02X}{:02X}", bytes.len());
            bytes.iter().for_each(|byte| out.push_str(&format!("{byte:02X}")));
            return;
        }
    };
    let last = text.len().saturating_sub(1);
    for (place, byte) in text.bytes().enumerate() {
        let is_special = b",+\"\\<>;".contains(&byte)
            || (place == 0 && matches!(byte, b'#' | b' '))
            || (place == last && byte == b' ');
        match byte {
            b' '..=b'~' if is_special => out.extend(['\\', char::from(byte)]),
            b' '..=b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("\\{byte:02X}")),
        }
    }
}

/// An object identifier in numbers (X.690 section 8.19).
fn dotted(bytes: &[u8], out: &mut String) {
    let (mut number, mut is_first) = (0_u64, true);
    for byte in bytes {
        number = number.saturating_mul(128).saturating_add(u64::from(byte & 0x7f));
        if byte & 0x80 != 0 {
            continue;
        }
        if is_first {
            let first = (number / 40).min(2);
            let _ = write!(out, "{first}.{}", number - first * 40);
        } else {
            let _ = write!(out, ".{number}");
        }
        (number, is_first) = (0, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value(tag: u8, content: &[u8]) -> Vec<u8> {
        [&[tag, u8::try_from(content.len()).expect("a short value")], content].concat()
    }

    fn name(attributes: &[(&[u8], u8, &[u8])]) -> Vec<u8> {
        let sets = attributes
            .iter()
            .map(|(kind, tag, text)| value(SET, &value(SEQUENCE, &[value(OBJECT, kind), value(*tag, text)].concat())));
        sets.collect::<Vec<_>>().concat()
    }

    #[test]
    fn names_are_written_as_rfc_4514_has_them() {
        let country: (&[u8], u8, &[u8]) = (&[0x55, 4, 6], 0x13, b"DE");
        for (text_of, expected) in [
            (&b"Ada Lovelace"[..], "Ada Lovelace"),
            (b"a,b+c\"d\\e<f>g;h", "a\\,b\\+c\\\"d\\\\e\\<f\\>g\\;h"),
            (b" #a ", "\\ #a\\ "),
            (b"#a", "\\#a"),
            (b"a\r\nb\0", "a\\0D\\0Ab\\00"),
            ("\u{fc}".as_bytes(), "\\C3\\BC"),
            (b"a=b", "a=b"),
            (b"", ""),
        ] {
            let written = name(&[country, (&[0x55, 4, 3], 0x0c, text_of)]);
            assert_eq!(text(&written), Some(format!("CN={expected},C=DE")));
            assert_eq!(common_name(&written).as_deref().map(str::as_bytes), Some(text_of));
        }
        let odd = name(&[(&[0x2a, 0x86, 0x48, 1], 0x03, &[0, 1]), (&[0x55, 4, 3], 0x1e, &[0, b'A'])]);
        assert_eq!(text(&odd).as_deref(), Some("CN=A,1.2.840.1=#03020001"));
        assert_eq!(text(b""), Some(String::new()));
        assert_eq!(text(&name(&[country])[..5]), None);
        assert_eq!(common_name(&name(&[country])), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_name_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let written = text(&bytes).unwrap_or_default();
            prop_assert!(written.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
            let _ = common_name(&bytes);
        }
    }
}
