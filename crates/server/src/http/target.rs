//! Request targets: decodes what the client wrote to a path below the root.
//!
//! There is one grammar for HTTP/1.1, HTTP/2 and HTTP/3. It is that of RFC 3986 and what clients send besides:
//! brackets, braces and the like, a bare percent sign in a query, and UTF-8 that is not escaped. Spaces, control bytes,
//! bytes that are no UTF-8, and fragments are refused.

use crate::http::authority;

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
            b'?' => return with_query(&text[..i], &text[i..]),
            b'%' | b'#' | b'\\' => return rewrite(text, dot_files, decoded),
            b'/' | b'.' if before == b'/' => return rewrite(text, dot_files, decoded),
            _ => before = byte,
        }
    }
    Ok(Target { path: text, query: b"" })
}

/// A path with its query, in which no fragment can begin: clients keep that to themselves (RFC 9110 section 4.2.5).
fn with_query<'t>(path: &'t [u8], query: &'t [u8]) -> Result<Target<'t>, BadTarget> {
    if memchr::memchr(b'#', query).is_some() { Err(BadTarget::Malformed) } else { Ok(Target { path, query }) }
}

/// Whether the bytes are those of a target.
pub(crate) fn is_written(text: &[u8]) -> bool {
    text.iter().all(|&byte| is_of_target(byte)) && (text.is_ascii() || std::str::from_utf8(text).is_ok())
}

/// Whether a target may have the byte: neither a space nor a control byte.
pub(crate) fn is_of_target(byte: u8) -> bool {
    byte > b' ' && byte != 0x7f
}

/// Whether a target that is no path has a form that its method may have (RFC 9112 section 3.2): one host and port for
/// CONNECT, `*` for OPTIONS, else an absolute form with a host.
#[cold]
pub(crate) fn is_other_form(method: &str, text: &[u8]) -> bool {
    match (method, text) {
        ("CONNECT", text) => !text.is_empty() && authority::is_host(text),
        ("OPTIONS", b"*") => true,
        (_, text) => authority_of(text).is_some_and(|host| !host.is_empty() && authority::is_host(host)),
    }
}

/// The authority of an absolute form; none of another one.
pub(crate) fn authority_of(text: &[u8]) -> Option<&[u8]> {
    let rest = &text[scheme_bytes(text)?..];
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(rest.len());
    Some(&rest[..end])
}

/// Bytes of the scheme, where it is one that is served.
fn scheme_bytes(text: &[u8]) -> Option<usize> {
    let begins = |scheme: &[u8]| text.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme));
    [&b"http://"[..], b"https://"].into_iter().find(|scheme| begins(scheme)).map(<[u8]>::len)
}

/// Takes the authority off an absolute form (RFC 9112 section 3.2.2).
fn origin_form(text: &[u8]) -> Result<&[u8], BadTarget> {
    if text.first() == Some(&b'/') {
        return Ok(text);
    }
    let rest = &text[scheme_bytes(text).ok_or(BadTarget::Malformed)?..];
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
    with_query(decoded, query)
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

/// Appends a value of a query in percent-encoding, so that it ends neither the value nor the query.
pub(crate) fn encode_value(value: &[u8], out: &mut Vec<u8>) {
    for &byte in value {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            out.push(byte);
        } else {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        }
    }
}

/// Puts a path that was made of others into the one form that [`resolve`] gives paths. All dots may stay: what is
/// served says which names are closed.
pub(crate) fn normalise(path: &[u8], out: &mut Vec<u8>) -> Result<(), BadTarget> {
    out.clear();
    if path.first() != Some(&b'/') || path.contains(&0) {
        return Err(BadTarget::Malformed);
    }
    for segment in path[1..].split(|&byte| byte == b'/') {
        match segment {
            b"" | b"." => {}
            b".." => return Err(BadTarget::Malformed),
            _ => {
                out.push(b'/');
                out.extend_from_slice(segment);
            }
        }
    }
    if out.is_empty() || path.ends_with(b"/") || path.ends_with(b"/.") {
        out.push(b'/');
    }
    Ok(())
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
            "/a?x#y",
            "/%61?x#y",
            "ftp://host/a",
        ] {
            assert_eq!(path(text), Err(BadTarget::Malformed), "{text}");
        }
        for text in ["/.git/config", "/a/.htaccess", "/%2ehidden", "/a/.well-known"] {
            assert_eq!(path(text), Err(BadTarget::Closed), "{text}");
        }
        let mut decoded = Vec::new();
        assert!(resolve("/.git", true, &mut decoded).is_ok());
    }

    #[test]
    fn targets_without_a_path_have_the_form_of_their_method() {
        for (method, text, expected) in [
            ("GET", "http://a.org/x?y", true),
            ("GET", "HTTPS://a.org", true),
            ("POST", "http://[::1]:80/", true),
            ("OPTIONS", "*", true),
            ("CONNECT", "a.org:443", true),
            ("GET", "*", false),
            ("GET", "a.org:443", false),
            ("GET", "x", false),
            ("GET", "", false),
            ("GET", "http://", false),
            ("GET", "http:///x", false),
            ("GET", "http://:80/x", false),
            ("GET", "http://u@a.org/", false),
            ("GET", "http://u:p@a.org/", false),
            ("GET", "http://a.org:80a/", false),
            ("GET", "http://[::1/", false),
            ("GET", "ftp://a.org/", false),
            ("CONNECT", "a.org:443/x", false),
            ("CONNECT", "", false),
        ] {
            assert_eq!(is_other_form(method, text.as_bytes()), expected, "{method} {text}");
        }
    }

    #[test]
    fn targets_are_of_the_bytes_that_clients_send() {
        for good in ["/a?q=\u{fc}", "/\u{fc}", "/a\\b", "/?a=%", "/{a}|^`\"<>[]", "/a#b"] {
            assert!(is_written(good.as_bytes()), "{good}");
        }
        for bad in [&b"/a b"[..], b"/a\tb", b"/a\x7fb", b"/a\0", b"/\xfc", b"/\xc3"] {
            assert!(!is_written(bad), "{bad:?}");
        }
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
