//! How long a request took, as logs write it.

/// Seconds with their parts behind a point, as nginx writes `$request_time`, in nanoseconds. A number without a point is
/// none: it may be of any unit.
pub(crate) fn of_seconds(text: &str) -> Option<i128> {
    let (whole, fraction) = text.split_once('.')?;
    let is_digits = |text: &str| !text.is_empty() && text.len() < 12 && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    let parts: f64 = format!("0.{fraction}").parse().ok()?;
    // Less than a second.
    Some(whole.parse::<i128>().ok()? * 1_000_000_000 + (parts * 1e9).round() as i128)
}

/// With units, as Go writes durations: `1m2.5s`, `102.3ms`, `7µs`.
pub(crate) fn with_units(text: &str) -> Option<i128> {
    let mut rest = text;
    let mut sum_ns = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').filter(|at| *at > 0)?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let unit = rest.find(|letter: char| letter.is_ascii_digit()).unwrap_or(rest.len());
        let unit_ns = match &rest[..unit] {
            "h" => 3600e9,
            "m" => 60e9,
            "s" => 1e9,
            "ms" => 1e6,
            "us" | "µs" | "μs" => 1e3,
            "ns" => 1.0,
            _ => return None,
        };
        sum_ns += number * unit_ns;
        rest = &rest[unit..];
    }
    (!text.is_empty() && sum_ns < 1e18).then(|| sum_ns.round() as i128)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_their_units() {
        assert_eq!((of_seconds("0.102"), of_seconds("6.000")), (Some(102_000_000), Some(6_000_000_000)));
        assert!(["", "6", "-", ".5", "0.1s", "-0.1"].iter().all(|text| of_seconds(text).is_none()));
        for (text, ns) in
            [("1m2.5s", 62_500_000_000), ("102.3ms", 102_300_000), ("7µs", 7000), ("0s", 0), ("1h", 3_600_000_000_000)]
        {
            assert_eq!(with_units(text), Some(ns), "{text}");
        }
        assert!(["", "5", "s", "1x", "-1s", "1s2"].iter().all(|text| with_units(text).is_none()));
    }
}
