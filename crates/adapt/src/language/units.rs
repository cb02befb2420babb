//! Units, which every value has.

use serde::{Deserialize, Serialize};

/// What a value measures, each with the unit that values are kept in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Dimension {
    /// Percent.
    Share,
    /// Bytes.
    Bytes,
    /// Requests that wait or run, counted.
    Jobs,
    /// Seconds.
    Time,
    /// Bits a second.
    Bandwidth,
    /// Events a second.
    Rate,
}

/// Name, dimension, and how many of the dimension's own unit one is.
const UNITS: [(&str, Dimension, f64); 18] = [
    ("%", Dimension::Share, 1.0),
    ("B", Dimension::Bytes, 1.0),
    ("kB", Dimension::Bytes, 1e3),
    ("MB", Dimension::Bytes, 1e6),
    ("GB", Dimension::Bytes, 1e9),
    ("KiB", Dimension::Bytes, 1024.0),
    ("MiB", Dimension::Bytes, 1_048_576.0),
    ("GiB", Dimension::Bytes, 1_073_741_824.0),
    ("jobs", Dimension::Jobs, 1.0),
    ("us", Dimension::Time, 1e-6),
    ("ms", Dimension::Time, 1e-3),
    ("s", Dimension::Time, 1.0),
    ("bps", Dimension::Bandwidth, 1.0),
    ("kbps", Dimension::Bandwidth, 1e3),
    ("Mbps", Dimension::Bandwidth, 1e6),
    ("Gbps", Dimension::Bandwidth, 1e9),
    ("rps", Dimension::Rate, 1.0),
    ("krps", Dimension::Rate, 1e3),
];

/// Units of durations, in milliseconds.
const DURATIONS: [(&str, f64); 4] = [("ms", 1.0), ("s", 1e3), ("min", 60e3), ("h", 3_600e3)];

/// The longest duration that means anything here: a week.
pub(crate) const DURATION_MS_MAX: u64 = 7 * 24 * 3_600_000;

impl Dimension {
    /// The unit that values are kept in.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Share => "%",
            Self::Bytes => "B",
            Self::Jobs => "jobs",
            Self::Time => "s",
            Self::Bandwidth => "bps",
            Self::Rate => "rps",
        }
    }

    /// Its units, from small to large.
    pub(crate) fn units(self) -> impl Iterator<Item = &'static str> {
        UNITS.iter().filter(move |(_, dimension, _)| *dimension == self).map(|(name, _, _)| *name)
    }

    /// A value with the unit in which it reads best, three digits of it.
    pub fn show(self, value: f64) -> String {
        let decimal = UNITS.iter().filter(|(name, dimension, _)| *dimension == self && !name.contains('i'));
        let (name, each) = decimal
            .clone()
            .rev()
            .find(|(_, _, each)| value.abs() >= *each)
            .or(decimal.clone().next())
            .map_or((self.unit(), 1.0), |(name, _, each)| (*name, *each));
        format!("{}{name}", three_digits(value / each))
    }
}

