//! The period in which a certificate is valid (RFC 5280 section 4.1.2.5), and its serial number, which OCSP responses
//! name.

use super::der::{Der, INTEGER, SEQUENCE, VERSION};

/// When a certificate in DER ends to be valid, in seconds since 1970 (negative before); none if it cannot be read.
pub(crate) fn not_after_unix_s(certificate: &[u8]) -> Option<i64> {
    let (mut fields, _) = begin(certificate)?;
    // Algorithm of the signature, issuer.
    for tag in [SEQUENCE, SEQUENCE] {
        fields.take(tag)?;
    }
    let mut validity = fields.take(SEQUENCE)?;
    validity.time()?;
    validity.time()
}

/// The serial number of a certificate in DER, as it stands there; none if it cannot be read.
pub(crate) fn serial_number(certificate: &[u8]) -> Option<&[u8]> {
    begin(certificate).map(|(_, serial_number)| serial_number)
}

/// What follows the serial number, and it.
fn begin(certificate: &[u8]) -> Option<(Der<'_>, &[u8])> {
    let mut fields = Der(certificate).take(SEQUENCE)?.take(SEQUENCE)?;
    // The version is left out where it is the first.
    if fields.is_next(VERSION) {
        fields.take(VERSION)?;
    }
    let serial_number = fields.take(INTEGER)?.0;
    Some((fields, serial_number))
}

#[cfg(test)]
mod tests {
    use super::super::der::{GENERALIZED_TIME, UTC_TIME};
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
