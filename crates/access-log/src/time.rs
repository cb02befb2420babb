//! Times as logs write them.

use crate::calendar::days_since_1970;

/// Nanoseconds of a second.
const SECOND_NS: i128 = 1_000_000_000;
/// A number from here on is a time of a server: before 1990 there was none.
const NUMBER_S_MIN: i128 = 631_152_000;
/// And up to here: the year 2106.
const NUMBER_S_MAX: i128 = 4_294_967_296;
/// No request takes longer, seconds.
const DURATION_S_MAX: i128 = 7 * 86_400;

/// A time of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Seconds since 1970.
    pub(crate) second: i64,
    /// The nanosecond within that second, where the log writes parts of seconds.
    pub(crate) nanosecond: Option<u32>,
}

impl Moment {
    /// So much earlier; whole seconds stay whole ones.
    pub(crate) fn before(self, duration_ns: i128) -> Self {
        if !(0..=DURATION_S_MAX * SECOND_NS).contains(&duration_ns) {
            return self;
        }
        let Some(nanosecond) = self.nanosecond else {
            return Self { second: self.second - ((duration_ns + SECOND_NS / 2) / SECOND_NS) as i64, ..self };
        };
        let ns = i128::from(self.second) * SECOND_NS + i128::from(nanosecond) - duration_ns;
        // A difference of some days fits, and so does the rest of a second.
        Self { second: ns.div_euclid(SECOND_NS) as i64, nanosecond: Some(ns.rem_euclid(SECOND_NS) as u32) }
    }
}

/// A date with its time, as in `10/Oct/2000:13:55:36 -0700`, `2026-11-23T00:07:01.250Z`, `2026-11-23 00:07:01,250`,
/// `2026/11/23 00:07:01`, `Thu, 12 Mar 2026 12:00:00 GMT` or `Thu Mar 12 12:00:00 2026`. Without a zone it is UTC.
pub(crate) fn calendar(text: &str) -> Option<Moment> {
    let text = text.trim();
    match text.as_bytes().first()? {
        b'0'..=b'9' => match text.as_bytes().get(4)? {
            b'-' | b'/' => by_numbers(text),
            _ => log_time(text),
        },
        b'A'..=b'Z' => by_weekday(text),
        _ => None,
    }
}

/// Seconds since 1970 as a number, or milliseconds, microseconds or nanoseconds, as a plausible time of a server.
pub(crate) fn since_1970(text: &str) -> Option<Moment> {
    let (whole, fraction) = text.split_once('.').map_or((text, None), |(whole, fraction)| (whole, Some(fraction)));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(whole) || fraction.is_some_and(|fraction| !is_digits(fraction)) || whole.len() > 20 {
        return by_exponent(text);
    }
    let number: i128 = whole.parse().ok()?;
    for unit in [1, 1000, 1_000_000, SECOND_NS] {
        let second = number / unit;
        if (NUMBER_S_MIN..NUMBER_S_MAX).contains(&second) {
            let of_unit_ns = SECOND_NS / unit;
            let parts = fraction.map(|digits| i128::from(nanoseconds(digits)) * of_unit_ns / SECOND_NS);
            let is_whole = unit == 1 && parts.is_none();
            let nanosecond = (number % unit) * of_unit_ns + parts.unwrap_or(0);
            return Some(Moment { second: second as i64, nanosecond: (!is_whole).then_some(nanosecond as u32) });
        }
    }
    None
}

/// A number with an exponent, as some writers of JSON have it.
fn by_exponent(text: &str) -> Option<Moment> {
    if !text.contains(['e', 'E']) {
        return None;
    }
    let number: f64 = text.parse().ok()?;
    if !(0.0..1e20).contains(&number) {
        return None;
    }
    since_1970(&format!("{number:.6}"))
}

/// `10/Oct/2000:13:55:36 -0700`.
fn log_time(text: &str) -> Option<Moment> {
    let (date, rest) = (text.get(..11)?, text.get(11..)?);
    let mut parts = date.split('/');
    let (day, month, year) = (parts.next()?, parts.next()?, parts.next()?);
    let rest = rest.strip_prefix([':', ' '])?;
    at(number(year, 4)?, month_named(month)?, number(day, 2)?, rest)
}

/// `2026-11-23T00:07:01.250Z`.
fn by_numbers(text: &str) -> Option<Moment> {
    let (date, rest) = (text.get(..10)?, text.get(10..)?);
    let mut parts = date.split(['-', '/']);
    let (year, month, day) = (number(parts.next()?, 4)?, number(parts.next()?, 2)?, number(parts.next()?, 2)?);
    at(year, month, day, rest.strip_prefix(['T', 't', ' ', ':', '_'])?)
}

/// `Thu, 12 Mar 2026 12:00:00 GMT` or `Thu Mar 12 12:00:00.123456 2026`.
fn by_weekday(text: &str) -> Option<Moment> {
    let mut words = text.split_ascii_whitespace().skip(1);
    let (first, second, third, fourth) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let zone = words.next().unwrap_or("GMT");
    let day = |text: &str| text.parse().ok().filter(|day| (1..=31).contains(day));
    if let Some(month) = month_named(first) {
        let zone = if zone == "GMT" { "" } else { zone };
        return at(number(fourth, 4)?, month, day(second)?, &format!("{third}{zone}"));
    }
    at(number(third, 4)?, month_named(second)?, day(first)?, &format!("{fourth} {zone}"))
}

