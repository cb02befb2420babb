//! Values with units, as users write them.

use std::time::Duration;
use weir_measure::duration_text::{DurationTextError, parse_duration};

/// How a rate is written.
const RATE_FORMS: &str = "write 4KB/s, 512KiB/s, 33.6kbit/s or 10Mbit/s";

/// Why a text is no value with a unit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// It is no length of time.
    #[error(transparent)]
    Duration(#[from] DurationTextError),
    /// It is a length of time of zero.
    #[error("must be longer than zero")]
    Zero,
    /// It has a unit that no rate has.
    #[error("{unit:?} is no unit of a rate; {RATE_FORMS}")]
    RateUnit {
        /// The unit.
        unit: String,
    },
    /// It has no number where a rate has one.
    #[error("{given:?} is no rate; {RATE_FORMS}")]
    Rate {
        /// What was given.
        given: String,
    },
}

/// Reads `10`, `10s`, `500ms`, `2m`, `1m30s`, `1h`, `7d` or `1.5s`, and nothing that is zero; a bare number means seconds.
///
/// # Errors
/// [`UnitError::Duration`], [`UnitError::Zero`].
pub fn duration(text: &str) -> Result<Duration, UnitError> {
    let duration = parse_duration(text)?;
    if duration.is_zero() { Err(UnitError::Zero) } else { Ok(duration) }
}

/// Reads `4KB/s`, `512KiB/s`, `33.6kbit/s` or `10Mbit/s` as bytes a second; K is 1000, Ki is 1024, a byte has 8 bits.
///
/// # Errors
/// [`UnitError::RateUnit`], [`UnitError::Rate`].
pub fn rate(text: &str) -> Result<f64, UnitError> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let bytes_each = match unit.strip_suffix("/s").unwrap_or("") {
        "B" => 1.0,
        "KB" | "kB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        "bit" => 1.0 / 8.0,
        "kbit" | "Kbit" => 1e3 / 8.0,
        "Mbit" => 1e6 / 8.0,
        "Gbit" => 1e9 / 8.0,
        _ => return Err(UnitError::RateUnit { unit: unit.to_owned() }),
    };
    let number: f64 = number.parse().map_err(|_| UnitError::Rate { given: text.to_owned() })?;
    Ok(number * bytes_each)
}

/// A number of things in words: `1 rule`, `2 rules`.
pub fn counted(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_with_their_units() {
        for (text, bytes_per_s) in
            [("3360B/s", 3360.0), ("4KB/s", 4000.0), ("4KiB/s", 4096.0), ("33.6kbit/s", 4200.0), ("10Mbit/s", 1.25e6)]
        {
            let read = rate(text).expect(text);
            assert!((read - bytes_per_s).abs() < 1e-6, "{text}: {read}");
        }
        for bad in ["", "4", "4KB", "KB/s", "-4KB/s", "4 KB/s", "1e3B/s", "4kb/s", "1.2.3B/s"] {
            assert!(rate(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn durations_are_read_with_their_units() {
        assert_eq!(duration("10"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
        for bad in ["", "s", "10x", "-1s", "0", "1e9h", "9999999999999999999h"] {
            assert!(duration(bad).is_err(), "{bad:?}");
        }
    }
}
