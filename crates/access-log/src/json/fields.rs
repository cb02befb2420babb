//! Fields of an object by the names that are in use.

use serde_json::{Map, Value};

/// Objects within the object that hold fields of their own.
const WITHIN: [&str; 14] = [
    "request",
    "response",
    "httpRequest",
    "req",
    "res",
    "http",
    "nginx",
    "access",
    "json",
    "jsonPayload",
    "log_processed",
    "fields",
    "data",
    "event",
];

/// An object and those within it.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    objects: Vec<&'a Map<String, Value>>,
}

impl<'a> Fields<'a> {
    pub(super) fn of(object: &'a Map<String, Value>) -> Self {
        let within = WITHIN.iter().filter_map(|name| object.get(*name)?.as_object());
        Self { objects: std::iter::once(object).chain(within).collect() }
    }

    /// The values that have one of the names, in the order of these; a dot in a name goes into an object, too.
    pub(super) fn all<'n>(&self, names: &'n [&'n str]) -> impl Iterator<Item = (&'n str, &'a Value)> {
        names.iter().filter_map(|name| Some((*name, self.one(name)?)))
    }

    /// The value that has a name.
    pub(super) fn one(&self, name: &str) -> Option<&'a Value> {
        self.objects.iter().find_map(|object| value(object, name))
    }

    /// The first text that says something.
    pub(super) fn text(&self, names: &[&str]) -> Option<&'a str> {
        // Some write each header as a list.
        let text = |value: &'a Value| value.as_array().and_then(|list| list.first()).unwrap_or(value).as_str();
        self.all(names).find_map(|(_, value)| text(value).filter(|text| !matches!(*text, "" | "-")))
    }

    /// The first whole number, also one in quotes.
    pub(super) fn number(&self, names: &[&str]) -> Option<u64> {
        let whole = |number: f64| (number.fract() == 0.0 && (0.0..1e18).contains(&number)).then_some(number as u64);
        self.all(names).find_map(|(_, value)| {
            value.as_u64().or_else(|| whole(value.as_f64()?)).or_else(|| value.as_str()?.trim().parse().ok())
        })
    }

    /// Whether one of the names stands for nothing: `-`, an empty text or null.
    pub(super) fn is_none(&self, names: &[&str]) -> bool {
        self.all(names).any(|(_, value)| value.is_null() || matches!(value.as_str(), Some("" | "-")))
    }
}

fn value<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    object.get(name).or_else(|| {
        let (outer, inner) = name.split_once('.')?;
        value(object.get(outer)?.as_object()?, inner)
    })
}
