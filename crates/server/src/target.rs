//! Request targets: from what the client wrote to a path below the root.

/// A path in the one form that the cache knows: it begins with `/`, has no empty, `.` or `..` segment, is
/// percent-decoded, and ends with `/` only where the target did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Target<'t> {
    pub(crate) path: &'t [u8],
    /// With the question mark; empty without a query.
    pub(crate) query: &'t [u8],
}

/// Why a target leads nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadTarget {
    /// It is malformed, or tries to leave the root.
    Malformed,
    /// It names something that is not served.
    Closed,
}

/// Resolves the target; `decoded` is memory for one that has to be rewritten.
pub(crate) fn resolve<'t>(text: &'t str, dot_files: bool, decoded: &'t mut Vec<u8>) -> Result<Target<'t>, BadTarget> {
    let text = origin_form(text.as_bytes())?;
    if text.first() != Some(&b'/') {
        return Err(BadTarget::Malformed);
    }
    let mut before = 0;
    for (i, &byte) in text.iter().enumerate() {
        match byte {
            b'?' => return Ok(Target { path: &text[..i], query: &text[i..] }),
            b'%' | b'#' | b'\\' => return rewrite(text, dot_files, decoded),
            b'/' | b'.' if before == b'/' => return rewrite(text, dot_files, decoded),
            _ => before = byte,
        }
    }
    Ok(Target { path: text, query: b"" })
}

/// Takes the authority off an absolute form (RFC 9112 section 3.2.2).
fn origin_form(text: &[u8]) -> Result<&[u8], BadTarget> {
    if text.first() == Some(&b'/') {
        return Ok(text);
    }
    let scheme_bytes = if text.len() >= 7 && text[..7].eq_ignore_ascii_case(b"http://") {
        7
    } else if text.len() >= 8 && text[..8].eq_ignore_ascii_case(b"https://") {
        8
    } else {
        return Err(BadTarget::Malformed);
    };
    let rest = &text[scheme_bytes..];
    match rest.iter().position(|byte| matches!(byte, b'/' | b'?')) {
        Some(0) => Err(BadTarget::Malformed),
        Some(at) if rest[at] == b'/' => Ok(&rest[at..]),
        // An empty path is the root; its query means nothing to files.
        _ => Ok(b"/"),
    }
}

fn rewrite<'t>(text: &'t [u8], dot_files: bool, decoded: &'t mut Vec<u8>) -> Result<Target<'t>, BadTarget> {
    let end = text.iter().position(|&byte| byte == b'?').unwrap_or(text.len());
    let (path, query) = text.split_at(end);
    decoded.clear();
    for segment in path[1..].split(|&byte| byte == b'/') {
        let start = decoded.len();
        decoded.push(b'/');
        decode(segment, decoded)?;
        match &decoded[start + 1..] {
            // Several slashes are one, and so is one with a dot after it.
            b"" | b"." => decoded.truncate(start),
            b".." => return Err(BadTarget::Malformed),
            b".well-known" if start == 0 => {}
            [b'.', ..] if !dot_files => return Err(BadTarget::Closed),
            _ => {}
        }
    }
    if decoded.is_empty() || path.ends_with(b"/") || path.ends_with(b"/.") {
        decoded.push(b'/');
    }
    Ok(Target { path: decoded, query })
}

/// Decodes one segment. A byte that could act as a separator or an end after decoding is refused.
fn decode(segment: &[u8], out: &mut Vec<u8>) -> Result<(), BadTarget> {
    let mut bytes = segment.iter();
    while let Some(&byte) = bytes.next() {
        let byte = if byte == b'%' {
            let mut digit = || bytes.next().and_then(|&byte| (byte as char).to_digit(16)).ok_or(BadTarget::Malformed);
            let (high, low) = (digit()?, digit()?);
            // Two hexadecimal digits make a byte.
            (high * 16 + low) as u8
        } else if byte == b'#' {
            return Err(BadTarget::Malformed);
        } else {
            byte
        };
        if byte == 0 || byte == b'/' {
            return Err(BadTarget::Malformed);
        }
        out.push(byte);
    }
    Ok(())
}

/// Appends `path` in percent-encoding; nothing in the result can be taken for markup, another host or a query.
pub(crate) fn encode(path: &[u8], out: &mut Vec<u8>) {
    for &byte in path {
        if byte.is_ascii_alphanumeric() || b"/-._~!$()*+,=@".contains(&byte) {
            out.push(byte);
        } else {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn path(text: &str) -> Result<Vec<u8>, BadTarget> {
        resolve(text, false, &mut Vec::new()).map(|target| target.path.to_vec())
    }

    #[test]
    fn targets_have_one_form() {
        for (text, expected) in [
            ("/", "/"),
            ("/a/b.html", "/a/b.html"),
            ("/a/?x=/../y", "/a/"),
            ("/%61%2eb", "/a.b"),
            ("//a///b//", "/a/b/"),
            ("/./a/.", "/a/"),
            ("http://host/a?b", "/a"),
            ("HTTP://host", "/"),
            ("http://host?q", "/"),
            ("/.well-known/x", "/.well-known/x"),
            ("/a.b/c..d", "/a.b/c..d"),
        ] {
            assert_eq!(path(text).as_deref(), Ok(expected.as_bytes()), "{text}");
        }
    }

    #[test]
    fn escapes_and_closed_names_are_refused() {
        for text in [
            "/..",
            "/a/../b",
            "/%2e%2e/x",
            "/.%2E",
            "/%00",
            "/a%2fb",
            "/%",
            "/%4",
            "/%zz",
            "a",
            "*",
            "http:///x",
            "/a#b",
        ] {
            assert_eq!(path(text), Err(BadTarget::Malformed), "{text}");
        }
        for text in ["/.git/config", "/a/.htaccess", "/%2ehidden", "/a/.well-known"] {
            assert_eq!(path(text), Err(BadTarget::Closed), "{text}");
        }
        let mut decoded = Vec::new();
        assert!(resolve("/.git", true, &mut decoded).is_ok());
    }

    proptest! {
        #[test]
        fn a_resolved_path_never_leads_up_or_hides(text in "[/.%a-f0-9?]{0,40}") {
            if let Ok(path) = path(&text) {
                prop_assert_eq!(path[0], b'/');
                prop_assert!(!path.contains(&0));
                prop_assert!(!path.windows(2).any(|pair| pair == b"//" || pair == b"/."));
            }
        }

        #[test]
        fn encoding_is_undone_by_resolving(name in proptest::collection::vec(1_u8..=255, 1..30)) {
            prop_assume!(!name.contains(&b'/') && name[0] != b'.');
            let mut encoded = vec![b'/'];
            encode(&name, &mut encoded);
            let text = String::from_utf8(encoded).expect("ASCII");
            prop_assert_eq!(&path(&text).expect("resolves")[1..], &name[..]);
        }
    }
}
