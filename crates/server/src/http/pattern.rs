//! Patterns: which paths a table of the configuration applies to.

use regex::bytes::{Regex, RegexBuilder};

/// Bytes that a glob may take once it is compiled.
const GLOB_BYTES_MAX: usize = 1 << 18;

/// A path, all below a path, or a pattern.
#[derive(Debug, Clone)]
pub(crate) enum Pattern {
    /// The path and all below it.
    Prefix(Vec<u8>),
    /// The path alone.
    Exact(Vec<u8>),
    /// `*` stands for anything within a segment, `**` for anything, `?` for one byte of a segment.
    Glob(Regex),
}

impl Pattern {
    /// Compiles a glob; none if it is too large.
    pub(crate) fn glob(text: &str) -> Option<Self> {
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
        }
    }

    pub(crate) fn matches(&self, path: &[u8]) -> bool {
        match self {
            Self::Exact(exact) => path == exact,
            Self::Prefix(prefix) => path
                .strip_prefix(prefix.as_slice())
                .is_some_and(|rest| rest.is_empty() || rest[0] == b'/' || prefix.ends_with(b"/")),
            Self::Glob(regex) => regex.is_match(path),
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
        assert!(Pattern::glob(&"**a".repeat(20_000)).is_none());
    }
}
