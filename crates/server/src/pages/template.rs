//! Pages with includes, taken apart: server-side includes as Apache's mod_include has them, and ESI's includes.
//!
//! A page is parsed once and assembled often. Parsing ends for every input and loses nothing: what is no directive
//! stays text, and a wrong directive becomes a `Wrong` in its place.

use std::ops::Range;

/// Bytes of one directive; what is longer is text.
const DIRECTIVE_BYTES_MAX: usize = 8 << 10;
/// Conditions within each other; deeper ones are wrong.
pub(crate) const CONDITIONS_MAX: usize = 32;

/// A page in the order of its parts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Template {
    pub(crate) steps: Vec<Step>,
}

/// A part of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Bytes of the source.
    Text(Range<usize>),
    /// Another file: by its URL, or by its name below the page's directory.
    Include {
        path: String,
        is_name: bool,
    },
    /// The value of a variable.
    Echo {
        name: String,
        is_raw: bool,
    },
    Set {
        name: String,
        value: String,
    },
    If(Condition),
    ElseIf(Condition),
    Else,
    EndIf,
    /// A directive that cannot be carried out.
    Wrong,
}

/// A condition in the way of mod_include: `$A = b && !($C != "d e")`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Condition {
    /// Whether the text, its variables filled in, is not empty.
    Holds(String),
    Compare(String, Comparison, String),
    Not(Box<Condition>),
    Both(Box<Condition>, Box<Condition>),
    Either(Box<Condition>, Box<Condition>),
}

/// Compares texts byte by byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    Unequal,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

impl Template {
    pub(crate) fn parse(source: &[u8]) -> Self {
        let mut template = Self::default();
        let (mut at, mut text) = (0, 0);
        while let Some(found) = memchr::memchr(b'<', &source[at..]) {
            let begin = at + found;
            let Some((step, len)) = directive(&source[begin..]) else {
                at = begin + 1;
                continue;
            };
            template.text(text..begin);
            template.steps.extend(step);
            at = begin + len;
            text = at;
        }
        template.text(text..source.len());
        template
    }

    fn text(&mut self, range: Range<usize>) {
        if !range.is_empty() {
            self.steps.push(Step::Text(range));
        }
    }
}

/// The directive at the beginning of the source, with its length; it may come to nothing.
fn directive(source: &[u8]) -> Option<(Vec<Step>, usize)> {
    let within = &source[..source.len().min(DIRECTIVE_BYTES_MAX)];
    let until = |start: usize, end: &[u8]| {
        memchr::memmem::find(&within[start..], end).map(|at| (&within[start..start + at], start + at + end.len()))
    };
    if within.starts_with(b"<!--#") {
        let (inner, len) = until(5, b"-->")?;
        return Some((vec![server_side(inner).unwrap_or(Step::Wrong)], len));
    }
    if within.starts_with(b"<esi:include") {
        let (inner, len) = until(12, b">")?;
        let inner = inner.strip_suffix(b"/").unwrap_or(inner);
        let source = attributes(inner).and_then(|attributes| value(&attributes, "src"));
        return Some((vec![source.map_or(Step::Wrong, |path| Step::Include { path, is_name: false })], len));
    }
    // Content for a page that is sent without assembly, and comments that hide ESI from a browser that gets such a
    // page.
    if within.starts_with(b"<esi:remove>") {
        return until(12, b"</esi:remove>").map(|(_, len)| (Vec::new(), len));
    }
    if within.starts_with(b"<esi:comment") {
        return until(12, b">").map(|(_, len)| (Vec::new(), len));
    }
    None
}

fn server_side(inner: &[u8]) -> Option<Step> {
    let inner = inner.trim_ascii();
    let name_end = inner.iter().position(u8::is_ascii_whitespace).unwrap_or(inner.len());
    let attributes = attributes(&inner[name_end..])?;
    let of = |name: &str| value(&attributes, name);
    match &inner[..name_end] {
        b"include" => match (of("virtual"), of("file")) {
            (Some(path), None) => Some(Step::Include { path, is_name: false }),
            (None, Some(path)) => Some(Step::Include { path, is_name: true }),
            _ => None,
        },
        b"echo" => {
            let is_raw = match of("encoding").as_deref() {
                None | Some("entity") => false,
                Some("none") => true,
                Some(_) => return None,
            };
            Some(Step::Echo { name: of("var")?, is_raw })
        }
        b"set" => Some(Step::Set { name: of("var")?, value: of("value")? }),
        b"if" => Some(Step::If(condition(&of("expr")?)?)),
        b"elif" => Some(Step::ElseIf(condition(&of("expr")?)?)),
        b"else" if attributes.is_empty() => Some(Step::Else),
        b"endif" if attributes.is_empty() => Some(Step::EndIf),
        _ => None,
    }
}

fn value(attributes: &[(String, String)], name: &str) -> Option<String> {
    attributes.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
}

