//! Values with their units, as k6 writes them.

/// A value of a metric as a person reads it.
pub(crate) fn humanized(value: f64, kind: &str, contains: &str, unit: &str) -> String {
    match (kind, contains) {
        ("rate", _) => {
            let cut = (value * 100.0 * 100.0).trunc() / 100.0;
            format!("{cut:.2}%")
        }
        (_, "data") => bytes(value),
        (_, "time") => time(value, unit),
        _ => number(value, 6),
    }
}

/// At most so many digits behind the point, without zeros at the end.
pub(crate) fn number(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Bytes in powers of 1000.
pub(crate) fn bytes(value: f64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"];
    if value < 10.0 {
        return format!("{} B", number(value, 0));
    }
    let power = (value.ln() / 1000f64.ln()).floor().clamp(0.0, 8.0);
    let scaled = (value / 1000f64.powf(power) * 10.0 + 0.5).floor() / 10.0;
    let text = if scaled < 10.0 { format!("{scaled:.1}") } else { format!("{scaled:.0}") };
    format!("{text} {}", units[power as usize])
}

/// Milliseconds in the unit that fits, or in a given one.
pub(crate) fn time(milliseconds: f64, unit: &str) -> String {
    match unit {
        "s" => return format!("{:.2}s", milliseconds / 1000.0),
        "ms" => return format!("{milliseconds:.2}ms"),
        "us" => return format!("{:.2}µs", milliseconds * 1000.0),
        _ => {}
    }
    if milliseconds == 0.0 {
        return "0s".to_owned();
    }
    let cut = |value: f64| number((value * 100.0).trunc() / 100.0, 2);
    if milliseconds < 0.001 {
        return format!("{}ns", (milliseconds * 1e6).trunc());
    }
    if milliseconds < 1.0 {
        return format!("{}µs", cut(milliseconds * 1000.0));
    }
    if milliseconds < 1000.0 {
        return format!("{}ms", cut(milliseconds));
    }
    let seconds = milliseconds / 1000.0;
    if seconds < 60.0 {
        return format!("{}s", cut(seconds));
    }
    let (minutes, rest) = ((seconds / 60.0).floor(), (seconds % 60.0).floor());
    if minutes < 60.0 {
        format!("{minutes}m{rest}s")
    } else {
        format!("{}h{}m{rest}s", (minutes / 60.0).floor(), minutes % 60.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_units_of_k6() {
        // As k6 1.8.1 printed them.
        assert_eq!(
            (time(6.6508775, ""), time(0.839929, ""), time(1.5, "")),
            ("6.65ms".into(), "839.92µs".into(), "1.5ms".into())
        );
        assert_eq!(
            (bytes(4062.0), bytes(50034.95), bytes(426.0), bytes(5247.38)),
            ("4.1 kB".into(), "50 kB".into(), "426 B".into(), "5.2 kB".into())
        );
        assert_eq!(humanized(0.52, "rate", "default", ""), "52.00%");
        assert_eq!((number(307.945293, 6), number(12345.678, 6)), ("307.945293".into(), "12345.678".into()));
        assert_eq!((time(90_500.0, ""), time(0.0, ""), time(12.0, "s")), ("1m30s".into(), "0s".into(), "0.01s".into()));
    }
}
