//! An event of Chrome's JSON.

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use std::borrow::Cow;
use std::fmt;

/// The members of an event that are looked at.
#[derive(Debug, Deserialize)]
pub(crate) struct Told<'a> {
    #[serde(borrow, default)]
    pub(crate) ph: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) name: Cow<'a, str>,
    #[serde(default)]
    pub(crate) ts: Option<Micros>,
    #[serde(default)]
    pub(crate) dur: Option<Micros>,
    #[serde(borrow, default)]
    pub(crate) pid: Option<Id<'a>>,
    #[serde(borrow, default)]
    pub(crate) tid: Option<Id<'a>>,
    #[serde(borrow, default)]
    pub(crate) id: Option<Id<'a>>,
}

/// A time that is written in microseconds, held in nanoseconds; what is below 0 is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Micros(pub(crate) u64);

impl<'de> Deserialize<'de> for Micros {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl Visitor<'_> for Read {
            type Value = Micros;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a time in microseconds")
            }

            fn visit_u64<E: Error>(self, micros: u64) -> Result<Micros, E> {
                Ok(Micros(micros.saturating_mul(1000)))
            }

            fn visit_i64<E: Error>(self, micros: i64) -> Result<Micros, E> {
                self.visit_u64(u64::try_from(micros).unwrap_or(0))
            }

            fn visit_f64<E: Error>(self, micros: f64) -> Result<Micros, E> {
                // The whole part apart keeps the digits that the sum would lose.
                let whole = micros.trunc().max(0.0);
                let part = ((micros - whole) * 1000.0).round().max(0.0);
                Ok(Micros((whole as u64).saturating_mul(1000).saturating_add(part as u64)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Micros, E> {
                self.visit_f64(text.parse().map_err(E::custom)?)
            }
        }
        deserializer.deserialize_any(Read)
    }
}

/// A number or a text that stands for one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Id<'a> {
    Number(u64),
    Text(Cow<'a, str>),
}

impl Id<'_> {
    /// A text that is no number is a hash of itself.
    pub(crate) fn number(&self) -> u64 {
        match self {
            Self::Number(number) => *number,
            Self::Text(text) => text.parse().unwrap_or_else(|_| {
                text.bytes()
                    .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
            }),
        }
    }

    pub(crate) fn text(&self) -> Box<str> {
        match self {
            Self::Number(number) => number.to_string().into(),
            Self::Text(text) => (&**text).into(),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Id<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Id<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a number or a text")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Id<'de>, E> {
                Ok(Id::Number(number))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Id<'de>, E> {
                Ok(Id::Number(number.cast_unsigned()))
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<Id<'de>, E> {
                Ok(Id::Number(number as u64))
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Id<'de>, E> {
                Ok(Id::Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Id<'de>, E> {
                Ok(Id::Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_any(Read)
    }
}