/// A number with three digits, without zeros at its end.
fn three_digits(value: f64) -> String {
    let places = match value.abs() {
        large if large >= 99.95 => 0,
        middle if middle >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{value:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Why a value cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WrongValue {
    /// The unit is none.
    Unit,
    /// The number is none, or too large.
    Number,
}

/// A quantity's number and unit.
pub(crate) fn split(quantity: &str) -> (&str, &str) {
    let end = quantity.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(quantity.len());
    quantity.split_at(end)
}

/// Reads a value with its unit, in the own unit of its dimension.
pub(crate) fn value(quantity: &str) -> Result<(f64, Dimension), WrongValue> {
    let (number, unit) = split(quantity);
    let (_, dimension, each) = UNITS.iter().find(|(name, _, _)| *name == unit).ok_or(WrongValue::Unit)?;
    let number: f64 = number.parse().map_err(|_| WrongValue::Number)?;
    let value = number * each;
    if value.is_finite() { Ok((value, *dimension)) } else { Err(WrongValue::Number) }
}

/// Reads a value with its unit, in the own unit of its dimension; `None` if it is none.
pub(crate) fn value_with_unit(quantity: &str) -> Option<(f64, Dimension)> {
    value(quantity).ok()
}

/// Reads a duration, in milliseconds.
pub(crate) fn duration_ms(quantity: &str) -> Result<u64, WrongValue> {
    let (number, unit) = split(quantity);
    let (_, each) = DURATIONS.iter().find(|(name, _)| *name == unit).ok_or(WrongValue::Unit)?;
    let number: f64 = number.parse().map_err(|_| WrongValue::Number)?;
    let milliseconds = number * each;
    let whole = milliseconds.round();
    if (milliseconds - whole).abs() > 1e-6 || !(1.0..=DURATION_MS_MAX as f64).contains(&whole) {
        return Err(WrongValue::Number);
    }
    Ok(whole as u64)
}

/// A duration as it is written: `10s`, `1.5s`, `250ms`.
pub fn show_ms(milliseconds: u64) -> String {
    match milliseconds {
        0..1000 => format!("{milliseconds}ms"),
        _ if milliseconds.is_multiple_of(3_600_000) => format!("{}h", milliseconds / 3_600_000),
        _ => format!("{}s", milliseconds as f64 / 1e3),
    }
}

/// Other names that people write for units. The first one whose unit is possible counts, in any case of letters.
const OTHER_NAMES: [(&str, &str); 42] = [
    ("m", "min"),
    ("mins", "min"),
    ("minute", "min"),
    ("minutes", "min"),
    ("sec", "s"),
    ("secs", "s"),
    ("second", "s"),
    ("seconds", "s"),
    ("msec", "ms"),
    ("msecs", "ms"),
    ("millis", "ms"),
    ("millisecond", "ms"),
    ("milliseconds", "ms"),
    ("usec", "us"),
    ("µs", "us"),
    ("microseconds", "us"),
    ("hr", "h"),
    ("hrs", "h"),
    ("hour", "h"),
    ("hours", "h"),
    ("kb", "kB"),
    ("mb", "MB"),
    ("gb", "GB"),
    ("k", "kB"),
    ("kb", "kbps"),
    ("mb", "Mbps"),
    ("gb", "Gbps"),
    ("b", "bps"),
    ("kbit", "kbps"),
    ("mbit", "Mbps"),
    ("gbit", "Gbps"),
    ("bit", "bps"),
    ("kbits", "kbps"),
    ("mbits", "Mbps"),
    ("m", "Mbps"),
    ("k", "kbps"),
    ("k", "krps"),
    ("percent", "%"),
    ("pct", "%"),
    ("qps", "rps"),
    ("req", "rps"),
    ("requests", "rps"),
];

/// The unit that the author may have meant: of these, by another name, in other letters, or by a slip of the keyboard.
pub(crate) fn meant<'n>(unit: &str, units: &[&'n str]) -> Option<&'n str> {
    let lower = unit.to_lowercase();
    let possible = |name: &str| units.iter().copied().find(|unit| *unit == name);
    let same: Vec<&str> = units.iter().copied().filter(|known| known.to_lowercase() == lower).collect();
    if let [same] = same[..] {
        return Some(same);
    }
    let by_name = OTHER_NAMES.iter().filter(|(name, _)| *name == lower).find_map(|(_, unit)| possible(unit));
    // One letter in place of another is another unit, no slip.
    by_name.or_else(|| weir_diagnostic::nearest(unit, units.iter().copied()).filter(|_| unit.chars().count() > 1))
}

/// A value in the unit that is known, for one in a unit of which these are so many.
const CONVERTED: [(&str, f64, &str); 23] = [
    ("b/s", 8.0, "bps"),
    ("kb/s", 8.0, "kbps"),
    ("mb/s", 8.0, "Mbps"),
    ("gb/s", 8.0, "Gbps"),
    ("bit/s", 1.0, "bps"),
    ("kbit/s", 1.0, "kbps"),
    ("mbit/s", 1.0, "Mbps"),
    ("gbit/s", 1.0, "Gbps"),
    ("/s", 1.0, "rps"),
    ("r/s", 1.0, "rps"),
    ("req/s", 1.0, "rps"),
    ("reqs/s", 1.0, "rps"),
    ("requests/s", 1.0, "rps"),
    ("r/m", 1.0 / 60.0, "rps"),
    ("rpm", 1.0 / 60.0, "rps"),
    ("ns", 1e-3, "us"),
    ("min", 60.0, "s"),
    ("d", 24.0, "h"),
    ("day", 24.0, "h"),
    ("days", 24.0, "h"),
    ("w", 168.0, "h"),
    ("tb", 1000.0, "GB"),
    ("tib", 1024.0, "GiB"),
];

