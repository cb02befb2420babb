//! Lines that keep within a width.

use super::ink::Ink;
use crate::units::{is_unsafe, join_units};
use weir_measure::part::Part;

/// Columns of the labels at the left of a line.
const LABEL: usize = 12;

/// Lines of a screen.
pub(super) struct Screen {
    /// Columns.
    pub(super) width: usize,
    /// How its text is marked.
    pub(super) ink: Ink,
    text: String,
}

impl Screen {
    pub(super) fn new(width: usize, ink: Ink) -> Self {
        Self { width, ink, text: String::new() }
    }

    /// How many lines there are already.
    pub(super) fn lines(&self) -> usize {
        self.text.lines().count()
    }

    pub(super) fn blank(&mut self) {
        self.text.push('\n');
    }

    /// A line that its writer has measured.
    pub(super) fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// A heading after a blank line.
    pub(super) fn heading(&mut self, heading: &str) {
        self.blank();
        let ink = self.ink;
        self.paragraph("", "", heading, |line| ink.bold(line));
    }

    /// Words behind a label; further lines are set in as far as the first. `label` is what is measured, `shown` what
    /// is written in its place.
    pub(super) fn paragraph(&mut self, label: &str, shown: &str, words: &str, mark: impl Fn(&str) -> String) {
        let indent = columns(label);
        for (index, line) in wrap(words, self.width - indent.min(self.width / 2)).iter().enumerate() {
            let start = if index == 0 { shown.to_owned() } else { " ".repeat(indent) };
            self.line(&format!("{start}{}", mark(line)));
        }
    }

    /// Words behind a label of the usual width.
    pub(super) fn labelled(&mut self, label: &str, words: &str, mark: impl Fn(&str) -> String) {
        let padded = format!("{label:LABEL$}");
        let shown = self.ink.dim(&padded);
        self.paragraph(&padded, &shown, words, mark);
    }

    /// Items behind a label; a line ends between two, never within one.
    pub(super) fn items(&mut self, label: &str, items: &[String], mark: impl Fn(&str) -> String) {
        let joined: Vec<String> = items.iter().map(|item| item.replace(' ', "\u{a0}")).collect();
        self.labelled(label, &joined.join(", "), mark);
    }

    /// A numbered sentence, with the swatch of the part that it is about.
    pub(super) fn numbered(&mut self, number: usize, part: Option<Part>, words: &str) {
        let swatch = part.map_or(" ".to_owned(), |part| self.ink.swatch(part));
        self.paragraph(&format!("{number}. x "), &format!("{number}. {swatch} "), words, str::to_owned);
    }

    pub(super) fn finish(self) -> String {
        self.text
    }
}

/// Text of others without what a terminal would obey, or what would turn the text beside it round.
#[must_use]
pub fn clean(text: &str) -> String {
    text.chars().map(|character| if is_unsafe(character) { '\u{fffd}' } else { character }).collect()
}

/// Text in lines of at most `width` columns. A unit stays with its figure; a word that is too long is broken.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in join_units(&clean(text)).split(' ').filter(|word| !word.is_empty()) {
        if !line.is_empty() && columns(&line) + 1 + columns(word) > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        for character in word.chars() {
            if columns(&line) + columns_of(character) > width && !line.is_empty() {
                lines.push(std::mem::take(&mut line));
            }
            line.push(character);
        }
    }
    lines.push(line);
    lines.iter().map(|line| line.replace('\u{a0}', " ")).collect()
}

/// A line as lines of at most `width` columns, the further ones set in by `hang`; what a terminal would obey is taken
/// out of it.
#[must_use]
pub fn hanging(line: &str, hang: usize, width: usize) -> String {
    let at = line.char_indices().nth(hang).map_or(line.len(), |(at, _)| at);
    let (head, rest) = line.split_at(at);
    // However little room there is, a line gets on.
    let lines = wrap(rest, width.saturating_sub(columns(head)).max(20));
    clean(head) + &lines.join(&format!("\n{}", " ".repeat(columns(head))))
}

/// The beginning of text that fits, with dots where some is left out.
pub(super) fn fit(text: &str, width: usize) -> String {
    let text = clean(text);
    if columns(&text) <= width {
        return text;
    }
    let mut short = String::new();
    for character in text.chars() {
        if columns(&short) + columns_of(character) + 2 > width {
            break;
        }
        short.push(character);
    }
    short.push_str("..");
    short
}

/// The beginning of text that fits, filled with blanks to the width.
pub(super) fn filled(text: &str, width: usize) -> String {
    let short = fit(text, width);
    let blanks = width.saturating_sub(columns(&short));
    short + &" ".repeat(blanks)
}

/// Columns that text takes on a terminal.
pub(super) fn columns(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

/// Marks that combine take none, East Asian wide characters and pictures take two (Unicode annex 11, in large blocks).
fn columns_of(character: char) -> usize {
    match u32::from(character) {
        0x300..=0x36f | 0x200b..=0x200d | 0x20d0..=0x20ff | 0xfe00..=0xfe0f => 0,
        0x1100..=0x115f
        | 0x2e80..=0xa4cf
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1f64f
        | 0x1f680..=0x1f9ff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_wrap_and_figures_keep_their_units() {
        assert_eq!(wrap("it took 15 ms, then 3 ms", 11), ["it took", "15 ms, then", "3 ms"]);
        assert_eq!(wrap("abcdefgh ij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(wrap("", 10), [""]);
    }

    #[test]
    fn further_lines_hang_below_the_first() {
        assert_eq!(hanging("note  a word and another one", 6, 26), "note  a word and another\n      one");
        assert_eq!(hanging("note", 6, 26), "note");
        assert_eq!(hanging("a line that stays whole", usize::MAX, 10), "a line that stays whole");
        assert_eq!(hanging("no\x1bte  x", 7, 26), "no\u{fffd}te  x");
    }

    #[test]
    fn what_is_too_long_is_cut_where_it_shows() {
        assert_eq!(fit("abcdef", 6), "abcdef");
        assert_eq!(fit("abcdefg", 6), "abcd..");
        assert_eq!(filled("ab", 4), "ab  ");
        assert_eq!(columns("\u{6f22}\u{5b57}a\u{301}"), 5);
    }

    #[test]
    fn a_terminal_obeys_nothing_of_ours() {
        assert_eq!(clean("a\x1b[31mb\r\n\u{202e}c"), "a\u{fffd}[31mb\u{fffd}\u{fffd}\u{fffd}c");
    }
}
