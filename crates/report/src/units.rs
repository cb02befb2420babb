//! Figures for people.

/// A time: three digits and a unit.
#[must_use]
pub fn nanoseconds(ns: f64) -> String {
    let (value, unit) = match ns.abs() {
        size if size < 999.5 => return format!("{ns:.0} ns"),
        size if size < 999.5e3 => (ns / 1e3, "us"),
        size if size < 999.5e6 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    let decimals = match value.abs() {
        size if size < 9.995 => 2,
        size if size < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

/// A number with thousands set apart.
#[must_use]
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        assert_eq!(nanoseconds(999.0), "999 ns");
        assert_eq!(nanoseconds(999.7), "1.00 us");
        assert_eq!(nanoseconds(15_640_000.0), "15.6 ms");
        assert_eq!(nanoseconds(123_456_789_000.0), "123 s");
        assert_eq!(count(0), "0");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(123), "123");
    }
}
