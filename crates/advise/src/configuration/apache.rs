//! Apache's syntax: a directive on a line, sections in angle brackets, a backslash at the end continues the line.

use super::{Directive, Entry, MOST_DEPTH, ParseError, Place};

/// Reads a text. Sections must close within it, as the server demands of each file.
///
/// # Errors
/// [`ParseError`] for a section that is not closed, or closed without having been opened.
pub(crate) fn parse(text: &str, file: usize) -> Result<Vec<Entry>, ParseError> {
    let mut entries = Vec::new();
    let mut open: Vec<(String, usize)> = Vec::new();
    for (line, text) in logical_lines(text) {
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        if let Some(rest) = text.strip_prefix("</") {
            let name = rest.trim_end_matches('>').trim();
            match open.pop() {
                Some((opened, _)) if opened.eq_ignore_ascii_case(name) => entries.push(Entry::Close),
                Some((opened, at)) => {
                    let what = format!("</{name}> closes <{opened}>, which was opened in line {at}");
                    return Err(ParseError { line, what });
                }
                None => return Err(ParseError { line, what: format!("</{name}> closes nothing") }),
            }
        } else if let Some(rest) = text.strip_prefix('<') {
            let (name, raw) = name_and_rest(rest.strip_suffix('>').unwrap_or(rest));
            if open.len() >= MOST_DEPTH {
                return Err(ParseError { line, what: format!("more than {MOST_DEPTH} sections in one another") });
            }
            open.push((name.to_owned(), line));
            entries.push(Entry::Open(directive(name, raw, file, line)));
        } else {
            let (name, raw) = name_and_rest(text);
            entries.push(Entry::Set(directive(name, raw, file, line)));
        }
    }
    match open.pop() {
        Some((name, line)) => Err(ParseError { line, what: format!("<{name}> is never closed") }),
        None => Ok(entries),
    }
}

/// The arguments of a directive: divided at white space, quoted ones whole.
pub(crate) fn words(raw: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut characters = raw.trim().chars().peekable();
    while let Some(&first) = characters.peek() {
        if first.is_whitespace() {
            characters.next();
            continue;
        }
        let quote = matches!(first, '"' | '\'').then_some(first);
        if quote.is_some() {
            characters.next();
        }
        let mut word = String::new();
        while let Some(character) = characters.next() {
            match (character, quote) {
                ('\\', Some(quote)) if characters.peek() == Some(&quote) => word.extend(characters.next()),
                (character, Some(quote)) if character == quote => break,
                (character, None) if character.is_whitespace() => break,
                (character, _) => word.push(character),
            }
        }
        words.push(word);
    }
    words
}

/// Lines with their numbers, continued ones joined; the number is that of the first.
fn logical_lines(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut lines = text.lines().enumerate();
    std::iter::from_fn(move || {
        let (index, first) = lines.next()?;
        let mut whole = first.to_owned();
        while let Some(stem) = whole.strip_suffix('\\') {
            whole.truncate(stem.len());
            let Some((_, next)) = lines.next() else { break };
            whole.push_str(next);
        }
        Some((index + 1, whole))
    })
}

fn name_and_rest(text: &str) -> (&str, &str) {
    text.trim().split_once(char::is_whitespace).map_or((text.trim(), ""), |(name, rest)| (name, rest.trim()))
}

fn directive(name: &str, raw: &str, file: usize, line: usize) -> Directive {
    Directive { name: name.to_owned(), raw: raw.to_owned(), place: Place { file, line } }
}

#[cfg(test)]
mod tests {
    use super::super::{Configuration, Syntax};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sections_continuations_and_comments() {
        let text = "# no\nListen 80\n<IfModule  mod_x.c >\n  LogFormat \"%h \\\"%r\\\"\" \\\n    common\n</ifmodule>\n";
        let entries = parse(text, 3).expect("a configuration");
        let Entry::Set(log) = &entries[2] else { panic!("{entries:?}") };
        assert_eq!((log.name.as_str(), log.place), ("LogFormat", Place { file: 3, line: 4 }));
        assert_eq!(words(&log.raw), ["%h \"%r\"", "common"]);
        assert_eq!(entries.len(), 4);
    }

    #[test]
    fn what_does_not_close_is_refused_with_its_line() {
        let error = |text: &str| parse(text, 0).expect_err("refused").to_string();
        assert_eq!(error("a\n<b c>\n"), "line 2: <b> is never closed");
        assert_eq!(error("</b>"), "line 1: </b> closes nothing");
        assert_eq!(error("<a>\n<b>\n</a>"), "line 3: </a> closes <b>, which was opened in line 2");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[<>/a-c\"'\\\\ \n#]{0,200}") {
            if let Ok(entries) = parse(&text, 0) {
                let read = Configuration { entries, ..Configuration::empty(Syntax::Apache) };
                // Entries that are written out and parsed again are the same entries.
                let again = parse(&read.text(), 0);
                let names = |entries: &[Entry]| entries.iter().map(|entry| match entry {
                    Entry::Set(d) | Entry::Open(d) => format!("{} {}", d.name, d.raw),
                    Entry::Close => "close".to_owned(),
                }).collect::<Vec<_>>();
                // A name that itself looks like syntax may read differently; ordinary names never do.
                if !text.contains(['<', '>', '\\', '#']) {
                    prop_assert_eq!(names(&again.expect("ours")), names(&read.entries));
                }
            }
        }

        #[test]
        fn plain_words_are_divided_at_blanks(list in prop::collection::vec("[a-zA-Z0-9./:*-]{1,9}", 0..6)) {
            prop_assert_eq!(words(&list.join("  ")), list);
        }
    }
}
