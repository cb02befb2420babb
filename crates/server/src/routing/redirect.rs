//! Redirects: the address that a client is sent to instead.

use crate::http::target::{self, Target};

/// The longest address that is made of a request; a longer one is answered with 414.
const BYTES_MAX: usize = 16 << 10;

/// An address with places for what the request has, and the status that sends the client there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Redirect {
    pub(crate) status: u16,
    pub(crate) pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    Text(String),
    /// The whole path.
    Path,
    /// What of the path lies below the prefix, without a slash in front.
    Rest {
        prefix_bytes: usize,
    },
    /// The query with its question mark, if there is one.
    Query,
    /// The name of the host, without a port.
    Host,
}

impl Redirect {
    /// Reads an address such as `https://example.org/new/$rest$query`; else what is wrong with it.
    pub(crate) fn read(text: &str, status: u16, prefix_bytes: Option<usize>) -> Result<Self, &'static str> {
        if !["/", "http://", "https://", "$path"].iter().any(|begin| text.starts_with(begin)) {
            return Err("an address begins with /, http://, https:// or $path");
        }
        // A path begins with a slash, so the one before it would make it a host.
        if text.starts_with("//") || text.starts_with("/$path") {
            return Err("what begins with // leads to another host; write https:// or $path if that is meant");
        }
        if !text.bytes().all(|byte| (b'!'..=b'~').contains(&byte)) {
            return Err("an address has no spaces and no letters beyond ASCII: write them as %20 and so on");
        }
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            if !before.is_empty() {
                pieces.push(Piece::Text(before.to_owned()));
            }
            let name_bytes = after.find(|letter: char| !letter.is_ascii_lowercase()).unwrap_or(after.len());
            let (name, behind) = after.split_at(name_bytes);
            pieces.push(match (name, prefix_bytes) {
                ("path", _) => Piece::Path,
                ("query", _) => Piece::Query,
                ("host", _) => Piece::Host,
                ("rest", Some(prefix_bytes)) => Piece::Rest { prefix_bytes },
                ("rest", None) => return Err("$rest is what lies below a prefix, and this table has none; use $path"),
                _ => return Err("only $path, $rest, $query and $host stand for something"),
            });
            rest = behind;
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        Ok(Self { status, pieces })
    }

    /// The line of the head that says where; none if it is too long.
    pub(crate) fn location(&self, found: &Target<'_>, host: &[u8]) -> Option<Vec<u8>> {
        let mut field = b"Location: ".to_vec();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => field.extend_from_slice(text.as_bytes()),
                Piece::Path => target::encode(found.path, &mut field),
                Piece::Rest { prefix_bytes } => {
                    let rest = found.path.get(*prefix_bytes..).unwrap_or_default();
                    target::encode(rest.strip_prefix(b"/").unwrap_or(rest), &mut field);
                }
                // The parser lets no control character into a target or a host.
                Piece::Query => field.extend_from_slice(found.query),
                Piece::Host => field.extend_from_slice(host),
            }
        }
        field.extend_from_slice(b"\r\n");
        (field.len() <= BYTES_MAX).then_some(field)
    }
}

/// Whether the line of a head that [`Redirect::location`] made leads to this path of this host.
pub(crate) fn leads_to(field: &[u8], host: &[u8], path: &[u8]) -> bool {
    let address = field.strip_prefix(b"Location: ").unwrap_or(field).trim_ascii_end();
    let rest = [&b"http://"[..], b"https://"].into_iter().find_map(|scheme| address.strip_prefix(scheme));
    let address = match rest {
        Some(rest) => {
            let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(rest.len());
            let (authority, address) = rest.split_at(end);
            let name = authority.rsplitn(2, |byte| *byte == b':').last().unwrap_or_default();
            let is_host = name.eq_ignore_ascii_case(host) || authority.eq_ignore_ascii_case(host);
            if !is_host {
                return false;
            }
            address
        }
        None => address,
    };
    let end = address.iter().position(|byte| matches!(byte, b'?' | b'#')).unwrap_or(address.len());
    let mut encoded = Vec::new();
    target::encode(path, &mut encoded);
    let own = if end == 0 { b"/" } else { &address[..end] };
    own == encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_made_of_what_the_request_has() {
        let found = Target { path: b"/old/a b", query: b"?q=1" };
        for (text, prefix, expected) in [
            ("/new/$rest$query", Some(4), "/new/a%20b?q=1"),
            ("/new/$rest", Some(5), "/new/a%20b"),
            ("https://$host$path", None, "https://h.org/old/a%20b"),
            ("/fixed", None, "/fixed"),
            ("$path", None, "/old/a%20b"),
        ] {
            let redirect = Redirect::read(text, 301, prefix).expect("well-formed");
            let field = redirect.location(&found, b"h.org").expect("short");
            assert_eq!(String::from_utf8_lossy(&field), format!("Location: {expected}\r\n"), "{text}");
        }
        for bad in ["new", "//evil.org", "/a b", "/$rest", "/$nothing", "/$", "/ä", "/$path", "$rest"] {
            assert!(Redirect::read(bad, 301, None).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_address_that_leads_back_is_recognised() {
        for (address, expected) in [
            ("/a%20b/", true),
            ("/a%20b/?q", true),
            ("https://H.org:8443/a%20b/#x", true),
            ("http://h.org/a%20b/", true),
            ("http://x.org/a%20b/", false),
            ("/a%20b", false),
            ("/", false),
            ("http://h.org", false),
        ] {
            let field = format!("Location: {address}\r\n");
            assert_eq!(leads_to(field.as_bytes(), b"h.org", b"/a b/"), expected, "{address}");
        }
        assert!(leads_to(b"Location: https://[::1]:1\r\n", b"[::1]", b"/"));
    }
}
