//! Texts with places for values: `/item/${id}`.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::collections::HashMap;

/// The values that a user has.
pub type Values = HashMap<String, String>;

/// A text with places for values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    /// A value; percent-encoded, if that is asked for.
    Value {
        name: String,
        encoded: bool,
    },
}

/// Why a text is no template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// A place without an end.
    #[error("${{ without an end")]
    Unclosed,
    /// Something that is no name.
    #[error("${{{name}}} is no name")]
    Name {
        /// What stands there.
        name: String,
    },
}

/// Whether a text can be the name of a value.
pub(crate) fn is_name(text: &str) -> bool {
    let of_name = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.');
    !text.is_empty() && text.chars().all(of_name)
}

impl Template {
    /// Reads `${name}` and, percent-encoded, `${name:url}`; `$${` stands for `${`.
    ///
    /// # Errors
    /// If a placeholder is not closed or names nothing.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let (mut parts, mut plain, mut rest) = (Vec::new(), String::new(), text);
        while let Some(at) = rest.find("${") {
            if rest[..at].ends_with('$') {
                plain.push_str(&rest[..at]);
                plain.push('{');
                rest = &rest[at + 2..];
                continue;
            }
            plain.push_str(&rest[..at]);
            let (inner, after) = rest[at + 2..].split_once('}').ok_or(TemplateError::Unclosed)?;
            let (name, encoded) = match inner.strip_suffix(":url") {
                Some(name) => (name.trim(), true),
                None => (inner.trim(), false),
            };
            if !is_name(name) {
                return Err(TemplateError::Name { name: inner.to_owned() });
            }
            if !plain.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut plain)));
            }
            parts.push(Part::Value { name: name.to_owned(), encoded });
            rest = after;
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Self { parts })
    }

    /// The names that it needs.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Value { name, .. } => Some(name.as_str()),
        })
    }

    /// The text with its values; a value that a user does not have is left empty.
    #[must_use]
    pub fn fill(&self, values: &Values) -> String {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(plain) => text.push_str(plain),
                Part::Value { name, encoded } => {
                    let value = values.get(name).map_or("", String::as_str);
                    if *encoded { text.push_str(&encode(value)) } else { text.push_str(value) }
                }
            }
        }
        text
    }
}

/// What stays as it is in a URL: the unreserved letters of RFC 3986 2.3.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Percent-encodes all but the unreserved letters of RFC 3986 2.3.
#[must_use]
pub fn encode(text: &str) -> String {
    utf8_percent_encode(text, UNRESERVED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_are_put_in() {
        let values = Values::from([("id".to_owned(), "a b".to_owned())]);
        let fill = |text: &str| Template::parse(text).map(|template| template.fill(&values));
        assert_eq!(fill("/x/${id}?q=${ id:url}&n=${none}."), Ok("/x/a b?q=a%20b&n=.".to_owned()));
        assert_eq!(fill("cost: $5 $${id}"), Ok("cost: $5 ${id}".to_owned()));
        assert_eq!(fill("${id"), Err(TemplateError::Unclosed));
        assert!(fill("${a b}").is_err() && fill("${}").is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[${}a:url. ]{0,20}") {
            if let Ok(template) = Template::parse(&text) {
                let _ = template.fill(&Values::new());
            }
        }
    }
}
