//! Walks over the words of a policy and tells what is missing.

use super::hint;
use super::mistake::{Findings, meant};
use super::syntax::Name;
use super::token::{Kind, Token, spaced, tokens, unquoted};

/// What could not be read has been told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wrong;

pub(crate) type Parsed<T> = Result<T, Wrong>;

/// Names that would be read as something else where a node or pool is named.
const TAKEN: [&str; 6] = ["here", "client", "atom", "all", "any", "best"];

/// The place in a policy up to which it has been read.
#[derive(Debug)]
pub(crate) struct Cursor<'t, 'f> {
    text: &'t str,
    /// Without comments, with an end.
    tokens: Vec<Token>,
    at: usize,
    /// How deep in brackets it stands.
    pub(crate) depth: usize,
    findings: &'f mut Findings<'t>,
}

impl<'t, 'f> Cursor<'t, 'f> {
    pub(crate) fn new(text: &'t str, findings: &'f mut Findings<'t>) -> Self {
        let mut tokens = tokens(text, findings);
        tokens.retain(|token| token.kind != Kind::Comment);
        tokens.push(Token { kind: Kind::End, start: text.len(), end: text.len() });
        Self { text, tokens, at: 0, depth: 0, findings }
    }

    fn token(&self) -> Token {
        self.tokens[self.at]
    }

    pub(crate) fn kind(&self) -> Kind {
        self.token().kind
    }

    /// The word that stands here; nothing at the end.
    pub(crate) fn now(&self) -> &'t str {
        &self.text[self.token().start..self.token().end]
    }

    /// The byte that stands here.
    pub(crate) fn place(&self) -> usize {
        self.token().start
    }

    /// The number of the word that stands here, for [`Self::said_since`].
    pub(crate) fn mark(&self) -> usize {
        self.at
    }

    /// What was written since a mark, as the formatter writes it.
    pub(crate) fn said_since(&self, mark: usize) -> String {
        spaced(self.text, &self.tokens[mark..self.at])
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.kind() == Kind::End
    }

    pub(crate) fn is(&self, word: &str) -> bool {
        matches!(self.kind(), Kind::Word | Kind::Symbol) && self.now() == word
    }

    /// Whether the word behind the one here is this.
    pub(crate) fn is_next(&self, word: &str) -> bool {
        let Some(next) = self.tokens.get(self.at + 1) else { return false };
        matches!(next.kind, Kind::Word | Kind::Symbol) && &self.text[next.start..next.end] == word
    }

    /// Goes on by a word; stays at the end.
    pub(crate) fn next(&mut self) {
        self.at = (self.at + 1).min(self.tokens.len() - 1);
    }

    /// Goes past a word, if it stands here.
    pub(crate) fn take(&mut self, word: &str) -> bool {
        let is = self.is(word);
        if is {
            self.next();
        }
        is
    }

    /// Goes past a word that must stand here.
    pub(crate) fn expect(&mut self, word: &str) -> Parsed<()> {
        self.expect_one(&[word])
    }

    /// Goes past the first of the words, which must stand here; the others would have been right, too.
    pub(crate) fn expect_one(&mut self, words: &[&str]) -> Parsed<()> {
        if self.take(words[0]) { Ok(()) } else { Err(self.expected(words, "")) }
    }

    /// A name of a pool, a node or a variant.
    pub(crate) fn name(&mut self, what: &str) -> Parsed<Name> {
        if self.kind() == Kind::Word && TAKEN.contains(&self.now()) {
            let what = format!("`{}` cannot be {what}", self.now());
            return Err(self.wrong(self.place(), what, "choose another name"));
        }
        self.any_name(what)
    }

    /// A name where nothing else could stand.
    pub(crate) fn any_name(&mut self, what: &str) -> Parsed<Name> {
        if self.kind() != Kind::Word {
            return Err(self.expected_a(what, "names begin with a letter"));
        }
        let name = Name { text: self.now().to_owned(), at: self.place() };
        self.next();
        Ok(name)
    }

    /// Something in quotes.
    pub(crate) fn text(&mut self, what: &str) -> Parsed<Name> {
        if self.kind() != Kind::Text {
            return Err(self.expected_a(what, "write it in double quotes"));
        }
        let name = Name { text: unquoted(self.now()), at: self.place() };
        self.next();
        Ok(name)
    }

    pub(crate) fn wrong(&mut self, at: usize, what: impl Into<String>, remedy: impl Into<String>) -> Wrong {
        self.findings.wrong(at, what, remedy);
        Wrong
    }

    fn found(&self) -> String {
        if self.is_at_end() { "the end of the file".to_owned() } else { format!("`{}`", short(self.now())) }
    }

    /// Tells that one of some words should stand here.
    pub(crate) fn expected(&mut self, words: &[&str], why: &str) -> Wrong {
        let list = words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>();
        let list = match list.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
            _ => list.concat(),
        };
        let otherwise = if why.is_empty() { format!("write {list} here") } else { why.to_owned() };
        let words_only = words.iter().copied().filter(|word| word.starts_with(|c: char| c.is_ascii_alphabetic()));
        let now = self.now();
        let remedy = match (hint::place_of(now).filter(|_| self.kind() == Kind::Word), hint::meaning(now, words)) {
            (Some(place), _) => place,
            (None, Some(meaning)) => format!("did you mean `{meaning}`?"),
            (None, None) if now == "{" => "rules have no braces: rule NAME: during if … then … ;".to_owned(),
            (None, None) if now == "[" && words.contains(&"over") => {
                "write the time behind what is read, such as avg cpu over 5min > 90%".to_owned()
            }
            (None, None) => meant(now, words_only, &otherwise),
        };
        let what = format!("expected {list}, found {}", self.found());
        self.wrong(self.place(), what, remedy)
    }

    /// Tells that a kind of word should stand here.
    pub(crate) fn expected_a(&mut self, what: &str, remedy: &str) -> Wrong {
        let what = format!("expected {what}, found {}", self.found());
        self.wrong(self.place(), what, remedy)
    }

    /// Goes on behind the next `;`, or to the brace or statement before which it is missing.
    pub(crate) fn skip_statement(&mut self) {
        let before = self.at;
        while !self.is_at_end() && !self.is("}") {
            if self.at > before && (self.is("rule") || self.is("atom") || self.is("pool")) {
                return;
            }
            if self.take(";") {
                return;
            }
            self.next();
        }
        // A closing brace belongs to the block around the statement; at the outermost level there is no block.
        if self.at == before || self.is_next("pool") || self.is_next("atom") {
            self.take("}");
        }
    }

    /// Goes on to the next of some words, at least by one.
    pub(crate) fn skip_to(&mut self, words: &[&str]) {
        self.next();
        while !self.is_at_end() && !words.iter().any(|word| self.is(word)) {
            self.next();
        }
    }
}

/// The begin of a word that may be of any length.
fn short(word: &str) -> String {
    let first = word.lines().next().unwrap_or_default();
    if first.chars().count() <= 30 { first.to_owned() } else { first.chars().take(29).chain(['…']).collect() }
}
