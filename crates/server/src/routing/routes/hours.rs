//! Hours of the day, with the days of the week and the offset from UTC that they are meant in.

use std::fmt;

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const ALL_DAYS: u8 = 0x7f;
const DAY_MIN: i64 = 24 * 60;
/// The largest offset that any place has from UTC, in minutes.
const OFFSET_MIN_MAX: i64 = 14 * 60;
/// 1 January 1970 was a Thursday.
const FIRST_DAY: i64 = 3;

/// A window of time that comes again each week.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hours {
    /// A bit for each day, from Monday on.
    days: u8,
    /// Minutes since midnight; a window whose end lies before its begin lasts over midnight.
    from_min: i64,
    /// The first minute that is no longer in it.
    to_min: i64,
    /// Minutes that the clock meant is ahead of UTC.
    offset_min: i64,
    text: String,
}

impl Hours {
    /// Reads `[DAYS] [HH:MM-HH:MM] [ZONE]`, such as `Mon-Fri 08:00-18:00 +01:00`. Days are `Mon-Fri` or `Sat,Sun`, the
    /// zone is `UTC` or an offset from it; without days all are meant, without hours all of the day, without a zone
    /// UTC.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (mut days, mut hours, mut zone) = (None, None, None);
        for word in text.split_ascii_whitespace() {
            if hours.is_none()
                && zone.is_none()
                && days.is_none()
                && word.starts_with(|c: char| c.is_ascii_alphabetic())
                && word != "UTC"
            {
                days = Some(read_days(word)?);
            } else if hours.is_none() && zone.is_none() && word.starts_with(|c: char| c.is_ascii_digit()) {
                hours = Some(read_hours(word)?);
            } else if zone.is_none() {
                zone = Some(read_zone(word)?);
            } else {
                return None;
            }
        }
        if days.is_none() && hours.is_none() {
            return None;
        }
        let (from_min, to_min) = hours.unwrap_or((0, DAY_MIN));
        let mut said = text.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
        if zone.is_none() {
            said.push_str(" UTC");
        }
        Some(Self { days: days.unwrap_or(ALL_DAYS), from_min, to_min, offset_min: zone.unwrap_or(0), text: said })
    }

    /// Whether a time is in it.
    pub(crate) fn hold(&self, unix_s: u64) -> bool {
        let (day, minute) = self.local(unix_s);
        let is_of = |day: i64| self.days >> (day + FIRST_DAY).rem_euclid(7) & 1 == 1;
        if self.from_min < self.to_min {
            return is_of(day) && (self.from_min..self.to_min).contains(&minute);
        }
        // What begins on a day belongs to that day, also behind midnight.
        minute >= self.from_min && is_of(day) || minute < self.to_min && is_of(day - 1)
    }

    /// What the clock meant shows at a time, such as `Thu 21:09`.
    pub(crate) fn shown(&self, unix_s: u64) -> String {
        let (day, minute) = self.local(unix_s);
        let name = usize::try_from((day + FIRST_DAY).rem_euclid(7)).ok().and_then(|day| DAYS.get(day)).unwrap_or(&"");
        format!("{name} {:02}:{:02}", minute / 60, minute % 60)
    }

    /// Days since 1970 and minutes of the day.
    fn local(&self, unix_s: u64) -> (i64, i64) {
        let minutes = i64::try_from(unix_s / 60).unwrap_or(i64::MAX / 2) + self.offset_min;
        (minutes.div_euclid(DAY_MIN), minutes.rem_euclid(DAY_MIN))
    }
}

impl fmt::Display for Hours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn read_days(word: &str) -> Option<u8> {
    let of = |name: &str| DAYS.iter().position(|day| day.eq_ignore_ascii_case(name));
    let mut days = 0;
    for part in word.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (of(first)?, of(last)?);
        let count = (last + 7 - first) % 7;
        (0..=count).for_each(|day| days |= 1 << ((first + day) % 7));
    }
    Some(days)
}

fn read_hours(word: &str) -> Option<(i64, i64)> {
    let (from, to) = word.split_once('-')?;
    let (from, to) = (read_clock(from)?, read_clock(to)?);
    (from != to && from < DAY_MIN).then_some((from, to))
}

fn read_zone(word: &str) -> Option<i64> {
    if word == "UTC" || word == "Z" {
        return Some(0);
    }
    let sign = if word.starts_with('-') { -1 } else { 1 };
    let offset = read_clock(word.strip_prefix(['+', '-'])?)?;
    (offset <= OFFSET_MIN_MAX).then_some(sign * offset)
}

/// Minutes of `HH:MM`, up to 24:00.
fn read_clock(text: &str) -> Option<i64> {
    let (hour, minute) = text.split_once(':')?;
    let number = |text: &str| {
        let is_number = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse::<i64>().ok()).flatten()
    };
    let (hour, minute) = (number(hour)?, number(minute)?);
    (minute < 60 && hour * 60 + minute <= DAY_MIN).then_some(hour * 60 + minute)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Thursday, 26 November 2026, 00:00 UTC.
    const THURSDAY: u64 = 1_795_651_200;

    #[test]
    fn windows_are_of_their_days_and_their_zone() {
        for (text, hour, expected) in [
            ("08:00-18:00", 8.0, true),
            ("08:00-18:00", 18.0, false),
            ("08:00-18:00 +01:00", 7.0, true),
            ("08:00-18:00 +01:00", 17.5, false),
            ("Mon-Fri 08:00-18:00 UTC", 9.0, true),
            ("Sat,Sun", 9.0, false),
            ("thu", 23.9, true),
            ("thu", 24.0, false),
            ("Sat-Mon", 9.0, false),
            ("Thu 22:00-06:00", 23.0, true),
            ("Thu 22:00-06:00", 29.0, true),
            ("Thu 22:00-06:00", 5.0, false),
            ("00:00-24:00", 23.99, true),
            ("Fri -05:00", 28.0, false),
            ("Fri -05:00", 29.0, true),
        ] {
            let hours = Hours::read(text).expect(text);
            assert_eq!(hours.hold(THURSDAY + (hour * 3600.0) as u64), expected, "{text} {hour}");
        }
        let hours = Hours::read("08:00-18:00 +05:30").expect("hours");
        assert_eq!((hours.shown(THURSDAY).as_str(), hours.to_string().as_str()), ("Thu 05:30", "08:00-18:00 +05:30"));
    }

    #[test]
    fn what_is_no_window_is_refused() {
        for bad in [
            "",
            "UTC",
            "8-18",
            "08:00",
            "25:00-26:00",
            "08:00-08:00",
            "24:00-01:00",
            "Mo 08:00-09:00",
            "08:60-09:00",
            "08:00-09:00 CET",
            "08:00-09:00 +15:00",
            "08:00-09:00 UTC x",
            "08:00-09:00 Mon",
            "+1:00-09:00",
            "Mon-",
        ] {
            assert_eq!(Hours::read(bad), None, "{bad}");
        }
    }
}
