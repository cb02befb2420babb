//! What clients say of themselves: the hints of the network (WICG, Network Information) and Save-Data. They stand in for what has
//! not been measured.

use crate::advice::Link;
use crate::request::Request;

/// The names of the hints that are used, for `Vary` and `Accept-CH`.
pub(crate) const NAMES: &str = "Save-Data, Downlink, RTT, ECT";
/// Bits a second of a client that wants to save data and says no more.
const SAVING_BPS: f64 = 50_000.0;

/// What a client says of its connection.
pub(crate) fn link(request: &Request<'_>) -> Link {
    // Of the effective types 4g has no upper end, so that it says nothing.
    let of_type = request.ect.and_then(|ect| match ect.trim_ascii() {
        b"slow-2g" => Some(50_000.0),
        b"2g" => Some(70_000.0),
        b"3g" => Some(700_000.0),
        _ => None,
    });
    let told_bps = request.downlink.and_then(number).map(|mbps| mbps * 1e6).or(of_type);
    let saves = request.save_data.is_some_and(|text| text.trim_ascii().eq_ignore_ascii_case(b"on"));
    let bandwidth_bps = if saves { Some(told_bps.map_or(SAVING_BPS, |bps| bps.min(SAVING_BPS))) } else { told_bps };
    Link { bandwidth_bps, rtt_s: request.rtt.and_then(number).map(|ms| ms / 1e3) }
}

/// A number without a sign or an exponent (RFC 8941 sections 3.3.1 and 3.3.2).
fn number(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let is_plain = text.len() <= 16 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.parse().ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Limits;
    use crate::request::{self, Head};
    use proptest::prelude::*;

    fn told(fields: &[u8]) -> Option<Link> {
        let head = [b"GET / HTTP/1.1\r\nHost: a\r\n", fields, b"\r\n\r\n"].concat();
        match request::parse(&head, &Limits::default()) {
            Head::Complete(request, _) => Some(link(&request)),
            _ => None,
        }
    }

    #[test]
    fn hints_are_read() {
        for (fields, bps, rtt_s) in [
            ("Downlink: 1.5\r\nRTT: 150", Some(1.5e6), Some(0.15)),
            ("ECT: 2g", Some(70_000.0), None),
            ("ECT: 4g", None, None),
            ("Downlink: 10\r\nECT: 2g", Some(1e7), None),
            ("Save-Data: on", Some(50_000.0), None),
            ("Save-Data: on\r\nDownlink: 0.01", Some(10_000.0), None),
            ("Save-Data: off\r\nDownlink: fast\r\nRTT: -5", None, None),
        ] {
            let told = told(fields.as_bytes()).expect("a request");
            assert_eq!((told.bandwidth_bps, told.rtt_s), (bps, rtt_s), "{fields}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_say_a_finite_number_or_nothing(bytes in proptest::collection::vec(any::<u8>(), 0..30)) {
            for name in [&b"Downlink: "[..], b"RTT: ", b"ECT: ", b"Save-Data: "] {
                let Some(link) = told(&[name, &bytes].concat()) else { continue };
                let told = [link.bandwidth_bps, link.rtt_s];
                prop_assert!(told.iter().flatten().all(|number| number.is_finite() && *number >= 0.0));
            }
        }
    }
}
