//! The OCSP response for a certificate (RFC 6960), to be sent along with it (RFC 6066 section 8).
//!
//! Clients verify its signature; the server only checks that the response is about this certificate, that its status is
//! good, and until when it is valid.

use super::der::{Der, ENUMERATED, FIRST, INTEGER, OBJECT, OCTETS, SEQUENCE};
use super::validity;

/// The status of an answer in which something was found out.
const SUCCESSFUL: &[u8] = &[0];
/// The tag of a certificate's status where it is good.
const GOOD: u8 = 0x80;
/// Tags of the responder: by name, by key.
const RESPONDERS: [u8; 2] = [0xa1, 0xa2];

/// What an answer comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Staple {
    /// From when on it is out of date, in seconds since 1970; none if it does not say.
    pub(crate) until_unix_s: Option<i64>,
}

impl Staple {
    /// Reads an answer in DER on a certificate in DER.
    ///
    /// # Errors
    ///
    /// Why it is not to be sent.
    pub(crate) fn read(answer: &[u8], certificate: &[u8]) -> Result<Self, &'static str> {
        let serial_number = validity::serial_number(certificate).ok_or("its certificate has no number")?;
        let mut single = single_responses(answer).ok_or("it is no OCSP response in DER, or one of a failure")?;
        while let Some(mut one) = single.take(SEQUENCE) {
            if number_of(&mut one) != Some(serial_number) {
                continue;
            }
            let (status, _) = one.next().ok_or("it has no status")?;
            if status != GOOD {
                return Err("it does not say that the certificate is good");
            }
            one.time().ok_or("it does not say of when it is")?;
            let until_unix_s = one.take(FIRST).and_then(|mut until| until.time());
            return Ok(Self { until_unix_s });
        }
        Err("it is of another certificate")
    }

    /// Whether it may be sent at this time: clients that are given one which is out of date refuse the certificate.
    pub(crate) fn holds(self, now_unix_s: i64) -> bool {
        self.until_unix_s.is_none_or(|until| now_unix_s < until)
    }
}

/// What an answer says of each certificate.
fn single_responses(answer: &[u8]) -> Option<Der<'_>> {
    let mut answer = Der(answer).take(SEQUENCE)?;
    if answer.take(ENUMERATED)?.0 != SUCCESSFUL {
        return None;
    }
    let mut bytes = answer.take(FIRST)?.take(SEQUENCE)?;
    bytes.take(OBJECT)?;
    let mut data = bytes.take(OCTETS)?.take(SEQUENCE)?.take(SEQUENCE)?;
    // The version is left out where it is the first.
    if data.is_next(FIRST) {
        data.take(FIRST)?;
    }
    let (responder, _) = data.next()?;
    if !RESPONDERS.contains(&responder) {
        return None;
    }
    data.time()?;
    data.take(SEQUENCE)
}

/// The number of the certificate that it is of; its authority is not told apart, as its hash is of the client's choice.
fn number_of<'d>(one: &mut Der<'d>) -> Option<&'d [u8]> {
    let mut id = one.take(SEQUENCE)?;
    // The algorithm of the hashes, and those of the authority's name and key.
    for tag in [SEQUENCE, OCTETS, OCTETS] {
        id.take(tag)?;
    }
    Some(id.take(INTEGER)?.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_answer_holds_until_it_says() {
        let until = |until_unix_s| Staple { until_unix_s };
        assert!(until(None).holds(i64::MAX) && until(Some(7)).holds(6) && !until(Some(7)).holds(7));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_fail(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            single_responses(&bytes);
            number_of(&mut Der(&bytes));
        }
    }
}
