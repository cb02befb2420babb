//! Values of JSON as options need them.

use super::given::OptionError;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::time::Duration;

/// An object whose values are taken out one by one; what is left at the end is not known.
#[derive(Debug)]
pub(super) struct Fields {
    /// Where it stands, such as `scenarios.load`; empty for the options themselves.
    at: String,
    fields: Map<String, Value>,
}

impl Fields {
    pub(super) fn of(at: &str, value: Value) -> Result<Self, OptionError> {
        match value {
            Value::Object(fields) => Ok(Self { at: at.to_owned(), fields }),
            other => Err(OptionError::kind(at, "an object", &other)),
        }
    }

    fn path(&self, name: &str) -> String {
        if self.at.is_empty() { name.to_owned() } else { format!("{}.{name}", self.at) }
    }

    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.fields.remove(name).filter(|value| !value.is_null())
    }

    pub(super) fn into_inner(self) -> Map<String, Value> {
        self.fields
    }

    pub(super) fn whole(&mut self, name: &str) -> Result<Option<u64>, OptionError> {
        let path = self.path(name);
        let Some(value) = self.take(name) else { return Ok(None) };
        let number = value
            .as_u64()
            .or_else(|| value.as_f64().filter(|given| given.fract() == 0.0 && *given >= 0.0).map(|given| given as u64));
        let number = number.or_else(|| value.as_str().and_then(|text| text.trim().parse().ok()));
        number.map(Some).ok_or_else(|| OptionError::kind(&path, "a whole number from 0 on", &value))
    }

    pub(super) fn number(&mut self, name: &str) -> Result<Option<f64>, OptionError> {
        let path = self.path(name);
        let Some(value) = self.take(name) else { return Ok(None) };
        value.as_f64().map(Some).ok_or_else(|| OptionError::kind(&path, "a number", &value))
    }

    pub(super) fn duration(&mut self, name: &str) -> Result<Option<Duration>, OptionError> {
        let path = self.path(name);
        let Some(value) = self.take(name) else { return Ok(None) };
        duration_of(&path, &value).map(Some)
    }

    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>, OptionError> {
        let path = self.path(name);
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(OptionError::kind(&path, "a text", &other)),
        }
    }

    pub(super) fn truth(&mut self, name: &str) -> Result<bool, OptionError> {
        let path = self.path(name);
        match self.take(name) {
            None => Ok(false),
            Some(Value::Bool(is)) => Ok(is),
            Some(other) => Err(OptionError::kind(&path, "true or false", &other)),
        }
    }

    pub(super) fn list(&mut self, name: &str) -> Result<Option<Vec<Value>>, OptionError> {
        let path = self.path(name);
        match self.take(name) {
            None => Ok(None),
            Some(Value::Array(all)) => Ok(Some(all)),
            Some(other) => Err(OptionError::kind(&path, "an array", &other)),
        }
    }

    /// Names and texts.
    pub(super) fn texts(&mut self, name: &str) -> Result<BTreeMap<String, String>, OptionError> {
        let path = self.path(name);
        let mut texts = BTreeMap::new();
        if let Some(value) = self.take(name) {
            for (key, value) in Self::of(&path, value)?.into_inner() {
                let text = match value {
                    Value::String(text) => text,
                    Value::Number(number) => number.to_string(),
                    Value::Bool(is) => is.to_string(),
                    other => return Err(OptionError::kind(&format!("{path}.{key}"), "a text", &other)),
                };
                texts.insert(key, text);
            }
        }
        Ok(texts)
    }

    /// Nothing may be left.
    pub(super) fn end(self) -> Result<(), OptionError> {
        match self.fields.keys().next() {
            None => Ok(()),
            Some(name) => Err(OptionError::Unknown { path: self.path(name), name: name.clone() }),
        }
    }
}

/// A duration: a text as Go has it, or milliseconds.
pub(super) fn duration_of(path: &str, value: &Value) -> Result<Duration, OptionError> {
    let read = match value {
        Value::String(text) => crate::time::duration(text),
        Value::Number(number) => crate::time::duration(&number.to_string()),
        _ => None,
    };
    read.ok_or_else(|| OptionError::kind(path, "a duration such as 30s or 1m30s", value))
}
