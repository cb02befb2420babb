//! The words of TSDL, the language of CTF 1.8's metadata (Common Trace Format 1.8.3, section 7 and appendix C).

use crate::ReadError;

/// A word, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) at: u64,
}

/// A sort of word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    Word(String),
    Number(i128),
    Text(String),
    /// A sign, `:=` and `...` included.
    Sign(&'static str),
    End,
}

const SIGNS: [&str; 17] = ["...", ":=", "->", "{", "}", "[", "]", "(", ")", "<", ">", ";", ":", ",", "=", ".", "-"];

/// Cuts a text into words.
pub(crate) fn tokens(text: &str) -> Result<Vec<Token>, ReadError> {
    let (mut tokens, mut rest) = (Vec::new(), text);
    loop {
        rest = after_blanks(rest, text)?;
        let at = (text.len() - rest.len()) as u64;
        let Some(first) = rest.chars().next() else {
            tokens.push(Token { kind: Kind::End, at });
            return Ok(tokens);
        };
        let (kind, used) = if first == '"' || first == '\'' {
            quoted(rest, at)?
        } else if first.is_ascii_digit() {
            number(rest, at)?
        } else if first.is_alphabetic() || first == '_' {
            let end = rest.find(|one: char| !one.is_alphanumeric() && one != '_').unwrap_or(rest.len());
            (Kind::Word(rest[..end].to_owned()), end)
        } else {
            let sign = SIGNS.into_iter().find(|sign| rest.starts_with(sign));
            let sign = sign.ok_or_else(|| ReadError::wrong(at, format!("{first:?} has no meaning in the metadata")))?;
            (Kind::Sign(sign), sign.len())
        };
        tokens.push(Token { kind, at });
        rest = &rest[used..];
    }
}

/// Passes over blanks and comments.
fn after_blanks<'a>(mut rest: &'a str, whole: &str) -> Result<&'a str, ReadError> {
    loop {
        let trimmed = rest.trim_start();
        if let Some(comment) = trimmed.strip_prefix("/*") {
            let at = (whole.len() - trimmed.len()) as u64;
            let end = comment.find("*/").ok_or(ReadError::Cut { at, within: "a comment of the metadata" })?;
            rest = &comment[end + 2..];
        } else if let Some(comment) = trimmed.strip_prefix("//") {
            rest = comment.find('\n').map_or("", |end| &comment[end..]);
        } else {
            return Ok(trimmed);
        }
    }
}

fn quoted(rest: &str, at: u64) -> Result<(Kind, usize), ReadError> {
    let quote = rest.chars().next().unwrap_or('"');
    let (mut text, mut is_escaped) = (String::new(), false);
    for (index, one) in rest.char_indices().skip(1) {
        match one {
            _ if is_escaped => {
                text.push(match one {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    other => other,
                });
                is_escaped = false;
            }
            '\\' => is_escaped = true,
            _ if one == quote => return Ok((Kind::Text(text), index + 1)),
            _ => text.push(one),
        }
    }
    Err(ReadError::Cut { at, within: "a text of the metadata" })
}

fn number(rest: &str, at: u64) -> Result<(Kind, usize), ReadError> {
    let end = rest.find(|one: char| !one.is_ascii_alphanumeric()).unwrap_or(rest.len());
    let word = rest[..end].trim_end_matches(['u', 'U', 'l', 'L']);
    let parsed = if let Some(digits) = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        i128::from_str_radix(digits, 16).ok()
    } else if let Some(digits) = word.strip_prefix("0b") {
        i128::from_str_radix(digits, 2).ok()
    } else if word.len() > 1 && word.starts_with('0') {
        i128::from_str_radix(word, 8).ok()
    } else {
        word.parse().ok()
    };
    let number = parsed.ok_or_else(|| ReadError::wrong(at, format!("{:?} is no number", &rest[..end])))?;
    Ok((Kind::Number(number), end))
}
