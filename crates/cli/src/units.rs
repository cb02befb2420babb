//! Values with units, as users write them.

use std::time::Duration;

pub(crate) use weir_report::nanoseconds;

/// Reads `10`, `10s`, `500ms`, `2m`, `1h`, `7d` or `1.5s`; a bare number means seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let seconds_each = match unit {
        "" | "s" => 1.0,
        "us" => 1e-6,
        "ms" => 1e-3,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(format!("{unit:?} is no unit of time; write 500ms, 10s, 2m or 1h")),
    };
    let number: f64 = number.parse().map_err(|_| format!("{text:?} is no time; write 500ms, 10s, 2m or 1h"))?;
    let duration = Duration::try_from_secs_f64(number * seconds_each).map_err(|error| error.to_string())?;
    if duration.is_zero() { Err("must be longer than zero".to_owned()) } else { Ok(duration) }
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
}
