//! Perl's regular expressions as far as an automaton without backtracking runs them.
//!
//! What both have is translated where they differ; what only Perl has is refused where it is written.

use regex::bytes::{Regex, RegexBuilder};

/// A pattern, as written and as run; it is matched against bytes.
#[derive(Debug, Clone)]
pub struct Pattern {
    source: String,
    regex: Regex,
}

/// A pattern that cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the pattern `{pattern}` cannot be run: {cause}")]
pub struct PatternError {
    /// The pattern, as written.
    pub pattern: String,
    /// Why, and what to write instead.
    pub cause: String,
}

impl Pattern {
    /// Reads a pattern of Perl's.
    ///
    /// # Errors
    /// What only backtracking can do (look-around, back references, …), code, and what is no pattern.
    pub fn new(source: &str, ignore_case: bool) -> Result<Self, PatternError> {
        let refuse = |cause: String| PatternError { pattern: source.to_owned(), cause };
        let translated = translate(source).map_err(|error| refuse(error.to_string()))?;
        let built = RegexBuilder::new(&translated).case_insensitive(ignore_case).build();
        let regex = built.map_err(|error| refuse(shortened(&error.to_string())))?;
        Ok(Self { source: source.to_owned(), regex })
    }

    /// A pattern that finds this text as it stands.
    ///
    /// # Errors
    /// A text too long to be searched for so.
    pub fn text(text: &str, ignore_case: bool) -> Result<Self, PatternError> {
        let built = RegexBuilder::new(&regex::escape(text)).case_insensitive(ignore_case).build();
        let refuse = |error: regex::Error| PatternError { pattern: text.to_owned(), cause: error.to_string() };
        Ok(Self { source: text.to_owned(), regex: built.map_err(refuse)? })
    }

    /// Whether it is found anywhere.
    #[must_use]
    pub fn is_in(&self, content: &[u8]) -> bool {
        self.regex.is_match(content)
    }

    /// As it was written.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }
}

/// The library draws the pattern over several lines; its last line says what is wrong.
fn shortened(message: &str) -> String {
    let last = message.lines().last().unwrap_or(message).trim();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}

/// Constructs that need backtracking or Perl itself, by what they begin with, and their remedy.
const REFUSED: &[(&str, &str)] = &[
    ("(?=", "look-ahead is not supported; require two patterns, or a longer one"),
    ("(?!", "negative look-ahead is not supported; forbid a pattern of its own"),
    ("(?<=", "look-behind is not supported; match what stands before, too"),
    ("(?<!", "negative look-behind is not supported; forbid a pattern of its own"),
    ("(?>", "atomic groups are not supported; write (?: … )"),
    ("(?|", "branch reset is not supported; write (?: … )"),
    ("(?{", "Perl code is not evaluated"),
    ("(??{", "Perl code is not evaluated"),
    ("(?(", "conditions are not supported"),
    ("(?R", "recursion is not supported"),
    ("(?&", "recursion is not supported"),
    ("(*", "backtracking verbs are not supported"),
];

