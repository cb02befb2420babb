//! Numbers with units, as wrk reads and writes them.

/// How far a number goes before its next unit is used.
const UNTIL: f64 = 0.85;

/// What a kind of numbers counts in.
struct Units {
    base: &'static str,
    step: u64,
    /// The units above the base. The last one is read, but never written, as in the original.
    above: &'static [&'static str],
}

const METRIC: Units = Units { base: "", step: 1000, above: &["k", "M", "G", "T", "P"] };
const BINARY: Units = Units { base: "", step: 1024, above: &["K", "M", "G", "T", "P"] };
const SECONDS: Units = Units { base: "s", step: 60, above: &["m", "h"] };
const MICROSECONDS: Units = Units { base: "us", step: 1000, above: &["ms", "s"] };

/// A count, such as `400` or `2k`.
pub(super) fn count_of(text: &str) -> Option<u64> {
    METRIC.read(text)
}

/// A time in whole seconds, such as `30`, `2s`, `1m` or `2h`.
pub(super) fn seconds_of(text: &str) -> Option<u64> {
    SECONDS.read(text)
}

/// A count in a report.
pub(super) fn count(number: f64) -> String {
    METRIC.written(number, 2)
}

/// Bytes in a report, without the `B`.
pub(super) fn bytes(number: f64) -> String {
    BINARY.written(number, 2)
}

/// Whole seconds in a report.
pub(super) fn seconds(number: u64) -> String {
    SECONDS.written(number as f64, 0)
}

/// Microseconds in a report.
pub(super) fn microseconds(number: f64) -> String {
    match number >= 1e6 {
        true => SECONDS.written(number / 1e6, 2),
        false => MICROSECONDS.written(number, 2),
    }
}

impl Units {
    fn read(&self, text: &str) -> Option<u64> {
        let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
        let number: u64 = text[..end].parse().ok()?;
        let unit = &text[end..];
        if unit.is_empty() || unit.eq_ignore_ascii_case(self.base) {
            return Some(number);
        }
        let place = self.above.iter().position(|above| above.eq_ignore_ascii_case(unit))?;
        number.checked_mul(self.step.checked_pow(place as u32 + 1)?)
    }

    fn written(&self, mut number: f64, digits: usize) -> String {
        let mut unit = self.base;
        for above in &self.above[..self.above.len() - 1] {
            if number < self.step as f64 * UNTIL {
                break;
            }
            number /= self.step as f64;
            unit = above;
        }
        format!("{number:.digits$}{unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_read_with_their_units() {
        assert_eq!((count_of("400"), count_of("2k"), count_of("1M")), (Some(400), Some(2000), Some(1_000_000)));
        assert_eq!((seconds_of("30"), seconds_of("2S"), seconds_of("2m")), (Some(30), Some(2), Some(120)));
        assert_eq!(seconds_of("2h"), Some(7200));
        for wrong in ["", "k", "-1", "1x", "1.5", "1ms", " 1", "99999999999999999999", "9999999999999999P"] {
            assert_eq!((count_of(wrong), seconds_of(wrong)), (None, None), "{wrong}");
        }
    }

    #[test]
    fn numbers_are_written_as_wrk_writes_them() {
        // Of a report in wrk's own documentation, and of wrk itself.
        assert_eq!(microseconds(635.91), "635.91us");
        assert_eq!(microseconds(890.0), "0.89ms");
        assert_eq!(microseconds(12_920.0), "12.92ms");
        assert_eq!(microseconds(1_000_000.0), "1.00s");
        assert_eq!(microseconds(60e6), "1.00m");
        assert_eq!(count(56_200.0), "56.20k");
        assert_eq!(bytes(17.76 * 1024.0 * 1024.0 * 1024.0), "17.76G");
        assert_eq!((seconds(30), seconds(60), seconds(7200)), ("30s".to_owned(), "1m".to_owned(), "120m".to_owned()));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,8}", number in 0u64..1_000_000) {
            let _ = (count_of(&text), seconds_of(&text));
            prop_assert_eq!(count_of(&number.to_string()), Some(number));
            prop_assert_eq!(seconds_of(&format!("{number}m")), Some(number * 60));
        }
    }
}
