//! A recording: requests in the order in which they were sent, and what came back.

use std::time::{SystemTime, UNIX_EPOCH};
use url::Url;

/// Requests and responses, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recording {
    /// The entries.
    pub entries: Vec<Entry>,
}

/// One request and its response.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// When it was sent, in microseconds since 1970.
    pub started_us: i64,
    /// From then to the end of the response, in seconds.
    pub seconds: f64,
    /// The page that it belongs to, as a browser tells it.
    pub page: Option<String>,
    /// The request.
    pub request: Asked,
    /// The response, if one came.
    pub response: Option<Answered>,
}

impl Entry {
    /// When the response had ended, in microseconds since 1970.
    #[must_use]
    pub fn ended_us(&self) -> i64 {
        self.started_us.saturating_add((self.seconds.clamp(0.0, 1e9) * 1e6) as i64)
    }

    /// Where a redirect leads to.
    #[must_use]
    pub fn redirect(&self) -> Option<Url> {
        let response =
            self.response.as_ref().filter(|response| [301, 302, 303, 307, 308].contains(&response.status))?;
        Url::parse(&self.request.url).ok()?.join(header(&response.headers, "location")?).ok()
    }
}

/// A request as it was sent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Asked {
    /// The method.
    pub method: String,
    /// The whole address.
    pub url: String,
    /// The header fields.
    pub headers: Vec<(String, String)>,
    /// The body, if there was one.
    pub body: Option<Body>,
}

/// A response as it came.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answered {
    /// The status.
    pub status: u16,
    /// The header fields.
    pub headers: Vec<(String, String)>,
    /// The content.
    pub body: Body,
}

/// Content, or why it is not there.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Body {
    /// Its content type.
    pub kind: String,
    /// Its length in bytes, also where the bytes are not kept.
    pub size: u64,
    /// The bytes, if they are kept.
    pub bytes: Option<Vec<u8>>,
    /// Why they are not, or what was changed in them.
    pub note: Option<String>,
}

impl Body {
    /// Whether these are the fields of a form.
    #[must_use]
    pub fn is_form(&self) -> bool {
        self.kind.to_ascii_lowercase().starts_with("application/x-www-form-urlencoded")
    }
}

/// The first value of a header field.
#[must_use]
pub fn header<'h>(headers: &'h [(String, String)], name: &str) -> Option<&'h str> {
    headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

/// Microseconds since 1970.
#[must_use]
pub fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// Microseconds since 1970 as ISO 8601 has them, in UTC.
#[must_use]
pub fn written_time(us: i64) -> String {
    let (days, of_day) = (us.div_euclid(86_400_000_000), us.rem_euclid(86_400_000_000));
    let (year, month, day) = civil(days);
    let (second, micro) = (of_day / 1_000_000, of_day % 1_000_000);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{micro:06}Z", second / 3600, second / 60 % 60, second % 60)
}

/// The same read again; `None` if it is no such time.
#[must_use]
pub fn read_time(text: &str) -> Option<i64> {
    let number =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<i64>().ok()).flatten();
    let (date, time) = text.trim().split_once(['T', 't', ' '])?;
    let mut parts = date.splitn(3, '-');
    let (year, month, day) = (number(parts.next()?)?, number(parts.next()?)?, number(parts.next()?)?);
    let zone_at = time.find(['Z', 'z', '+', '-']).unwrap_or(time.len());
    let (time, zone) = time.split_at(zone_at);
    let mut parts = time.splitn(3, ':');
    let (hour, minute, second) = (number(parts.next()?)?, number(parts.next()?)?, parts.next().unwrap_or("0"));
    let (second, fraction) = second.split_once('.').unwrap_or((second, ""));
    let digits: String = fraction.chars().chain("000000".chars()).take(6).collect();
    let within = (1..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    let (second, micro) = (number(second)?, number(&digits)?);
    if !within || hour > 24 || minute > 59 || second > 60 {
        return None;
    }
    let offset = match zone.split_at_checked(1) {
        Some((sign @ ("+" | "-"), rest)) => {
            let digits: String = rest.chars().filter(|letter| *letter != ':').collect();
            let (hours, minutes) = digits.split_at_checked(2)?;
            let minutes = number(hours)? * 60 + if minutes.is_empty() { 0 } else { number(minutes)? };
            if sign == "-" { -minutes } else { minutes }
        }
        _ => 0,
    };
    let seconds = days(year, month, day) * 86_400 + hour * 3600 + (minute - offset) * 60 + second;
    Some(seconds * 1_000_000 + micro)
}

/// Days since 1970 of a date of the Gregorian calendar (Howard Hinnant's algorithm, which counts years from March).
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year - era * 400;
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The date of a day since 1970.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let (day, month) = (of_year - (153 * shifted + 2) / 5 + 1, if shifted < 10 { shifted + 3 } else { shifted - 9 });
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_are_those_of_iso_8601() {
        for (text, us) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2026-11-21T18:14:19.5Z", 1_795_284_859_500_000),
            ("2026-11-21T19:14:19.500+01:00", 1_795_284_859_500_000),
            ("2024-02-29T23:59:59.999999-0030", 1_709_252_999_999_999),
        ] {
            assert_eq!(read_time(text), Some(us), "{text}");
        }
        for text in ["", "2026-11-21", "2026-13-01T00:00:00Z", "a-b-cTd:e:f", "2026-11-21T1:é"] {
            assert_eq!(read_time(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn times_come_back(us in -62_135_596_800_000_000_i64..253_402_300_799_000_000) {
            prop_assert_eq!(read_time(&written_time(us)), Some(us));
        }

        #[test]
        fn any_text_is_a_time_or_none(text in "[0-9TZ:.+ -]{0,30}|\\PC{0,12}") {
            let _either = read_time(&text);
        }
    }
}
