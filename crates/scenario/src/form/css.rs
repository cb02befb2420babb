//! Elements of a page by a CSS selector: tags, ids, classes, attributes, descendants and children.
//!
//! The page is a stream of tags and is read once. How deep elements lie in each other, and how many are looked at, is
//! bounded; a page that exceeds that is read as far as the bound goes.

use html5gum::emitters::default::DefaultEmitter;
use html5gum::{StartTag, Token, Tokenizer};

/// The deepest element.
const DEPTH_MAX: usize = 512;
/// The most tokens of a page.
const TOKENS_MAX: usize = 1_000_000;
/// The most of a text that is taken, in bytes.
const TEXT_MAX: usize = 1 << 20;
/// Elements that have no end tag (HTML 13.1.2).
const VOID: [&str; 14] =
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"];

/// A selector, and what is taken of what it selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Css {
    /// Compounds, the outermost first, each with how it lies in the one before.
    steps: Vec<(Lies, Compound)>,
    /// The attribute that is taken; the text within, if none.
    attribute: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lies {
    Within,
    Directly,
}

/// What one element must have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Compound {
    tag: Option<String>,
    id: Option<String>,
    classes: Vec<String>,
    attributes: Vec<(String, Has)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Has {
    Any,
    Same(String),
    Begins(String),
    Ends(String),
    Contains(String),
}

#[derive(Debug)]
struct Element {
    tag: String,
    attributes: Vec<(String, String)>,
}

impl Css {
    /// Reads a selector such as `form.login > input[name=csrf]`, with `@value` behind it for an attribute.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (selector, attribute) = match text.rsplit_once('@') {
            Some((selector, attribute)) if !attribute.contains([']', '"', '\'']) => {
                let attribute = attribute.trim();
                let fits = !attribute.is_empty() && attribute.chars().all(is_of_name);
                (selector, Some(fits.then(|| attribute.to_ascii_lowercase())?))
            }
            _ => (text, None),
        };
        let (mut steps, mut lies, mut rest) = (Vec::new(), Lies::Within, selector.trim());
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix('>') {
                if steps.is_empty() || lies == Lies::Directly {
                    return None;
                }
                (lies, rest) = (Lies::Directly, after.trim_start());
                continue;
            }
            let (compound, after) = compound(rest)?;
            steps.push((lies, compound));
            (lies, rest) = (Lies::Within, after.trim_start());
        }
        (!steps.is_empty() && lies == Lies::Within && steps.len() <= 32).then_some(Self { steps, attribute })
    }

    /// What is taken of the first element that fits.
    #[must_use]
    pub fn first(&self, page: &str) -> Option<String> {
        let mut emitter = DefaultEmitter::default();
        emitter.naively_switch_states(true);
        let mut open: Vec<Element> = Vec::new();
        // The depth of the element whose text is being taken, and the text.
        let mut taking: Option<(usize, String)> = None;
        for token in Tokenizer::new_with_emitter(page, emitter).take(TOKENS_MAX) {
            let Ok(token) = token;
            match token {
                Token::StartTag(tag) => {
                    let is_void = tag.self_closing || VOID.contains(&&*String::from_utf8_lossy(&tag.name));
                    if open.len() >= DEPTH_MAX {
                        break;
                    }
                    open.push(element(&tag));
                    if taking.is_none() && self.fits(&open) {
                        match &self.attribute {
                            Some(name) => {
                                let own = &open[open.len() - 1].attributes;
                                if let Some((_, value)) = own.iter().find(|(key, _)| key == name) {
                                    return Some(value.clone());
                                }
                            }
                            None if is_void => return Some(String::new()),
                            None => taking = Some((open.len(), String::new())),
                        }
                    }
                    if is_void {
                        open.pop();
                    }
                }
                Token::EndTag(tag) => {
                    let name = String::from_utf8_lossy(&tag.name);
                    // An end tag without its begin is passed over; one closes what was left open within.
                    if let Some(place) = open.iter().rposition(|element| element.tag == name) {
                        open.truncate(place);
                        if taking.as_ref().is_some_and(|(depth, _)| open.len() < *depth) {
                            break;
                        }
                    }
                }
                Token::String(text) => {
                    if let Some((_, taken)) = &mut taking
                        && taken.len() < TEXT_MAX
                    {
                        taken.push_str(&String::from_utf8_lossy(&text));
                    }
                }
                _ => {}
            }
        }
        taking.map(|(_, text)| text.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// Whether the innermost open element is selected.
    fn fits(&self, open: &[Element]) -> bool {
        let Some(((lies, last), before)) = self.steps.split_last() else { return false };
        if open.last().is_none_or(|element| !last.fits(element)) {
            return false;
        }
        // The open elements at which what was compared so far can begin.
        let mut begins: Vec<usize> = vec![open.len() - 1];
        let mut lies = *lies;
        for (own_lies, compound) in before.iter().rev() {
            let deepest = begins.iter().max().copied().unwrap_or(0);
            let holds = |place: &usize| match lies {
                Lies::Directly => begins.contains(&(place + 1)),
                Lies::Within => *place < deepest,
            };
            begins = (0..deepest).filter(holds).filter(|place| compound.fits(&open[*place])).collect();
            if begins.is_empty() {
                return false;
            }
            lies = *own_lies;
        }
        true
    }
}

impl Compound {
    fn fits(&self, element: &Element) -> bool {
        let value =
            |name: &str| element.attributes.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let has_class =
            |class: &String| value("class").is_some_and(|own| own.split_whitespace().any(|own| own == class));
        self.tag.as_ref().is_none_or(|tag| *tag == element.tag)
            && self.id.as_ref().is_none_or(|id| value("id") == Some(id))
            && self.classes.iter().all(has_class)
            && self.attributes.iter().all(|(name, has)| {
                value(name).is_some_and(|own| match has {
                    Has::Any => true,
                    Has::Same(wanted) => own == wanted,
                    Has::Begins(wanted) => own.starts_with(wanted.as_str()),
                    Has::Ends(wanted) => own.ends_with(wanted.as_str()),
                    Has::Contains(wanted) => own.contains(wanted.as_str()),
                })
            })
    }
}

fn element(tag: &StartTag<()>) -> Element {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Element {
        tag: text(&tag.name),
        attributes: tag.attributes.iter().map(|(name, value)| (text(name), text(value))).collect(),
    }
}

fn is_of_name(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '-' | '_' | ':')
}

