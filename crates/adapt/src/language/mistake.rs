//! What is wrong in a policy, with its place.

use weir_diagnostic::{Mistake, nearest};

/// At most so many mistakes of one file are told; more would only be noise.
pub(crate) const MISTAKES_MAX: usize = 100;

/// Finds the line and column of a byte.
#[derive(Debug)]
pub(crate) struct Lines<'t> {
    text: &'t str,
    /// Where each line begins.
    begins: Vec<usize>,
}

impl<'t> Lines<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        // A byte order mark is no character of the first line.
        let first = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        let begins = std::iter::once(first).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { text, begins }
    }

    /// Line and column of a byte of the text, both from 1.
    pub(crate) fn place(&self, at: usize) -> (usize, usize) {
        let line = self.begins.partition_point(|&begin| begin <= at).max(1);
        let begin = self.begins[line - 1];
        let column = self.text.get(begin..at).map_or(0, |before| before.chars().count());
        (line, column + 1)
    }
}

/// Mistakes and warnings as they are found.
#[derive(Debug)]
pub(crate) struct Findings<'t> {
    lines: Lines<'t>,
    pub(crate) mistakes: Vec<Mistake>,
    pub(crate) warnings: Vec<Mistake>,
}

impl<'t> Findings<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self { lines: Lines::new(text), mistakes: Vec::new(), warnings: Vec::new() }
    }

    /// The line of a byte, from 1.
    pub(crate) fn line(&self, at: usize) -> usize {
        self.lines.place(at).0
    }

    fn mistake(&self, at: usize, what: String, remedy: String) -> Mistake {
        let (line, column) = self.lines.place(at);
        Mistake { line, column, what, remedy }
    }

    /// Something that is refused.
    pub(crate) fn wrong(&mut self, at: usize, what: impl Into<String>, remedy: impl Into<String>) {
        if self.mistakes.len() < MISTAKES_MAX {
            self.mistakes.push(self.mistake(at, what.into(), remedy.into()));
        }
    }

    /// Something that is accepted, and seldom meant.
    pub(crate) fn doubt(&mut self, at: usize, what: impl Into<String>, remedy: impl Into<String>) {
        if self.warnings.len() < MISTAKES_MAX {
            self.warnings.push(self.mistake(at, what.into(), remedy.into()));
        }
    }
}

/// "did you mean `x`?", or what to do otherwise.
pub(crate) fn meant<'n, N: IntoIterator<Item = &'n str>>(word: &str, known: N, otherwise: &str) -> String {
    nearest(word, known).map_or_else(|| otherwise.to_owned(), |known| format!("did you mean `{known}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_in_characters() {
        let lines = Lines::new("a\nbäc\n");
        assert_eq!(lines.place(0), (1, 1));
        assert_eq!(lines.place(2), (2, 1));
        assert_eq!(lines.place(5), (2, 3));
        assert_eq!(lines.place(7), (3, 1));
        let marked = Lines::new("\u{feff}ab\nc");
        assert_eq!([0, 3, 4, 6].map(|at| marked.place(at)), [(1, 1), (1, 1), (1, 2), (2, 1)]);
    }
}
