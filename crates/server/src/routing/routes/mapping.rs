//! Paths that routes put in place of others.

use super::path_test::PathTest;
use super::pieces::{self, BadTemplate, Piece, Values};
use crate::http::target;

/// Bytes of a path and a query that are made of others, each; longer ones are answered with 414.
const BYTES_MAX: usize = 16 << 10;

/// A path with places for what the request has, and perhaps a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mapping {
    path: Vec<Piece>,
    /// Without one the request's stays.
    query: Option<Vec<Piece>>,
}

/// Why no path comes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unmapped {
    /// It would lead upwards, or has a zero in it: 400.
    Malformed,
    /// 414.
    TooLong,
}

/// The path and the query of a request as routes have left them, in memory that is used again.
#[derive(Debug, Default)]
pub(crate) struct Mapped {
    pub(crate) path: Vec<u8>,
    pub(crate) query: Vec<u8>,
    /// Before it has the form that paths have.
    raw: Vec<u8>,
}

impl Mapping {
    /// Reads a text such as `/new/$1` or `/find?q=$1&$args`.
    ///
    /// # Errors
    ///
    /// It has places for what there is not, or is no path.
    pub(crate) fn read(text: &str, test: Option<&PathTest>) -> Result<Self, BadTemplate> {
        if !text.starts_with('/') && !["$path", "${path}"].iter().any(|begin| text.starts_with(begin)) {
            return Err(BadTemplate::NoPath);
        }
        let (path, query) = text.split_once('?').map_or((text, None), |(path, query)| (path, Some(query)));
        let has_dots = path.split('/').any(|segment| segment == "." || segment == "..");
        if has_dots || path.contains("//") || path.contains('%') || path.chars().any(char::is_control) {
            return Err(BadTemplate::NotPlain);
        }
        if !query.unwrap_or_default().bytes().all(|byte| (b'!'..=b'~').contains(&byte) && byte != b'#') {
            return Err(BadTemplate::NotEncoded);
        }
        let path = pieces::read(path, test)?;
        if path.iter().any(|piece| matches!(piece, Piece::Query | Piece::Args)) {
            return Err(BadTemplate::QueryInPath);
        }
        Ok(Self { path, query: query.map(|query| pieces::read(query, test)).transpose()? })
    }

    /// Whether it leaves path and query as they are.
    pub(crate) fn is_same(&self) -> bool {
        self.query.is_none() && self.path == [Piece::Path]
    }

    /// Whether pieces of the path are needed for it.
    pub(crate) fn has_captures(&self) -> bool {
        let all = self.path.iter().chain(self.query.iter().flatten());
        all.into_iter().any(|piece| matches!(piece, Piece::Capture(_)))
    }

    /// Makes the path, in the one form that paths have, and the query.
    ///
    /// # Errors
    ///
    /// There is no such path; `out` is of no use then.
    pub(crate) fn render(&self, values: &Values<'_>, out: &mut Mapped) -> Result<(), Unmapped> {
        out.raw.clear();
        for piece in &self.path {
            out.raw.extend_from_slice(values.of(piece));
        }
        if out.raw.len() > BYTES_MAX {
            return Err(Unmapped::TooLong);
        }
        target::normalise(&out.raw, &mut out.path).map_err(|_| Unmapped::Malformed)?;
        out.query.clear();
        match &self.query {
            None => out.query.extend_from_slice(values.query),
            Some(query) => {
                out.query.push(b'?');
                for piece in query {
                    match piece {
                        // The configuration has them as they are sent, and the parser has looked at the request's.
                        Piece::Text(_) | Piece::Args | Piece::Query => out.query.extend_from_slice(values.of(piece)),
                        _ => target::encode_value(values.of(piece), &mut out.query),
                    }
                }
                if out.query == b"?" {
                    out.query.clear();
                }
            }
        }
        if out.query.len() > BYTES_MAX { Err(Unmapped::TooLong) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn map(test: &PathTest, text: &str, path: &[u8], query: &[u8]) -> Result<(Vec<u8>, Vec<u8>), Unmapped> {
        let mapping = Mapping::read(text, Some(test)).expect("well-formed");
        let mut out = Mapped::default();
        let values = Values { path, query, host: b"a.org", captured: test.captures(path) };
        mapping.render(&values, &mut out).map(|()| (out.path, out.query))
    }

    #[test]
    fn paths_are_made_of_others() {
        let prefix = PathTest::Prefix("/a".to_owned());
        let all = PathTest::regex("^/(.)(.*)$").expect("well-formed");
        for (test, text, path, query, expected) in [
            (&prefix, "/b/$1", "/a/x", "?q", Ok(("/b/x", "?q"))),
            (&prefix, "/b/$rest", "/a", "", Ok(("/b/", ""))),
            (&prefix, "/b?p=$1&$args", "/a/x y&z", "?q=1", Ok(("/b", "?p=x%20y%26z&q=1"))),
            (&prefix, "/b?", "/a/x", "?q", Ok(("/b", ""))),
            (&prefix, "$path.html", "/a/x", "", Ok(("/a/x.html", ""))),
            (&prefix, "/$host$path", "/a", "", Ok(("/a.org/a", ""))),
            (&all, "/$2", "/x/y//", "", Ok(("/y/", ""))),
            (&all, "/$2", "/x../etc", "", Err(Unmapped::Malformed)),
            (&all, "/$2", "/x./etc", "", Ok(("/etc", ""))),
            (&all, "/$2", "/x\0", "", Err(Unmapped::Malformed)),
        ] {
            let expected = expected.map(|(path, query)| (path.into(), query.into()));
            assert_eq!(map(test, text, path.as_bytes(), query.as_bytes()), expected, "{text} {path}");
        }
        let long = vec![b'a'; BYTES_MAX];
        assert_eq!(map(&all, "/x$2", &[b"/", &long[..]].concat(), b""), Err(Unmapped::TooLong));
        for bad in ["x", "//x", "/../x", "/a/./b", "/%41", "/a\n", "/$query", "/a?b c", "/a?#", "/$9", ""] {
            assert!(Mapping::read(bad, Some(&prefix)).is_err(), "{bad}");
        }
    }

    proptest! {
        /// A mapped path is one that a request could have asked for: it resolves to itself.
        #[test]
        fn a_mapped_path_is_in_the_grammar(
            path in proptest::collection::vec(any::<u8>(), 0..40),
            text in "/[a-z$12./]{0,10}",
        ) {
            let test = PathTest::regex("(?s-u)^/?(.)(.*)$").expect("well-formed");
            let Ok(mapping) = Mapping::read(&text, Some(&test)) else { return Ok(()) };
            let mut out = Mapped::default();
            let path = [b"/", &path[..]].concat();
            let values = Values { path: &path, query: b"", host: b"", captured: test.captures(&path) };
            if mapping.render(&values, &mut out).is_ok() {
                let mut encoded = Vec::new();
                target::encode(&out.path, &mut encoded);
                let encoded = String::from_utf8(encoded).expect("ASCII");
                let mut decoded = Vec::new();
                let found = target::resolve(&encoded, true, &mut decoded).expect("resolves");
                prop_assert_eq!(found.path, &out.path[..]);
            }
        }
    }
}