/// `name="value"` again and again; a backslash before a quote makes it part of the value.
fn attributes(text: &[u8]) -> Option<Vec<(String, String)>> {
    let mut rest = std::str::from_utf8(text).ok()?.trim();
    let mut attributes = Vec::new();
    while !rest.is_empty() {
        let (name, after) = rest.split_once('=')?;
        let quote = after.trim_start().chars().next().filter(|quote| matches!(quote, '"' | '\'' | '`'))?;
        let mut value = String::new();
        let mut characters = after.trim_start()[1..].char_indices().peekable();
        let end = loop {
            let (at, character) = characters.next()?;
            match character {
                _ if character == quote => break at,
                '\\' if characters.peek().is_some_and(|(_, next)| *next == quote) => {
                    value.push(quote);
                    characters.next();
                }
                _ => value.push(character),
            }
        };
        attributes.push((name.trim().to_owned(), value));
        rest = after.trim_start()[1 + end + 1..].trim_start();
    }
    Some(attributes)
}

/// What a condition is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Text(String),
    Compare(Comparison),
    Not,
    And,
    Or,
    Open,
    Close,
}

fn condition(text: &str) -> Option<Condition> {
    let tokens = tokens(text)?;
    let mut rest = tokens.as_slice();
    let condition = either(&mut rest, 0)?;
    rest.is_empty().then_some(condition)
}

fn either(rest: &mut &[Token], depth: usize) -> Option<Condition> {
    let mut left = both(rest, depth)?;
    while let [Token::Or, after @ ..] = rest {
        *rest = after;
        left = Condition::Either(Box::new(left), Box::new(both(rest, depth)?));
    }
    Some(left)
}

fn both(rest: &mut &[Token], depth: usize) -> Option<Condition> {
    let mut left = single(rest, depth)?;
    while let [Token::And, after @ ..] = rest {
        *rest = after;
        left = Condition::Both(Box::new(left), Box::new(single(rest, depth)?));
    }
    Some(left)
}

fn single(rest: &mut &[Token], depth: usize) -> Option<Condition> {
    if depth > CONDITIONS_MAX {
        return None;
    }
    match rest {
        [Token::Not, after @ ..] => {
            *rest = after;
            Some(Condition::Not(Box::new(single(rest, depth + 1)?)))
        }
        [Token::Open, after @ ..] => {
            *rest = after;
            let inner = either(rest, depth + 1)?;
            let [Token::Close, after @ ..] = rest else { return None };
            *rest = after;
            Some(inner)
        }
        [Token::Text(left), Token::Compare(comparison), Token::Text(right), after @ ..] => {
            *rest = after;
            Some(Condition::Compare(left.clone(), *comparison, right.clone()))
        }
        [Token::Text(text), after @ ..] => {
            *rest = after;
            Some(Condition::Holds(text.clone()))
        }
        _ => None,
    }
}

fn tokens(text: &str) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let symbols: [(&str, Token); 12] = [
            ("&&", Token::And),
            ("||", Token::Or),
            ("!=", Token::Compare(Comparison::Unequal)),
            ("<=", Token::Compare(Comparison::AtMost)),
            (">=", Token::Compare(Comparison::AtLeast)),
            ("==", Token::Compare(Comparison::Equal)),
            ("=", Token::Compare(Comparison::Equal)),
            ("<", Token::Compare(Comparison::Less)),
            (">", Token::Compare(Comparison::Greater)),
            ("!", Token::Not),
            ("(", Token::Open),
            (")", Token::Close),
        ];
        let symbol = symbols.into_iter().find_map(|(symbol, token)| Some((rest.strip_prefix(symbol)?, token)));
        if let Some((after, token)) = symbol {
            tokens.push(token);
            rest = after.trim_start();
            continue;
        }
        let (word, after) = match first {
            '"' | '\'' => rest[1..].split_once(first)?,
            // A regular expression, which is not known here: better no page than another one.
            '/' => return None,
            _ => {
                let end = rest.find(|c: char| c.is_whitespace() || "=!<>()&|\"'".contains(c)).unwrap_or(rest.len());
                // A single & or | is neither a word nor an operator.
                if end == 0 {
                    return None;
                }
                rest.split_at(end)
            }
        };
        tokens.push(Token::Text(word.to_owned()));
        rest = after.trim_start();
    }
    Some(tokens)
}

/// Bytes of a text with its variables: beyond it they are left out, as they could double each other.
pub(crate) const VALUE_BYTES_MAX: usize = 64 << 10;