/// A date and the rest of its time: clock, fraction and zone.
fn at(year: i64, month: i64, day: i64, rest: &str) -> Option<Moment> {
    let (clock, rest) = (rest.get(..8)?, rest.get(8..)?);
    let mut parts = clock.split(':').map(|part| number(part, 2));
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    let is_time = parts.next().is_none() && hour <= 23 && minute <= 59 && second <= 60;
    if !is_time || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Some have Apache write milliseconds behind a colon, and Log4j writes them behind a comma.
    let digits = rest.strip_prefix(['.', ',', ':']);
    let count = digits.map_or(0, |rest| rest.bytes().take_while(u8::is_ascii_digit).count());
    let (fraction, zone) = match digits {
        Some(digits) if count > 0 => (Some(&digits[..count]), &digits[count..]),
        _ => (None, rest),
    };
    let second = days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - zone_s(zone.trim())?;
    Some(Moment { second, nanosecond: fraction.map(nanoseconds) })
}

/// Digits behind the point of a second; from the tenth on they are too fine.
fn nanoseconds(digits: &str) -> u32 {
    let kept = digits.get(..9).unwrap_or(digits);
    // At most nine digits fit.
    kept.parse::<u32>().map_or(0, |number| number * 10u32.pow(9 - kept.len() as u32))
}

fn month_named(name: &str) -> Option<i64> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    MONTHS.iter().position(|month| *month == name).map(|place| place as i64 + 1)
}

/// `-0700`, `-07:00` or `-07` in seconds; 0 for UTC by name or where there is none.
fn zone_s(zone: &str) -> Option<i64> {
    let sign = match zone.get(..1) {
        None => return Some(0),
        Some("+") => 1,
        Some("-") => -1,
        Some(_) => return matches!(zone, "Z" | "z" | "UTC" | "GMT").then_some(0),
    };
    let rest = zone.get(3..)?;
    let minutes = if rest.is_empty() { 0 } else { number(rest.strip_prefix(':').unwrap_or(rest), 2)? };
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
    fn dates_are_read_in_every_form() {
        let of = |text: &str| calendar(text).map(|moment| (moment.second, moment.nanosecond));
        for (text, nanosecond) in [
            ("10/Oct/2000:13:55:36 -0700", None),
            ("10/Oct/2000:20:55:36", None),
            ("10/Oct/2000:13:55:36.250 -0700", Some(250_000_000)),
            ("10/Oct/2000:13:55:36,250 -0700", Some(250_000_000)),
            ("10/Oct/2000:13:55:36:250 -0700", Some(250_000_000)),
            ("10/Oct/2000 20:55:36", None),
            ("10/Oct/2000:20:55:36.000 UTC", Some(0)),
            ("2000-10-10T13:55:36-07:00", None),
            ("2000-10-10T13:55:36-07", None),
            ("2000-10-10T20:55:36.25Z", Some(250_000_000)),
            ("2000-10-10T20:55:36.250+0000", Some(250_000_000)),
            ("2000-10-10 20:55:36.1234567891Z", Some(123_456_789)),
            ("2000-10-10 20:55:36,250", Some(250_000_000)),
            ("2000-10-10 13:55:36 -0700", None),
            ("2000/10/10 20:55:36", None),
            ("Tue, 10 Oct 2000 20:55:36 GMT", None),
            ("Tue Oct 10 20:55:36 2000", None),
            ("Tue Oct 10 20:55:36.250000 2000", Some(250_000_000)),
        ] {
            assert_eq!(of(text), Some((971_211_336, nanosecond)), "{text}");
        }
        for bad in [
            "",
            "10/Okt/2000:13:55:36 +0000",
            "2000-10-10",
            "2000-10-10T20:55",
            "2000-13-10T20:55:36Z",
            "2000-10-10T20:55:36X",
            "2000-10-10é20:55:36Z",
            "2000-10-10T24:55:36Z",
            "0.003",
            "PORT 80",
            "Tue Oct",
        ] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }

    #[test]
    fn numbers_are_times_where_a_server_can_have_had_them() {
        let of = |text: &str| since_1970(text).map(|moment| (moment.second, moment.nanosecond));
        assert_eq!(of("971211336"), Some((971_211_336, None)));
        for text in [
            "971211336.25",
            "971211336250",
            "971211336250.0",
            "971211336250000",
            "971211336250000000",
            "9.7121133625e8",
        ] {
            assert_eq!(of(text), Some((971_211_336, Some(250_000_000))), "{text}");
        }
        assert_eq!(of("1773316800.123456789"), Some((1_773_316_800, Some(123_456_789))));
        // Durations and numbers of threads are none.
        for bad in ["", "0.012", "12", "-971211336", "140234567", "1e300", "1e-3", "971211336.2.5", "NaN", "123456"] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_begin_is_an_end_without_what_it_took() {
        let end = Moment { second: 10, nanosecond: Some(100_000_000) };
        assert_eq!(end.before(250_000_000), Moment { second: 9, nanosecond: Some(850_000_000) });
        let whole = Moment { second: 10, nanosecond: None };
        assert_eq!((whole.before(400_000_000), whole.before(6_000_000_000).second), (whole, 4));
        assert_eq!((end.before(-1), end.before(i128::MAX)), (end, end));
    }
}
