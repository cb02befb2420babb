//! The words of command lines, as a POSIX shell and bash tell them apart (POSIX.1-2024 2.2, bash's `$'...'`).

use crate::model::{Text, name_of};
use crate::report::Report;
use std::iter::Peekable;
use std::str::CharIndices;

/// The most words of a file.
const WORDS_MAX: usize = 200_000;

/// A command: its words, each with its line.
#[derive(Debug, Default)]
pub(super) struct Command {
    pub(super) words: Vec<(usize, Text)>,
    /// What a shell would do and this reader does not, in words.
    pub(super) unknown: Option<String>,
    /// Whether what another command writes is read, or its own output is.
    pub(super) is_piped: bool,
}

/// Splits a text into commands; what is wrong is told.
pub(super) fn commands(text: &str, report: &Report) -> Option<Vec<Command>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut shell = Shell {
        letters: text.char_indices().peekable(),
        line: 1,
        word: None,
        command: Command::default(),
        done: Vec::new(),
        count: 0,
    };
    match shell.read() {
        Ok(()) => Some(shell.done),
        Err(fault) => {
            report.wrong((fault.line, 1), fault.what, fault.remedy);
            None
        }
    }
}

struct Fault {
    line: usize,
    what: &'static str,
    remedy: &'static str,
}

struct Shell<'t> {
    letters: Peekable<CharIndices<'t>>,
    line: usize,
    /// The word that is being read, and its line.
    word: Option<(usize, Text)>,
    command: Command,
    done: Vec<Command>,
    count: usize,
}

