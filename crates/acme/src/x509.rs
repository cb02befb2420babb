//! What the manager needs of a certificate in DER (RFC 5280): its validity, and its identifier for ARI.

use crate::jws::base64url;
use chrono::NaiveDateTime;

const INTEGER: u8 = 0x02;
const OBJECT: u8 = 0x06;
const OCTETS: u8 = 0x04;
const BOOLEAN: u8 = 0x01;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
/// The tag of the key's identifier in the extension.
const KEY_IDENTIFIER: u8 = 0x80;
/// The authority key identifier, 2.5.29.35.
const AUTHORITY_KEY_IDENTIFIER: &[u8] = &[0x55, 0x1d, 0x23];

/// The period in which a certificate is valid, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// Its begin.
    pub not_before_unix_s: i64,
    /// Its end.
    pub not_after_unix_s: i64,
}

/// Bytes of DER that are still to be read.
#[derive(Debug, Clone, Copy)]
struct Der<'d>(&'d [u8]);

impl<'d> Der<'d> {
    /// The next value and its tag.
    fn next(&mut self) -> Option<(u8, &'d [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (len, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            // No certificate has more than 16 MiB.
            0x81..=0x83 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                (bytes.iter().fold(0, |len, &byte| len << 8 | usize::from(byte)), rest)
            }
            _ => return None,
        };
        let (value, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some((tag, value))
    }

    /// The next value, which has this tag.
    fn take(&mut self, wanted: u8) -> Option<&'d [u8]> {
        self.next().filter(|(tag, _)| *tag == wanted).map(|(_, value)| value)
    }

    fn time(&mut self) -> Option<i64> {
        let (tag, value) = self.next()?;
        let text = std::str::from_utf8(value).ok()?;
        let whole = match tag {
            // Years from 50 on are of the century before (RFC 5280 section 4.1.2.5.1).
            UTC_TIME if text.len() == 13 => format!("{}{text}", if text.as_bytes()[0] >= b'5' { "19" } else { "20" }),
            GENERALIZED_TIME if text.len() == 15 => text.to_owned(),
            _ => return None,
        };
        if !whole.bytes().take(14).all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        NaiveDateTime::parse_from_str(&whole, "%Y%m%d%H%M%SZ").ok().map(|time| time.and_utc().timestamp())
    }
}

/// What follows the serial number, and that.
fn begin(certificate: &[u8]) -> Option<(Der<'_>, &[u8])> {
    let mut fields = Der(Der(Der(certificate).take(SEQUENCE)?).take(SEQUENCE)?);
    // The version is left out where it is the first.
    if fields.0.first() == Some(&VERSION) {
        fields.next()?;
    }
    let serial_number = fields.take(INTEGER)?;
    Some((fields, serial_number))
}

impl Validity {
    /// Of a certificate in DER; none if it cannot be read, or ends before it begins.
    #[must_use]
    pub fn of(certificate: &[u8]) -> Option<Self> {
        let (mut fields, _) = begin(certificate)?;
        // The algorithm of the signature and the issuer.
        for _ in 0..2 {
            fields.take(SEQUENCE)?;
        }
        let mut times = Der(fields.take(SEQUENCE)?);
        let (not_before_unix_s, not_after_unix_s) = (times.time()?, times.time()?);
        (not_before_unix_s < not_after_unix_s).then_some(Self { not_before_unix_s, not_after_unix_s })
    }
}

/// By what the authority knows a certificate that is to be renewed (RFC 9773 section 4.1); none if it does not name the
/// key of its issuer.
pub(crate) fn renewal_id(certificate: &[u8]) -> Option<String> {
    let (mut fields, serial_number) = begin(certificate)?;
    // Signature, issuer, validity, subject, public key.
    for _ in 0..5 {
        fields.take(SEQUENCE)?;
    }
    let mut extensions = loop {
        let (tag, value) = fields.next()?;
        if tag == EXTENSIONS {
            break Der(Der(value).take(SEQUENCE)?);
        }
    };
    while let Some(extension) = extensions.take(SEQUENCE) {
        let mut extension = Der(extension);
        if extension.take(OBJECT)? != AUTHORITY_KEY_IDENTIFIER {
            continue;
        }
        if extension.0.first() == Some(&BOOLEAN) {
            extension.next()?;
        }
        let mut of_key = Der(Der(extension.take(OCTETS)?).take(SEQUENCE)?);
        return Some(format!("{}.{}", base64url(of_key.take(KEY_IDENTIFIER)?), base64url(serial_number)));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rcgen::{CertificateParams, Issuer, KeyPair, SerialNumber, date_time_ymd};

    fn certificate(serial: &[u8], years: (i32, i32)) -> Vec<u8> {
        let mut of_authority = CertificateParams::new(Vec::new()).expect("parameters");
        of_authority.key_identifier_method = rcgen::KeyIdMethod::PreSpecified(vec![0x69, 0x88, 0x5b]);
        let authority = Issuer::new(of_authority, KeyPair::generate().expect("a key"));
        let mut params = CertificateParams::new(vec!["a.example".to_owned()]).expect("parameters");
        params.use_authority_key_identifier_extension = true;
        params.serial_number = Some(SerialNumber::from_slice(serial));
        params.not_before = date_time_ymd(years.0, 1, 1);
        params.not_after = date_time_ymd(years.1, 1, 1);
        let key = KeyPair::generate().expect("a key");
        params.signed_by(&key, &authority).expect("signs").der().to_vec()
    }

    #[test]
    fn validity_and_identifier_are_read() {
        // The serial number of the example in RFC 9773 section 4.1: its first byte is the sign.
        let der = certificate(&[0x00, 0x87, 0x65, 0x43, 0x21], (2024, 2051));
        let expected = Validity { not_before_unix_s: 1_704_067_200, not_after_unix_s: 2_556_144_000 };
        assert_eq!(Validity::of(&der), Some(expected));
        assert_eq!(renewal_id(&der).as_deref(), Some("aYhb.AIdlQyE"));
        assert!((0..der.len()).all(|end| Validity::of(&der[..end]).is_none() && renewal_id(&der[..end]).is_none()));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_fail(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = (Validity::of(&bytes), renewal_id(&bytes));
        }

        #[test]
        fn no_damaged_certificate_makes_it_fail(at in 0_usize..400, byte: u8) {
            let mut der = certificate(&[7], (2024, 2025));
            let at = at % der.len();
            der[at] = byte;
            let _ = (Validity::of(&der), renewal_id(&der));
        }
    }
}
