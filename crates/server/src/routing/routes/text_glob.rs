//! Patterns of texts that are no paths: names of hosts, values of fields.

use regex::bytes::{Regex, RegexBuilder};
use std::fmt;

/// Bytes that a pattern may take once it is compiled.
const COMPILED_BYTES_MAX: usize = 1 << 16;

/// A pattern in which `*` stands for anything, and `?` for one byte.
#[derive(Debug, Clone)]
pub(crate) struct TextGlob {
    regex: Regex,
    text: String,
}

impl TextGlob {
    /// Compiles a pattern; none if it is too large.
    pub(crate) fn new(text: &str, has_case: bool) -> Option<Self> {
        let mut expression = "(?-u)\\A".to_owned();
        for byte in text.bytes() {
            match byte {
                b'*' => expression.push_str("(?s:.*)"),
                b'?' => expression.push_str("(?s:.)"),
                _ => expression.push_str(&format!("\\x{byte:02x}")),
            }
        }
        expression.push_str("\\z");
        let regex = RegexBuilder::new(&expression).case_insensitive(!has_case).size_limit(COMPILED_BYTES_MAX).build();
        Some(Self { regex: regex.ok()?, text: text.to_owned() })
    }

    pub(crate) fn matches(&self, value: &[u8]) -> bool {
        self.regex.is_match(value)
    }
}

impl fmt::Display for TextGlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asterisks_stand_for_anything() {
        for (pattern, has_case, value, expected) in [
            ("*.example.org", false, "A.Example.org", true),
            ("*.example.org", false, "example.org", false),
            ("a?c", true, "abc", true),
            ("a?c", true, "aBC", false),
            ("", true, "", true),
            ("*bot*", false, "Mozilla (GoogleBot/2.1; +http://x/)", true),
            ("a.c", true, "abc", false),
            ("*", true, "\n", true),
        ] {
            let glob = TextGlob::new(pattern, has_case).expect("small");
            assert_eq!(glob.matches(value.as_bytes()), expected, "{pattern} {value}");
        }
        assert!(TextGlob::new(&"*a".repeat(50_000), true).is_none());
    }
}
