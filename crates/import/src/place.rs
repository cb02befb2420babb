//! Where something stands in a file.

use std::fmt;
use std::sync::Arc;

/// A place in a file, as editors count it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The name of the file, as it was given or included.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: usize,
    /// The character in its line, from 1.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// The letters of a text, each with its place.
#[derive(Debug, Clone)]
pub(crate) struct Letters<'t> {
    rest: &'t str,
    at: Place,
    last: Option<char>,
}

impl<'t> Letters<'t> {
    pub(crate) fn new(name: &str, text: &'t str) -> Self {
        let rest = text.strip_prefix('\u{feff}').unwrap_or(text);
        Self { rest, at: Place { file: name.into(), line: 1, column: 1 }, last: None }
    }

    /// The place of the next letter.
    pub(crate) fn place(&self) -> Place {
        self.at.clone()
    }

    pub(crate) fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    /// Whether the text goes on so.
    pub(crate) fn starts_with(&self, text: &str) -> bool {
        self.rest.starts_with(text)
    }

    /// The letter that was taken last.
    pub(crate) fn last(&self) -> Option<char> {
        self.last
    }

    pub(crate) fn take(&mut self) -> Option<char> {
        let letter = self.peek()?;
        self.rest = &self.rest[letter.len_utf8()..];
        self.last = Some(letter);
        if letter == '\n' {
            self.at.line += 1;
            self.at.column = 1;
        } else {
            self.at.column += 1;
        }
        Some(letter)
    }

    /// Takes letters as long as they are so.
    pub(crate) fn take_while(&mut self, is_so: impl Fn(char) -> bool) -> String {
        let mut taken = String::new();
        while let Some(letter) = self.peek().filter(|letter| is_so(*letter)) {
            taken.push(letter);
            self.take();
        }
        taken
    }
}
