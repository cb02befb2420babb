//! nginx's syntax: words, a semicolon or a block in braces, comments from `#` to the line's end.

use super::{Directive, Entry, MOST_DEPTH, ParseError, Place};

/// Reads a text.
///
/// # Errors
/// [`ParseError`] for braces that do not match, a quote or a directive that does not end, and for blocks of another
/// language.
pub(crate) fn parse(text: &str, file: usize) -> Result<Vec<Entry>, ParseError> {
    let mut entries = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let mut words: Vec<&str> = Vec::new();
    let mut begin = 1;
    let mut tokens = Tokens { text, at: 0, line: 1 };
    while let Some((token, line)) = tokens.next()? {
        match token {
            ";" | "{" => {
                let Some((name, arguments)) = words.split_first() else {
                    return Err(ParseError { line, what: format!("{token:?} without a name before it") });
                };
                if name.ends_with("_by_lua_block") {
                    let what = format!("{name} holds a program in another language, which is not read");
                    return Err(ParseError { line, what });
                }
                let place = Place { file, line: begin };
                let directive = Directive { name: (*name).to_owned(), raw: arguments.join(" "), place };
                if token == ";" {
                    entries.push(Entry::Set(directive));
                } else if open.len() >= MOST_DEPTH {
                    return Err(ParseError { line, what: format!("more than {MOST_DEPTH} blocks in one another") });
                } else {
                    open.push(begin);
                    entries.push(Entry::Open(directive));
                }
                words.clear();
            }
            "}" => {
                if let Some(word) = words.first() {
                    return Err(ParseError { line, what: format!("{word:?} does not end with a semicolon") });
                }
                if open.pop().is_none() {
                    return Err(ParseError { line, what: "} closes nothing".to_owned() });
                }
                entries.push(Entry::Close);
            }
            word => {
                if words.is_empty() {
                    begin = line;
                }
                words.push(word);
            }
        }
    }
    if let Some(word) = words.first() {
        return Err(ParseError { line: begin, what: format!("{word:?} does not end with a semicolon") });
    }
    match open.pop() {
        Some(line) => Err(ParseError { line, what: "the block is never closed".to_owned() }),
        None => Ok(entries),
    }
}

/// The arguments of a directive, without their quotes.
pub(crate) fn words(raw: &str) -> Vec<String> {
    let mut tokens = Tokens { text: raw, at: 0, line: 1 };
    let mut words = Vec::new();
    while let Ok(Some((token, _))) = tokens.next() {
        words.push(unquoted(token));
    }
    words
}

fn unquoted(token: &str) -> String {
    let inner = ['"', '\''].iter().find_map(|&quote| token.strip_prefix(quote)?.strip_suffix(quote));
    let Some(inner) = inner else { return token.to_owned() };
    let mut word = String::with_capacity(inner.len());
    let mut characters = inner.chars().peekable();
    while let Some(character) = characters.next() {
        match (character, characters.peek()) {
            ('\\', Some('"' | '\'' | '\\')) => word.extend(characters.next()),
            _ => word.push(character),
        }
    }
    word
}

/// Words and marks as they are written.
struct Tokens<'t> {
    text: &'t str,
    at: usize,
    line: usize,
}

impl<'t> Tokens<'t> {
    /// The next one with its line.
    fn next(&mut self) -> Result<Option<(&'t str, usize)>, ParseError> {
        self.skip();
        let begin = self.at;
        let Some(first) = self.peek() else { return Ok(None) };
        let line = self.line;
        match first {
            ';' | '{' | '}' => self.at += 1,
            '"' | '\'' => self.quoted(first)?,
            _ => self.word(),
        }
        Ok(Some((&self.text[begin..self.at], line)))
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let character = self.peek()?;
        self.at += character.len_utf8();
        self.line += usize::from(character == '\n');
        Some(character)
    }

    /// White space and comments.
    fn skip(&mut self) {
        while let Some(character) = self.peek() {
            if character == '#' {
                while self.peek().is_some_and(|character| character != '\n') {
                    self.take();
                }
            } else if character.is_whitespace() {
                self.take();
            } else {
                return;
            }
        }
    }

    fn quoted(&mut self, quote: char) -> Result<(), ParseError> {
        let line = self.line;
        self.take();
        while let Some(character) = self.take() {
            match character {
                '\\' => drop(self.take()),
                end if end == quote => return Ok(()),
                _ => {}
            }
        }
        Err(ParseError { line, what: "a quote is never closed".to_owned() })
    }

    fn word(&mut self) {
        let mut before = '\0';
        while let Some(character) = self.peek() {
            let is_variable = character == '{' && before == '$';
            if !is_variable && (character.is_whitespace() || matches!(character, ';' | '{')) {
                return;
            }
            // A brace ends a word only where none was opened by a variable; nginx itself lets `}` stand in words.
            if character == '\\' {
                self.take();
            }
            before = character;
            if self.take().is_none() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Configuration, Syntax};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn blocks_quotes_variables_and_comments() {
        let text = "a 1; # no;\nhttp {\n  log 'x \\'y' \"a;b\";\n  set $v ${host}_x;\n  location ~ \\.php$ { }\n}\n";
        let entries = parse(text, 0).expect("a configuration");
        let Entry::Set(log) = &entries[2] else { panic!("{entries:?}") };
        assert_eq!((words(&log.raw), log.place.line), (vec!["x 'y".to_owned(), "a;b".to_owned()], 3));
        let Entry::Set(set) = &entries[3] else { panic!("{entries:?}") };
        assert_eq!(set.raw, "$v ${host}_x");
        let Entry::Open(location) = &entries[4] else { panic!("{entries:?}") };
        assert_eq!(location.raw, "~ \\.php$");
    }

    #[test]
    fn what_does_not_end_is_refused_with_its_line() {
        let error = |text: &str| parse(text, 0).expect_err("refused").to_string();
        assert_eq!(error("a {\nb 1\n}"), "line 3: \"b\" does not end with a semicolon");
        assert_eq!(error("a;\n}"), "line 2: } closes nothing");
        assert_eq!(error("\na {"), "line 2: the block is never closed");
        assert_eq!(error("a 'b"), "line 1: a quote is never closed");
        assert!(error("content_by_lua_block { x = {} }").contains("another language"));
    }

    proptest! {
        #[test]
        fn what_is_written_again_says_the_same(text in "[a-c{};\"'\\\\ \n#$]{0,200}") {
            if let Ok(entries) = parse(&text, 0) {
                let read = Configuration { entries, ..Configuration::empty(Syntax::Nginx) };
                let again = Configuration { entries: parse(&read.text(), 0).expect("ours"), ..read.clone() };
                prop_assert_eq!(again.text(), read.text());
            }
        }
    }
}
