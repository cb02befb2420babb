//! Regular expressions of other servers: as weir's, or as patterns of whole paths where they are simple.

use regex::bytes::RegexBuilder;

/// Bytes that weir lets an expression take, compiled.
const COMPILED_BYTES_MAX: usize = 1 << 18;
/// Patterns that one expression may become.
const GLOBS_MAX: usize = 64;
/// Groups within groups.
const DEPTH_MAX: usize = 8;
const EXPRESSION_BYTES_MAX: usize = 4096;

/// An expression as weir reads it; none if it cannot, as with look-around.
pub(crate) fn expression(text: &str, is_caseless: bool) -> Option<String> {
    if text.len() > EXPRESSION_BYTES_MAX || text.contains(char::is_control) {
        return None;
    }
    let text = if is_caseless { format!("(?i){text}") } else { text.to_owned() };
    let is_known = RegexBuilder::new(&text)
        .unicode(false)
        .dot_matches_new_line(true)
        .size_limit(COMPILED_BYTES_MAX)
        .dfa_size_limit(COMPILED_BYTES_MAX)
        .nest_limit(50)
        .build()
        .is_ok();
    is_known.then_some(text)
}

/// A text as an expression for itself.
pub(crate) fn literal(text: &str) -> String {
    regex::escape(text)
}

/// How many groups it captures.
pub(crate) fn groups(text: &str) -> usize {
    RegexBuilder::new(text).unicode(false).build().map_or(0, |regex| regex.captures_len() - 1)
}

/// Whether a path or another text matches; false for what is no expression.
pub(crate) fn matches(expression: &str, text: &str) -> bool {
    let regex = RegexBuilder::new(expression).unicode(false).size_limit(COMPILED_BYTES_MAX).build();
    regex.is_ok_and(|regex| regex.is_match(text.as_bytes()))
}

/// Whether the first group of an expression is the whole path.
pub(crate) fn captures_all(text: &str) -> bool {
    let bare = text.strip_prefix('^').unwrap_or(text);
    let bare = bare.strip_suffix('$').unwrap_or(bare);
    matches!(bare, "(.*)" | "(/.*)" | "(.+)" | "(/.+)")
}

/// Patterns of whole texts (`*` within a segment, `**` anything, `?` one character) that together match what the
/// expression matches; none if that cannot be said exactly.
pub(crate) fn globs(text: &str) -> Option<Vec<String>> {
    if text.len() > EXPRESSION_BYTES_MAX {
        return None;
    }
    let (text, is_begun) = text.strip_prefix('^').map_or((text, false), |rest| (rest, true));
    let letters: Vec<char> = text.chars().collect();
    let mut reader = Reader { letters: &letters, at: 0, depth: 0 };
    let found = reader.alternatives()?;
    // An anchor before an alternative is for that one alone.
    let has_choice = found.has_choice;
    if reader.at < letters.len() || is_begun && has_choice {
        return None;
    }
    let mut globs = Vec::new();
    for part in found.parts {
        let mut glob = if is_begun { String::new() } else { "**".to_owned() };
        glob.push_str(&part.text);
        if !part.is_ended && !glob.ends_with("**") {
            glob.push_str("**");
        }
        if glob.starts_with('*') && !glob.starts_with("**") {
            return None;
        }
        // Paths begin with a slash, and have no two side by side: these match none.
        let is_of_none = glob.contains("//") || !glob.starts_with('/') && !glob.starts_with("**");
        if glob.contains('%') || glob.split('/').any(|segment| segment == "." || segment == "..") {
            return None;
        }
        if !is_of_none && !globs.contains(&glob) {
            globs.push(glob);
        }
    }
    (globs.len() <= GLOBS_MAX).then_some(globs)
}

