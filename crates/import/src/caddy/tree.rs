//! Reads the text of a Caddyfile, with its snippets and imports, as a tree.

use crate::directive::Directive;
use crate::files::{Files, join};
use crate::place::{Letters, Place};
use crate::{BYTES_MAX, ImportError};
use std::collections::BTreeMap;

const DEPTH_MAX: usize = 32;
const IMPORTS_MAX: usize = 256;
const DIRECTIVES_MAX: usize = 50_000;

/// A site: its addresses and directives.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    pub(crate) addresses: Vec<String>,
    pub(crate) directives: Vec<Directive>,
    pub(crate) place: Place,
}

/// The whole file.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) options: Vec<Directive>,
    pub(crate) sites: Vec<Site>,
    /// Imports that lead to nothing.
    pub(crate) missing: Vec<Directive>,
}

fn syntax(place: &Place, what: impl Into<String>, remedy: &'static str) -> ImportError {
    ImportError::Syntax { place: place.clone(), what: what.into(), remedy }
}

struct Reader<'f> {
    files: &'f dyn Files,
    folder: String,
    snippets: BTreeMap<String, Vec<Directive>>,
    imports: usize,
    bytes: usize,
    directives: usize,
    missing: Vec<Directive>,
}

/// Reads a file.
///
/// # Errors
///
/// [`ImportError`]: it is not in the grammar, or too large.
pub(crate) fn read(name: &str, text: &str, folder: &str, files: &dyn Files) -> Result<Tree, ImportError> {
    let mut reader = Reader {
        files,
        folder: folder.to_owned(),
        snippets: BTreeMap::new(),
        imports: 0,
        bytes: text.len(),
        directives: 0,
        missing: Vec::new(),
    };
    let mut tree = Tree::default();
    reader.top(name, text, &mut tree)?;
    tree.missing = reader.missing;
    Ok(tree)
}

impl Reader<'_> {
    fn top(&mut self, name: &str, text: &str, tree: &mut Tree) -> Result<(), ImportError> {
        let mut letters = Letters::new(name, text);
        let raw = self.lines(&mut letters, 0)?;
        if letters.peek().is_some() {
            return Err(syntax(&letters.place(), "`}` closes nothing", "look for a `{` that is missing above"));
        }
        let mut raw = raw.into_iter().peekable();
        while let Some(line) = raw.next() {
            match (line.name.as_str(), &line.block) {
                ("", Some(_)) => tree.options.extend(line.block.unwrap_or_default()),
                (name, Some(_)) if name.starts_with('(') => {
                    let name = name.trim_matches(['(', ')']).to_owned();
                    self.snippets.insert(name, line.block.unwrap_or_default());
                }
                ("import", None) => self.import_top(&line, tree)?,
                (_, Some(_)) => {
                    let addresses = addresses(&line);
                    let place = line.place.clone();
                    let directives = self.expanded(line.block.unwrap_or_default(), 0)?;
                    tree.sites.push(Site { addresses, directives, place });
                }
                (_, None) => {
                    // A file with one site needs no braces.
                    let (addresses, place) = (addresses(&line), line.place.clone());
                    let rest: Vec<Directive> = raw.by_ref().collect();
                    let directives = self.expanded(rest, 0)?;
                    tree.sites.push(Site { addresses, directives, place });
                }
            }
        }
        Ok(())
    }

    fn import_top(&mut self, line: &Directive, tree: &mut Tree) -> Result<(), ImportError> {
        let found = self.files.matching(&join(&self.folder, line.argument(0)));
        if found.is_empty() && !line.argument(0).contains('*') {
            self.missing.push(line.clone());
        }
        for path in found {
            let text = self.counted(&path, &line.place)?;
            self.top(&path, &text, tree)?;
        }
        Ok(())
    }

    /// The text of a file that is imported, within the bounds.
    fn counted(&mut self, path: &str, place: &Place) -> Result<String, ImportError> {
        let text = self.files.read(path).unwrap_or_default();
        self.imports += 1;
        self.bytes += text.len();
        if self.imports > IMPORTS_MAX || self.bytes > BYTES_MAX {
            return Err(ImportError::TooLarge { place: place.clone(), what: "too much is imported" });
        }
        Ok(text)
    }

    /// Directives with what they import in their place.
    fn expanded(&mut self, directives: Vec<Directive>, depth: usize) -> Result<Vec<Directive>, ImportError> {
        let mut out = Vec::new();
        for mut directive in directives {
            self.directives += 1;
            if depth > DEPTH_MAX || self.directives > DIRECTIVES_MAX {
                let what = "imports and blocks are nested too deep, or too many";
                return Err(ImportError::TooLarge { place: directive.place, what });
            }
            if directive.name != "import" || directive.block.is_some() {
                directive.block = directive.block.map(|block| self.expanded(block, depth + 1)).transpose()?;
                out.push(directive);
                continue;
            }
            let arguments = directive.arguments.get(1..).unwrap_or_default().to_vec();
            if let Some(snippet) = self.snippets.get(directive.argument(0)).cloned() {
                self.imports += 1;
                let filled = snippet.iter().map(|one| filled(one, &arguments)).collect();
                out.extend(self.expanded(filled, depth + 1)?);
                continue;
            }
            let found = self.files.matching(&join(&self.folder, directive.argument(0)));
            if found.is_empty() && !directive.argument(0).contains('*') {
                self.missing.push(directive.clone());
            }
            for path in found {
                let text = self.counted(&path, &directive.place)?;
                let mut letters = Letters::new(&path, &text);
                let lines = self.lines(&mut letters, 0)?;
                let lines = lines.iter().map(|one| filled(one, &arguments)).collect();
                out.extend(self.expanded(lines, depth + 1)?);
            }
        }
        Ok(out)
    }

    /// Lines until the block or the file ends.
    fn lines(&mut self, letters: &mut Letters<'_>, depth: usize) -> Result<Vec<Directive>, ImportError> {
        if depth > DEPTH_MAX {
            return Err(ImportError::TooLarge { place: letters.place(), what: "blocks are nested too deep" });
        }
        let mut lines = Vec::new();
        loop {
            skip_blank(letters, true);
            let place = letters.place();
            if letters.peek().is_none() {
                return Ok(lines);
            }
            let mut words = self.words(letters)?;
            if words == ["}"] {
                // It is left for the block that it closes; at the top it closes nothing.
                return if depth > 0 { Ok(lines) } else { Err(syntax(&place, "`}` closes nothing", "take it out")) };
            }
            let opens = words.last().is_some_and(|word| word == "{");
            let block = if opens {
                words.pop();
                let block = self.lines(letters, depth + 1)?;
                if letters.peek().is_none() && !ends_with_brace(letters) {
                    return Err(syntax(&place, "the block is not closed", "add the `}` that is missing"));
                }
                Some(block)
            } else {
                None
            };
            let name = if words.is_empty() { String::new() } else { words.remove(0) };
            lines.push(Directive::new(name, words, block, place));
        }
    }

    /// The words of a line, with variables of the environment.
    fn words(&mut self, letters: &mut Letters<'_>) -> Result<Vec<String>, ImportError> {
        let mut words = Vec::new();
        loop {
            skip_blank(letters, false);
            let place = letters.place();
            match letters.peek() {
                None | Some('\n') => return Ok(words),
                Some(quote @ ('"' | '`')) => {
                    letters.take();
                    words.push(quoted(letters, quote, &place)?);
                }
                Some(_) => {
                    let word = bare(letters);
                    if word == "}" && !words.is_empty() {
                        return Err(syntax(&place, "`}` stands on a line of its own", "put it there"));
                    }
                    words.push(self.with_environment(&word));
                    if word == "}" {
                        return Ok(words);
                    }
                }
            }
        }
    }

    /// `{$NAME}` and `{$NAME:otherwise}`.
    fn with_environment(&self, word: &str) -> String {
        let mut out = String::new();
        let mut rest = word;
        while let Some((before, after)) = rest.split_once("{$") {
            out.push_str(before);
            let Some((name, behind)) = after.split_once('}') else {
                out.push_str("{$");
                rest = after;
                continue;
            };
            let (name, otherwise) = name.split_once(':').unwrap_or((name, ""));
            out.push_str(&self.files.variable(name).unwrap_or_else(|| otherwise.to_owned()));
            rest = behind;
        }
        out + rest
    }
}

