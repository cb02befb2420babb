//! Reads the text of nginx's configurations, with all that it includes, as a tree of directives.

use crate::directive::Directive;
use crate::files::{Files, folder_of, join};
use crate::place::{Letters, Place};
use crate::report::Report;
use crate::{BYTES_MAX, ImportError};

const DEPTH_MAX: usize = 32;
const INCLUDED_MAX: usize = 256;
const INCLUDES_DEPTH_MAX: usize = 10;
const DIRECTIVES_MAX: usize = 50_000;

#[derive(Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    End,
    Open,
    Close,
}

/// Reads files, and counts what it has read.
pub(crate) struct Reader<'f> {
    files: &'f dyn Files,
    folder: String,
    included: usize,
    bytes: usize,
    directives: usize,
    missing: Vec<Directive>,
}

/// The directives of a file.
///
/// # Errors
///
/// [`ImportError`]: it is not in nginx's grammar, or too large.
pub(crate) fn read(
    name: &str,
    text: &str,
    folder: &str,
    files: &dyn Files,
    report: &mut Report,
) -> Result<Vec<Directive>, ImportError> {
    let folder = folder.to_owned();
    let mut reader = Reader { files, folder, included: 0, bytes: text.len(), directives: 0, missing: Vec::new() };
    let tree = reader.file(name, text, 0)?;
    for missing in &reader.missing {
        report.lost(
            missing,
            format!("`{}`: no such file is there", missing.line()),
            "import it where nginx's files are; what it says is not in the written file",
        );
    }
    Ok(tree)
}

fn syntax(place: &Place, what: impl Into<String>, remedy: &'static str) -> ImportError {
    ImportError::Syntax { place: place.clone(), what: what.into(), remedy }
}

impl Reader<'_> {
    fn file(&mut self, name: &str, text: &str, includes: usize) -> Result<Vec<Directive>, ImportError> {
        let mut letters = Letters::new(name, text);
        let tree = self.block(&mut letters, 0, includes)?;
        if letters.peek().is_some() {
            return Err(syntax(&letters.place(), "`}` closes nothing", "look for a `{` that is missing above"));
        }
        Ok(tree)
    }

    /// Directives until the block, or the file, ends; the brace that closes a block is taken by its directive.
    fn block(
        &mut self,
        letters: &mut Letters<'_>,
        depth: usize,
        includes: usize,
    ) -> Result<Vec<Directive>, ImportError> {
        if depth > DEPTH_MAX {
            return Err(ImportError::TooLarge { place: letters.place(), what: "blocks are nested too deep" });
        }
        let mut directives = Vec::new();
        loop {
            skip_space(letters);
            if matches!(letters.peek(), None | Some('}')) {
                return Ok(directives);
            }
            let directive = self.directive(letters, depth, includes)?;
            self.directives += 1;
            if self.directives > DIRECTIVES_MAX {
                return Err(ImportError::TooLarge { place: directive.place, what: "there are too many directives" });
            }
            if directive.name == "include" && directive.block.is_none() && directive.arguments.len() == 1 {
                directives.extend(self.include(directive, includes)?);
            } else {
                directives.push(directive);
            }
        }
    }

    fn directive(
        &mut self,
        letters: &mut Letters<'_>,
        depth: usize,
        includes: usize,
    ) -> Result<Directive, ImportError> {
        let place = letters.place();
        let mut words = Vec::new();
        loop {
            skip_space(letters);
            let at = letters.place();
            match token(letters)? {
                Some(Token::Word(word)) => words.push(word),
                Some(Token::End) if !words.is_empty() => {
                    let name = words.remove(0);
                    return Ok(Directive::new(name, words, None, place));
                }
                Some(Token::Open) if !words.is_empty() => {
                    let name = words.remove(0);
                    if name.ends_with("_by_lua_block") {
                        skip_code(letters)?;
                        return Ok(Directive::new(name, words, Some(Vec::new()), place));
                    }
                    let block = self.block(letters, depth + 1, includes)?;
                    if letters.take() != Some('}') {
                        return Err(syntax(&at, "the block is not closed", "add the `}` that is missing"));
                    }
                    return Ok(Directive::new(name, words, Some(block), place));
                }
                Some(Token::Close) | None => {
                    return Err(syntax(&place, "the directive has no end", "add `;` behind it"));
                }
                Some(Token::End | Token::Open) => {
                    return Err(syntax(&at, "there is no directive before it", "write its name"));
                }
            }
        }
    }

    fn include(&mut self, directive: Directive, includes: usize) -> Result<Vec<Directive>, ImportError> {
        let wanted = directive.argument(0).to_owned();
        // weir has types of its own, and these are those of every nginx.
        if wanted == "mime.types" || wanted.ends_with("/mime.types") {
            return Ok(vec![Directive::new("include mime.types".to_owned(), Vec::new(), None, directive.place)]);
        }
        if includes >= INCLUDES_DEPTH_MAX {
            let what = "files include one another too deep";
            return Err(ImportError::TooLarge { place: directive.place, what });
        }
        // A site's file lies in a directory below that of nginx.conf, where relative names start.
        let above = folder_of(&self.folder);
        let mut found = self.files.matching(&join(&self.folder, &wanted));
        if found.is_empty() {
            found = self.files.matching(&join(above, &wanted));
        }
        if found.is_empty() {
            if !wanted.contains(['*', '?', '[']) {
                self.missing.push(directive);
            }
            return Ok(Vec::new());
        }
        let mut directives = Vec::new();
        for path in found {
            self.included += 1;
            let Some(text) = self.files.read(&path) else {
                self.missing.push(directive.clone());
                continue;
            };
            self.bytes += text.len();
            if self.included > INCLUDED_MAX || self.bytes > BYTES_MAX {
                return Err(ImportError::TooLarge { place: directive.place, what: "too much is included" });
            }
            directives.extend(self.file(&path, &text, includes + 1)?);
        }
        Ok(directives)
    }
}