/// A pattern of a whole text, for values: what an expression finds somewhere, as `*bot*`.
pub(crate) fn value_globs(text: &str) -> Option<Vec<String>> {
    let (text, is_begun) = text.strip_prefix('^').map_or((text, false), |rest| (rest, true));
    let letters: Vec<char> = text.chars().collect();
    let mut reader = Reader { letters: &letters, at: 0, depth: 0 };
    let found = reader.alternatives()?;
    if reader.at < letters.len() || is_begun && found.has_choice {
        return None;
    }
    let glob = |part: &Part| {
        // `*` within a segment is no pattern of values.
        if part.text.replace("**", "").contains('*') || part.text.contains('?') {
            return None;
        }
        let begin = if is_begun { "" } else { "*" };
        let end = if part.is_ended { "" } else { "*" };
        Some(format!("{begin}{}{end}", part.text.replace("**", "*")).replace("**", "*"))
    };
    found.parts.iter().map(glob).collect()
}

#[derive(Debug, Clone, Default)]
struct Part {
    text: String,
    /// Nothing follows.
    is_ended: bool,
}

struct Found {
    parts: Vec<Part>,
    has_choice: bool,
}

struct Reader<'l> {
    letters: &'l [char],
    at: usize,
    depth: usize,
}

impl Reader<'_> {
    fn alternatives(&mut self) -> Option<Found> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        let mut parts = self.sequence()?;
        let mut has_choice = false;
        while self.letters.get(self.at) == Some(&'|') {
            self.at += 1;
            has_choice = true;
            parts.extend(self.sequence()?);
            if parts.len() > GLOBS_MAX {
                return None;
            }
        }
        self.depth -= 1;
        Some(Found { parts, has_choice })
    }

    fn sequence(&mut self) -> Option<Vec<Part>> {
        let mut parts = vec![Part::default()];
        while let Some(letter) = self.letters.get(self.at) {
            if matches!(letter, '|' | ')') {
                break;
            }
            let mut next = self.item()?;
            if self.letters.get(self.at) == Some(&'?') {
                self.at += 1;
                next.push(Part::default());
            }
            if matches!(self.letters.get(self.at), Some('*' | '+' | '{' | '?')) {
                return None;
            }
            parts = combined(&parts, &next)?;
        }
        Some(parts)
    }

    /// One letter, class or group, and what it may stand for.
    fn item(&mut self) -> Option<Vec<Part>> {
        let letter = *self.letters.get(self.at)?;
        self.at += 1;
        let one = |text: &str| Some(vec![Part { text: text.to_owned(), is_ended: false }]);
        match letter {
            '$' => Some(vec![Part { text: String::new(), is_ended: true }]),
            '.' => {
                let times = *self.letters.get(self.at)?;
                if !matches!(times, '*' | '+') {
                    return None;
                }
                self.at += 1;
                self.lazy();
                let part = |text: &str| Part { text: text.to_owned(), is_ended: false };
                // One letter at least, which may be a slash.
                if times == '*' { one("**") } else { Some(vec![part("?**"), part("/**")]) }
            }
            '(' => {
                if self.letters.get(self.at) == Some(&'?') {
                    if self.letters.get(self.at + 1) != Some(&':') {
                        return None;
                    }
                    self.at += 2;
                }
                let found = self.alternatives()?;
                if self.letters.get(self.at) != Some(&')') {
                    return None;
                }
                self.at += 1;
                Some(found.parts)
            }
            '[' => self.class(),
            '\\' => {
                let letter = *self.letters.get(self.at)?;
                self.at += 1;
                if letter.is_alphanumeric() || matches!(letter, '*' | '?') { None } else { one(&letter.to_string()) }
            }
            '^' | '*' | '+' | '{' | '}' | ']' => None,
            letter if letter == '?' || letter.is_control() => None,
            letter => one(&letter.to_string()),
        }
    }

    fn lazy(&mut self) {
        if self.letters.get(self.at) == Some(&'?') {
            self.at += 1;
        }
    }

    /// `[^/]`, or a few letters.
    fn class(&mut self) -> Option<Vec<Part>> {
        let end = self.letters[self.at..].iter().position(|letter| *letter == ']')? + self.at;
        let inner: String = self.letters[self.at..end].iter().collect();
        self.at = end + 1;
        let one = |text: &str| Part { text: text.to_owned(), is_ended: false };
        if inner == "^/" || inner == "^\\/" {
            return match self.letters.get(self.at) {
                Some('*') => {
                    self.at += 1;
                    self.lazy();
                    Some(vec![one("*")])
                }
                Some('+') => {
                    self.at += 1;
                    self.lazy();
                    Some(vec![one("?*")])
                }
                _ => Some(vec![one("?")]),
            };
        }
        let inner = inner.replace('\\', "");
        let is_plain = |letter: char| letter.is_alphanumeric() || "._~ ".contains(letter);
        if inner.is_empty() || inner.chars().count() > 8 || !inner.chars().all(is_plain) {
            return None;
        }
        Some(inner.chars().map(|letter| one(&letter.to_string())).collect())
    }
}