/// Whether the block that was read last has ended: its closing brace was the last thing of the text.
fn ends_with_brace(letters: &Letters<'_>) -> bool {
    letters.last() == Some('}')
}

fn addresses(line: &Directive) -> Vec<String> {
    let words = std::iter::once(&line.name).chain(&line.arguments);
    words.flat_map(|word| word.split(',')).map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// A directive of a snippet with the arguments of its import.
fn filled(directive: &Directive, arguments: &[String]) -> Directive {
    let fill = |text: &String| {
        let mut text = text.clone();
        for (number, argument) in arguments.iter().enumerate() {
            text = text.replace(&format!("{{args.{number}}}"), argument);
            text = text.replace(&format!("{{args[{number}]}}"), argument);
        }
        text
    };
    let block = directive.block.as_ref().map(|block| block.iter().map(|one| filled(one, arguments)).collect());
    let words = directive.arguments.iter().map(fill).collect();
    Directive::new(fill(&directive.name), words, block, directive.place.clone())
}

/// Spaces and comments, and with `lines` the ends of lines.
fn skip_blank(letters: &mut Letters<'_>, lines: bool) {
    loop {
        match letters.peek() {
            Some('#') => drop(letters.take_while(|letter| letter != '\n')),
            Some('\n') if lines => drop(letters.take()),
            Some('\\') if letters.starts_with("\\\n") => {
                letters.take();
                letters.take();
            }
            Some(letter) if letter != '\n' && letter.is_whitespace() => drop(letters.take()),
            _ => return,
        }
    }
}

fn quoted(letters: &mut Letters<'_>, quote: char, place: &Place) -> Result<String, ImportError> {
    let mut text = String::new();
    while let Some(letter) = letters.take() {
        match letter {
            letter if letter == quote => return Ok(text),
            '\\' if quote == '"' && letters.peek() == Some('"') => {
                letters.take();
                text.push('"');
            }
            letter => text.push(letter),
        }
    }
    Err(syntax(place, "the text in quotes does not end", "add the quote that is missing"))
}

fn bare(letters: &mut Letters<'_>) -> String {
    letters.take_while(|letter| !letter.is_whitespace())
}
