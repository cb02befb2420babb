//! The words of a policy, each with its place.

use super::hint;
use super::mistake::Findings;

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A keyword or a name.
    Word,
    /// A number without a unit.
    Number,
    /// A number with its unit, without a space between them.
    Quantity,
    /// Something in double quotes.
    Text,
    /// A path without quotes, which is a mistake that is easily made.
    Path,
    /// Punctuation, or a comparison.
    Symbol,
    /// From `#` to the end of its line.
    Comment,
    /// Behind the last one.
    End,
}

/// A token: the bytes from `start` to `end`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

const SYMBOLS: [&str; 18] =
    ["<=", ">=", "==", "!=", "<", ">", "=", "{", "}", "(", ")", "[", "]", ",", ";", ":", "@", "."];

/// Takes a text apart, comments included; what is no token is told and passed over.
pub(crate) fn tokens(text: &str, findings: &mut Findings<'_>) -> Vec<Token> {
    let mut tokens = Vec::new();
    // Some editors begin a file with a byte order mark.
    let mut at = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    while let Some(first) = text[at..].chars().next() {
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        let rest = &text[at..];
        let (kind, length) = match first {
            '#' => (Kind::Comment, rest.find('\n').unwrap_or(rest.len())),
            '"' => match quoted(rest) {
                Some(length) => (Kind::Text, length),
                None => {
                    findings.wrong(at, "the text in quotes does not end in its line", "close it with `\"`");
                    at += rest.find('\n').unwrap_or(rest.len());
                    continue;
                }
            },
            '/' if rest.starts_with("//") || rest.starts_with("/*") => {
                findings.wrong(at, format!("`{}` begins no comment here", &rest[..2]), "write `#` before a comment");
                // What one in several lines says is no rule either.
                let end = if rest.starts_with("/*") { rest.find("*/").map(|end| end + 2) } else { rest.find('\n') };
                at += end.unwrap_or(rest.len());
                continue;
            }
            '/' => (Kind::Path, run(rest, |c| !c.is_whitespace() && !matches!(c, '{' | '}' | ';'))),
            _ if first.is_ascii_digit() => number(rest),
            _ if is_name(first) => (Kind::Word, run(rest, |c| is_name(c) || c.is_ascii_digit() || c == '-')),
            _ => match SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
                Some(symbol) => (Kind::Symbol, symbol.len()),
                None => {
                    let (length, remedy) = hint::symbol(rest).unwrap_or((first.len_utf8(), "remove it"));
                    let symbol = if length > 1 { rest[..length].to_owned() } else { first.escape_debug().to_string() };
                    findings.wrong(at, format!("`{symbol}` has no meaning here"), remedy);
                    at += length;
                    continue;
                }
            },
        };
        tokens.push(Token { kind, start: at, end: at + length });
        at += length;
    }
    tokens
}

fn is_name(letter: char) -> bool {
    letter.is_ascii_alphabetic() || letter == '_'
}

/// Bytes of the characters at the begin that fit.
fn run(text: &str, fits: impl Fn(char) -> bool) -> usize {
    text.find(|letter| !fits(letter)).unwrap_or(text.len())
}

/// Bytes of a text in quotes, with `\"` and `\\` within it.
fn quoted(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            '\n' => return None,
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// A number with the unit that stands directly behind it.
fn number(text: &str) -> (Kind, usize) {
    let mut length = run(text, |c| c.is_ascii_digit());
    let behind = &text[length..];
    // A dot belongs to the number only with a digit behind it.
    if behind.starts_with('.') && behind[1..].starts_with(|c: char| c.is_ascii_digit()) {
        length += 1 + run(&behind[1..], |c| c.is_ascii_digit());
    }
    let unit = match text[length..].chars().next() {
        Some('%') => 1,
        _ => run(&text[length..], |c| c.is_ascii_alphanumeric() || c == '_' || c == '/'),
    };
    (if unit == 0 { Kind::Number } else { Kind::Quantity }, length + unit)
}

/// Tokens in one line, with spaces where they belong.
pub(crate) fn spaced(text: &str, tokens: &[Token]) -> String {
    let mut line = String::new();
    let mut before = "";
    for token in tokens {
        let word = &text[token.start..token.end];
        let is_close = token.kind == Kind::Symbol && matches!(word, "," | ";" | ":" | ")" | "]" | "@" | ".");
        if !(line.is_empty() || is_close || matches!(before, "(" | "[" | "@" | ".")) {
            line.push(' ');
        }
        line.push_str(word);
        before = word;
    }
    line
}

/// What stands in a text's quotes.
pub(crate) fn unquoted(text: &str) -> String {
    let mut inner = String::new();
    let mut escaped = false;
    for letter in text[1..text.len() - 1].chars() {
        if letter == '\\' && !escaped {
            escaped = true;
        } else {
            inner.push(letter);
            escaped = false;
        }
    }
    inner
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(text: &str) -> Vec<(Kind, &str)> {
        let mut findings = Findings::new(text);
        tokens(text, &mut findings).iter().map(|token| (token.kind, &text[token.start..token.end])).collect()
    }

    #[test]
    fn a_text_is_taken_apart() {
        use Kind::{Comment, Quantity, Symbol, Text, Word};
        assert_eq!(
            taken("if cpu@n-1>=9.5% # hot\n\"/a\\\"b\" n1.x 10kbps"),
            [
                (Word, "if"),
                (Word, "cpu"),
                (Symbol, "@"),
                (Word, "n-1"),
                (Symbol, ">="),
                (Quantity, "9.5%"),
                (Comment, "# hot"),
                (Text, "\"/a\\\"b\""),
                (Word, "n1"),
                (Symbol, "."),
                (Word, "x"),
                (Quantity, "10kbps"),
            ]
        );
        assert_eq!(unquoted("\"a\\\"b\\\\\""), "a\"b\\");
    }
}
