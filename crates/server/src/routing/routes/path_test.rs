//! For which paths a route is, and what it takes out of them.

use regex::bytes::{Regex, RegexBuilder};
use std::fmt;

/// Pieces of a path that a route can use: `$1` to `$9`.
pub(crate) const CAPTURES_MAX: usize = 9;
/// Bytes that an expression may take once it is compiled.
const COMPILED_BYTES_MAX: usize = 1 << 18;
/// Groups of groups in an expression.
const NESTED_MAX: u32 = 50;

/// A path, all below a path, or a pattern.
#[derive(Debug, Clone)]
pub(crate) enum PathTest {
    /// The path and all below it; `$1` is what lies below, without the slash in front.
    Prefix(String),
    /// The path alone.
    Exact(String),
    /// Each `*`, `**` and `?` is a piece.
    Glob(Regex, String),
    /// It need not be of the whole path.
    Regex(Regex, String),
}

/// What a path gave a route.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Captured<'p>([Option<&'p [u8]>; CAPTURES_MAX + 1]);

impl<'p> Captured<'p> {
    /// A piece by its number, from 1; it is empty where the path has none.
    pub(crate) fn piece(&self, number: usize) -> &'p [u8] {
        self.0.get(number).copied().flatten().unwrap_or_default()
    }
}

impl PathTest {
    /// Compiles a glob: `*` stands for anything within a segment, `**` for anything, `?` for one byte of a segment.
    pub(crate) fn glob(text: &str) -> Option<Self> {
        let mut expression = "(?-u)\\A".to_owned();
        let mut letters = text.chars().peekable();
        while let Some(letter) = letters.next() {
            match letter {
                '*' if letters.next_if_eq(&'*').is_some() => expression.push_str("((?s:.*))"),
                '*' => expression.push_str("([^/]*)"),
                '?' => expression.push_str("([^/])"),
                // Bytes, not letters: a path need not be UTF-8.
                _ => letter
                    .encode_utf8(&mut [0; 4])
                    .bytes()
                    .for_each(|byte| expression.push_str(&format!("\\x{byte:02x}"))),
            }
        }
        expression.push_str("\\z");
        Some(Self::Glob(compile(&expression).ok()?, text.to_owned()))
    }

    /// Compiles a regular expression.
    ///
    /// # Errors
    ///
    /// It is no expression, or too large; in the words of the compiler.
    pub(crate) fn regex(text: &str) -> Result<Self, regex::Error> {
        Ok(Self::Regex(compile(text)?, text.to_owned()))
    }

    pub(crate) fn matches(&self, path: &[u8]) -> bool {
        match self {
            Self::Exact(exact) => path == exact.as_bytes(),
            Self::Prefix(prefix) => path
                .strip_prefix(prefix.as_bytes())
                .is_some_and(|rest| rest.is_empty() || rest[0] == b'/' || prefix.ends_with('/')),
            Self::Glob(regex, _) | Self::Regex(regex, _) => regex.is_match(path),
        }
    }

    /// The pieces of a path that it matches.
    pub(crate) fn captures<'p>(&self, path: &'p [u8]) -> Captured<'p> {
        let mut captured = Captured::default();
        captured.0[0] = Some(path);
        match self {
            Self::Exact(_) => {}
            Self::Prefix(prefix) => {
                let rest = path.get(prefix.len()..).unwrap_or_default();
                captured.0[1] = Some(rest.strip_prefix(b"/").unwrap_or(rest));
            }
            Self::Glob(regex, _) | Self::Regex(regex, _) => {
                if let Some(found) = regex.captures(path) {
                    for (number, place) in captured.0.iter_mut().enumerate().skip(1) {
                        *place = found.get(number).map(|found| found.as_bytes());
                    }
                }
            }
        }
        captured
    }

    /// How many pieces it has; there may be more than can be used.
    pub(crate) fn pieces(&self) -> usize {
        match self {
            Self::Exact(_) => 0,
            Self::Prefix(_) => 1,
            Self::Glob(regex, _) | Self::Regex(regex, _) => regex.captures_len() - 1,
        }
    }

    /// The number of a piece that has a name.
    pub(crate) fn named(&self, name: &str) -> Option<usize> {
        match self {
            Self::Exact(_) => None,
            Self::Prefix(_) => (name == "rest").then_some(1),
            Self::Glob(regex, _) | Self::Regex(regex, _) => {
                regex.capture_names().position(|own| own == Some(name)).filter(|number| *number <= CAPTURES_MAX)
            }
        }
    }

    /// Whether it is certain that it matches every path that another one matches.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (_, Self::Exact(path)) => self.matches(path.as_bytes()),
            (Self::Prefix(own), Self::Prefix(_)) if own.ends_with('/') => {
                // `/a/` is not for `/a`, which the prefix `/a` is for.
                matches!(other, Self::Prefix(path) if self.matches(path.as_bytes()))
            }
            (Self::Prefix(_), Self::Prefix(path)) => self.matches(path.as_bytes()),
            (Self::Prefix(own), Self::Glob(_, text)) => {
                let begin = text.find(['*', '?']).map_or(text.as_str(), |at| &text[..at]);
                begin.strip_prefix(own.as_str()).is_some_and(|rest| rest.starts_with('/') || own.ends_with('/'))
            }
            (Self::Glob(_, own), Self::Glob(_, text)) if own == text => true,
            (Self::Glob(_, own), Self::Glob(_, text) | Self::Prefix(text)) => {
                // `/a/**`, which ends with what stands for anything, after nothing else that does.
                own.strip_suffix("**").is_some_and(|begin| {
                    !begin.contains(['*', '?']) && {
                        let plain = text.find(['*', '?']).map_or(text.as_str(), |at| &text[..at]);
                        matches!(other, Self::Glob(..)) && plain.starts_with(begin)
                            || matches!(other, Self::Prefix(_)) && text.starts_with(begin)
                    }
                })
            }
            (Self::Regex(_, own), Self::Regex(_, text)) => own == text,
            _ => false,
        }
    }
}

