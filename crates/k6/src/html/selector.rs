//! CSS selectors: names, classes, ids, attributes, the combinators, and the pseudo-classes that pages are searched by.

use super::tree::{Dom, NodeId};

/// The longest selector, in bytes.
const LENGTH_MAX: usize = 10_000;
/// The most selectors within each other.
const DEPTH_MAX: usize = 16;

/// Why a text is no selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SelectorError {
    #[error("selector {selector:?}: {rest:?} is not understood")]
    Rest { selector: String, rest: String },
    #[error(
        "selector {selector:?}: the pseudo-class :{name} is not there; first-child, last-child, only-child, nth-child(), not(), has(), contains(), empty, checked, selected and disabled are"
    )]
    Pseudo { selector: String, name: String },
    #[error("a selector of {0} bytes is too long, or holds itself too often")]
    Long(usize),
}

/// A selector.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Selector(Vec<Complex>);

/// Compounds from right to left, each with how the next one stands to it.
#[derive(Debug, Clone, PartialEq)]
struct Complex {
    last: Vec<Simple>,
    before: Vec<(Combinator, Vec<Simple>)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Combinator {
    Within,
    Child,
    Next,
    Later,
}

#[derive(Debug, Clone, PartialEq)]
enum Simple {
    Any,
    Name(String),
    Id(String),
    Class(String),
    Attribute { name: String, test: Test, value: String },
    FirstChild,
    LastChild,
    OnlyChild,
    NthChild { step: i64, from: i64 },
    Not(Selector),
    Has(Selector),
    Contains(String),
    Empty,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Test {
    There,
    Equal,
    Word,
    Dash,
    Begin,
    End,
    Within,
}

impl Selector {
    /// Reads a selector.
    pub(crate) fn parse(text: &str) -> Result<Self, SelectorError> {
        if text.len() > LENGTH_MAX {
            return Err(SelectorError::Long(text.len()));
        }
        let mut reader = Reader { all: text, rest: text.trim(), depth: 0 };
        let selector = reader.list()?;
        if reader.rest.is_empty() { Ok(selector) } else { Err(reader.wrong()) }
    }

    /// Whether an element is meant.
    pub(crate) fn matches(&self, dom: &Dom, at: NodeId) -> bool {
        dom.name(at).is_some() && self.0.iter().any(|complex| complex.matches(dom, at))
    }
}

impl Complex {
    fn matches(&self, dom: &Dom, at: NodeId) -> bool {
        all_hold(&self.last, dom, at) && Self::stands(&self.before, dom, at)
    }

    fn stands(before: &[(Combinator, Vec<Simple>)], dom: &Dom, at: NodeId) -> bool {
        let Some(((combinator, simples), rest)) = before.split_first() else { return true };
        let fits = |other: NodeId| all_hold(simples, dom, other) && Self::stands(rest, dom, other);
        match combinator {
            Combinator::Child => dom.parent(at).is_some_and(fits),
            Combinator::Within => std::iter::successors(dom.parent(at), |parent| dom.parent(*parent)).any(fits),
            Combinator::Next => earlier(dom, at).last().copied().is_some_and(fits),
            Combinator::Later => earlier(dom, at).into_iter().any(fits),
        }
    }
}

/// The elements before one that have the same parent.
fn earlier(dom: &Dom, at: NodeId) -> Vec<NodeId> {
    dom.parent(at).map(|parent| dom.elements(parent).take_while(|other| *other != at).collect()).unwrap_or_default()
}

fn all_hold(simples: &[Simple], dom: &Dom, at: NodeId) -> bool {
    dom.name(at).is_some() && simples.iter().all(|simple| simple.holds(dom, at))
}

impl Simple {
    fn holds(&self, dom: &Dom, at: NodeId) -> bool {
        let siblings = || dom.parent(at).map(|parent| dom.elements(parent)).into_iter().flatten();
        match self {
            Self::Any => true,
            Self::Name(name) => dom.name(at).is_some_and(|own| own.eq_ignore_ascii_case(name)),
            Self::Id(id) => dom.attribute(at, "id") == Some(id),
            Self::Class(class) => {
                dom.attribute(at, "class").is_some_and(|all| all.split_ascii_whitespace().any(|one| one == class))
            }
            Self::Attribute { name, test, value } => dom.attribute(at, name).is_some_and(|own| test.holds(own, value)),
            Self::FirstChild => siblings().next() == Some(at),
            Self::LastChild => siblings().next_back() == Some(at),
            Self::OnlyChild => siblings().count() == 1,
            Self::NthChild { step, from } => {
                let place = siblings().position(|other| other == at).map_or(0, |place| place as i64 + 1);
                let past = place - from;
                if *step == 0 { past == 0 } else { past % step == 0 && past / step >= 0 }
            }
            Self::Not(selector) => !selector.matches(dom, at),
            Self::Has(selector) => dom.descendants(at).into_iter().any(|inner| selector.matches(dom, inner)),
            Self::Contains(text) => dom.text(at).contains(text),
            Self::Empty => dom.children(at).is_empty(),
        }
    }
}

impl Test {
    fn holds(self, own: &str, value: &str) -> bool {
        match self {
            Self::There => true,
            Self::Equal => own == value,
            Self::Word => own.split_ascii_whitespace().any(|word| word == value),
            Self::Dash => own == value || own.strip_prefix(value).is_some_and(|rest| rest.starts_with('-')),
            Self::Begin => !value.is_empty() && own.starts_with(value),
            Self::End => !value.is_empty() && own.ends_with(value),
            Self::Within => !value.is_empty() && own.contains(value),
        }
    }
}

/// Reads from the begin of what is left.
struct Reader<'a> {
    all: &'a str,
    rest: &'a str,
    depth: usize,
}

impl Reader<'_> {
    fn wrong(&self) -> SelectorError {
        SelectorError::Rest { selector: self.all.to_owned(), rest: self.rest.to_owned() }
    }

