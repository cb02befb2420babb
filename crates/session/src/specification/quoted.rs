//! Perl's quoted strings, without Perl.

/// Why a string in quotes cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QuotedError {
    /// It has no end.
    #[error("the string has no closing {0}")]
    Open(char),
    /// An array of Perl's.
    #[error("\"@…\" is a Perl array, which is not evaluated; write \\@, or single quotes")]
    Array,
    /// A variable of Perl's.
    #[error(
        "a Perl variable, which is not evaluated; write its value, \"$ENV{{NAME}}\" to take it from the environment, or \\$ for the sign itself"
    )]
    Variable,
    /// An escape that only Perl knows.
    #[error("\\{0} within double quotes is not read; write the text itself")]
    Escape(char),
    /// The number of no character.
    #[error("not a character")]
    NoCharacter,
    /// The same in hexadecimal digits.
    #[error("\\x{0}: not a character")]
    Hexadecimal(String),
    /// A brace that is not closed.
    #[error("{0} has no closing brace")]
    OpenBrace(&'static str),
    /// A variable of the environment that is not set.
    #[error("the environment variable {0} is not set")]
    NotSet(String),
}

/// Reads a string in quotes at the begin of `text`: its value, and how many bytes it takes.
pub(crate) fn parse(
    text: &str,
    quote: char,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<(String, usize), QuotedError> {
    let mut value = String::new();
    let mut at = 1;
    loop {
        let rest = &text[at..];
        let Some(letter) = rest.chars().next() else { return Err(QuotedError::Open(quote)) };
        at += letter.len_utf8();
        match letter {
            _ if letter == quote => return Ok((value, at)),
            '\\' if quote == '\'' => match text[at..].chars().next() {
                Some(escaped @ ('\'' | '\\')) => {
                    value.push(escaped);
                    at += 1;
                }
                _ => value.push('\\'),
            },
            '\\' => at += escape(&text[at..], &mut value)?,
            '$' if quote == '"' => at += interpolation(&text[at..], &mut value, variable)?,
            '@' if quote == '"'
                && text[at..].starts_with(|next: char| next.is_alphabetic() || "_{$".contains(next)) =>
            {
                return Err(QuotedError::Array);
            }
            _ => value.push(letter),
        }
    }
}

/// What follows a backslash within double quotes: how many bytes it takes.
fn escape(rest: &str, value: &mut String) -> Result<usize, QuotedError> {
    let Some(letter) = rest.chars().next() else { return Err(QuotedError::Open('"')) };
    let plain = match letter {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'f' => '\u{c}',
        'a' => '\u{7}',
        'b' => '\u{8}',
        'e' => '\u{1b}',
        'x' => return hexadecimal(rest, value),
        '0'..='7' => {
            let digits: String = rest.chars().take(3).take_while(|digit| digit.is_digit(8)).collect();
            let number = u32::from_str_radix(&digits, 8).ok().and_then(char::from_u32);
            value.push(number.ok_or(QuotedError::NoCharacter)?);
            return Ok(digits.len());
        }
        letter if letter.is_ascii_alphanumeric() => {
            return Err(QuotedError::Escape(letter));
        }
        letter => letter,
    };
    value.push(plain);
    Ok(letter.len_utf8())
}

/// `xHH` or `x{…}`.
fn hexadecimal(rest: &str, value: &mut String) -> Result<usize, QuotedError> {
    let (digits, length) = match rest[1..].strip_prefix('{') {
        Some(braced) => {
            let end = braced.find('}').ok_or(QuotedError::OpenBrace("\\x{"))?;
            (&braced[..end], 3 + end)
        }
        None => {
            let end = rest[1..].bytes().take(2).take_while(u8::is_ascii_hexdigit).count();
            (&rest[1..=end], 1 + end)
        }
    };
    let number = u32::from_str_radix(digits, 16).ok().and_then(char::from_u32);
    value.push(number.ok_or_else(|| QuotedError::Hexadecimal(digits.to_owned()))?);
    Ok(length)
}

/// What follows a dollar sign within double quotes: how many bytes it takes.
fn interpolation(
    rest: &str,
    value: &mut String,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<usize, QuotedError> {
    if let Some(named) = rest.strip_prefix("ENV{") {
        let end = named.find('}').ok_or(QuotedError::OpenBrace("$ENV{"))?;
        let name = named[..end].trim_matches(['\'', '"']);
        let found = variable(name).ok_or_else(|| QuotedError::NotSet(name.to_owned()))?;
        value.push_str(&found);
        return Ok("ENV{".len() + end + 1);
    }
    if rest.starts_with(|next: char| next.is_alphanumeric() || "_{$".contains(next)) {
        return Err(QuotedError::Variable);
    }
    value.push('$');
    Ok(0)
}
