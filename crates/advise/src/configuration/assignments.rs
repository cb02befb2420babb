//! PostgreSQL's syntax: `name = value` or `name value`, comments from `#`, quotes within quotes doubled.

use super::{Directive, Entry, ParseError, Place};

/// Reads a text.
///
/// # Errors
/// [`ParseError`] for a name without a value and a quote without its end.
pub(crate) fn parse(text: &str, file: usize) -> Result<Vec<Entry>, ParseError> {
    let mut entries = Vec::new();
    for (index, whole) in text.lines().enumerate() {
        let (line, whole) = (index + 1, whole.trim());
        if whole.is_empty() || whole.starts_with('#') {
            continue;
        }
        let end = whole.find(|character: char| character == '=' || character.is_whitespace()).unwrap_or(whole.len());
        let (name, rest) = whole.split_at(end);
        if name.is_empty() {
            return Err(ParseError { line, what: "a value without a name".to_owned() });
        }
        let rest = rest.trim_start();
        let rest = rest.strip_prefix('=').unwrap_or(rest).trim_start();
        let raw = raw_value(rest).ok_or_else(|| ParseError { line, what: format!("{name} has no complete value") })?;
        let place = Place { file, line };
        entries.push(Entry::Set(Directive { name: name.to_owned(), raw: raw.to_owned(), place }));
    }
    Ok(entries)
}

/// A value without its quotes.
pub(crate) fn value(raw: &str) -> String {
    let raw = raw.trim();
    match raw.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        Some(inner) => inner.replace("''", "'"),
        None => raw.to_owned(),
    }
}

/// The value at the begin of a text, quotes included; a comment may follow it.
fn raw_value(text: &str) -> Option<&str> {
    let Some(rest) = text.strip_prefix('\'') else {
        let end = text.find(|character: char| character == '#' || character.is_whitespace()).unwrap_or(text.len());
        return (end > 0).then_some(&text[..end]);
    };
    let mut characters = rest.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => drop(characters.next()),
            '\'' if characters.peek().is_some_and(|(_, next)| *next == '\'') => drop(characters.next()),
            '\'' => return Some(&text[..at + 2]),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::{Configuration, Syntax};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_with_and_without_signs() {
        let text = "# x\nmax_connections = 100 # many\nshared_buffers 128MB\nlog_line = 'it''s # %m'\nPORT=5433\n";
        let entries = parse(text, 0).expect("a configuration");
        let read = Configuration { entries, ..Configuration::empty(Syntax::Assignments) };
        let word = |name: &str| read.last(name).expect("there").word().to_owned();
        assert_eq!(
            (word("max_connections"), word("shared_buffers"), word("port")),
            ("100".into(), "128MB".into(), "5433".into())
        );
        assert_eq!(word("log_line"), "it's # %m");
    }

    #[test]
    fn what_is_incomplete_is_refused_with_its_line() {
        assert_eq!(parse("\nport", 0).expect_err("refused").to_string(), "line 2: port has no complete value");
        assert!(parse("a = 'b", 0).is_err() && parse("= 1", 0).is_err());
    }

    proptest! {
        #[test]
        fn what_is_written_again_says_the_same(text in "[a-c=#'\\\\ \n]{0,200}") {
            if let Ok(entries) = parse(&text, 0) {
                let read = Configuration { entries, ..Configuration::empty(Syntax::Assignments) };
                let again = Configuration { entries: parse(&read.text(), 0).expect("ours"), ..read.clone() };
                prop_assert_eq!(again.text(), read.text());
            }
        }
    }
}
