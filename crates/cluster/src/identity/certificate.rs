//! What is read of a certificate of the cluster: its serial number and when it is valid (RFC 5280, section 4.1). Links
//! verify certificates by webpki, which tells neither.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// Of its life, the part that is left when a certificate is renewed.
const RENEWED_PART: u64 = 3;

/// What is read of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) serial: Vec<u8>,
    pub(crate) validity: Validity,
}

/// The file of the list of revoked certificates, in DER, which etcd reads.
pub const REVOKED: &str = "revoked.crl";

/// The certificates that etcd refuses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RevocationList {
    /// A larger one takes the place of a smaller one: when it was made, in seconds since 1970.
    pub number: u64,
    /// The list (RFC 5280, section 5).
    pub der: Vec<u8>,
}

/// When a certificate is valid: seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// From then on.
    pub begins_unix_s: u64,
    /// Until then.
    pub ends_unix_s: u64,
}

impl Validity {
    /// How long it is valid from now on; zero once it has ended.
    #[must_use]
    pub fn left(&self, now: SystemTime) -> Duration {
        (UNIX_EPOCH + Duration::from_secs(self.ends_unix_s)).duration_since(now).unwrap_or_default()
    }

    /// Whether it is to be renewed: a third of its life is left, or less.
    #[must_use]
    pub fn is_due(&self, now: SystemTime) -> bool {
        let life_s = self.ends_unix_s.saturating_sub(self.begins_unix_s);
        self.left(now) <= Duration::from_secs(life_s / RENEWED_PART)
    }
}

/// What a certificate in DER says; none if it cannot be read.
pub(crate) fn read(certificate: &[u8]) -> Option<Facts> {
    let mut fields = Der(Der(certificate).take(SEQUENCE)?).take(SEQUENCE).map(Der)?;
    // Certificates of the cluster have the third version, which is written.
    fields.take(VERSION)?;
    let serial = fields.take(INTEGER)?.to_vec();
    // Algorithm of the signature, issuer.
    fields.take(SEQUENCE)?;
    fields.take(SEQUENCE)?;
    let mut times = Der(fields.take(SEQUENCE)?);
    let validity = Validity { begins_unix_s: times.time()?, ends_unix_s: times.time()? };
    Some(Facts { serial, validity })
}

/// When a list of revoked certificates was made (RFC 5280, section 5.1), in seconds since 1970.
pub(crate) fn made_at(list: &[u8]) -> Option<u64> {
    let mut fields = Der(Der(list).take(SEQUENCE)?).take(SEQUENCE).map(Der)?;
    fields.take(INTEGER)?;
    // Algorithm of the signature, issuer.
    fields.take(SEQUENCE)?;
    fields.take(SEQUENCE)?;
    fields.time()
}

/// The rest of some DER (X.690).
struct Der<'d>(&'d [u8]);

impl<'d> Der<'d> {
    /// The content of the next value, which must have this tag.
    fn take(&mut self, tag: u8) -> Option<&'d [u8]> {
        let (found, content) = self.next()?;
        (found == tag).then_some(content)
    }

    fn next(&mut self) -> Option<(u8, &'d [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&short, mut rest) = rest.split_first()?;
        let mut length = usize::from(short);
        if short >= 0x80 {
            // So many bytes with the length follow; more than two are more than a certificate has.
            let (digits, after) = rest.split_at_checked(usize::from(short & 0x7f)).filter(|(it, _)| it.len() <= 2)?;
            length = digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit));
            rest = after;
        }
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }

    /// A time in seconds since 1970, where it is not before.
    fn time(&mut self) -> Option<u64> {
        let (tag, content) = self.next()?;
        let digits = content.strip_suffix(b"Z").filter(|digits| digits.iter().all(u8::is_ascii_digit))?;
        let number = |digits: &[u8]| digits.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'));
        let (year, rest) = match tag {
            // Two digits mean the years from 1950 to 2049.
            UTC_TIME if digits.len() == 12 => ((number(&digits[..2]) + 50) % 100 + 1950, &digits[2..]),
            GENERALIZED_TIME if digits.len() == 14 => (number(&digits[..4]), &digits[4..]),
            _ => return None,
        };
        let [month, day, hour, minute, second] = [0, 2, 4, 6, 8].map(|at| number(&rest[at..at + 2]));
        let is_one = (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second < 60;
        let unix_s = days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second;
        is_one.then(|| u64::try_from(unix_s).ok()).flatten()
    }
}

/// Days from 1970-01-01 to a date of the Gregorian calendar. Years begin with March here, so that the leap day is a
/// year's last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Reads any bytes, for the fuzz target.
#[doc(hidden)]
pub fn read_any_certificate(bytes: &[u8]) -> Option<Validity> {
    made_at(bytes);
    read(bytes).map(|facts| facts.validity)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rcgen::{CertificateParams, KeyPair, SerialNumber};

    /// A certificate as rcgen writes it, which takes its dates from another library.
    fn certificate(begins: i64, ends: i64) -> Vec<u8> {
        let epoch = rcgen::date_time_ymd(1970, 1, 1);
        let mut params = CertificateParams::new(vec!["n1.cluster.weir".to_owned()]).unwrap();
        params.serial_number = Some(SerialNumber::from(vec![5; 16]));
        params.not_before = epoch + Duration::from_secs(begins.unsigned_abs());
        params.not_after = epoch + Duration::from_secs(ends.unsigned_abs());
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn a_third_before_its_end_it_is_due() {
        let validity = Validity { begins_unix_s: 1_000, ends_unix_s: 1_300 };
        let at = |unix_s| UNIX_EPOCH + Duration::from_secs(unix_s);
        assert!(!validity.is_due(at(1_199)) && validity.is_due(at(1_200)) && validity.is_due(at(2_000)));
        assert_eq!((validity.left(at(1_290)), validity.left(at(1_301))), (Duration::from_secs(10), Duration::ZERO));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn the_times_are_those_that_rcgen_wrote(begins in 0_i64..4_000_000_000, life in 1_i64..4_000_000_000) {
            let facts = read(&certificate(begins, begins + life)).expect("is read");
            let validity = Validity { begins_unix_s: begins as u64, ends_unix_s: (begins + life) as u64 };
            prop_assert_eq!(facts, Facts { serial: vec![5; 16], validity });
        }

        #[test]
        fn any_bytes_are_read_or_refused(
            bytes in proptest::collection::vec(any::<u8>(), 0..200), at in 0_usize..300, byte: u8,
        ) {
            read(&bytes);
            let mut changed = certificate(1, 2_000_000_000);
            let at = at % changed.len();
            changed[at] = byte;
            read(&changed);
            prop_assert!(read(&changed[..at.min(90)]).is_none());
        }
    }
}
