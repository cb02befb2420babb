//! Figures and names for people.

/// A time: three digits and a unit.
#[must_use]
pub fn nanoseconds(ns: f64) -> String {
    if !ns.is_finite() {
        return "-".to_owned();
    }
    let (value, unit) = match ns.abs() {
        // Adding zero makes of a negative zero a zero.
        size if size < 999.5 => return format!("{:.0} ns", ns.round() + 0.0),
        size if size < 999.5e3 => (ns / 1e3, "us"),
        size if size < 999.5e6 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    format!("{} {unit}", three_digits(value))
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

/// A count of any size that need not be whole: three digits, or whole with thousands set apart.
pub(crate) fn figure(number: f64) -> String {
    match number {
        number if !number.is_finite() => "-".to_owned(),
        // Whole hundreds have their three digits; what is beyond u64 is no count of ours, and saturates.
        number if number.abs() >= 99.95 => {
            format!("{}{}", if number < 0.0 { "-" } else { "" }, count(number.abs().round() as u64))
        }
        number if number == number.round() => format!("{:.0}", number + 0.0),
        number => three_digits(number),
    }
}

/// A size in decimal units.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    let size = bytes as f64;
    let (value, unit) = match size {
        size if size < 999.5 => return format!("{bytes} B"),
        size if size < 999.5e3 => (size / 1e3, "kB"),
        size if size < 999.5e6 => (size / 1e6, "MB"),
        size if size < 999.5e9 => (size / 1e9, "GB"),
        size => (size / 1e12, "TB"),
    };
    format!("{} {unit}", three_digits(value))
}

/// A share from 0 to 1, as a person says it.
#[must_use]
pub fn percent(share: f64) -> String {
    match share {
        share if !share.is_finite() => "-".to_owned(),
        0.0 => "0 %".to_owned(),
        share if share > 0.0 && share < 0.0005 => "<0.1 %".to_owned(),
        share if share.abs() < 0.0995 => format!("{:.1} %", 100.0 * share),
        share => format!("{:.0} %", 100.0 * share),
    }
}

/// A number with a fixed count of decimals.
pub(crate) fn decimal(number: f64, decimals: usize) -> String {
    if number.is_finite() { format!("{number:.decimals$}") } else { "-".to_owned() }
}

/// A share of which "100 %" must mean all: it is never rounded up.
pub(crate) fn percent_of_all(share: f64) -> String {
    match share {
        share if !share.is_finite() => "-".to_owned(),
        share if share >= 1.0 => "100 %".to_owned(),
        share => format!("{:.2} %", (share * 1e4).floor() / 100.0),
    }
}

/// A part of a whole, 0 where there is no whole.
pub(crate) fn share(part: f64, whole: f64) -> f64 {
    let share = part / whole;
    if whole > 0.0 && share.is_finite() { share } else { 0.0 }
}

/// Whether a character of a text from outside could change more than its own place: controls, which a terminal
/// obeys, and marks of direction, which make the text beside them read as something else.
pub(crate) fn is_unsafe(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Ties units to their figures with spaces that do not break.
pub(crate) fn join_units(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    let mut after_digit = false;
    for (index, word) in text.split(' ').enumerate() {
        let unit = word.trim_end_matches([',', ';', ':', '.', ')']);
        if index > 0 {
            joined.push(if after_digit && ["%", "ns", "us", "ms", "s"].contains(&unit) { '\u{a0}' } else { ' ' });
        }
        joined.push_str(word);
        after_digit = word.ends_with(|character: char| character.is_ascii_digit());
    }
    joined
}

fn three_digits(value: f64) -> String {
    let decimals = match value.abs() {
        size if size < 9.995 => 2,
        size if size < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
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
        assert_eq!(nanoseconds(-0.2), "0 ns");
        assert_eq!(nanoseconds(f64::NAN), "-");
        assert_eq!(count(0), "0");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(123), "123");
        assert_eq!(figure(4821.4), "4,821");
        assert_eq!(figure(12.34), "12.3");
        assert_eq!(figure(7.0), "7");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(62_100_000), "62.1 MB");
    }

    #[test]
    fn a_share_is_never_rounded_to_all_or_nothing() {
        assert_eq!(percent(0.58), "58 %");
        assert_eq!(percent(0.0001), "<0.1 %");
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent_of_all(0.999_99), "99.99 %");
        assert_eq!(percent_of_all(1.0), "100 %");
        assert_eq!(share(1.0, 0.0), 0.0);
        assert_eq!(share(f64::NAN, 1.0), 0.0);
    }

    #[test]
    fn units_stay_with_their_figures() {
        assert_eq!(join_units("it took 15 ms, 3 % of it"), "it took 15\u{a0}ms, 3\u{a0}% of it");
        assert_eq!(join_units("2 servers"), "2 servers");
    }

    #[test]
    fn what_a_terminal_would_obey_is_unsafe() {
        assert!(is_unsafe('\x1b') && is_unsafe('\n') && is_unsafe('\u{202e}') && is_unsafe('\u{9b}'));
        assert!(!is_unsafe('a') && !is_unsafe('ä') && !is_unsafe(' '));
    }
}
