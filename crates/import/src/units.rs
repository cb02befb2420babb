//! Times and sizes as other servers write them.

/// `30d`, `1h 30m`, `500ms`, `60` as milliseconds.
pub(crate) fn milliseconds(text: &str) -> Option<u64> {
    let mut total: u64 = 0;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        let (number, behind) = rest.split_at(end);
        let number: u64 = number.parse().ok()?;
        let end = behind.find(|letter: char| letter.is_ascii_digit() || letter == ' ').unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(end);
        let factor: u64 = match unit {
            "ms" => 1,
            "" | "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 7 * 86_400_000,
            "M" => 30 * 86_400_000,
            "y" => 365 * 86_400_000,
            _ => return None,
        };
        total = total.checked_add(number.checked_mul(factor)?)?;
        rest = behind.trim_start();
    }
    Some(total)
}

/// A time as weir writes it, within 1 ms and a day.
pub(crate) fn time(milliseconds: u64) -> String {
    let milliseconds = milliseconds.clamp(1, 86_400_000);
    match milliseconds {
        even if even % 60_000 == 0 => format!("{} min", even / 60_000),
        even if even % 1000 == 0 => format!("{} s", even / 1000),
        other => format!("{other} ms"),
    }
}

/// `10m`, `8k`, `1g` as bytes.
pub(crate) fn bytes(text: &str) -> Option<u64> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_are_read() {
        assert_eq!(milliseconds("1h 30m"), Some(5_400_000));
        assert_eq!(milliseconds("30d"), Some(30 * 86_400_000));
        assert_eq!(milliseconds("60"), Some(60_000));
        assert_eq!(milliseconds("500ms"), Some(500));
        assert_eq!(milliseconds("1x"), None);
        assert_eq!(milliseconds("99999999999999999999y"), None);
        assert_eq!((time(90_000), time(1500), time(120_000)), ("90 s".into(), "1500 ms".into(), "2 min".into()));
        assert_eq!((bytes("10m"), bytes("8K"), bytes("x")), (Some(10 << 20), Some(8 << 10), None));
    }
}
