//! Texts with places for values, as a scenario writes them.

/// The name of the value that stands for a dollar sign before a place for a value, where nothing else can.
pub(crate) const DOLLAR: &str = "dollar";

/// A text with places for values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Text {
    parts: Vec<Part>,
}

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// What stands there as it is.
    Plain(String),
    /// A value.
    Value {
        name: String,
        /// Whether it is percent-encoded.
        is_encoded: bool,
    },
}

impl Text {
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        let mut own = Self::default();
        own.push(&text.into());
        own
    }

    pub(crate) fn value(name: &str) -> Self {
        let mut own = Self::default();
        own.push_value(name);
        own
    }

    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Whether it is empty for certain.
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    pub(crate) fn push(&mut self, text: &str) {
        match self.parts.last_mut() {
            _ if text.is_empty() => {}
            Some(Part::Plain(before)) => before.push_str(text),
            _ => self.parts.push(Part::Plain(text.to_owned())),
        }
    }

    pub(crate) fn push_value(&mut self, name: &str) {
        self.parts.push(Part::Value { name: name.to_owned(), is_encoded: false });
    }

    pub(crate) fn append(&mut self, other: &Self) {
        for part in &other.parts {
            match part {
                Part::Plain(text) => self.push(text),
                value @ Part::Value { .. } => self.parts.push(value.clone()),
            }
        }
    }

    /// The text, if it has no place for a value.
    pub(crate) fn as_plain(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [Part::Plain(text)] => Some(text),
            _ => None,
        }
    }

    /// What stands before the first place for a value.
    pub(crate) fn begin(&self) -> &str {
        match self.parts.first() {
            Some(Part::Plain(text)) => text,
            _ => "",
        }
    }

    /// The text without so many bytes of its plain begin.
    pub(crate) fn without_begin(&self, bytes: usize) -> Self {
        let mut own = Self::default();
        for (place, part) in self.parts.iter().enumerate() {
            match part {
                Part::Plain(text) if place == 0 => own.push(text.get(bytes..).unwrap_or_default()),
                Part::Plain(text) => own.push(text),
                value @ Part::Value { .. } => own.parts.push(value.clone()),
            }
        }
        own
    }

    /// Each plain part changed, and each value percent-encoded if that is asked for.
    pub(crate) fn changed(&self, change: impl Fn(&str) -> String, encodes: bool) -> Self {
        let mut own = Self::default();
        for part in &self.parts {
            match part {
                Part::Plain(text) => own.push(&change(text)),
                Part::Value { name, is_encoded } => {
                    own.parts.push(Part::Value { name: name.clone(), is_encoded: *is_encoded || encodes });
                }
            }
        }
        own
    }

    /// Splits at the first such letter of a plain part, which stands in neither half.
    pub(crate) fn split_once(&self, letter: char) -> Option<(Self, Self)> {
        let found = |part: &Part| match part {
            Part::Plain(text) => text.contains(letter),
            Part::Value { .. } => false,
        };
        let at = self.parts.iter().position(found)?;
        let Part::Plain(text) = &self.parts[at] else { return None };
        let (before, behind) = text.split_once(letter)?;
        let mut left = Self { parts: self.parts[..at].to_vec() };
        left.push(before);
        let mut right = Self::plain(behind);
        right.append(&Self { parts: self.parts[at + 1..].to_vec() });
        Some((left, right))
    }

    /// As a scenario writes it: `${name}` for values, `$${` for `${`.
    pub(crate) fn template(&self) -> String {
        let mut out = String::new();
        for (place, part) in self.parts.iter().enumerate() {
            match part {
                Part::Plain(text) => {
                    let value_follows = matches!(self.parts.get(place + 1), Some(Part::Value { .. }));
                    // A dollar sign before a place for a value would take its begin away.
                    let kept = if value_follows { text.trim_end_matches('$') } else { text };
                    out.push_str(&kept.replace("${", "$${"));
                    for _ in kept.len()..text.len() {
                        out.push_str(&format!("${{{DOLLAR}}}"));
                    }
                }
                Part::Value { name, is_encoded: false } => out.push_str(&format!("${{{name}}}")),
                Part::Value { name, is_encoded: true } => out.push_str(&format!("${{{name}:url}}")),
            }
        }
        out
    }

    /// The names of its values.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Value { name, .. } => Some(name.as_str()),
            Part::Plain(_) => None,
        })
    }

    /// Whether a plain dollar sign stands right before a value.
    pub(crate) fn needs_dollar(&self) -> bool {
        let is_cut = |pair: &[Part]| matches!(pair, [Part::Plain(text), Part::Value { .. }] if text.ends_with('$'));
        self.parts.windows(2).any(is_cut)
    }
}

/// A name of a value that is near to this one: letters, digits, `_`, `-` and `.`, and none that every user has.
pub(crate) fn name_of(text: &str) -> String {
    let fits = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.');
    let name: String = text.trim().chars().take(100).map(|letter| if fits(letter) { letter } else { '_' }).collect();
    match name.as_str() {
        "" => "_".to_owned(),
        "user" | "iteration" | "uuid" | DOLLAR => format!("{name}_"),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_scenario::form::{Template, Values};

    fn part() -> impl Strategy<Value = (String, bool)> {
        ("[${}a:]{0,4}", any::<bool>())
    }

    proptest! {
        /// What a scenario reads and fills is the text again.
        #[test]
        fn a_text_is_read_as_it_was_meant(parts in prop::collection::vec(part(), 0..6)) {
            let (mut text, mut wanted) = (Text::default(), String::new());
            for (plain, is_value) in parts {
                text.push(&plain);
                wanted.push_str(&plain);
                if is_value {
                    text.push_value("v");
                    wanted.push('7');
                }
            }
            let template = Template::parse(&text.template());
            let values = Values::from([("v".to_owned(), "7".to_owned()), (DOLLAR.to_owned(), "$".to_owned())]);
            prop_assert_eq!(template.map(|template| template.fill(&values)), Ok(wanted));
        }
    }
}
