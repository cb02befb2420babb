//! An event of Chrome's JSON.

use crate::json::{Fault, Json, Text, whole};
use std::borrow::Cow;

/// The members of an event that are looked at.
#[derive(Debug, Default)]
pub(crate) struct Told<'a> {
    pub(crate) ph: Cow<'a, str>,
    pub(crate) name: Cow<'a, str>,
    pub(crate) ts: Option<Micros>,
    pub(crate) dur: Option<Micros>,
    pub(crate) pid: Option<Id<'a>>,
    pub(crate) tid: Option<Id<'a>>,
    pub(crate) id: Option<Id<'a>>,
}

impl<'a> Told<'a> {
    /// Reads an event.
    pub(crate) fn read(json: &mut Json<'a>) -> Result<Self, Fault> {
        let mut told = Self::default();
        json.object(|json, member| {
            match member {
                b"ph" => told.ph = text(json)?,
                b"name" => told.name = text(json)?,
                b"ts" => told.ts = json.scalar()?.and_then(Micros::read),
                b"dur" => told.dur = json.scalar()?.and_then(Micros::read),
                b"pid" => told.pid = Id::read(json)?,
                b"tid" => told.tid = Id::read(json)?,
                b"id" => told.id = Id::read(json)?,
                _ => json.skip()?,
            }
            Ok(())
        })?;
        Ok(told)
    }
}

fn text<'a>(json: &mut Json<'a>) -> Result<Cow<'a, str>, Fault> {
    json.text()?.map_or(Ok(Cow::Borrowed("")), Text::text)
}

/// A time that is written in microseconds, held in nanoseconds; what is below 0 is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Micros(pub(crate) u64);

impl Micros {
    fn read(written: &[u8]) -> Option<Self> {
        let point = memchr::memchr(b'.', written);
        let (before, behind) = point.map_or((written, &[][..]), |at| (&written[..at], &written[at + 1..]));
        match (whole(before), behind.iter().all(u8::is_ascii_digit)) {
            (Some(micros), true) => {
                let digit = |place: usize| behind.get(place).map_or(0, |digit| u64::from(digit - b'0'));
                let part = digit(0) * 100 + digit(1) * 10 + digit(2) + u64::from(digit(3) >= 5);
                Some(Self(micros.saturating_mul(1000).saturating_add(part)))
            }
            // With a sign or an exponent.
            _ => {
                let micros: f64 = std::str::from_utf8(written).ok()?.parse().ok()?;
                Some(Self((micros * 1000.0).round() as u64))
            }
        }
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

impl<'a> Id<'a> {
    fn read(json: &mut Json<'a>) -> Result<Option<Self>, Fault> {
        if json.is_text()? {
            return Ok(json.text()?.map(Text::text).transpose()?.map(Self::Text));
        }
        Ok(json.scalar()?.and_then(|written| {
            let other = || {
                let text = std::str::from_utf8(written).ok()?;
                text.parse::<i64>()
                    .map(i64::cast_unsigned)
                    .or_else(|_| text.parse().map(|number: f64| number as u64))
                    .ok()
            };
            whole(written).or_else(other).map(Self::Number)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ids_are_numbers_or_texts() {
        for (written, expected) in [
            ("7", Some(Id::Number(7))),
            ("-1", Some(Id::Number(u64::MAX))),
            ("7.9", Some(Id::Number(7))),
            ("\"0x7\"", Some(Id::Text(Cow::Borrowed("0x7")))),
            ("null", None),
        ] {
            assert_eq!(Id::read(&mut Json::new(written.as_bytes())), Ok(expected), "{written}");
        }
        assert_eq!(
            (Micros::read(b"-5.5"), Micros::read(b"1e3"), Micros::read(b"x")),
            (Some(Micros(0)), Some(Micros(1_000_000)), None)
        );
    }

    proptest! {
        #[test]
        fn times_keep_their_nanoseconds(ns in 0u64..1 << 62, digits in 0usize..4) {
            let written = format!("{}.{:03}", ns / 1000, ns % 1000);
            prop_assert_eq!(Micros::read(written.as_bytes()), Some(Micros(ns)));
            // Fewer digits leave out the lowest ones.
            let step = 10u64.pow(3 - digits as u32);
            let cut = &written[..written.len() - (3 - digits)];
            prop_assert_eq!(Micros::read(cut.trim_end_matches('.').as_bytes()), Some(Micros(ns / step * step)));
        }
    }
}
