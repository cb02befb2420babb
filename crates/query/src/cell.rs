//! A value of a row.

use rusqlite::types::{Value, ValueRef};

/// A value of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cell<'a> {
    /// Nothing: the recording does not tell it.
    Null,
    /// A whole number.
    Integer(i64),
    /// A number with a fraction.
    Real(f64),
    /// A text.
    Text(&'a str),
    /// Bytes that are no text in UTF-8.
    Bytes(&'a [u8]),
}

impl<'a> From<ValueRef<'a>> for Cell<'a> {
    fn from(value: ValueRef<'a>) -> Self {
        match value {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(number) => Self::Integer(number),
            ValueRef::Real(number) => Self::Real(number),
            ValueRef::Text(bytes) => std::str::from_utf8(bytes).map_or(Self::Bytes(bytes), Self::Text),
            ValueRef::Blob(bytes) => Self::Bytes(bytes),
        }
    }
}

/// A number of nanoseconds or bytes as SQL has it: what does not fit is the largest that does.
pub(crate) fn whole(number: u64) -> ValueRef<'static> {
    ValueRef::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

/// A time from the origin: what lies before it is negative.
pub(crate) fn since(at_ns: u64, origin_ns: u64) -> i64 {
    let ns = i128::from(at_ns) - i128::from(origin_ns);
    i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX })
}

/// Yes or no as SQL has it.
pub(crate) fn flag(is: bool) -> ValueRef<'static> {
    ValueRef::Integer(i64::from(is))
}

/// A value of its own.
pub(crate) fn owned(value: ValueRef<'_>) -> Value {
    value.into()
}

/// A text.
pub(crate) fn text(text: &str) -> ValueRef<'_> {
    ValueRef::Text(text.as_bytes())
}
