//! Our own server's TLS has marks where it has opened bytes, and where it is given some to seal; and marks for each step of
//! a request over HTTP/3, whose datagrams no probe at a socket tells apart.

use super::binary::Binary;
use super::tls_place::{TlsPlace, TlsSite};
use weir_wire::quic::QuicEvent;

const PROVIDER: &str = "weir";
/// Marks of HTTP/3, as `crates/server/src/http3/marks.rs` names them.
const QUIC: [(&str, QuicEvent); 8] = [
    ("quic_request", QuicEvent::Request),
    ("quic_begun", QuicEvent::Begun),
    ("quic_ended", QuicEvent::Ended),
    ("quic_given_up", QuicEvent::GivenUp),
    ("quic_carried", QuicEvent::Carried),
    ("quic_emptied", QuicEvent::Emptied),
    ("quic_acknowledged", QuicEvent::Acknowledged),
    ("quic_closed", QuicEvent::Closed),
];

/// The marks of a file; none where it has not both kinds for TLS. One without those for HTTP/3 is an older server.
pub(super) fn edge(binary: &Binary) -> Option<Vec<TlsSite>> {
    let mut sites = Vec::new();
    for (name, place) in [("tls_opened", TlsPlace::MarkOpens), ("tls_sealed", TlsPlace::MarkSeals)] {
        let marks = binary.static_probes(PROVIDER, name).ok()?;
        sites.extend(marks.iter().map(|mark| TlsSite { offset: mark.offset, place }));
    }
    for (name, told) in QUIC {
        let marks = binary.static_probes(PROVIDER, name).unwrap_or_default();
        sites.extend(marks.iter().map(|mark| TlsSite { offset: mark.offset, place: TlsPlace::MarkQuic(told) }));
    }
    Some(sites)
}
