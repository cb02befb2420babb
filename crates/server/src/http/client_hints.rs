//! Client hints: those of the network (WICG, Network Information) and Save-Data. They are used until the client's link
//! has been measured.

use std::num::{NonZeroU16, NonZeroU32};

/// The names of the hints that are used, for `Vary` and `Accept-CH`.
pub(crate) const NAMES: &str = "Save-Data, Downlink, RTT, ECT";
/// Bits a second of a client that wants to save data and says no more.
const SAVING_BPS: u32 = 50_000;

/// What a client says of its connection, in little room: every request has it. Nothing is said by 0.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Hints {
    saves: bool,
    rtt_ms: Option<NonZeroU16>,
    downlink_bps: Option<NonZeroU32>,
    type_bps: Option<NonZeroU32>,
}

/// What the hints say of a client's connection; `None` is unknown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct HintedLink {
    /// Bits a second that the client takes while there is something for it.
    pub(crate) bandwidth_bps: Option<f64>,
    /// The round trip, in seconds.
    pub(crate) rtt_s: Option<f64>,
}

impl Hints {
    /// `Save-Data`.
    pub(crate) fn save_data(&mut self, value: &[u8]) {
        self.saves = value.trim_ascii().eq_ignore_ascii_case(b"on");
    }

    /// `RTT`, in milliseconds.
    pub(crate) fn rtt(&mut self, value: &[u8]) {
        // Casts from floating point saturate.
        self.rtt_ms = number(value).and_then(|ms| NonZeroU16::new(ms as u16));
    }

    /// `Downlink`, in Mbit/s.
    pub(crate) fn downlink(&mut self, value: &[u8]) {
        self.downlink_bps = number(value).and_then(|mbps| NonZeroU32::new((mbps * 1e6) as u32));
    }

    /// `ECT`. Of the effective types 4g has no upper end, so that it says nothing.
    pub(crate) fn effective_type(&mut self, value: &[u8]) {
        self.type_bps = NonZeroU32::new(match value.trim_ascii() {
            b"slow-2g" => 50_000,
            b"2g" => 70_000,
            b"3g" => 700_000,
            _ => 0,
        });
    }

    /// Whether nothing at all is said.
    #[inline]
    pub(crate) fn are_silent(self) -> bool {
        let Self { saves, rtt_ms, downlink_bps, type_bps } = self;
        !saves && rtt_ms.is_none() && downlink_bps.is_none() && type_bps.is_none()
    }

    /// All of it together.
    pub(crate) fn link(self) -> HintedLink {
        let told_bps = self.downlink_bps.or(self.type_bps).map(NonZeroU32::get);
        let bps = if self.saves { Some(told_bps.map_or(SAVING_BPS, |bps| bps.min(SAVING_BPS))) } else { told_bps };
        HintedLink { bandwidth_bps: bps.map(f64::from), rtt_s: self.rtt_ms.map(|ms| f64::from(ms.get()) / 1e3) }
    }
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
    use crate::http::limits::Limits;
    use crate::http::parse;
    use crate::http::request::Head;
    use proptest::prelude::*;

    fn told(fields: &[u8]) -> Option<HintedLink> {
        let head = [b"GET / HTTP/1.1\r\nHost: a\r\n", fields, b"\r\n\r\n"].concat();
        match parse::parse(&head, &Limits::default()) {
            Head::Complete(request, _) => Some(request.hints.link()),
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
