//! The variables of a request for a persistent script: CGIplus' record mode and struct mode.

use crate::fastcgi::Pairs;

/// Why a request cannot be told to a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Untellable {
    /// A name or value has a byte that would end it.
    #[error("a variable holds a byte 0 or, for a script that reads lines, a newline")]
    Byte,
    /// A pair is cut off, or longer than struct mode can say.
    #[error("its variables are malformed or too long")]
    Malformed,
}

/// Appends them as lines: `!`, `NAME=value`, and an empty line.
pub(crate) fn lines(pairs: Pairs<'_>, out: &mut Vec<u8>) -> Result<(), Untellable> {
    let start = out.len();
    out.extend_from_slice(b"!\n");
    for pair in pairs {
        let (name, value) =
            checked(pair, |byte| matches!(byte, 0 | b'\n' | b'\r')).inspect_err(|_| out.truncate(start))?;
        for part in [name, b"=", value, b"\n"] {
            out.extend_from_slice(part);
        }
    }
    out.push(b'\n');
    Ok(())
}

/// Appends them as `!!<bytes>`, a newline, and for each a length in native order and `NAME=value` with a byte 0, ended
/// by a length of zero.
pub(crate) fn structured(pairs: Pairs<'_>, out: &mut Vec<u8>) -> Result<(), Untellable> {
    let start = out.len();
    // Room for the longest number; what is not needed is taken away in the end.
    out.extend_from_slice(b"!!0000000\n");
    let content = out.len();
    for pair in pairs {
        let (name, value) = checked(pair, |byte| byte == 0).inspect_err(|_| out.truncate(start))?;
        let Ok(length) = u16::try_from(name.len() + value.len() + 2) else {
            out.truncate(start);
            return Err(Untellable::Malformed);
        };
        for part in [&length.to_ne_bytes()[..], name, b"=", value, b"\0"] {
            out.extend_from_slice(part);
        }
    }
    out.extend_from_slice(&[0; 2]);
    let head = format!("!!{}\n", out.len() - content);
    out.splice(start..content, head.into_bytes());
    Ok(())
}

fn checked<'b>(
    pair: Option<(&'b [u8], &'b [u8])>,
    is_wrong: impl Fn(u8) -> bool,
) -> Result<(&'b [u8], &'b [u8]), Untellable> {
    let (name, value) = pair.ok_or(Untellable::Malformed)?;
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    if name.is_empty() || !name.iter().all(is_name) {
        return Err(Untellable::Malformed);
    }
    if value.iter().copied().any(is_wrong) { Err(Untellable::Byte) } else { Ok((name, value)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pairs(of: &[(&str, &str)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (name, value) in of {
            bytes.push(name.len() as u8);
            bytes.extend_from_slice(&(value.len() as u32 | 1 << 31).to_be_bytes());
            bytes.extend_from_slice(name.as_bytes());
            bytes.extend_from_slice(value.as_bytes());
        }
        bytes
    }

    #[test]
    fn both_forms_are_as_the_protocol_has_them() {
        let bytes = pairs(&[("A", "1"), ("B", ""), ("C", "x=y")]);
        let mut out = Vec::new();
        lines(Pairs(&bytes), &mut out).expect("is written");
        assert_eq!(String::from_utf8_lossy(&out), "!\nA=1\nB=\nC=x=y\n\n");
        out.clear();
        structured(Pairs(&bytes), &mut out).expect("is written");
        let length = |length: u16| length.to_ne_bytes();
        let content = [&length(4)[..], b"A=1\0", &length(3), b"B=\0", &length(6), b"C=x=y\0", &length(0)].concat();
        assert_eq!(out, [format!("!!{}\n", content.len()).as_bytes(), &content].concat());
    }

    #[test]
    fn no_value_becomes_another_variable() {
        for value in ["a\nHTTPS=on", "a\rb", "a\0b"] {
            let (bytes, mut out) = (pairs(&[("PATH_INFO", value)]), b"x".to_vec());
            assert_eq!(lines(Pairs(&bytes), &mut out), Err(Untellable::Byte));
            let is_struct = structured(Pairs(&bytes), &mut out).is_ok();
            assert_eq!(is_struct, !value.contains('\0'));
            assert!(is_struct || out == b"x");
        }
        let bytes = pairs(&[("A=B", "")]);
        assert_eq!(structured(Pairs(&bytes), &mut Vec::new()), Err(Untellable::Malformed));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(values in prop::collection::vec("[ -~]{0,40}", 0..20)) {
            let names: Vec<String> = (0..values.len()).map(|number| format!("N{number}")).collect();
            let of: Vec<_> = names.iter().zip(&values).map(|(name, value)| (name.as_str(), value.as_str())).collect();
            let (bytes, mut out) = (pairs(&of), Vec::new());
            lines(Pairs(&bytes), &mut out).expect("is written");
            let text = String::from_utf8(out).expect("text");
            let read: Vec<_> = text.strip_prefix("!\n").expect("a start").split_terminator('\n').take_while(|line| !line.is_empty())
                .map(|line| line.split_once('=').expect("a pair")).collect();
            prop_assert_eq!(&read, &of);
        }
    }
}
