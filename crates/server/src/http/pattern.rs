//! Patterns: which paths a table of the configuration applies to.

use regex::bytes::{Regex, RegexBuilder};

/// Bytes that a glob may take once it is compiled.
const GLOB_BYTES_MAX: usize = 1 << 18;
/// Bytes of a glob that is divided into pieces.
const PIECES_BYTES_MAX: usize = 1 << 10;

/// A path, all below a path, or a pattern.
#[derive(Debug, Clone)]
pub(crate) enum Pattern {
    /// The path and all below it.
    Prefix(Vec<u8>),
    /// The path alone.
    Exact(Vec<u8>),
    /// `*` stands for anything within a segment, `**` for anything, `?` for one byte of a segment.
    Glob(Regex),
    /// A glob with no other sign than `**`, which needs no automaton: most of those for scripts are.
    Pieces(Pieces),
}

/// What stands before, between and behind the signs `**` of a glob, of which there is one at least.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pieces {
    first: Vec<u8>,
    between: Vec<Vec<u8>>,
    last: Vec<u8>,
}

impl Pieces {
    /// The pieces of a glob; none if it has other signs as well, or none.
    fn of(glob: &str) -> Option<Self> {
        let mut pieces = glob.split("**");
        let (first, mut rest) = (pieces.next()?, pieces.map(|piece| piece.as_bytes().to_vec()).collect::<Vec<_>>());
        let last = rest.pop()?;
        let is_plain = |piece: &[u8]| !piece.iter().any(|byte| b"*?".contains(byte));
        let is_all_plain = is_plain(first.as_bytes()) && is_plain(&last) && rest.iter().all(|piece| is_plain(piece));
        is_all_plain.then(|| Self { first: first.as_bytes().to_vec(), between: rest, last })
    }

    fn matches(&self, path: &[u8]) -> bool {
        let Some(rest) = path.strip_prefix(self.first.as_slice()) else { return false };
        let Some(mut rest) = rest.strip_suffix(self.last.as_slice()) else { return false };
        // The first place of each leaves the most for those behind it.
        self.between.iter().all(|piece| match memchr::memmem::find(rest, piece) {
            Some(at) => {
                rest = &rest[at + piece.len()..];
                true
            }
            None => false,
        })
    }
}

impl Pattern {
    /// Compiles a glob; none if it is too large.
    pub(crate) fn glob(text: &str) -> Option<Self> {
        match Pieces::of(text).filter(|_| text.len() <= PIECES_BYTES_MAX) {
            Some(pieces) => Some(Self::Pieces(pieces)),
            None => Self::expression(text),
        }
    }

    /// A glob as an expression.
    fn expression(text: &str) -> Option<Self> {
        let mut expression = "(?-u)\\A".to_owned();
        let mut letters = text.chars().peekable();
        while let Some(letter) = letters.next() {
            match letter {
                '*' if letters.next_if_eq(&'*').is_some() => expression.push_str("(?s:.*)"),
                '*' => expression.push_str("[^/]*"),
                '?' => expression.push_str("[^/]"),
                // Bytes, not letters: a path need not be UTF-8.
                _ => letter
                    .encode_utf8(&mut [0; 4])
                    .bytes()
                    .for_each(|byte| expression.push_str(&format!("\\x{byte:02x}"))),
            }
        }
        expression.push_str("\\z");
        RegexBuilder::new(&expression).size_limit(GLOB_BYTES_MAX).build().ok().map(Self::Glob)
    }

    /// Whether it is for paths that end so, rather than for all of a directory.
    pub(crate) fn is_of_ending(&self, ending: &[u8]) -> bool {
        match self {
            Self::Exact(path) | Self::Prefix(path) => path.ends_with(ending),
            Self::Glob(regex) => {
                let letters: String = ending.iter().map(|byte| format!("\\x{byte:02x}")).collect();
                regex.as_str().ends_with(&format!("{letters}\\z"))
            }
            Self::Pieces(pieces) => pieces.last.ends_with(ending),
        }
    }

    pub(crate) fn matches(&self, path: &[u8]) -> bool {
        match self {
            Self::Exact(exact) => path == exact,
            Self::Prefix(prefix) => path
                .strip_prefix(prefix.as_slice())
                .is_some_and(|rest| rest.is_empty() || rest[0] == b'/' || prefix.ends_with(b"/")),
            Self::Glob(regex) => regex.is_match(path),
            Self::Pieces(pieces) => pieces.matches(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_match_as_documented() {
        let glob = |text| Pattern::glob(text).expect("small enough");
        for (pattern, yes, no) in [
            (Pattern::Prefix(b"/a".to_vec()), vec!["/a", "/a/", "/a/b"], vec!["/", "/ab", "/b/a"]),
            (Pattern::Prefix(b"/a/".to_vec()), vec!["/a/", "/a/b"], vec!["/a", "/ab/"]),
            (Pattern::Prefix(b"/".to_vec()), vec!["/", "/a"], vec![]),
            (Pattern::Exact(b"/a".to_vec()), vec!["/a"], vec!["/a/", "/"]),
            (glob("/*.php"), vec!["/a.php", "/.php"], vec!["/a/b.php", "/a.php5", "/aphp"]),
            (glob("**.php"), vec!["/a.php", "/a/b.php"], vec!["/a.php/b"]),
            (glob("/a/**/z"), vec!["/a/b/z", "/a/b/c/z"], vec!["/a/z"]),
            (glob("/?[+]"), vec!["/a[+]"], vec!["/ab[+]", "/a+"]),
            (glob("/ä*"), vec!["/äö"], vec!["/a"]),
        ] {
            assert!(yes.iter().all(|path| pattern.matches(path.as_bytes())), "{pattern:?} {yes:?}");
            assert!(!no.iter().any(|path| pattern.matches(path.as_bytes())), "{pattern:?} {no:?}");
        }
        for (pattern, expected) in
            [(glob("**.gz"), true), (glob("/a/*"), false), (Pattern::Exact(b"/a.gz".to_vec()), true)]
        {
            assert_eq!(pattern.is_of_ending(b".gz"), expected, "{pattern:?}");
        }
        assert!(glob("/*\n").matches(b"/\xff\n"));
        assert!(matches!(glob("**.php/**"), Pattern::Pieces(_)) && matches!(glob("/a/***"), Pattern::Glob(_)));
        assert!(Pattern::glob(&"**a".repeat(20_000)).is_none());
    }
    proptest::proptest! {
        /// In pieces a glob matches what it matches as an expression.
        #[test]
        fn pieces_match_as_expressions_do(glob in "([ab/]{0,2}(\\*\\*)?){1,4}", path in "[ab/\n]{0,8}") {
            let Some(pieces) = Pieces::of(&glob) else { return Ok(()) };
            let Some(Pattern::Glob(regex)) = Pattern::expression(&glob) else { panic!("{glob} is too large") };
            proptest::prop_assert_eq!(pieces.matches(path.as_bytes()), regex.is_match(path.as_bytes()), "{} {}", glob, path);
        }
    }
}