impl Shell<'_> {
    fn next(&mut self) -> Option<char> {
        let (_, letter) = self.letters.next()?;
        self.line += usize::from(letter == '\n');
        Some(letter)
    }

    fn peek(&mut self) -> Option<char> {
        self.letters.peek().map(|(_, letter)| *letter)
    }

    fn push(&mut self, text: &str) {
        let line = self.line;
        self.word.get_or_insert_with(|| (line, Text::default())).1.push(text);
    }

    fn end_word(&mut self) {
        self.count += usize::from(self.word.is_some());
        self.command.words.extend(self.word.take());
    }

    fn end_command(&mut self, is_piped: bool) {
        self.end_word();
        let command = std::mem::take(&mut self.command);
        let reads = command.is_piped;
        if !command.words.is_empty() {
            self.done.push(command);
        }
        self.command.is_piped = is_piped || reads && self.done.is_empty();
    }

    fn unknown(&mut self, what: &str) {
        self.command.unknown.get_or_insert_with(|| what.to_owned());
    }

    fn read(&mut self) -> Result<(), Fault> {
        while let Some(letter) = self.next() {
            if self.count > WORDS_MAX {
                let (what, remedy) = ("there are more than 200000 words", "give a part of the file");
                return Err(Fault { line: self.line, what, remedy });
            }
            match letter {
                '\n' => self.end_command(false),
                '\r' if self.peek() == Some('\n') => {}
                ' ' | '\t' => self.end_word(),
                '#' if self.word.is_none() => {
                    while self.peek().is_some_and(|letter| letter != '\n') {
                        self.next();
                    }
                }
                '\\' => self.escaped(),
                '\'' => self.single()?,
                '"' => self.double()?,
                '$' => self.dollar()?,
                '`' => self.unknown("a command within ` is run by a shell"),
                ';' => self.end_command(false),
                '&' => {
                    if self.peek() == Some('&') {
                        self.next();
                    }
                    self.end_command(false);
                }
                '|' => {
                    let is_or = self.peek() == Some('|');
                    if is_or {
                        self.next();
                    }
                    self.end_command(!is_or);
                }
                '>' | '<' => self.redirection(letter),
                '(' | ')' if self.word.is_none() => self.unknown("a subshell"),
                other => self.push(&other.to_string()),
            }
        }
        self.end_command(false);
        Ok(())
    }

    /// Behind a backslash outside of quotes.
    fn escaped(&mut self) {
        match self.next() {
            Some('\n') | None => {}
            Some('\r') if self.peek() == Some('\n') => drop(self.next()),
            Some(letter) => self.push(&letter.to_string()),
        }
    }

    fn single(&mut self) -> Result<(), Fault> {
        let line = self.line;
        self.push("");
        let mut text = String::new();
        loop {
            match self.next() {
                Some('\'') => break,
                Some(letter) => text.push(letter),
                None => return Err(Fault { line, what: "a ' has no end", remedy: "write a ' behind the text" }),
            }
        }
        self.push_at(line, &text);
        Ok(())
    }

    fn push_at(&mut self, line: usize, text: &str) {
        self.word.get_or_insert_with(|| (line, Text::default())).1.push(text);
    }

    fn double(&mut self) -> Result<(), Fault> {
        let line = self.line;
        self.push("");
        loop {
            let Some(letter) = self.next() else {
                return Err(Fault { line, what: "a \" has no end", remedy: "write a \" behind the text" });
            };
            match letter {
                '"' => return Ok(()),
                '\\' => match self.next() {
                    Some('\n') | None => {}
                    Some(letter @ ('$' | '`' | '"' | '\\')) => self.push(&letter.to_string()),
                    // Chrome writes \! so that a shell finds no history there.
                    Some(letter) => self.push(&format!("\\{letter}")),
                },
                '$' if self.peek() != Some('\'') => self.dollar()?,
                '`' => self.unknown("a command within ` is run by a shell"),
                other => self.push(&other.to_string()),
            }
        }
    }

    /// Behind a dollar sign: a variable, a command, a text with escapes, or the sign itself.
    fn dollar(&mut self) -> Result<(), Fault> {
        match self.peek() {
            Some('\'') => {
                self.next();
                self.ansi()
            }
            Some('(') => {
                self.unknown("a command within $( ) is run by a shell");
                self.push("$");
                Ok(())
            }
            Some('{') => {
                self.next();
                let mut name = String::new();
                while let Some(letter) = self.next().filter(|letter| *letter != '}') {
                    name.push(letter);
                }
                match is_variable(&name) {
                    true => self.variable(&name),
                    false => self.unknown("a variable is changed by a shell"),
                }
                Ok(())
            }
            Some(letter) if letter.is_ascii_alphabetic() || letter == '_' => {
                let mut name = String::new();
                while let Some(letter) = self.peek().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '_') {
                    name.push(letter);
                    self.next();
                }
                self.variable(&name);
                Ok(())
            }
            _ => {
                self.push("$");
                Ok(())
            }
        }
    }

    fn variable(&mut self, name: &str) {
        // A name that every user has stays that of the variable by another name.
        let line = self.line;
        self.word.get_or_insert_with(|| (line, Text::default())).1.push_value(&name_of(name));
    }

    /// A text with the escapes of C.
    fn ansi(&mut self) -> Result<(), Fault> {
        let line = self.line;
        let mut bytes: Vec<u8> = Vec::new();
        let mut letters = [0; 4];
        loop {
            let Some(letter) = self.next() else {
                return Err(Fault { line, what: "a $' has no end", remedy: "write a ' behind the text" });
            };
            match letter {
                '\'' => break,
                '\\' => {
                    let Some(letter) = self.next() else { continue };
                    self.escape(letter, &mut bytes);
                }
                other => bytes.extend_from_slice(other.encode_utf8(&mut letters).as_bytes()),
            }
        }
        match String::from_utf8(bytes) {
            Ok(text) => self.push_at(line, &text),
            Err(_) => self.unknown("a text that is no UTF-8"),
        }
        Ok(())
    }

    fn escape(&mut self, letter: char, bytes: &mut Vec<u8>) {
        let mut letters = [0; 4];
        let mut put = |letter: char| bytes.extend_from_slice(letter.encode_utf8(&mut letters).as_bytes());
        match letter {
            'n' => put('\n'),
            't' => put('\t'),
            'r' => put('\r'),
            'a' => put('\u{7}'),
            'b' => put('\u{8}'),
            'e' | 'E' => put('\u{1b}'),
            'f' => put('\u{c}'),
            'v' => put('\u{b}'),
            '\\' | '\'' | '"' | '?' => put(letter),
            'x' => {
                let value = self.digits(16, 2);
                bytes.push(value as u8);
            }
            '0'..='7' => {
                let first = letter.to_digit(8).unwrap_or(0);
                let rest = self.octal();
                bytes.push((rest.0 + (first << (3 * rest.1))) as u8);
            }
            'u' | 'U' => {
                let value = self.digits(16, if letter == 'u' { 4 } else { 8 });
                match self.whole(value) {
                    Some(letter) => put(letter),
                    None => self.unknown("a letter that Unicode has not"),
                }
            }
            other => {
                put('\\');
                put(other);
            }
        }
    }

    /// A letter of Unicode by its number; of a pair of UTF-16, which Chrome writes, the second half follows.
    fn whole(&mut self, value: u32) -> Option<char> {
        if !(0xD800..0xDC00).contains(&value) {
            return char::from_u32(value);
        }
        let mut ahead = self.letters.clone();
        let begins = (ahead.next()?.1, ahead.next()?.1) == ('\\', 'u');
        if !begins {
            return None;
        }
        self.letters = ahead;
        let low = self.digits(16, 4);
        (0xDC00..0xE000).contains(&low).then(|| char::from_u32(0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00)))?
    }

    fn digits(&mut self, radix: u32, most: usize) -> u32 {
        let mut value: u32 = 0;
        for _ in 0..most {
            let Some(digit) = self.peek().and_then(|letter| letter.to_digit(radix)) else { break };
            value = value.wrapping_mul(radix) + digit;
            self.next();
        }
        value
    }

    /// Up to two more octal digits: their value and number.
    fn octal(&mut self) -> (u32, u32) {
        let (mut value, mut count) = (0, 0);
        while count < 2 {
            let Some(digit) = self.peek().and_then(|letter| letter.to_digit(8)) else { break };
            (value, count) = (value * 8 + digit, count + 1);
            self.next();
        }
        (value, count)
    }

    /// Output goes to a file, which has no effect on the request; input would.
    fn redirection(&mut self, sign: char) {
        if sign == '<' {
            self.unknown("input is read from a file");
        }
        // A number before the sign is that of the descriptor.
        let is_number = self
            .word
            .as_ref()
            .and_then(|(_, text)| text.as_plain())
            .is_some_and(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()));
        match is_number {
            true => self.word = None,
            false => self.end_word(),
        }
        while let Some('>' | '<' | '&' | ' ' | '\t') = self.peek() {
            self.next();
        }
        while self.peek().is_some_and(|letter| !letter.is_whitespace() && !";|&".contains(letter)) {
            self.next();
        }
    }
}

