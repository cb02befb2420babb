//! Reads the text of `.htaccess` as a tree of directives and sections.

use crate::ImportError;
use crate::directive::Directive;
use crate::place::Place;

const DEPTH_MAX: usize = 32;
const DIRECTIVES_MAX: usize = 20_000;

/// A line of the file, continued ones put together.
struct Line {
    number: usize,
    column: usize,
    text: String,
}

/// The directives of a file.
///
/// # Errors
///
/// [`ImportError`]: a section is not closed, or closed twice.
pub(crate) fn read(name: &str, text: &str) -> Result<Vec<Directive>, ImportError> {
    let lines = lines(text);
    let mut rest = lines.as_slice();
    let tree = section(name, &mut rest, None, 0)?;
    if lines.len() > DIRECTIVES_MAX {
        let what = "there are too many directives";
        return Err(ImportError::TooLarge { place: Place { file: name.into(), line: 1, column: 1 }, what });
    }
    Ok(tree)
}

fn lines(text: &str) -> Vec<Line> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines: Vec<Line> = Vec::new();
    let mut is_continued = false;
    for (number, line) in text.lines().enumerate() {
        let column = line.chars().take_while(|letter| letter.is_whitespace()).count() + 1;
        let bare = line.trim();
        let (bare, continues) = bare.strip_suffix('\\').map_or((bare, false), |bare| (bare, true));
        match lines.last_mut().filter(|_| is_continued) {
            Some(last) => {
                last.text.push(' ');
                last.text.push_str(bare);
            }
            None => lines.push(Line { number: number + 1, column, text: bare.to_owned() }),
        }
        is_continued = continues;
    }
    lines.retain(|line| !line.text.is_empty() && !line.text.starts_with('#'));
    lines
}

fn section(
    file: &str,
    rest: &mut &[Line],
    of: Option<(&str, &Place)>,
    depth: usize,
) -> Result<Vec<Directive>, ImportError> {
    let mut directives = Vec::new();
    while let Some((line, behind)) = rest.split_first() {
        *rest = behind;
        let place = Place { file: file.into(), line: line.number, column: line.column };
        if let Some(closing) = line.text.strip_prefix("</") {
            let closing = closing.trim_end_matches('>').trim();
            return match of {
                Some((name, _)) if name.eq_ignore_ascii_case(closing) => Ok(directives),
                _ => Err(ImportError::Syntax {
                    place,
                    what: format!("`</{}>` closes no section of its name", shown(closing)),
                    remedy: "look for the section that is missing above",
                }),
            };
        }
        if let Some(opening) = line.text.strip_prefix('<') {
            if depth >= DEPTH_MAX {
                return Err(ImportError::TooLarge { place, what: "sections are nested too deep" });
            }
            let mut words = words(opening.trim_end().trim_end_matches('>'));
            if words.is_empty() {
                return Err(ImportError::Syntax {
                    place,
                    what: "the section has no name".to_owned(),
                    remedy: "such as <Files \"name\">",
                });
            }
            let name = words.remove(0);
            let block = section(file, rest, Some((&name, &place)), depth + 1)?;
            directives.push(Directive::new(format!("<{name}>"), words, Some(block), place));
            continue;
        }
        let mut words = words(&line.text);
        if words.is_empty() {
            continue;
        }
        let name = words.remove(0);
        directives.push(Directive::new(name, words, None, place));
    }
    match of {
        None => Ok(directives),
        Some((name, place)) => Err(ImportError::Syntax {
            place: place.clone(),
            what: format!("the section <{}> is not closed", shown(name)),
            remedy: "add its end, such as </Files>",
        }),
    }
}

fn shown(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(60).collect()
}

/// Words, some of them in quotes.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut letters = text.chars().peekable();
    loop {
        while letters.next_if(|letter| letter.is_whitespace()).is_some() {}
        let Some(first) = letters.peek().copied() else { return words };
        let quote = (first == '"' || first == '\'').then_some(first);
        if quote.is_some() {
            letters.next();
        }
        let mut word = String::new();
        while let Some(letter) = letters.next() {
            match (letter, quote) {
                ('\\', Some(quote)) if letters.peek() == Some(&quote) => {
                    letters.next();
                    word.push(quote);
                }
                (letter, Some(quote)) if letter == quote => break,
                (letter, None) if letter.is_whitespace() => break,
                // A space that is escaped belongs to the word.
                ('\\', None) if letters.peek() == Some(&' ') => {
                    letters.next();
                    word.push_str("\\x20");
                }
                (letter, _) => word.push(letter),
            }
        }
        words.push(word);
    }
}