/// Each of the first before each of the second; nothing follows an end.
fn combined(first: &[Part], second: &[Part]) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    for one in first {
        for other in second {
            if one.is_ended {
                // Stars may stand for nothing.
                if other.text.trim_matches('*').is_empty() {
                    parts.push(one.clone());
                }
                continue;
            }
            parts.push(Part { text: format!("{}{}", one.text, other.text), is_ended: other.is_ended });
        }
    }
    (parts.len() <= GLOBS_MAX).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn simple_expressions_are_patterns() {
        for (text, expected) in [
            (r"\.php$", &["**.php"][..]),
            (r"[^/]\.php(/|$)", &["**?.php/**", "**?.php"]),
            (r"^/api/", &["/api/**"]),
            (r"^/(.*/)?(x|README$)[^/]*$", &["/**/x*", "/**/README", "/x*", "/README"]),
            (r"\.(jpg|png)$", &["**.jpg", "**.png"]),
            (r"\.jpe?g$", &["**.jpeg", "**.jpg"]),
            (r"/\.ht", &["**/.ht**"]),
            (r"/\.", &["**/.**"]),
            (r"^/a/[^/]+/b$", &["/a/?*/b"]),
            (r"^(.*)\.php$", &["**.php"]),
            (r"^/(?:inc|lib)/", &["/inc/**", "/lib/**"]),
            (r"^(.+\.php)(.*)$", &["/**.php**"]),
            (r"(^|/)x$", &[]),
            (r"^/a|/b", &[]),
            (r"\d+", &[]),
            (r"^/a+", &[]),
            (r"(?!x)", &[]),
        ] {
            let found = globs(text).unwrap_or_default();
            assert_eq!(found, expected, "{text}");
        }
        assert_eq!(value_globs("bot|Spider$"), Some(vec!["*bot*".to_owned(), "*Spider".to_owned()]));
        assert!(expression(r"^/a(?!b)", false).is_none() && expression(r"\.(jpg|png)$", true).is_some());
    }

    /// A pattern of paths as an expression.
    fn as_expression(glob: &str) -> String {
        let mut out = "(?s-u)^".to_owned();
        let mut letters = glob.chars().peekable();
        while let Some(letter) = letters.next() {
            match letter {
                '*' if letters.next_if_eq(&'*').is_some() => out.push_str(".*"),
                '*' => out.push_str("[^/]*"),
                '?' => out.push_str("[^/]"),
                letter => out.push_str(&literal(&letter.to_string())),
            }
        }
        out + "$"
    }

    proptest! {
        /// What becomes of an expression matches the same paths.
        #[test]
        fn patterns_match_what_expressions_match(
            text in r"\^?(/|a|b|\.\*|\[\^/\]\+|\[ab\]|\((a|/|b\$)\|(b|ab)\)|\\\.|a\?){0,6}\$?",
            path in "/([ab.]{1,3}/?){0,3}",
        ) {
            if let Some(globs) = globs(&text) {
                let expected = matches(&format!("(?s-u){text}"), &path);
                let found = globs.iter().any(|glob| matches(&as_expression(glob), &path));
                prop_assert_eq!(found, expected, "{} {:?} {}", text, globs, path);
            }
        }
    }
}
