//! From when to when a certificate is valid: the one field of X.509 (RFC 5280 section 4.1.2.5) that users must watch.

/// Tags of DER (X.690).
const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// When a certificate in DER ends to be valid, in seconds since 1970 (negative before); none if it cannot be read.
pub(crate) fn not_after_unix_s(certificate: &[u8]) -> Option<i64> {
    let mut certificate = Der(certificate).take(SEQUENCE)?;
    let mut fields = certificate.take(SEQUENCE)?;
    // The version is left out where it is the first.
    if fields.0.first() == Some(&VERSION) {
        fields.take(VERSION)?;
    }
    // Serial number, algorithm of the signature, issuer.
    for tag in [INTEGER, SEQUENCE, SEQUENCE] {
        fields.take(tag)?;
    }
    let mut validity = fields.take(SEQUENCE)?;
    validity.time()?;
    validity.time()
}

/// The rest of some DER.
struct Der<'d>(&'d [u8]);

impl Der<'_> {
    /// The content of the next value, which must have this tag.
    fn take(&mut self, tag: u8) -> Option<Self> {
        let (found, content) = self.next()?;
        (found == tag).then_some(content)
    }

    fn next(&mut self) -> Option<(u8, Self)> {
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

    fn time(&mut self) -> Option<i64> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A certificate with nothing in it but what stands before its times, and these.
    fn certificate(times: &[(u8, String)]) -> Vec<u8> {
        let value = |tag: u8, content: &[u8]| {
            let len = content.len() as u8;
            let head = if len < 0x80 { vec![tag, len] } else { vec![tag, 0x81, len] };
            [head.as_slice(), content].concat()
        };
        let times: Vec<u8> = times.iter().flat_map(|(tag, text)| value(*tag, text.as_bytes())).collect();
        let fields = [
            value(VERSION, &value(INTEGER, &[2])),
            value(INTEGER, &[7; 16]),
            value(SEQUENCE, &[6, 1, 1]),
            value(SEQUENCE, &[]),
            value(SEQUENCE, &times),
            value(SEQUENCE, &[]),
        ];
        value(SEQUENCE, &value(SEQUENCE, &fields.concat()))
    }

    #[test]
    fn both_forms_of_times_are_read() {
        let of =
            |tag, text: &str| not_after_unix_s(&certificate(&[(UTC_TIME, "700101000000Z".into()), (tag, text.into())]));
        assert_eq!(of(UTC_TIME, "700101000000Z"), Some(0));
        assert_eq!(of(UTC_TIME, "491231235959Z"), Some(2_524_607_999));
        assert_eq!(of(UTC_TIME, "500101000000Z"), Some(-631_152_000));
        assert_eq!(of(GENERALIZED_TIME, "99991231235959Z"), Some(253_402_300_799));
        assert_eq!(of(GENERALIZED_TIME, "20240229120000Z"), Some(1_709_208_000));
        for bad in
            ["20241301000000Z", "2024010100000Z", "20240101000000", "20240101000000+0100", "20240101240000Z", "x"]
        {
            assert_eq!(of(GENERALIZED_TIME, bad), None, "{bad}");
        }
        assert_eq!(of(INTEGER, "20240101000000Z"), None);
        let whole = certificate(&[(UTC_TIME, "700101000000Z".into()), (UTC_TIME, "700101000000Z".into())]);
        assert!((0..whole.len()).all(|end| not_after_unix_s(&whole[..end]).is_none()));
    }

    proptest! {
        #[test]
        fn a_date_is_that_of_an_independent_formatter(unix_s in 0_i64..253_402_300_799) {
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(unix_s.unsigned_abs());
            let date = httpdate::fmt_http_date(time);
            let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
            let month = months.iter().position(|month| *month == &date[8..11]).expect("a month") + 1;
            let text = format!("{}{month:02}{}{}{}{}Z", &date[12..16], &date[5..7], &date[17..19], &date[20..22], &date[23..25]);
            let times = [(UTC_TIME, "700101000000Z".to_owned()), (GENERALIZED_TIME, text)];
            prop_assert_eq!(not_after_unix_s(&certificate(&times)), Some(unix_s));
        }

        #[test]
        fn no_bytes_make_it_fail(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            not_after_unix_s(&bytes);
        }
    }
}