/// A text with `$NAME` and `${NAME}` filled in, by a function that knows the variables; `\$` is a dollar.
pub(crate) fn fill_in(text: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$').filter(|_| out.len() <= VALUE_BYTES_MAX) {
        if let Some(before) = rest[..at].strip_suffix('\\') {
            out.push_str(before);
            out.push('$');
            rest = &rest[at + 1..];
            continue;
        }
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let (name, then) = match after.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            Some(braced) => braced,
            None => after.split_at(after.find(|c| !is_name(c)).unwrap_or(after.len())),
        };
        if name.is_empty() {
            out.push('$');
        } else {
            out.push_str(&value(name).unwrap_or_default());
        }
        rest = then;
    }
    out.push_str(rest);
    out
}

impl Condition {
    /// Whether it holds, by a function that fills in the variables of a text.
    pub(crate) fn holds(&self, fill_in: &impl Fn(&str) -> String) -> bool {
        match self {
            Self::Holds(text) => !fill_in(text).is_empty(),
            Self::Compare(left, comparison, right) => {
                let order = fill_in(left).cmp(&fill_in(right));
                match comparison {
                    Comparison::Equal => order.is_eq(),
                    Comparison::Unequal => order.is_ne(),
                    Comparison::Less => order.is_lt(),
                    Comparison::AtMost => order.is_le(),
                    Comparison::Greater => order.is_gt(),
                    Comparison::AtLeast => order.is_ge(),
                }
            }
            Self::Not(inner) => !inner.holds(fill_in),
            Self::Both(left, right) => left.holds(fill_in) && right.holds(fill_in),
            Self::Either(left, right) => left.holds(fill_in) || right.holds(fill_in),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(source: &str) -> Vec<Step> {
        Template::parse(source.as_bytes()).steps
    }

    #[test]
    fn directives_of_every_form() {
        let include = |path: &str, is_name| Step::Include { path: path.to_owned(), is_name };
        for (source, expected) in [
            ("", vec![]),
            ("plain <b>text</b>", vec![Step::Text(0..17)]),
            ("<!--#include virtual=\"/a\" -->", vec![include("/a", false)]),
            ("<!--#include file='b.html'-->x", vec![include("b.html", true), Step::Text(29..30)]),
            ("<!--#include-->", vec![Step::Wrong]),
            ("<!--#include virtual=\"/a\" file=\"b\" -->", vec![Step::Wrong]),
            ("<!--#exec cmd=\"ls\" -->", vec![Step::Wrong]),
            ("<!--# echo var=\"A\" -->", vec![Step::Echo { name: "A".to_owned(), is_raw: false }]),
            ("<!--#echo encoding=\"none\" var=\"A\"-->", vec![Step::Echo { name: "A".to_owned(), is_raw: true }]),
            (
                "<!--#set var=\"A\" value=\"a \\\"b\\\"\" -->",
                vec![Step::Set { name: "A".to_owned(), value: "a \"b\"".to_owned() }],
            ),
            ("<!--#else --><!--#endif-->", vec![Step::Else, Step::EndIf]),
            ("<!-- a comment --><!--#include", vec![Step::Text(0..30)]),
            ("<!--#if expr=\"$A = /x/\" -->", vec![Step::Wrong]),
            ("<esi:include src=\"/a\"/>", vec![include("/a", false)]),
            ("<esi:include src='/a' >", vec![include("/a", false)]),
            ("<esi:include/>", vec![Step::Wrong]),
            ("<esi:remove>old</esi:remove><esi:comment text=\"x\"/>", vec![]),
        ] {
            assert_eq!(steps(source), expected, "{source}");
        }
        let long = format!("<!--#echo var=\"{}\" -->", "a".repeat(DIRECTIVE_BYTES_MAX));
        assert_eq!(steps(&long), [Step::Text(0..long.len())]);
    }

    #[test]
    fn conditions_hold_as_in_mod_include() {
        let value = |name: &str| match name {
            "A" => Some("a".to_owned()),
            "AB" => Some("a b".to_owned()),
            _ => None,
        };
        let fill = |text: &str| fill_in(text, value);
        for (text, expected) in [
            ("$A", Some(true)),
            ("$NONE", Some(false)),
            ("$A = a", Some(true)),
            ("$A=b", Some(false)),
            ("$A != b", Some(true)),
            ("\"$AB\" = 'a b'", Some(true)),
            ("$A < b && $A >= a", Some(true)),
            ("$A = b || $A = c", Some(false)),
            ("!$NONE", Some(true)),
            ("!($A = a && $NONE)", Some(true)),
            ("$NONE || $A && $NONE", Some(false)),
            ("(($A))", Some(true)),
            ("", None),
            ("$A =", None),
            ("($A", None),
            ("$A &", None),
            ("$A = /a/", None),
            ("\"$A", None),
        ] {
            assert_eq!(condition(text).map(|condition| condition.holds(&fill)), expected, "{text}");
        }
        assert_eq!(condition(&"!".repeat(10_000)), None);
        assert_eq!(condition(&"(".repeat(10_000)), None);
        assert_eq!(fill("${A}b $A-$ \\$A $"), "ab a-$ $A $");
    }
}
