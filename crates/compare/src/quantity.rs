//! Quantities as people write them: CPUs, lengths of time, fractions.
use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use weir_measure::duration_text::{DurationTextError, parse_duration};

use crate::cpus::{CpuSet, CpuSetError};

/// CPUs, or `any`.
#[derive(Debug, Clone, PartialEq)]
pub struct CpuWord(pub Option<CpuSet>);

impl FromStr for CpuWord {
    type Err = CpuSetError;

    fn from_str(text: &str) -> Result<Self, CpuSetError> {
        if text == "any" {
            return Ok(Self(None));
        }
        text.parse().map(|set| Self(Some(set)))
    }
}

impl<'de> Deserialize<'de> for CpuWord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "CPUs such as 0, \"0,2\", \"1-3\" or \"any\"";
        deserializer.deserialize_any(Words { expected, read: str::parse })
    }
}

/// A length of time in seconds: `1.5`, `"300ms"`, `"2s"`, `"10m"`, `"1h"` or `"1m30s"`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seconds(pub f64);

impl FromStr for Seconds {
    type Err = DurationTextError;

    fn from_str(text: &str) -> Result<Self, DurationTextError> {
        // A blank between a number and its unit is taken, as this format always took it.
        let text: String = text.split_whitespace().collect();
        parse_duration(&text).map(|time| Self(time.as_secs_f64()))
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Words { expected: "a length of time such as \"2s\" or seconds", read: str::parse })
    }
}

/// A fraction: `0.05` or `"5%"`. A bare `5` would be 500 %, which no user means.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fraction(pub f64);

/// A text that is no fraction.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no fraction; write for instance 5% or 0.05")]
pub struct FractionError(String);

impl FromStr for Fraction {
    type Err = FractionError;

    fn from_str(text: &str) -> Result<Self, FractionError> {
        let (number, scale, most) = match text.trim().strip_suffix('%') {
            Some(percent) => (percent.trim_end(), 0.01, 1000.0),
            None => (text.trim(), 1.0, 1.0),
        };
        match number.parse::<f64>() {
            Ok(number) if (0.0..=most).contains(&number) => Ok(Self(number * scale)),
            _ => Err(FractionError(text.to_owned())),
        }
    }
}

impl<'de> Deserialize<'de> for Fraction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Words { expected: "a fraction such as \"5%\" or 0.05", read: str::parse })
    }
}

/// What may be written as a text or as a number.
struct Words<F> {
    expected: &'static str,
    read: F,
}

impl<T, W: fmt::Display, F: FnOnce(&str) -> Result<T, W>> Visitor<'_> for Words<F> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        (self.read)(text).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }
}

/// `1 block`, `2 blocks`.
pub(crate) fn counted(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_are_read_with_their_units() {
        for (text, seconds) in [
            ("2s", 2.0),
            ("0.3", 0.3),
            ("300ms", 0.3),
            ("10m", 600.0),
            ("10min", 600.0),
            ("1h", 3600.0),
            ("1m30s", 90.0),
            ("1h2m3s", 3723.0),
            ("1s500ms", 1.5),
            ("1 m 30 s", 90.0),
            ("0", 0.0),
        ] {
            let found = text.parse::<Seconds>().map(|found| found.0);
            assert!(found.as_ref().is_ok_and(|found| (found - seconds).abs() < 1e-9), "{text}: {found:?}");
        }
        for wrong in ["", "s", "x", "2x", "-1", "30s1m", "1s1s", "1m30", "1e3", "1..2", "inf", "NaN"] {
            assert!(wrong.parse::<Seconds>().is_err(), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn times_and_fractions_come_back(value in 0.0..1000.0_f64) {
            let near = |found: f64| (found - value).abs() <= 1e-9 * value.max(1.0);
            let (seconds, milliseconds, percent) = (format!("{value}s"), format!("{}ms", value * 1000.0), format!("{value}%"));
            prop_assert!(near(seconds.parse::<Seconds>().expect("seconds").0));
            prop_assert!(near(milliseconds.parse::<Seconds>().expect("milliseconds").0));
            prop_assert!(near(percent.parse::<Fraction>().expect("percent").0 * 100.0));
        }
    }
}
