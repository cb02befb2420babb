//! DER (X.690), as far as certificates and OCSP responses need it.

/// Tags.
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const OCTETS: u8 = 0x04;
pub(crate) const OBJECT: u8 = 0x06;
pub(crate) const ENUMERATED: u8 = 0x0a;
pub(crate) const UTC_TIME: u8 = 0x17;
pub(crate) const GENERALIZED_TIME: u8 = 0x18;
/// The first one of those that are told apart by numbers; in a certificate that is its version.
pub(crate) const FIRST: u8 = 0xa0;
pub(crate) const VERSION: u8 = FIRST;

/// The rest of some DER.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Der<'d>(pub(super) &'d [u8]);

impl Der<'_> {
    /// The content of the next value, which must have this tag.
    pub(crate) fn take(&mut self, tag: u8) -> Option<Self> {
        let (found, content) = self.next()?;
        (found == tag).then_some(content)
    }

    /// Whether the next value has this tag.
    pub(crate) fn is_next(&self, tag: u8) -> bool {
        self.0.first() == Some(&tag)
    }

    /// The tag of the next value, and its content.
    pub(crate) fn next(&mut self) -> Option<(u8, Self)> {
        let (&tag, rest) = self.0.split_first()?;
        let (&short, mut rest) = rest.split_first()?;
        let len = if short < 0x80 {
            usize::from(short)
        } else {
            // So many bytes with the length follow; four are more than any certificate needs.
            let count = usize::from(short & 0x7f);
            let (len, after) = rest.split_at_checked(count).filter(|_| (1..=4).contains(&count))?;
            rest = after;
            len.iter().fold(0, |len, &byte| len << 8 | usize::from(byte))
        };
        let (content, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some((tag, Self(content)))
    }

    /// A time, in seconds since 1970 (negative before).
    pub(crate) fn time(&mut self) -> Option<i64> {
        let (tag, content) = self.next()?;
        let digits = content.0.strip_suffix(b"Z")?;
        let (year, digits) = match tag {
            UTC_TIME => {
                let (year, digits) = number(digits, 2)?;
                (if year < 50 { 2000 + year } else { 1900 + year }, digits)
            }
            GENERALIZED_TIME => number(digits, 4)?,
            _ => return None,
        };
        let (month, digits) = number(digits, 2)?;
        let (day, digits) = number(digits, 2)?;
        let (hour, digits) = number(digits, 2)?;
        let (minute, digits) = number(digits, 2)?;
        let (second, rest) = number(digits, 2)?;
        let is_time = (1..=12).contains(&month)
            && (1..=31).contains(&day)
            && hour < 24
            && minute < 60
            && second < 60
            && rest.is_empty();
        is_time.then(|| days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
    }
}

/// A number of so many decimal digits, and what follows them.
fn number(text: &[u8], digits: usize) -> Option<(i64, &[u8])> {
    let (digits, rest) = text.split_at_checked(digits)?;
    let is_number = digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| (digits.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0')), rest))
}

/// Days from 1970-01-01 to a date of the Gregorian calendar; years begin with March here, so that the leap day is a
/// year's last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}
