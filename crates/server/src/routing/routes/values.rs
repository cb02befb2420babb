//! Looks for what a request says beside its path: fields, cookies, parameters of the query.

use crate::http::query::decoded;
use crate::http::request::{AllFields, Request};

/// Values of a field, line by line. Has `wanted` look at each until it returns true; whether it did.
pub(super) fn any_field(request: &Request<'_>, name: &str, mut wanted: impl FnMut(&[u8]) -> bool) -> bool {
    match request.all {
        AllFields::Unknown => false,
        AllFields::Block(fields) => {
            fields.iter().any(|(own, value)| own.eq_ignore_ascii_case(name.as_bytes()) && wanted(value))
        }
        // The first line is the request's.
        AllFields::Head(head) => head.split(|byte| *byte == b'\n').skip(1).any(|line| {
            let is_named = line.len() > name.len()
                && line[name.len()] == b':'
                && line[..name.len()].eq_ignore_ascii_case(name.as_bytes());
            is_named && wanted(line[name.len() + 1..].trim_ascii())
        }),
    }
}

/// Values of a cookie (RFC 6265 section 5.4), likewise; quotes around a value are not of it.
pub(super) fn any_cookie(request: &Request<'_>, name: &str, mut wanted: impl FnMut(&[u8]) -> bool) -> bool {
    any_field(request, "cookie", |line| {
        line.split(|byte| *byte == b';').any(|pair| {
            let Some(equals) = memchr::memchr(b'=', pair) else { return false };
            let value = pair[equals + 1..].trim_ascii();
            let bare = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value);
            pair[..equals].trim_ascii() == name.as_bytes() && wanted(bare)
        })
    })
}

/// Values of a parameter of a query, decoded as forms encode them, likewise. A name without `=` has an empty value.
pub(super) fn any_parameter(query: &[u8], name: &str, mut wanted: impl FnMut(&[u8]) -> bool) -> bool {
    let pairs = query.strip_prefix(b"?").unwrap_or(query);
    pairs.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()).any(|pair| {
        let equals = memchr::memchr(b'=', pair).unwrap_or(pair.len());
        let value = pair.get(equals + 1..).unwrap_or_default();
        *decoded(&pair[..equals]) == *name.as_bytes() && wanted(&decoded(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(head: &str, look: impl FnOnce(&Request<'_>) -> bool) -> bool {
        look(&Request { all: AllFields::Head(head.as_bytes()), ..Request::empty() })
    }

    #[test]
    fn values_are_found_by_their_names() {
        let head = "GET /cookie: x HTTP/1.1\r\nX-A:  1 \r\nx-a: 2\r\nCookie: a=1; b=\"2\";c = 3\r\n\r\n";
        for (name, value, expected) in [
            ("x-a", "1", true),
            ("X-A", "2", true),
            ("x-a", "3", false),
            ("x", "1", false),
            ("GET /cookie", "x", false),
        ] {
            assert_eq!(with(head, |r| any_field(r, name, |own| own == value.as_bytes())), expected, "{name} {value}");
        }
        for (name, value, expected) in [("a", "1", true), ("b", "2", true), ("c", "3", true), ("A", "1", false)] {
            assert_eq!(with(head, |r| any_cookie(r, name, |own| own == value.as_bytes())), expected, "{name} {value}");
        }
    }

    #[test]
    fn parameters_are_decoded() {
        for (query, name, value, expected) in [
            ("?a=1&b=2", "b", "2", true),
            ("?a=1&b=2", "c", "", false),
            ("?a", "a", "", true),
            ("?a%20b=x+y%26", "a b", "x y&", true),
            ("?a=%zz%4", "a", "%zz%4", true),
            ("", "", "", false),
            ("?=1", "", "1", true),
        ] {
            let found = any_parameter(query.as_bytes(), name, |own| own == value.as_bytes());
            assert_eq!(found, expected, "{query} {name}");
        }
    }
}