fn skip_space(letters: &mut Letters<'_>) {
    loop {
        match letters.peek() {
            Some('#') => drop(letters.take_while(|letter| letter != '\n')),
            Some(letter) if letter.is_whitespace() => drop(letters.take()),
            _ => return,
        }
    }
}

fn token(letters: &mut Letters<'_>) -> Result<Option<Token>, ImportError> {
    skip_space(letters);
    let place = letters.place();
    let Some(first) = letters.peek() else { return Ok(None) };
    match first {
        ';' => drop(letters.take()),
        '{' => drop(letters.take()),
        '}' => return Ok(Some(Token::Close)),
        '"' | '\'' => {
            letters.take();
            return quoted(letters, first, &place).map(Some);
        }
        _ => return Ok(Some(Token::Word(word(letters)))),
    }
    Ok(Some(if first == ';' { Token::End } else { Token::Open }))
}

fn quoted(letters: &mut Letters<'_>, quote: char, place: &Place) -> Result<Token, ImportError> {
    let mut text = String::new();
    while let Some(letter) = letters.take() {
        match letter {
            letter if letter == quote => return Ok(Token::Word(text)),
            '\\' => match letters.take() {
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some('r') => text.push('\r'),
                Some(letter) if letter == quote || letter == '\\' => text.push(letter),
                Some(letter) => {
                    text.push('\\');
                    text.push(letter);
                }
                None => break,
            },
            letter => text.push(letter),
        }
    }
    Err(syntax(place, "the text in quotes does not end", "add the quote that is missing"))
}

/// A word without quotes. A brace after a dollar sign belongs to a variable.
fn word(letters: &mut Letters<'_>) -> String {
    let mut text = String::new();
    while let Some(letter) = letters.peek() {
        match letter {
            '$' if letters.starts_with("${") => {
                letters.take();
                letters.take();
                text.push_str("${");
                text.push_str(&letters.take_while(|letter| letter.is_alphanumeric() || letter == '_'));
                if letters.peek() == Some('}') {
                    letters.take();
                    text.push('}');
                }
            }
            ';' | '{' => break,
            letter if letter.is_whitespace() => break,
            '\\' => {
                letters.take();
                match letters.take() {
                    Some(letter) if matches!(letter, '"' | '\'' | ' ' | ';' | '{' | '}') => text.push(letter),
                    Some(letter) => {
                        text.push('\\');
                        text.push(letter);
                    }
                    None => text.push('\\'),
                }
            }
            letter => {
                letters.take();
                text.push(letter);
            }
        }
    }
    text
}

/// Code of another language up to the brace that closes it.
fn skip_code(letters: &mut Letters<'_>) -> Result<(), ImportError> {
    let place = letters.place();
    let mut depth = 1;
    while let Some(letter) = letters.take() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Ok(());
        }
    }
    Err(syntax(&place, "the block is not closed", "add the `}` that is missing"))
}
