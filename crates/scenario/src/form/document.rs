//! A TOML document whose every value knows its place, so that mistakes can be told with it.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;
use toml::de::{DeTable, DeValue};
use weir_diagnostic::{Mistake, nearest};
use weir_measure::duration_text::parse_duration;

/// The most mistakes that are told.
const MISTAKES_MAX: usize = 50;

/// A document that is being read.
#[derive(Debug)]
pub(crate) struct Document<'t> {
    text: &'t str,
    mistakes: RefCell<Vec<Mistake>>,
}

/// A table of it.
#[derive(Debug)]
pub(crate) struct Table<'d, 't> {
    pub(crate) document: &'d Document<'t>,
    table: &'d DeTable<'t>,
    /// Where it begins, and what it is.
    pub(crate) at: usize,
    pub(crate) what: &'static str,
    asked: RefCell<BTreeSet<&'static str>>,
}

/// A value and its place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Value<'d, 't> {
    pub(crate) document: &'d Document<'t>,
    pub(crate) value: &'d DeValue<'t>,
    pub(crate) at: usize,
}

impl<'t> Document<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self { text, mistakes: RefCell::default() }
    }

    /// Notes what is wrong at a place, in bytes from the begin.
    pub(crate) fn wrong(&self, at: usize, what: impl Into<String>, remedy: impl Into<String>) {
        let mut mistakes = self.mistakes.borrow_mut();
        if mistakes.len() >= MISTAKES_MAX {
            return;
        }
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        mistakes.push(Mistake { line, column, what: what.into(), remedy: remedy.into() });
    }

    /// What was wrong, in the order of the lines.
    pub(crate) fn into_mistakes(self) -> Vec<Mistake> {
        let mut mistakes = self.mistakes.into_inner();
        mistakes.sort();
        mistakes.dedup();
        mistakes
    }
}

impl<'d, 't> Table<'d, 't> {
    pub(crate) fn new(document: &'d Document<'t>, table: &'d DeTable<'t>, at: usize, what: &'static str) -> Self {
        Self { document, table, at, what, asked: RefCell::default() }
    }

    /// The value of a key, which is known from now on.
    pub(crate) fn get(&self, key: &'static str) -> Option<Value<'d, 't>> {
        self.asked.borrow_mut().insert(key);
        let value = self.table.get(key)?;
        Some(Value { document: self.document, value: value.get_ref(), at: value.span().start })
    }

    /// All keys and values in the order of the file, where keys are names of the user's.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (String, Value<'d, 't>)> + use<'d, 't> {
        let entry = |(key, value): (&'d toml::Spanned<_>, &'d toml::Spanned<DeValue<'t>>)| {
            let key: &std::borrow::Cow<'t, str> = key.get_ref();
            (key.to_string(), Value { document: self.document, value: value.get_ref(), at: value.span().start })
        };
        let mut entries: Vec<_> = self.table.iter().map(entry).collect();
        entries.sort_by_key(|(_, value)| value.at);
        entries.into_iter()
    }

    /// Refuses keys that were not asked for.
    pub(crate) fn finish(&self) {
        let asked = self.asked.borrow();
        for (key, _) in self.table {
            let name = key.get_ref();
            if asked.contains(&**name) {
                continue;
            }
            let remedy = match nearest(name, asked.iter().copied()) {
                Some(near) => format!("{near} is meant?"),
                None => format!("it has: {}", asked.iter().copied().collect::<Vec<_>>().join(", ")),
            };
            self.document.wrong(key.span().start, format!("{} has no key {name:?}", self.what), remedy);
        }
    }

    pub(crate) fn wrong(&self, what: impl Into<String>, remedy: impl Into<String>) {
        self.document.wrong(self.at, what, remedy);
    }

    pub(crate) fn text(&self, key: &'static str) -> Option<(&'d str, usize)> {
        let value = self.get(key)?;
        Some((value.text(key)?, value.at))
    }

    pub(crate) fn number(&self, key: &'static str, least: u64, most: u64) -> Option<u64> {
        self.get(key)?.number(key, least, most)
    }

    pub(crate) fn duration(&self, key: &'static str) -> Option<Duration> {
        self.get(key)?.duration(key)
    }

    pub(crate) fn table(&self, key: &'static str, what: &'static str) -> Option<Table<'d, 't>> {
        self.get(key)?.table(key, what)
    }

    /// The values of a list; none where there is no such key.
    pub(crate) fn list(&self, key: &'static str) -> Vec<Value<'d, 't>> {
        self.get(key).and_then(|value| value.list(key)).unwrap_or_default()
    }

    /// The texts of a list.
    pub(crate) fn texts(&self, key: &'static str) -> Vec<(&'d str, usize)> {
        self.list(key).into_iter().filter_map(|value| Some((value.text(key)?, value.at))).collect()
    }
}

