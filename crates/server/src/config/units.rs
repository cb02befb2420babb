//! Parses sizes and times with units, such as `1 MiB` and `10 s`.

use std::time::Duration;

/// `16 KiB`, `1MiB`, `512 B`: a number and its unit.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let factor: u64 = match unit {
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(factor)
}

/// `10 s`, `500ms`, `1 day`: a number and its unit.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = split(text)?;
    let seconds = match unit {
        "ms" => return Some(Duration::from_millis(number)),
        "s" => 1,
        "min" => 60,
        "h" => 3600,
        "day" | "days" => 86_400,
        _ => return None,
    };
    number.checked_mul(seconds).map(Duration::from_secs)
}

fn split(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    Some((number.parse().ok()?, unit.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units() {
        assert_eq!(bytes("16 KiB"), Some(16 << 10));
        assert_eq!(bytes(" 3GiB "), Some(3 << 30));
        assert_eq!(duration("10 s"), Some(Duration::from_secs(10)));
        assert_eq!(duration("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(duration("2 days"), Some(Duration::from_secs(172_800)));
        for bad in ["", "16", "KiB", "-1 s", "1.5 s", "1 kB", "99999999999999999999 s", "18446744073709551615 GiB"] {
            assert_eq!((bytes(bad), duration(bad)), (None, None), "{bad}");
        }
    }
}
