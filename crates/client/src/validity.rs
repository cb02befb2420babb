//! When a certificate is valid, by its own word.

use crate::der::element;

/// From when to when, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Validity {
    pub(crate) from_s: i64,
    pub(crate) until_s: i64,
}

const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

impl Validity {
    /// The validity of a certificate (DER; RFC 5280 4.1.2.5); `None` where it cannot be read.
    pub(crate) fn of(certificate: &[u8]) -> Option<Self> {
        let (_, certificate, _) = element(certificate)?;
        let (_, mut fields, _) = element(certificate)?;
        if fields.first() == Some(&0xa0) {
            fields = element(fields)?.2;
        }
        // Serial number, signature's algorithm, issuer.
        for _ in 0..3 {
            fields = element(fields)?.2;
        }
        let (_, times, _) = element(fields)?;
        let (tag, from, times) = element(times)?;
        let from_s = seconds(tag, from)?;
        let (tag, until, _) = element(times)?;
        Some(Self { from_s, until_s: seconds(tag, until)? })
    }
}

/// `YYMMDDhhmmssZ` or `YYYYMMDDhhmmssZ`.
fn seconds(tag: u8, text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<u32>().ok().map(i64::from);
    let (year, at) = match tag {
        // RFC 5280 4.1.2.5.1: from 50 on it is of the last century.
        UTC_TIME => (number(0, 2).map(|year| if year >= 50 { 1900 + year } else { 2000 + year })?, 2),
        GENERALIZED_TIME => (number(0, 4)?, 4),
        _ => return None,
    };
    let part = |place: usize| number(at + 2 * place, at + 2 * place + 2);
    let days = days_to(year, part(0)?, part(1)?)?;
    Some(((days * 24 + part(2)?) * 60 + part(3)?) * 60 + part(4)?)
}

/// Days from 1970 to a date of the Gregorian calendar.
fn days_to(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years begin in March, so that the leap day is a year's last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    Some(year * 365 + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        // date -u -d '2026-11-26 12:34:56' +%s
        assert_eq!(seconds(UTC_TIME, b"261126123456Z"), Some(1_795_696_496));
        assert_eq!(seconds(GENERALIZED_TIME, b"20261126123456Z"), Some(1_795_696_496));
        assert_eq!(seconds(UTC_TIME, b"700101000000Z"), Some(0));
        assert_eq!(seconds(GENERALIZED_TIME, b"20000229000000Z"), Some(951_782_400));
        assert_eq!(seconds(UTC_TIME, b"491231235959Z"), Some(2_524_607_999));
        for wrong in [&b"261326123456Z"[..], b"2611261234Z", b"261126123456", b"", b"26112612345\xffZ"] {
            assert_eq!(seconds(UTC_TIME, wrong), None);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_to_times_or_none(bytes: Vec<u8>) {
            let _ = Validity::of(&bytes);
        }
    }
}
