//! A command as words, split as a shell would but run without one, so that its process is the
//! subject itself and not a shell around it.
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A command and its arguments; at least one word, the first not empty.
///
/// Parsed from text with single quotes, double quotes and backslashes. Nothing is expanded:
/// for variables, pipes or redirections give `sh -c '...'`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CommandLine {
    words: Vec<String>,
}

/// Why a text is no command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandLineError {
    /// Nothing but white space, or an empty first word.
    #[error("the command is empty")]
    Empty,
    /// A quote without its partner, or a backslash at the end.
    #[error("the command {0:?} ends within a quote or after a backslash")]
    Unfinished(String),
    /// A character that no argument can carry.
    #[error("the command {0:?} contains a NUL character")]
    Nul(String),
}

impl CommandLine {
    /// A command from words that need no splitting.
    ///
    /// # Errors
    /// [`CommandLineError::Empty`] and [`CommandLineError::Nul`].
    pub fn from_words(words: Vec<String>) -> Result<Self, CommandLineError> {
        if words.first().is_none_or(String::is_empty) {
            return Err(CommandLineError::Empty);
        }
        match words.iter().find(|word| word.contains('\0')) {
            Some(word) => Err(CommandLineError::Nul(word.clone())),
            None => Ok(Self { words }),
        }
    }

    /// The program's name or path.
    #[must_use]
    pub fn program(&self) -> &str {
        // Every constructor refuses an empty list.
        &self.words[0]
    }

    /// What follows the program.
    #[must_use]
    pub fn arguments(&self) -> &[String] {
        &self.words[1..]
    }

    /// All words, the program first.
    #[must_use]
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Whether `{name}` stands somewhere in it.
    #[must_use]
    pub fn mentions(&self, name: &str) -> bool {
        let placeholder = format!("{{{name}}}");
        self.words.iter().any(|word| word.contains(&placeholder))
    }

    /// The command with these words after its own.
    #[must_use]
    pub fn with(&self, words: &[String]) -> Self {
        Self { words: self.words.iter().chain(words).cloned().collect() }
    }

    /// The command with each `{name}` replaced by its value; other braces stay.
    #[must_use]
    pub fn filled(&self, values: &[(&str, String)]) -> Self {
        let fill = |word: &String| {
            values.iter().fold(word.clone(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
        };
        Self { words: self.words.iter().map(fill).collect() }
    }
}

impl FromStr for CommandLine {
    type Err = CommandLineError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::from_words(split(text)?)
    }
}

impl TryFrom<String> for CommandLine {
    type Error = CommandLineError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<CommandLine> for String {
    fn from(command: CommandLine) -> Self {
        command.to_string()
    }
}

/// Quoted so that a shell, and this parser, read the same words again.
impl fmt::Display for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, word) in self.words.iter().enumerate() {
            let space = if index == 0 { "" } else { " " };
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%{}".contains(c);
            if !word.is_empty() && word.chars().all(is_plain) {
                write!(f, "{space}{word}")?;
            } else {
                write!(f, "{space}'{}'", word.replace('\'', r"'\''"))?;
            }
        }
        Ok(())
    }
}

fn split(text: &str) -> Result<Vec<String>, CommandLineError> {
    let unfinished = || CommandLineError::Unfinished(text.to_owned());
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            space if space.is_whitespace() => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next().ok_or_else(unfinished)? {
                        '\'' => break,
                        quoted => word.push(quoted),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next().ok_or_else(unfinished)? {
                        '"' => break,
                        '\\' => match characters.next().ok_or_else(unfinished)? {
                            escaped @ ('"' | '\\' | '$' | '`') => word.push(escaped),
                            other => word.extend(['\\', other]),
                        },
                        quoted => word.push(quoted),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(characters.next().ok_or_else(unfinished)?),
            plain => word.get_or_insert_default().push(plain),
        }
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(text: &str) -> Vec<String> {
        text.parse::<CommandLine>().map(|command| command.words).expect("a command")
    }

    #[test]
    fn quotes_group_and_backslashes_escape() {
        assert_eq!(words("nginx -g 'daemon off;' -c  a\\ b"), ["nginx", "-g", "daemon off;", "-c", "a b"]);
        assert_eq!(words(r#"sh -c "echo \"$x\" \n" ''"#), ["sh", "-c", r#"echo "$x" \n"#, ""]);
    }

    #[test]
    fn what_is_no_command_is_refused() {
        assert_eq!(" ".parse::<CommandLine>(), Err(CommandLineError::Empty));
        assert_eq!("'' x".parse::<CommandLine>(), Err(CommandLineError::Empty));
        for text in ["a 'b", "a \"b", "a \\", "\"\\"] {
            assert_eq!(text.parse::<CommandLine>(), Err(CommandLineError::Unfinished(text.to_owned())));
        }
        assert!(matches!("a\0b".parse::<CommandLine>(), Err(CommandLineError::Nul(_))));
    }

    #[test]
    fn placeholders_are_filled_and_other_braces_kept() {
        let command: CommandLine = "wrk -d{seconds}s {url} {x}".parse().expect("a command");
        assert!(command.mentions("url") && !command.mentions("connections"));
        let filled = command.filled(&[("seconds", "2".to_owned()), ("url", "http://h/?a=b c".to_owned())]);
        assert_eq!(filled.to_string(), "wrk -d2s 'http://h/?a=b c' {x}");
    }

    proptest! {
        #[test]
        fn what_is_printed_parses_to_the_same_words(first in "[^\0]{1,12}", rest in prop::collection::vec("[^\0]{0,12}", 0..4)) {
            let mut words = vec![first];
            words.extend(rest);
            let command = CommandLine::from_words(words).unwrap();
            prop_assert_eq!(command.to_string().parse::<CommandLine>().unwrap(), command);
        }
    }
}
