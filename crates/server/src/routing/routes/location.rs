//! Addresses that routes send clients to.

use super::path_test::PathTest;
use super::pieces::{self, BadTemplate, Piece, Values};
use crate::http::target;

/// The longest address that is made of a request; a longer one is answered with 414.
const BYTES_MAX: usize = 16 << 10;

/// An address with places for what the request has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Location {
    pieces: Vec<Piece>,
}

impl Location {
    /// Reads a text such as `https://example.org/new/$1$query`. What clients choose may not become a part of the name
    /// of a host, except where `$host` says so.
    ///
    /// # Errors
    ///
    /// It has places for what there is not, or is no address.
    pub(crate) fn read(text: &str, test: Option<&PathTest>) -> Result<Self, BadTemplate> {
        if text.starts_with("//") {
            return Err(BadTemplate::OtherHost);
        }
        if !["/", "http://", "https://", "$path", "${path}"].iter().any(|begin| text.starts_with(begin)) {
            return Err(BadTemplate::NoAddress);
        }
        if !text.bytes().all(|byte| (b'!'..=b'~').contains(&byte)) {
            return Err(BadTemplate::NotEncoded);
        }
        let pieces = pieces::read(text, test)?;
        if text.starts_with("http") && !is_host_closed(&pieces) {
            return Err(BadTemplate::OpenHost);
        }
        Ok(Self { pieces })
    }

    /// Whether pieces of the path are needed for it.
    pub(crate) fn has_captures(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Capture(_)))
    }

    /// The line of the head that says where; none if it is too long.
    pub(crate) fn render(&self, values: &Values<'_>) -> Option<Vec<u8>> {
        let mut address = Vec::new();
        let mut is_query = false;
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => {
                    is_query |= text.contains(['?', '#']);
                    address.extend_from_slice(text.as_bytes());
                }
                // The parser lets no control character into a target or a host.
                Piece::Query | Piece::Args | Piece::Host => address.extend_from_slice(values.of(piece)),
                Piece::Path | Piece::Capture(_) if is_query => target::encode_value(values.of(piece), &mut address),
                Piece::Path | Piece::Capture(_) => target::encode(values.of(piece), &mut address),
            }
            is_query |= *piece == Piece::Query && !values.query.is_empty();
        }
        // Two slashes at the beginning would lead to another host.
        let slashes = address.iter().take_while(|byte| **byte == b'/').count();
        let line = [b"Location: ", &address[slashes.saturating_sub(1)..], b"\r\n"].concat();
        (line.len() <= BYTES_MAX).then_some(line)
    }
}

/// Whether the name of the host has an end before anything that clients choose; the field Host does not count.
fn is_host_closed(pieces: &[Piece]) -> bool {
    let mut authority = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => {
                authority.push_str(text);
                let rest = authority.split_once("://").map_or("", |(_, rest)| rest);
                if rest.contains(['/', '?', '#']) {
                    return true;
                }
            }
            Piece::Host => authority.push('h'),
            // A path begins with a slash, and a query with a question mark.
            Piece::Path | Piece::Query => return !authority.ends_with("//"),
            Piece::Capture(_) | Piece::Args => return false,
        }
    }
    !authority.ends_with("//")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(test: &PathTest, text: &str, path: &str) -> String {
        let location = Location::read(text, Some(test)).expect("well-formed");
        let captured = test.captures(path.as_bytes());
        let values = Values { path: path.as_bytes(), query: b"?q=1", host: b"h.org", captured };
        let line = location.render(&values).expect("short");
        String::from_utf8(line).expect("ASCII").strip_prefix("Location: ").expect("a field").trim_end().to_owned()
    }

    #[test]
    fn addresses_are_made_of_requests() {
        let prefix = PathTest::Prefix("/old".to_owned());
        let all = PathTest::regex("(?s)^/r(.*)$").expect("well-formed");
        for (test, text, path, expected) in [
            (&prefix, "/new/$rest$query", "/old/a b", "/new/a%20b?q=1"),
            (&prefix, "https://$host$path", "/old", "https://h.org/old"),
            (&prefix, "https://x.org$query", "/old", "https://x.org?q=1"),
            (&prefix, "/find?for=$1&$args", "/old/a&b=c+d", "/find?for=a%26b%3Dc%2Bd&q=1"),
            (&all, "/$1", "/r/evil.org", "/evil.org"),
            (&all, "/$1", "/r\\evil.org", "/%5Cevil.org"),
            (&all, "/$1", "/rx\r\nSet-Cookie: a=b", "/x%0D%0ASet-Cookie%3A%20a=b"),
            (&all, "$path", "/r//", "/r//"),
            (&all, "https://x.org/$1", "/r@evil.org", "https://x.org/@evil.org"),
        ] {
            assert_eq!(location(test, text, path), expected, "{text} {path}");
        }
    }

    #[test]
    fn clients_do_not_choose_the_host() {
        let test = PathTest::regex("^/(.*)$").expect("well-formed");
        for bad in ["https://$1/", "https://x.org$1", "https://$1.x.org/", "https://x.org$args", "http://$path"] {
            assert_eq!(Location::read(bad, Some(&test)), Err(BadTemplate::OpenHost), "{bad}");
        }
        for bad in ["//x.org", "x", "$1", "/a b", "/ä", "/$2", "ftp://x", "https://"] {
            assert!(Location::read(bad, Some(&test)).is_err(), "{bad}");
        }
    }
}
