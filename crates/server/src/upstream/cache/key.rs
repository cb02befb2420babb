//! Keys: what two requests have in common that the same response answers (RFC 9111 sections 2 and 4.1).

use super::rules::QueryKey;
use crate::http::field_lines::lines;
use memchr::memchr;

/// Names in a Vary field; a response with more is not stored.
pub(crate) const VARY_NAMES_MAX: usize = 16;
/// Bytes of what the request has for them.
pub(crate) const VARY_BYTES_MAX: usize = 4096;

/// Writes the primary key: scheme, host in lower case, path and query. The method is no part of it, as only responses to
/// GET are stored.
pub(crate) fn write(into: &mut Vec<u8>, is_secure: bool, host: &[u8], target: &str, query: &QueryKey) {
    into.clear();
    into.push(if is_secure { b's' } else { b'h' });
    let host_start = into.len();
    let port: &[u8] = if is_secure { b":443" } else { b":80" };
    into.extend_from_slice(host.strip_suffix(port).unwrap_or(host));
    into[host_start..].make_ascii_lowercase();
    into.push(0);
    let target = path_and_query(target);
    match (query, memchr(b'?', target)) {
        (QueryKey::Whole, _) | (_, None) => into.extend_from_slice(target),
        (QueryKey::Ignored, Some(mark)) => into.extend_from_slice(&target[..mark]),
        (QueryKey::Without(names), Some(mark)) => filtered(into, target, mark, |name| !has(names, name)),
        (QueryKey::Only(names), Some(mark)) => filtered(into, target, mark, |name| has(names, name)),
    }
}

/// The target from its path on, if it is in absolute form (RFC 9112 section 3.2.2).
fn path_and_query(target: &str) -> &[u8] {
    if target.starts_with('/') {
        return target.as_bytes();
    }
    match target.split_once("://") {
        Some((_, rest)) => rest.find(['/', '?']).map_or(b"/", |at| &rest.as_bytes()[at..]),
        None => target.as_bytes(),
    }
}

fn has(names: &[String], name: &[u8]) -> bool {
    names.iter().any(|own| own.as_bytes() == name)
}

fn filtered(into: &mut Vec<u8>, target: &[u8], mark: usize, is_wanted: impl Fn(&[u8]) -> bool) {
    into.extend_from_slice(&target[..mark]);
    let mut sign = b'?';
    for argument in target[mark + 1..].split(|byte| *byte == b'&') {
        let name = &argument[..memchr(b'=', argument).unwrap_or(argument.len())];
        if is_wanted(name) {
            into.push(sign);
            into.extend_from_slice(argument);
            sign = b'&';
        }
    }
}

/// The beginning of the keys of a host and of paths that begin in the same way.
pub(crate) fn prefix(is_secure: bool, host: &[u8], path: &str) -> Vec<u8> {
    let mut prefix = Vec::new();
    write(&mut prefix, is_secure, host, path, &QueryKey::Whole);
    prefix
}

/// What a response says that it depends on, and what its request had there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Selecting {
    /// Names in lower case, in the order of Vary.
    pub(crate) names: Box<[Box<[u8]>]>,
    /// What the request has for them, as [`write_selecting`] writes it.
    pub(crate) values: Box<[u8]>,
}

/// A response that depends on more than is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooVarious;

impl Selecting {
    /// Reads Vary of a response, and the fields of its request.
    pub(crate) fn of<'r, I>(response: &[u8], request: impl Fn() -> I) -> Result<Self, TooVarious>
    where
        I: Iterator<Item = (&'r [u8], &'r [u8])>,
    {
        let mut names: Vec<Box<[u8]>> = Vec::new();
        for (_, value) in lines(response).filter(|(name, _)| name.eq_ignore_ascii_case(b"vary")) {
            for name in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|name| !name.is_empty()) {
                let name = name.to_ascii_lowercase().into_boxed_slice();
                if !names.contains(&name) {
                    names.push(name);
                }
                if names.len() > VARY_NAMES_MAX {
                    return Err(TooVarious);
                }
            }
        }
        let names = names.into_boxed_slice();
        let mut values = Vec::new();
        write_selecting(&mut values, &names, request);
        if values.len() > VARY_BYTES_MAX { Err(TooVarious) } else { Ok(Self { names, values: values.into() }) }
    }
}

/// Writes what a request has for some fields: for each a byte that says whether it is there, its lines as one list
/// without the white space around members, and a line feed. Section 4.1 permits to change so much.
pub(crate) fn write_selecting<'r, I>(into: &mut Vec<u8>, names: &[Box<[u8]>], request: impl Fn() -> I)
where
    I: Iterator<Item = (&'r [u8], &'r [u8])>,
{
    into.clear();
    for name in names {
        let start = into.len();
        into.push(b'-');
        for (_, value) in request().filter(|(own, _)| own.eq_ignore_ascii_case(name)) {
            // HTTP/2 splits Cookie at its semicolons (RFC 9113 section 8.2.3).
            let (sign, separator) = if **name == *b"cookie" { (b';', &b"; "[..]) } else { (b',', &b","[..]) };
            for member in value.split(|byte| *byte == sign) {
                if into[start] == b'+' {
                    into.extend_from_slice(separator);
                }
                into[start] = b'+';
                into.extend_from_slice(member.trim_ascii());
            }
        }
        into.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_tell_requests_apart_as_the_settings_say() {
        let key = |host: &str, target: &str, query: &QueryKey| {
            let mut key = b"before".to_vec();
            write(&mut key, false, host.as_bytes(), target, query);
            String::from_utf8(key).expect("text")
        };
        let names = || vec!["a".to_owned(), "b".to_owned()];
        for (host, target, query, expected) in [
            ("Example.ORG", "/A?b", QueryKey::Whole, "hexample.org\0/A?b"),
            ("e:80", "http://e/x?y", QueryKey::Whole, "he\0/x?y"),
            ("e:81", "http://e", QueryKey::Whole, "he:81\0/"),
            ("e", "/x?y", QueryKey::Ignored, "he\0/x"),
            ("e", "/x?c=1&a=2&d&b", QueryKey::Only(names()), "he\0/x?a=2&b"),
            ("e", "/x?c=1&a=2&d&b", QueryKey::Without(names()), "he\0/x?c=1&d"),
            ("e", "/x?a=2", QueryKey::Without(names()), "he\0/x"),
        ] {
            assert_eq!(key(host, target, &query), expected);
        }
    }

    #[test]
    fn an_absent_field_is_not_an_empty_one_and_lines_are_one_list() {
        let of = |request: &str| {
            let request = request.to_owned().into_bytes();
            Selecting::of(b"Vary: A, b\r\nvary: a\r\n", || lines(&request)).expect("small").values
        };
        assert_eq!(*of("a: 1 ,2\r\nb:\r\n"), *b"+1,2\n+\n");
        assert_eq!(of("a: 1\r\nA: 2\r\nb:\r\n"), of("A: 1, 2\r\nb: \r\n"));
        assert_ne!(of("a: 1\r\nb:\r\n"), of("a: 1\r\n"));
        let names: String = (0..=VARY_NAMES_MAX).map(|name| format!("f{name},")).collect();
        assert_eq!(Selecting::of(format!("Vary: {names}").as_bytes(), || lines(b"")), Err(TooVarious));
    }
}