/// Why a pattern of Perl's cannot be translated.
#[derive(Debug, Clone, Copy, thiserror::Error)]
enum TranslateError {
    #[error("{0}")]
    Refused(&'static str),
    #[error("{0} has no end")]
    Open(&'static str),
    #[error("possessive quantifiers are not supported; leave out the second +")]
    Possessive,
    #[error("it ends with a backslash")]
    Backslash,
    #[error("references back to a group are not supported; write the text again")]
    BackReference,
    #[error("\\{0} is not supported; leave it out")]
    Escape(char),
}

fn translate(source: &str) -> Result<String, TranslateError> {
    let lines = has_line_mode(source);
    let mut out = String::with_capacity(source.len() + 8);
    let mut at = 0;
    let mut in_class = false;
    while let Some(letter) = source[at..].chars().next() {
        let rest = &source[at..];
        let length = letter.len_utf8();
        at += length;
        match letter {
            '\\' => at += escape(&rest[1..], in_class, &mut out)?,
            '[' if !in_class => {
                in_class = true;
                out.push('[');
                // `]` is itself where it comes first.
                let after = source[at..].strip_prefix('^').unwrap_or(&source[at..]);
                if after.len() < source[at..].len() {
                    out.push('^');
                    at += 1;
                }
                if after.starts_with(']') {
                    out.push_str("\\]");
                    at += 1;
                }
            }
            '[' if rest.starts_with("[:") => match rest.find(":]") {
                Some(end) => {
                    out.push_str(&rest[..end + 2]);
                    at += end + 1;
                }
                None => out.push_str("\\["),
            },
            // Perl's classes have no sets within.
            '[' => out.push_str("\\["),
            '&' | '~' if in_class => {
                out.push('\\');
                out.push(letter);
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            // The second of two, which would subtract a class.
            '-' if in_class && out.ends_with('-') => out.push_str("\\-"),
            // Perl's end of text is also before the last end of line.
            '$' if !in_class && !lines => out.push_str(r"(?:\n?\z)"),
            '(' if !in_class => at += group(rest, &mut out)?,
            '+' if !in_class && is_quantified(&out) => {
                return Err(TranslateError::Possessive);
            }
            letter => out.push(letter),
        }
    }
    Ok(out)
}

/// The begin of a group: how many bytes of it were taken behind the parenthesis.
fn group(rest: &str, out: &mut String) -> Result<usize, TranslateError> {
    if let Some((_, why)) = REFUSED.iter().find(|(begin, _)| rest.starts_with(begin)) {
        return Err(TranslateError::Refused(why));
    }
    // How Perl itself writes down a compiled pattern.
    if let Some(flags) = rest.strip_prefix("(?^") {
        let end = flags.find([':', ')']).ok_or(TranslateError::Open("(?^"))?;
        let set: String = flags[..end].chars().filter(|flag| "imsx".contains(*flag)).collect();
        out.push_str(&format!("(?{set}"));
        return Ok(2 + end);
    }
    if let Some(name) = rest.strip_prefix("(?'") {
        let end = name.find('\'').ok_or(TranslateError::Open("(?'"))?;
        out.push_str(&format!("(?<{}>", &name[..end]));
        return Ok(3 + end);
    }
    out.push('(');
    Ok(0)
}

/// Whether a quantifier has just been written, so that a plus would make it possessive.
fn is_quantified(out: &str) -> bool {
    let escaped = |text: &str| text.len() - text.trim_end_matches('\\').len();
    let Some(before) = out.strip_suffix(['*', '+', '?', '}']) else { return false };
    // `\p{L}+` ends with a brace that is no quantifier's.
    let braces = out.ends_with('}')
        && out.rfind('{').is_none_or(|open| {
            let count = &out[open + 1..out.len() - 1];
            count.is_empty() || !count.bytes().all(|byte| byte.is_ascii_digit() || byte == b',')
        });
    !braces && escaped(before) % 2 == 0 && !before.ends_with('(')
}

/// Whether `$` and `^` stand for ends of lines somewhere: then the library's own reading is right.
fn has_line_mode(source: &str) -> bool {
    source.match_indices("(?").any(|(at, _)| {
        let flags = source[at + 2..].trim_start_matches('^');
        let end = flags.find(|letter: char| !letter.is_ascii_lowercase()).unwrap_or(flags.len());
        flags[..end].contains('m')
    })
}

/// What follows a backslash: how many bytes of it were taken.
fn escape(rest: &str, in_class: bool, out: &mut String) -> Result<usize, TranslateError> {
    let Some(letter) = rest.chars().next() else { return Err(TranslateError::Backslash) };
    match letter {
        'Q' => {
            let quoted = &rest[1..];
            let (text, taken) = quoted.find("\\E").map_or((quoted, quoted.len()), |end| (&quoted[..end], end + 2));
            out.push_str(&regex::escape(text));
            return Ok(1 + taken);
        }
        'E' => {}
        'Z' if !in_class => out.push_str(r"(?:\n?\z)"),
        'h' if in_class => out.push_str(r"\t "),
        'h' => out.push_str(r"[\t ]"),
        'R' if !in_class => out.push_str(r"(?:\r\n|[\n\r\x0b\x0c])"),
        'N' if !in_class && !rest.starts_with("N{") => out.push_str(r"[^\n]"),
        'e' => out.push_str(r"\x1b"),
        // The library would read these as ends of words.
        '<' | '>' => out.push(letter),
        '0' if !in_class => out.push_str(r"\x00"),
        '1'..='9' | 'g' | 'k' if !in_class => {
            return Err(TranslateError::BackReference);
        }
        'G' | 'K' | 'X' | 'C' => return Err(TranslateError::Escape(letter)),
        letter if letter.is_ascii() && !letter.is_ascii_alphanumeric() => {
            out.push('\\');
            out.push(letter);
        }
        letter if !letter.is_ascii() => out.push(letter),
        letter => {
            out.push('\\');
            out.push(letter);
        }
    }
    Ok(letter.len_utf8())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn perl_and_we_agree() {
        // (pattern, text, what Perl 5 answers)
        for (pattern, text, found) in [
            ("</html>$", "<p></html>\n", true),
            ("</html>$", "<p></html>\n\n", false),
            (r"\<b\>", "<b>", true),
            (r"\<b\>", "b", false),
            ("[[]x[]]", "[x]", true),
            ("[a&&b]", "&", true),
            ("[a~~b]", "~", true),
            (r"\Qa.b\E+", "a.bbb", true),
            (r"\Qa.b\E", "axb", false),
            ("(?^i:Hello)", "hello", true),
            ("(?m)^b$", "a\nb\nc", true),
            ("^b$", "a\nb\nc", false),
            (r"end\Z", "the end\n", true),
            (r"\p{L}+", "é", true),
            (r"a\/b", "a/b", true),
            (r"\d{2,}\s*items?", "17 item", true),
            ("(?'n'a)b", "ab", true),
            ("a.c", "a\nc", false),
            (r"\++", "++", true),
            ("[+*]+", "*+", true),
        ] {
            let read = Pattern::new(pattern, false).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(read.is_in(text.as_bytes()), found, "{pattern} in {text:?}");
        }
    }

    #[test]
    fn what_only_perl_has_is_refused_by_name() {
        for (pattern, told) in [
            ("a(?=b)", "look-ahead"),
            ("(?<!a)b", "look-behind"),
            (r"(a)\1", "references back"),
            ("a++", "possessive"),
            ("(?{ 1 })", "code"),
            ("a{2}+", "possessive"),
            ("(", "unclosed group"),
        ] {
            let error = Pattern::new(pattern, false).unwrap_err();
            assert!(error.to_string().contains(told), "{pattern}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_pattern_or_refused(source in "[ -~é\n]{0,24}") {
            let _either = Pattern::new(&source, true);
        }

        #[test]
        fn a_text_is_found_as_it_stands(text in "\\PC{0,16}", around in "\\PC{0,8}") {
            let pattern = Pattern::text(&text, false).unwrap();
            let whole = format!("{around}{text}{around}");
            prop_assert!(pattern.is_in(whole.as_bytes()));
        }

        #[test]
        fn what_is_quoted_is_found(text in "[ -\\[\\]-~]{1,16}") {
            let pattern = Pattern::new(&format!("\\Q{text}\\E"), false).unwrap();
            prop_assert!(pattern.is_in(text.as_bytes()));
        }
    }
}