fn name(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|letter: char| !(is_of_name(letter) && letter != ':')).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// The compound at the begin of a text, and what follows it.
fn compound(text: &str) -> Option<(Compound, &str)> {
    let (mut compound, mut rest) = (Compound::default(), text);
    if let Some(after) = rest.strip_prefix('*') {
        rest = after;
    } else if let Some((tag, after)) = name(rest) {
        (compound.tag, rest) = (Some(tag.to_ascii_lowercase()), after);
    }
    loop {
        if let Some(after) = rest.strip_prefix('#') {
            let (id, after) = name(after)?;
            (compound.id, rest) = (Some(id.to_owned()), after);
        } else if let Some(after) = rest.strip_prefix('.') {
            let (class, after) = name(after)?;
            compound.classes.push(class.to_owned());
            rest = after;
        } else if let Some(after) = rest.strip_prefix('[') {
            let (attribute, after) = attribute(after)?;
            compound.attributes.push(attribute);
            rest = after;
        } else {
            let is_new = rest.len() < text.len();
            let ends = rest.is_empty() || rest.starts_with([' ', '>', '\t']);
            return (is_new && ends).then_some((compound, rest));
        }
    }
}

/// What a value is made into.
type Made = fn(String) -> Has;

/// An attribute behind `[`, and what follows its `]`.
fn attribute(text: &str) -> Option<((String, Has), &str)> {
    let (name, rest) = name(text.trim_start())?;
    let rest = rest.trim_start();
    let name = name.to_ascii_lowercase();
    if let Some(after) = rest.strip_prefix(']') {
        return Some(((name, Has::Any), after));
    }
    let signs: [(&str, Made); 4] = [("^=", Has::Begins), ("$=", Has::Ends), ("*=", Has::Contains), ("=", Has::Same)];
    let (has, rest) = signs.into_iter().find_map(|(sign, has)| Some((has, rest.strip_prefix(sign)?)))?;
    let rest = rest.trim_start();
    let (value, rest) = match rest.chars().next()? {
        quote @ ('"' | '\'') => rest[1..].split_once(quote)?,
        _ => rest.split_at(rest.find([']', ' '])?),
    };
    let after = rest.trim_start().strip_prefix(']')?;
    Some(((name, has(value.to_owned())), after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGE: &str = "<!doctype html><html><body class='a b'><form id=login method=post><p>Hello <b>you</b>\
        <input type=hidden name='csrf' value='t&amp;1'><br><input name=user></form><ul><li>one<li class=x>two</ul>\
        <script>if (a < b) { '<input name=csrf value=no>' }</script><div><p class='x y'>in  the\n end</p></div></body>";

    #[test]
    fn elements_are_found_as_selectors_say() {
        for (selector, found) in [
            ("input[name=csrf] @value", Some("t&1")),
            ("form#login input[type=\"hidden\"]@value", Some("t&1")),
            ("body.a.b > form@method", Some("post")),
            ("body > input@name", None),
            ("form b", Some("you")),
            ("div > p.y", Some("in the end")),
            ("p[class^=x]", Some("in the end")),
            ("li.x", Some("two")),
            ("form [name$=er] @name", Some("user")),
            ("table", None),
            ("body > form b", Some("you")),
            ("html > p b", None),
        ] {
            let css = Css::parse(selector).unwrap_or_else(|| panic!("{selector}"));
            assert_eq!(css.first(PAGE).as_deref(), found, "{selector}");
        }
        for text in ["", "> a", "a >", "a[", "a[x", "a..b", "a:first-child", "a, b", "a + b", "a@", "a > > b"] {
            assert_eq!(Css::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_page_is_read(page in "[<>/a-c=\"' ]{0,60}", selector in "[a-c#.>*=@ \\[\\]]{0,10}") {
            if let Some(css) = Css::parse(&selector) {
                let _ = css.first(&page);
            }
        }
    }
}
