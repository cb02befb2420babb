//! Times as logs write them.

use crate::calendar::days_since_1970;

/// `10/Oct/2000:13:55:36 -0700` in seconds since 1970.
pub(crate) fn log_time(text: &str) -> Option<i64> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (local, zone) = text.split_once(' ').unwrap_or((text, "+0000"));
    let (date, clock) = local.split_once(':')?;
    let mut parts = date.split('/');
    let (day, month, year) = (parts.next()?, parts.next()?, parts.next()?);
    let month = MONTHS.iter().position(|name| *name == month)? as i64 + 1;
    at(number(year, 4)?, month, number(day, 2)?, clock, zone_s(zone)?)
}

/// `2026-11-23T00:07:01.250Z` or `2026-11-23 00:07:01+01:00` in seconds since 1970, and the nanoseconds where it has them.
pub(crate) fn rfc3339(text: &str) -> Option<(i64, Option<u32>)> {
    let (date, rest) = (text.get(..10)?, text.get(11..)?);
    if !matches!(text.as_bytes()[10], b'T' | b't' | b' ') {
        return None;
    }
    let mut parts = date.split('-');
    let (year, month, day) = (number(parts.next()?, 4)?, number(parts.next()?, 2)?, number(parts.next()?, 2)?);
    let (clock, rest) = (rest.get(..8)?, rest.get(8..)?);
    let digits = rest.strip_prefix('.').map_or(0, |rest| rest.bytes().take_while(u8::is_ascii_digit).count());
    let (fraction, zone) = if digits == 0 { ("", rest) } else { (&rest[1..=digits], &rest[1 + digits..]) };
    let zone = match zone.trim_start() {
        "" | "Z" | "z" => 0,
        zone => zone_s(zone)?,
    };
    let kept = fraction.get(..9).unwrap_or(fraction);
    // At most nine digits fit.
    let nanosecond = kept.parse::<u32>().ok().map(|number| number * 10u32.pow(9 - kept.len() as u32));
    Some((at(year, month, day, clock, zone)?, nanosecond))
}

fn at(year: i64, month: i64, day: i64, clock: &str, zone_s: i64) -> Option<i64> {
    let mut parts = clock.split(':').map(|part| number(part, 2));
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    let is_time = parts.next().is_none() && hour <= 23 && minute <= 59 && second <= 60;
    if !is_time || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    Some(days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - zone_s)
}

/// `-0700` or `-07:00` in seconds.
fn zone_s(zone: &str) -> Option<i64> {
    let sign = match zone.get(..1)? {
        "+" => 1,
        "-" => -1,
        _ => return None,
    };
    let rest = zone.get(3..)?;
    let minutes = number(rest.strip_prefix(':').unwrap_or(rest), 2)?;
    Some(sign * (number(zone.get(1..3)?, 2)? * 3600 + minutes * 60))
}

/// A number of exactly so many digits.
fn number(text: &str, digits: usize) -> Option<i64> {
    (text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_zones() {
        assert_eq!(log_time("10/Oct/2000:13:55:36 -0700"), Some(971_211_336));
        assert_eq!(log_time("10/Oct/2000:13:55:36"), Some(971_186_136));
        assert_eq!(log_time("10/Okt/2000:13:55:36 +0000"), None);
        assert_eq!(rfc3339("2000-10-10T13:55:36-07:00"), Some((971_211_336, None)));
        assert_eq!(rfc3339("2000-10-10T20:55:36.25Z"), Some((971_211_336, Some(250_000_000))));
        assert_eq!(rfc3339("2000-10-10 20:55:36.1234567891Z"), Some((971_211_336, Some(123_456_789))));
        for bad in [
            "",
            "2000-10-10",
            "2000-10-10T20:55",
            "2000-13-10T20:55:36Z",
            "2000-10-10T20:55:36X",
            "2000-10-10é20:55:36Z",
        ] {
            assert_eq!(rfc3339(bad), None, "{bad}");
        }
    }
}