    fn eat(&mut self, sign: &str) -> bool {
        match self.rest.strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn name(&mut self) -> Result<String, SelectorError> {
        let mut name = String::new();
        let mut signs = self.rest.char_indices();
        let mut end = self.rest.len();
        while let Some((at, sign)) = signs.next() {
            if sign == '\\' {
                name.extend(signs.next().map(|(_, sign)| sign));
            } else if sign.is_alphanumeric() || matches!(sign, '-' | '_') || !sign.is_ascii() {
                name.push(sign);
            } else {
                end = at;
                break;
            }
        }
        if name.is_empty() {
            return Err(self.wrong());
        }
        self.rest = &self.rest[end..];
        Ok(name)
    }

    /// What stands in quotes, or a name.
    fn value(&mut self) -> Result<String, SelectorError> {
        let quote = self.rest.chars().next().filter(|sign| matches!(sign, '"' | '\''));
        let Some(quote) = quote else { return self.name() };
        let (value, rest) = self.rest[1..].split_once(quote).ok_or_else(|| self.wrong())?;
        self.rest = rest;
        Ok(value.to_owned())
    }

    fn list(&mut self) -> Result<Selector, SelectorError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(SelectorError::Long(self.all.len()));
        }
        let mut all = Vec::new();
        loop {
            self.rest = self.rest.trim_start();
            all.push(self.complex()?);
            self.rest = self.rest.trim_start();
            if !self.eat(",") {
                break;
            }
        }
        self.depth -= 1;
        Ok(Selector(all))
    }

    fn complex(&mut self) -> Result<Complex, SelectorError> {
        let mut last = self.compound()?;
        let mut before = Vec::new();
        loop {
            let rest = self.rest.trim_start();
            let spaced = rest.len() < self.rest.len();
            self.rest = rest;
            let combinator = if self.eat(">") {
                Combinator::Child
            } else if self.eat("+") {
                Combinator::Next
            } else if self.eat("~") {
                Combinator::Later
            } else if spaced && !rest.is_empty() && !rest.starts_with([',', ')']) {
                Combinator::Within
            } else {
                break;
            };
            self.rest = self.rest.trim_start();
            let next = self.compound()?;
            before.insert(0, (combinator, std::mem::replace(&mut last, next)));
        }
        Ok(Complex { last, before })
    }

    fn compound(&mut self) -> Result<Vec<Simple>, SelectorError> {
        let mut simples = Vec::new();
        if self.eat("*") {
            simples.push(Simple::Any);
        } else if !self.rest.starts_with(['#', '.', '[', ':']) {
            simples.push(Simple::Name(self.name()?));
        }
        loop {
            let simple = if self.eat("#") {
                Simple::Id(self.name()?)
            } else if self.eat(".") {
                Simple::Class(self.name()?)
            } else if self.eat("[") {
                self.attribute()?
            } else if self.eat(":") {
                self.pseudo()?
            } else {
                break;
            };
            simples.push(simple);
        }
        if simples.is_empty() { Err(self.wrong()) } else { Ok(simples) }
    }

    fn attribute(&mut self) -> Result<Simple, SelectorError> {
        self.rest = self.rest.trim_start();
        let name = self.name()?;
        self.rest = self.rest.trim_start();
        if self.eat("]") {
            return Ok(Simple::Attribute { name, test: Test::There, value: String::new() });
        }
        let tests = [
            ("~=", Test::Word),
            ("|=", Test::Dash),
            ("^=", Test::Begin),
            ("$=", Test::End),
            ("*=", Test::Within),
            ("=", Test::Equal),
        ];
        let test = tests.into_iter().find(|(sign, _)| self.eat(sign)).map(|(_, test)| test);
        let test = test.ok_or_else(|| self.wrong())?;
        self.rest = self.rest.trim_start();
        let value = self.value()?;
        self.rest = self.rest.trim_start();
        if self.eat("]") { Ok(Simple::Attribute { name, test, value }) } else { Err(self.wrong()) }
    }

    fn pseudo(&mut self) -> Result<Simple, SelectorError> {
        let name = self.name()?;
        let there = |name: &str| Simple::Attribute { name: name.to_owned(), test: Test::There, value: String::new() };
        let simple = match name.as_str() {
            "first-child" => return Ok(Simple::FirstChild),
            "last-child" => return Ok(Simple::LastChild),
            "only-child" => return Ok(Simple::OnlyChild),
            "empty" => return Ok(Simple::Empty),
            "checked" | "selected" | "disabled" => return Ok(there(&name)),
            "not" | "has" | "contains" | "nth-child" if self.eat("(") => {
                self.rest = self.rest.trim_start();
                match name.as_str() {
                    "not" => Simple::Not(self.list()?),
                    "has" => Simple::Has(self.list()?),
                    "contains" => Simple::Contains(self.value()?),
                    _ => self.nth()?,
                }
            }
            _ => return Err(SelectorError::Pseudo { selector: self.all.to_owned(), name }),
        };
        self.rest = self.rest.trim_start();
        if self.eat(")") { Ok(simple) } else { Err(self.wrong()) }
    }

    /// `odd`, `even`, `3`, `2n+1`, `-n+3`.
    fn nth(&mut self) -> Result<Simple, SelectorError> {
        let end = self.rest.find(')').ok_or_else(|| self.wrong())?;
        let text: String = self.rest[..end].chars().filter(|sign| !sign.is_whitespace()).collect();
        let number = |text: &str| text.parse::<i32>().map(i64::from).map_err(|_| self.wrong());
        let (step, from) = match text.as_str() {
            "odd" => (2, 1),
            "even" => (2, 0),
            text => match text.split_once('n') {
                None => (0, number(text)?),
                Some((step, from)) => {
                    let step = match step {
                        "" | "+" => 1,
                        "-" => -1,
                        step => number(step)?,
                    };
                    (step, if from.is_empty() { 0 } else { number(from)? })
                }
            },
        };
        self.rest = &self.rest[end..];
        Ok(Simple::NthChild { step, from })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGE: &str = "<div id=a class='x y'><p>one</p><p lang=de-at>two <b>bold</b></p><a href='/q.html'>l</a></div>\
                        <ul><li>1</li><li class=x>2</li><li>3</li></ul><input type=submit name=go disabled>";

    fn found(selector: &str) -> Vec<String> {
        let dom = Dom::parse(PAGE);
        let selector = Selector::parse(selector).unwrap();
        let all = dom.descendants(0).into_iter().filter(|at| selector.matches(&dom, *at));
        all.map(|at| format!("{}:{}", dom.name(at).unwrap(), dom.text(at))).collect()
    }

    #[test]
    fn elements_are_found() {
        assert_eq!(found("#a > p"), ["p:one", "p:two bold"]);
        assert_eq!(found("div.x.y b, li.x"), ["b:bold", "li:2"]);
        assert_eq!(found("p + p"), ["p:two bold"]);
        assert_eq!(found("p ~ a[href$='.html']"), ["a:l"]);
        assert_eq!(found("[lang|=de]"), ["p:two bold"]);
        assert_eq!(found("li:nth-child(odd)"), ["li:1", "li:3"]);
        assert_eq!(found("li:nth-child(-n+2)"), ["li:1", "li:2"]);
        assert_eq!(found("li:not(.x):last-child"), ["li:3"]);
        assert_eq!(found("p:has(b), p:contains('one')"), ["p:one", "p:two bold"]);
        assert_eq!(found("body > [type=\"submit\"]:disabled"), ["input:"]);
    }

    #[test]
    fn what_is_no_selector_is_refused() {
        assert!(matches!(Selector::parse("p:hover"), Err(SelectorError::Pseudo { .. })));
        for text in ["", "p >", "a[", "a[b=", "..x", "p)", ":not(p", ":nth-child(x)"] {
            assert!(matches!(Selector::parse(text), Err(SelectorError::Rest { .. })), "{text}");
        }
        assert!(matches!(Selector::parse(&":not(".repeat(50)), Err(SelectorError::Long(_))));
    }

    proptest! {
        #[test]
        fn no_text_stops_the_reader(text in ".{0,60}", page in ".{0,200}") {
            if let Ok(selector) = Selector::parse(&text) {
                let dom = Dom::parse(&page);
                dom.descendants(0).into_iter().filter(|at| selector.matches(&dom, *at)).count();
            }
        }
    }
}
