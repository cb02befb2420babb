//! Our own server's TLS has marks where it has opened bytes, and where it is given some to seal.

use super::binary::Binary;
use super::tls_place::{TlsPlace, TlsSite};

const PROVIDER: &str = "weir";

/// The marks of a file; none where it has not both kinds.
pub(super) fn edge(binary: &Binary) -> Option<Vec<TlsSite>> {
    let mut sites = Vec::new();
    for (name, place) in [("tls_opened", TlsPlace::MarkOpens), ("tls_sealed", TlsPlace::MarkSeals)] {
        let marks = binary.static_probes(PROVIDER, name).ok()?;
        sites.extend(marks.iter().map(|mark| TlsSite { offset: mark.offset, place }));
    }
    Some(sites)
}