/// The same value in a unit of these, for one in a unit of another language: `5MB/s` is `40Mbps`.
pub(crate) fn converted(number: &str, unit: &str, units: &[&str]) -> Option<String> {
    let lower = unit.to_lowercase();
    let (_, each, own) = CONVERTED.iter().find(|(name, _, own)| *name == lower && units.contains(own))?;
    let value = number.parse::<f64>().ok()? * each;
    Some(format!("{}{own}", three_digits(value)))
}

/// All names of units of values.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    UNITS.iter().map(|(name, _, _)| *name)
}

/// All names of units of durations.
pub(crate) fn duration_names() -> impl Iterator<Item = &'static str> {
    DURATIONS.iter().map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_in_their_own_unit() {
        assert_eq!(value("30kbps"), Ok((30_000.0, Dimension::Bandwidth)));
        assert_eq!(value("90%"), Ok((90.0, Dimension::Share)));
        assert_eq!(value("250ms"), Ok((0.25, Dimension::Time)));
        assert_eq!(value("5parsecs"), Err(WrongValue::Unit));
        assert_eq!(duration_ms("1.5s"), Ok(1500));
        assert_eq!(duration_ms("2min"), Ok(120_000));
        assert_eq!(duration_ms("0s"), Err(WrongValue::Number));
        assert_eq!(duration_ms("0.5ms"), Err(WrongValue::Number));
        assert_eq!(duration_ms("5rps"), Err(WrongValue::Unit));
    }

    #[test]
    fn what_was_meant_is_a_unit_of_the_kind() {
        let durations: Vec<&str> = duration_names().collect();
        let of = |dimension: Dimension| dimension.units().collect::<Vec<_>>();
        for (unit, units, wanted) in [
            ("m", &durations, Some("min")),
            ("M", &durations, Some("min")),
            ("sec", &durations, Some("s")),
            ("Ms", &durations, Some("ms")),
            ("hours", &durations, Some("h")),
            ("mni", &durations, Some("min")),
            ("d", &durations, None),
            ("x", &durations, None),
            ("m", &of(Dimension::Time), None),
            ("sec", &of(Dimension::Time), Some("s")),
            ("kb", &of(Dimension::Bytes), Some("kB")),
            ("Mb", &of(Dimension::Bytes), Some("MB")),
            ("mib", &of(Dimension::Bytes), Some("MiB")),
            ("kb", &of(Dimension::Bandwidth), Some("kbps")),
            ("MB", &of(Dimension::Bandwidth), Some("Mbps")),
            ("mbit", &of(Dimension::Bandwidth), Some("Mbps")),
            ("qps", &of(Dimension::Rate), Some("rps")),
        ] {
            assert_eq!(meant(unit, units), wanted, "{unit} of {units:?}");
        }
    }

    #[test]
    fn values_of_other_units_are_converted() {
        let durations: Vec<&str> = duration_names().collect();
        let of = |dimension: Dimension| dimension.units().collect::<Vec<_>>();
        for (number, unit, units, wanted) in [
            ("5", "MB/s", &of(Dimension::Bandwidth), Some("40Mbps")),
            ("100", "Mbit/s", &of(Dimension::Bandwidth), Some("100Mbps")),
            ("30", "r/m", &of(Dimension::Rate), Some("0.5rps")),
            ("50", "req/s", &of(Dimension::Rate), Some("50rps")),
            ("1", "d", &durations, Some("24h")),
            ("2", "TB", &of(Dimension::Bytes), Some("2000GB")),
            ("5", "MB/s", &of(Dimension::Bytes), None),
            ("5", "parsec", &of(Dimension::Time), None),
        ] {
            assert_eq!(converted(number, unit, units).as_deref(), wanted, "{number}{unit}");
        }
    }

    #[test]
    fn values_are_shown_as_they_read_best() {
        for (dimension, value, shown) in [
            (Dimension::Share, 93.26, "93.3%"),
            (Dimension::Share, 0.5, "0.5%"),
            (Dimension::Time, 0.0042, "4.2ms"),
            (Dimension::Time, 12.0, "12s"),
            (Dimension::Time, 0.0, "0us"),
            (Dimension::Bandwidth, 64_000.0, "64kbps"),
            (Dimension::Bytes, 1.5e9, "1.5GB"),
            (Dimension::Rate, 612.4, "612rps"),
            (Dimension::Jobs, 0.0, "0jobs"),
        ] {
            assert_eq!(dimension.show(value), shown);
        }
        assert_eq!(show_ms(1500), "1.5s");
        assert_eq!(show_ms(250), "250ms");
    }
}
