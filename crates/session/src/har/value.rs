//! Texts and numbers in the forms that tools write them.

use serde_json::Value;

/// A text; numbers and truth values as they are written, nothing for null and what holds others.
pub(super) fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A number, also one that is written as a text.
pub(super) fn number(value: &Value) -> Option<f64> {
    let number = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok());
    number.filter(|number| number.is_finite())
}

/// A size in bytes; tools write -1 for one that they do not know.
pub(super) fn size(value: &Value) -> Option<u64> {
    number(value).filter(|size| (0.0..9e15).contains(size)).map(|size| size as u64)
}