impl fmt::Display for PathTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, text) = match self {
            Self::Prefix(text) => ("prefix", text),
            Self::Exact(text) => ("exact", text),
            Self::Glob(_, text) => ("glob", text),
            Self::Regex(_, text) => ("regex", text),
        };
        write!(f, "{kind} {text}")
    }
}

fn compile(expression: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(expression)
        // A path is bytes: none of them gets past an expression that says "anything".
        .unicode(false)
        .dot_matches_new_line(true)
        .size_limit(COMPILED_BYTES_MAX)
        .dfa_size_limit(COMPILED_BYTES_MAX)
        .nest_limit(NESTED_MAX)
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn glob(text: &str) -> PathTest {
        PathTest::glob(text).expect("small")
    }

    fn regex(text: &str) -> PathTest {
        PathTest::regex(text).expect("well-formed")
    }

    #[test]
    fn pieces_are_taken_out_of_paths() {
        let prefix = PathTest::Prefix("/a".to_owned());
        for (test, path, pieces) in [
            (&prefix, "/a/b/c", vec!["b/c"]),
            (&prefix, "/a", vec![""]),
            (&glob("/*/**.php"), "/x/y/z.php", vec!["x", "y/z"]),
            (&glob("/?x"), "/ax", vec!["a"]),
            (&regex("^/(\\d+)-(?<name>.*)$"), "/12-ab", vec!["12", "ab"]),
            (&regex("/(a)?b"), "/b", vec![""]),
        ] {
            assert!(test.matches(path.as_bytes()), "{test} {path}");
            let captured = test.captures(path.as_bytes());
            assert_eq!(test.pieces(), pieces.len(), "{test}");
            for (number, piece) in pieces.iter().enumerate() {
                assert_eq!(captured.piece(number + 1), piece.as_bytes(), "{test} {path}");
            }
            assert_eq!(captured.piece(9), b"");
        }
        for path in [&b"/a/\n"[..], b"/a/\xff", b"/a/\r\n\xc3"] {
            assert!(regex("^/a/.*$").matches(path) && regex("^/a/[^/]+$").matches(path), "{path:?}");
        }
        assert!(regex("^/\u{e4}.$").matches("/\u{e4}x".as_bytes()));
        assert_eq!(regex("(?<a>x)(?<b>y)").named("b"), Some(2));
        assert_eq!(prefix.named("rest"), Some(1));
        assert_eq!(glob("/*").named("rest"), None);
        assert!(!prefix.matches(b"/ab"));
    }

    #[test]
    fn expressions_have_bounds() {
        assert!(PathTest::regex("(((a{100}){100}){100})").is_err());
        assert!(PathTest::regex(&"(".repeat(60).add_closed()).is_err());
        assert!(PathTest::regex("(").is_err());
        assert!(PathTest::glob(&"**a".repeat(20_000)).is_none());
    }

    trait AddClosed {
        fn add_closed(&self) -> String;
    }

    impl AddClosed for String {
        fn add_closed(&self) -> String {
            format!("{self}a{}", ")".repeat(self.len()))
        }
    }

    #[test]
    fn what_one_covers_is_certain() {
        let prefix = |text: &str| PathTest::Prefix(text.to_owned());
        let exact = |text: &str| PathTest::Exact(text.to_owned());
        for (one, other, expected) in [
            (prefix("/"), prefix("/a"), true),
            (prefix("/a"), prefix("/a/b"), true),
            (prefix("/a"), prefix("/ab"), false),
            (prefix("/a/"), prefix("/a"), false),
            (prefix("/a"), exact("/a"), true),
            (prefix("/a"), glob("/a/*.php"), true),
            (prefix("/a"), glob("/a*"), false),
            (prefix("/"), glob("/x*"), true),
            (prefix("/"), glob("**.php"), false),
            (glob("**.php"), exact("/a.php"), true),
            (glob("/a/**"), prefix("/a/b"), true),
            (glob("/a/**"), prefix("/a"), false),
            (glob("/a/**"), glob("/a/*.php"), true),
            (glob("**"), prefix("/"), true),
            (glob("/*"), prefix("/"), false),
            (regex("x"), exact("/x"), true),
            (regex("x"), regex("x"), true),
            (regex(".*"), prefix("/"), false),
            (exact("/a"), prefix("/a"), false),
        ] {
            assert_eq!(one.covers(&other), expected, "{one} {other}");
        }
    }
}
