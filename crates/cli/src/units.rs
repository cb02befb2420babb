//! Values with units, as users write them.

use std::time::Duration;

/// Reads `10`, `10s`, `500ms`, `2m`, `1h` or `1.5s`; a bare number means seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let seconds_each = match unit {
        "" | "s" => 1.0,
        "us" => 1e-6,
        "ms" => 1e-3,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("{unit:?} is no unit of time; write 500ms, 10s, 2m or 1h")),
    };
    let number: f64 = number.parse().map_err(|_| format!("{text:?} is no time; write 500ms, 10s, 2m or 1h"))?;
    let duration = Duration::try_from_secs_f64(number * seconds_each).map_err(|error| error.to_string())?;
    if duration.is_zero() { Err("must be longer than zero".to_owned()) } else { Ok(duration) }
}

/// A time for people: three digits and a unit.
pub(crate) fn nanoseconds(ns: f64) -> String {
    let (value, unit) = match ns.abs() {
        size if size < 1e3 => return format!("{ns:.0} ns"),
        size if size < 1e6 => (ns / 1e3, "us"),
        size if size < 1e9 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    let decimals = if value.abs() < 10.0 { 2 } else { usize::from(value.abs() < 100.0) };
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_their_units() {
        assert_eq!(duration("10"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for bad in ["", "s", "10x", "-1s", "0", "1e9h", "9999999999999999999h"] {
            assert!(duration(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn times_have_three_digits() {
        assert_eq!(nanoseconds(999.0), "999 ns");
        assert_eq!(nanoseconds(1500.0), "1.50 us");
        assert_eq!(nanoseconds(15_600_000.0), "15.6 ms");
        assert_eq!(nanoseconds(123_456_789_000.0), "123 s");
    }
}