fn is_variable(name: &str) -> bool {
    let begins = name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_');
    begins && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(text: &str) -> Vec<Vec<String>> {
        let report = Report::default();
        let commands = commands(text, &report).unwrap_or_default();
        commands.iter().map(|command| command.words.iter().map(|(_, word)| word.template()).collect()).collect()
    }

    #[test]
    fn words_are_those_of_a_shell() {
        assert_eq!(words("a 'b c' \"d $E\" f\\ g"), [["a", "b c", "d ${E}", "f g"]]);
        assert_eq!(words("a \\\n  b # c\nd; e && f | g"), [vec!["a", "b"], vec!["d"], vec!["e"], vec!["f"], vec!["g"]]);
        assert_eq!(words(r"$'a\'b\n\u0021\x41\101\ud83d\ude00'"), [["a'b\n!AA😀"]]);
        assert_eq!(words("a > out.txt 2>&1 b"), [["a", "b"]]);
        assert_eq!(words("a'b'\"c\"'' ''"), [["abc", ""]]);
        assert_eq!(words("\"a\\!b\" '${c}'"), [["a\\!b", "$${c}"]]);
        assert!(commands("a 'b", &Report::default()).is_none());
    }

    proptest! {
        /// A real shell tells the same words apart.
        #[test]
        fn quoted_words_come_back(texts in prop::collection::vec("[a-z '\"\\\\$;|&#\n]{0,8}", 1..5)) {
            let line: Vec<String> =
                texts.iter().map(|text| format!("'{}'", text.replace('\'', "'\\''"))).collect();
            let wanted: Vec<String> = texts.iter().map(|text| Text::plain(text.clone()).template()).collect();
            prop_assert_eq!(words(&line.join(" ")), [wanted]);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[a$'\"\\\\`(){}|&;<>#x0u \n]{0,30}") {
            let _ = words(&text);
        }
    }
}