impl<'d, 't> Value<'d, 't> {
    pub(crate) fn wrong(&self, what: impl Into<String>, remedy: impl Into<String>) {
        self.document.wrong(self.at, what, remedy);
    }

    fn other(&self, key: &str, wanted: &str) {
        self.wrong(format!("{key} is {}", kind(self.value)), format!("write {wanted}"));
    }

    pub(crate) fn text(&self, key: &str) -> Option<&'d str> {
        match self.value {
            DeValue::String(text) => Some(text),
            _ => {
                self.other(key, "a text in quotes");
                None
            }
        }
    }

    /// A text, or a number or truth as a text.
    pub(crate) fn scalar(&self, key: &str) -> Option<String> {
        match self.value {
            DeValue::String(text) => Some(text.to_string()),
            DeValue::Integer(number) => Some(number.to_string()),
            DeValue::Float(number) => Some(number.to_string()),
            DeValue::Boolean(truth) => Some(truth.to_string()),
            _ => {
                self.other(key, "a text, a number, or true or false");
                None
            }
        }
    }

    pub(crate) fn number(&self, key: &str, least: u64, most: u64) -> Option<u64> {
        let number = match self.value {
            DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        let number = number.filter(|number| (least..=most).contains(number));
        if number.is_none() {
            self.wrong(format!("{key} is no number that fits"), format!("write a whole number from {least} to {most}"));
        }
        number
    }

    pub(crate) fn duration(&self, key: &str) -> Option<Duration> {
        let text = match self.value {
            DeValue::String(text) => text,
            _ => {
                self.other(key, "a time in quotes, such as \"500ms\" or \"1m30s\"");
                return None;
            }
        };
        let time = parse_duration(text).ok();
        if time.is_none() {
            self.wrong(format!("{key} = {text:?} is no time"), "write such as \"500ms\", \"10s\" or \"1m30s\"");
        }
        time
    }

    pub(crate) fn table(&self, key: &str, what: &'static str) -> Option<Table<'d, 't>> {
        match self.value {
            DeValue::Table(table) => Some(Table::new(self.document, table, self.at, what)),
            _ => {
                self.other(key, "a table, such as { name = \"value\" }");
                None
            }
        }
    }

    pub(crate) fn list(&self, key: &str) -> Option<Vec<Value<'d, 't>>> {
        match self.value {
            DeValue::Array(list) => {
                let value = |value: &'d toml::Spanned<DeValue<'t>>| Value {
                    document: self.document,
                    value: value.get_ref(),
                    at: value.span().start,
                };
                Some(list.iter().map(value).collect())
            }
            _ => {
                self.other(key, "a list, such as [\"a\", \"b\"]");
                None
            }
        }
    }

    /// The value as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        json(self.value)
    }
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

fn json(value: &DeValue<'_>) -> serde_json::Value {
    match value {
        DeValue::String(text) => text.to_string().into(),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or_else(|_| number.to_string().into(), serde_json::Value::from),
        DeValue::Float(number) => number.as_str().parse::<f64>().map_or(serde_json::Value::Null, Into::into),
        DeValue::Boolean(truth) => (*truth).into(),
        DeValue::Datetime(date) => date.to_string().into(),
        DeValue::Array(list) => list.iter().map(|value| json(value.get_ref())).collect(),
        DeValue::Table(table) => {
            let entries = table.iter().map(|(key, value)| (key.get_ref().to_string(), json(value.get_ref())));
            serde_json::Value::Object(entries.collect())
        }
    }
}
