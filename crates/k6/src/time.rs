//! Times as texts: durations of Go, and dates.

use std::time::{Duration, SystemTime};

/// The longest duration, in seconds: a hundred years.
const LONGEST_S: f64 = 100.0 * 365.25 * 86400.0;

/// `1h30m`, `10s`, `1.5s`, `250ms`, `1d`; a number alone is milliseconds.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    if let Ok(milliseconds) = text.parse::<f64>() {
        return seconds(milliseconds / 1000.0);
    }
    let (mut rest, mut sum, mut is_any) = (text, 0.0, false);
    while !rest.is_empty() {
        let end = rest.find(|sign: char| !(sign.is_ascii_digit() || sign == '.'))?;
        let number: f64 = rest[..end].parse().ok()?;
        rest = &rest[end..];
        let units = [
            ("ms", 1e-3),
            ("us", 1e-6),
            ("µs", 1e-6),
            ("ns", 1e-9),
            ("d", 86400.0),
            ("h", 3600.0),
            ("m", 60.0),
            ("s", 1.0),
        ];
        let (unit, factor) = units.into_iter().find(|(unit, _)| rest.starts_with(unit))?;
        rest = &rest[unit.len()..];
        sum += number * factor;
        is_any = true;
    }
    if is_any { seconds(sum) } else { None }
}

fn seconds(value: f64) -> Option<Duration> {
    (0.0..=LONGEST_S).contains(&value).then(|| Duration::from_secs_f64(value))
}

/// A duration as k6 writes it: `1h30m0s`, `1m30s`, `2.5s`, `300ms`.
pub(crate) fn short(duration: Duration) -> String {
    let whole = duration.as_secs();
    if whole == 0 && !duration.is_zero() {
        let milliseconds = duration.as_secs_f64() * 1000.0;
        return format!("{}ms", (milliseconds * 1000.0).round() / 1000.0);
    }
    let (hours, minutes) = (whole / 3600, whole % 3600 / 60);
    let part = (duration.as_secs_f64() % 60.0 * 1000.0).round() / 1000.0;
    match (hours, minutes) {
        (0, 0) => format!("{part}s"),
        (0, minutes) => format!("{minutes}m{part}s"),
        (hours, minutes) => format!("{hours}h{minutes}m{part}s"),
    }
}

/// Days since 1970 of a civil date (proleptic Gregorian calendar).
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// A date as cookies have it: `Wed, 21 Oct 2015 07:28:00 GMT`, with spaces or hyphens, or `2015-10-21T07:28:00Z`.
pub(crate) fn http_date(text: &str) -> Option<SystemTime> {
    const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let parts: Vec<&str> = text.split([' ', ',', '-', 'T', 'Z']).filter(|part| !part.is_empty()).collect();
    let (mut day, mut month, mut year, mut clock) = (None, None, None, None);
    for part in parts {
        let lower = part.to_ascii_lowercase();
        if let Some(at) = MONTHS.iter().position(|name| lower.get(..3) == Some(name)) {
            month = Some(at as i64 + 1);
        } else if part.contains(':') {
            clock = Some(part);
        } else if let Ok(number) = part.parse::<i64>() {
            match number {
                1601..=9999 if year.is_none() => year = Some(number),
                1..=12 if month.is_none() && year.is_some() => month = Some(number),
                1..=31 if day.is_none() => day = Some(number),
                0..=69 if year.is_none() => year = Some(2000 + number),
                70..=99 if year.is_none() => year = Some(1900 + number),
                _ => {}
            }
        }
    }
    let mut of_day = 0;
    for (part, factor) in clock?.split(':').zip([3600, 60, 1]) {
        of_day += part.split('.').next()?.parse::<i64>().ok().filter(|part| (0..=60).contains(part))? * factor;
    }
    let since = days_of(year?, month?, day?).checked_mul(86400)?.checked_add(of_day)?;
    let span = Duration::from_secs(since.unsigned_abs());
    if since < 0 { SystemTime::UNIX_EPOCH.checked_sub(span) } else { SystemTime::UNIX_EPOCH.checked_add(span) }
}

/// `2026-11-30T07:40:00Z`.
pub(crate) fn utc_text(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs() as i64;
    let (days, of_day) = (since / 86400, since % 86400);
    // The inverse of `days_of`.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3600, of_day % 3600 / 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_of_go_are_read() {
        let read = |text| duration(text).map(|duration| duration.as_millis());
        assert_eq!(read("1h30m"), Some(5_400_000));
        assert_eq!(read("1m1.5s"), Some(61_500));
        assert_eq!((read("250ms"), read("250"), read("0")), (Some(250), Some(250), Some(0)));
        assert_eq!((read("1x"), read(""), read("s"), read("-1s"), read("1e300")), (None, None, None, None, None));
        assert_eq!(short(Duration::from_secs(5430)), "1h30m30s");
        assert_eq!(
            (short(Duration::from_millis(2500)), short(Duration::from_millis(300))),
            ("2.5s".into(), "300ms".into())
        );
    }

    #[test]
    fn dates_of_cookies_are_read() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_445_412_480);
        assert_eq!(http_date("Wed, 21 Oct 2015 07:28:00 GMT"), Some(at));
        assert_eq!(http_date("Wed, 21-Oct-15 07:28:00 GMT"), Some(at));
        assert_eq!(http_date("2015-10-21T07:28:00Z"), Some(at));
        assert_eq!((http_date(""), http_date("tomorrow")), (None, None));
        assert_eq!(utc_text(at), "2015-10-21T07:28:00Z");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(seconds in 0u64..4_000_000_000) {
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            prop_assert_eq!(http_date(&utc_text(at)), Some(at));
        }

        #[test]
        fn no_text_stops_the_readers(text in ".{0,40}") {
            let _ = (duration(&text), http_date(&text));
        }
    }
}
