//! Perl's quoted strings, without Perl.

/// Reads a string in quotes at the begin of `text`: its value, and how many bytes it takes.
pub(crate) fn parse(
    text: &str,
    quote: char,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<(String, usize), String> {
    let mut value = String::new();
    let mut at = 1;
    loop {
        let rest = &text[at..];
        let Some(letter) = rest.chars().next() else { return Err(format!("the string has no closing {quote}")) };
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
                return Err("\"@…\" is a Perl array, which is not evaluated; write \\@, or single quotes".to_owned());
            }
            _ => value.push(letter),
        }
    }
}

/// What follows a backslash within double quotes: how many bytes it takes.
fn escape(rest: &str, value: &mut String) -> Result<usize, String> {
    let Some(letter) = rest.chars().next() else { return Err("the string has no closing \"".to_owned()) };
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
            value.push(number.ok_or("not a character")?);
            return Ok(digits.len());
        }
        letter if letter.is_ascii_alphanumeric() => {
            return Err(format!("\\{letter} within double quotes is not read; write the text itself"));
        }
        letter => letter,
    };
    value.push(plain);
    Ok(letter.len_utf8())
}

/// `xHH` or `x{…}`.
fn hexadecimal(rest: &str, value: &mut String) -> Result<usize, String> {
    let (digits, length) = match rest[1..].strip_prefix('{') {
        Some(braced) => {
            let end = braced.find('}').ok_or("\\x{ has no closing brace")?;
            (&braced[..end], 3 + end)
        }
        None => {
            let end = rest[1..].bytes().take(2).take_while(u8::is_ascii_hexdigit).count();
            (&rest[1..=end], 1 + end)
        }
    };
    let number = u32::from_str_radix(digits, 16).ok().and_then(char::from_u32);
    value.push(number.ok_or_else(|| format!("\\x{digits}: not a character"))?);
    Ok(length)
}

/// What follows a dollar sign within double quotes: how many bytes it takes.
fn interpolation(rest: &str, value: &mut String, variable: &dyn Fn(&str) -> Option<String>) -> Result<usize, String> {
    if let Some(named) = rest.strip_prefix("ENV{") {
        let end = named.find('}').ok_or("$ENV{ has no closing brace")?;
        let name = named[..end].trim_matches(['\'', '"']);
        let found = variable(name).ok_or_else(|| format!("the environment variable {name} is not set"))?;
        value.push_str(&found);
        return Ok("ENV{".len() + end + 1);
    }
    if rest.starts_with(|next: char| next.is_alphanumeric() || "_{$".contains(next)) {
        return Err("a Perl variable, which is not evaluated; write its value, \"$ENV{NAME}\" to take it from the \
                    environment, or \\$ for the sign itself"
            .to_owned());
    }
    value.push('$');
    Ok(0)
}
