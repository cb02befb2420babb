//! Conditions of a route.

use crate::document::{Table, inline, quoted};
use crate::patterns;

/// Conditions of a route, each as weir writes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Condition {
    /// `prefix`, `exact`, `glob` or `regex`, and its text.
    pub(crate) path: Option<(&'static str, String)>,
    /// Keys and values of which all must hold.
    pub(crate) keys: Vec<(String, String)>,
    /// Tables of which none may hold, in one line each.
    pub(crate) not: Vec<String>,
}

impl Condition {
    /// The same for paths that match an expression too.
    pub(crate) fn with_regex(&self, expression: &str) -> Self {
        let mut own = self.clone();
        if let Some((kind, text)) = own.path.take() {
            let is_implied = kind == "prefix"
                && [patterns::literal(&text), text.clone()]
                    .iter()
                    .any(|begin| expression.strip_prefix('^').is_some_and(|rest| rest.starts_with(begin)));
            if !is_implied {
                // A path that is not outside of it is within.
                let inner = inline(std::iter::once((kind.to_owned(), quoted(&text))));
                own.not.push(inline(std::iter::once(("not".to_owned(), inner))));
            }
        }
        if expression != "^" && expression != ".*" && expression != "^/" {
            own.path = Some(("regex", expression.to_owned()));
        }
        own
    }

    /// The same for paths of another kind too.
    pub(crate) fn with_path(&self, kind: &'static str, text: &str) -> Self {
        let mut own = self.clone();
        if kind == "regex" {
            return own.with_regex(text);
        }
        if let Some((outer, outer_text)) = own.path.take() {
            let is_implied = outer == "prefix" && text.starts_with(outer_text.as_str());
            if !is_implied && (outer, outer_text.as_str()) != (kind, text) {
                let inner = inline(std::iter::once((outer.to_owned(), quoted(&outer_text))));
                own.not.push(inline(std::iter::once(("not".to_owned(), inner))));
            }
        }
        own.path = Some((kind, text.to_owned()));
        own
    }

    /// The same if another key holds as well; of two of one name both.
    pub(crate) fn with_key(&self, key: &str, value: String) -> Self {
        let mut own = self.clone();
        if own.keys.iter().any(|(known, _)| known == key) {
            let inner = inline(std::iter::once((key.to_owned(), value)));
            own.not.push(inline(std::iter::once(("not".to_owned(), inner))));
        } else {
            own.keys.push((key.to_owned(), value));
        }
        own
    }

    pub(crate) fn without(&self, key: &str, value: String) -> Self {
        let mut own = self.clone();
        own.not.push(inline(std::iter::once((key.to_owned(), value))));
        own
    }

    /// A route with these conditions.
    pub(crate) fn route(&self) -> Table {
        let mut table = Table::default();
        if let Some((kind, text)) = &self.path {
            table.text(kind, text);
        }
        for (key, value) in &self.keys {
            table.raw(key, value.clone());
        }
        match self.not.as_slice() {
            [] => {}
            [one] => table.raw("not", one.clone()),
            many => table.raw("not", format!("[{}]", many.join(", "))),
        }
        table
    }

    /// Whether it holds for all requests.
    pub(crate) fn is_any(&self) -> bool {
        *self == Self::default()
    }
}
