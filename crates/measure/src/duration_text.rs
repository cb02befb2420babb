//! Lengths of time as people write them: `500ms`, `10s`, `1.5m`, `1m30s`, `1h2m3s`.

use std::time::Duration;

/// The units, the longest first, and the seconds of each.
const UNITS: [(&str, f64); 12] = [
    ("d", 86_400.0),
    ("h", 3600.0),
    ("min", 60.0),
    ("m", 60.0),
    ("sec", 1.0),
    ("s", 1.0),
    ("ms", 1e-3),
    ("us", 1e-6),
    // The micro sign and the Greek letter, which look alike.
    ("\u{b5}s", 1e-6),
    ("\u{3bc}s", 1e-6),
    ("ns", 1e-9),
    ("", 1.0),
];

/// Why a text is no length of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DurationTextError {
    /// No number where one belongs.
    NoNumber {
        /// What was given.
        given: String,
    },
    /// A unit that is none.
    Unit {
        /// The unit.
        unit: String,
    },
    /// A number without a unit beside others that have one.
    NoUnit {
        /// The number.
        number: String,
    },
    /// A unit that stands behind a shorter one, or twice.
    Order {
        /// What was given.
        given: String,
    },
    /// A time that no clock of this program can count.
    TooLong {
        /// What was given.
        given: String,
    },
}

impl std::fmt::Display for DurationTextError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const FORMS: &str = "write 500ms, 10s, 2m, 1m30s or 1h";
        match self {
            Self::NoNumber { given } => write!(formatter, "{given:?} is no time; {FORMS}"),
            Self::Unit { unit } => write!(formatter, "{unit:?} is no unit of time; {FORMS}"),
            Self::NoUnit { number } => write!(formatter, "{number} has no unit; {FORMS}"),
            Self::Order { given } => {
                write!(formatter, "{given:?} is no time: each unit stands once, the longest first; {FORMS}")
            }
            Self::TooLong { given } => write!(formatter, "{given:?} is too long a time"),
        }
    }
}

impl std::error::Error for DurationTextError {}

/// Reads a length of time; a bare number means seconds.
///
/// # Errors
/// See [`DurationTextError`].
pub fn parse_duration(text: &str) -> Result<Duration, DurationTextError> {
    let given = || text.to_owned();
    let (mut rest, mut seconds, mut shortest_s, mut parts) = (text, 0.0, f64::INFINITY, 0);
    while parts == 0 || !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
        let (number, behind) = rest.split_at(digits);
        let letters = behind.find(|letter: char| letter.is_ascii_digit() || letter == '.').unwrap_or(behind.len());
        let (unit, next) = behind.split_at(letters);
        let count: f64 = number.parse().map_err(|_| DurationTextError::NoNumber { given: given() })?;
        let found = UNITS.iter().find(|(name, _)| *name == unit);
        let (_, each_s) = found.ok_or_else(|| DurationTextError::Unit { unit: unit.to_owned() })?;
        if unit.is_empty() && parts > 0 {
            return Err(DurationTextError::NoUnit { number: number.to_owned() });
        }
        if *each_s >= shortest_s {
            return Err(DurationTextError::Order { given: given() });
        }
        (seconds, shortest_s, rest) = (seconds + count * each_s, *each_s, next);
        parts += 1;
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| DurationTextError::TooLong { given: given() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_are_sums_of_their_parts() {
        let ms = Duration::from_millis;
        for (text, time) in [
            ("10", ms(10_000)),
            ("500ms", ms(500)),
            ("1.5s", ms(1500)),
            ("2m", ms(120_000)),
            ("2min", ms(120_000)),
            ("7d", ms(7 * 86_400_000)),
            ("1m30s", ms(90_000)),
            ("1.5m", ms(90_000)),
            ("1h2m3s", ms(3_723_000)),
            ("1h0.5s", ms(3_600_500)),
            ("1s500ms", ms(1500)),
            ("500us", Duration::from_micros(500)),
            ("500\u{b5}s", Duration::from_micros(500)),
            ("0m1s", ms(1000)),
            ("0", Duration::ZERO),
        ] {
            assert_eq!(parse_duration(text), Ok(time), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused_in_words() {
        for (text, told) in [
            ("", "no time"),
            ("s", "no time"),
            ("-1s", "no time"),
            ("+1s", "no time"),
            ("1.2.3s", "no time"),
            ("10x", "\"x\" is no unit"),
            ("10 s", "\" s\" is no unit"),
            ("1e3s", "\"e\" is no unit"),
            ("10S", "\"S\" is no unit"),
            ("1m30", "30 has no unit"),
            ("30s1m", "the longest first"),
            ("1m1m", "each unit stands once"),
            ("1m1min", "each unit stands once"),
            ("9999999999999999999h", "too long"),
            ("1m30s ", "\"s \" is no unit"),
        ] {
            let error = parse_duration(text).expect_err(text).to_string();
            assert!(error.contains(told), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn hours_minutes_and_seconds_come_back(hours in 0..1000_u64, minutes in 0..1000_u64, seconds in 0..1000_u64) {
            let text = format!("{hours}h{minutes}m{seconds}s");
            prop_assert_eq!(parse_duration(&text), Ok(Duration::from_secs(hours * 3600 + minutes * 60 + seconds)));
        }

        #[test]
        fn any_text_is_a_time_or_an_error(text in "[0-9.hmsud -]{0,12}|\\PC{0,8}") {
            let _either = parse_duration(&text);
        }
    }
}
