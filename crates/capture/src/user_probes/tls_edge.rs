//! The edge of a TLS library: the places where records that it has opened are handed over, and where it is given bytes to
//! seal. Each is seen once there, before it is encrypted and after it is decrypted.

use super::binary::Binary;
use super::go_tls::{self, NoGoEdge};
use super::openssl::{self, NoOpensslEdge};
use super::openssl_layer;
use super::release::Release;
use super::tls_marks;
use super::tls_place::TlsSite;
use thiserror::Error;

/// Why the places of a file are not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NoTlsEdge {
    /// It holds no TLS library that is known.
    #[error("it holds no TLS library that is known")]
    None,
    /// It holds OpenSSL.
    #[error("OpenSSL: {0}")]
    Openssl(NoOpensslEdge),
    /// It holds Go's library.
    #[error("crypto/tls of Go: {0}")]
    Go(NoGoEdge),
    /// It holds rustls.
    #[error(
        "rustls is not probed: the compiler puts its functions into those that call them, and no place is the same in two programs"
    )]
    Rustls,
    /// It holds BoringSSL.
    #[error("BoringSSL is not probed: its layout is another one than OpenSSL's, and is not known")]
    BoringSsl,
}

/// What programs hold that have a library in them, even if they were stripped: the path of its source in what it says when
/// it fails, and its name.
const KEPT: [(&[u8], NoTlsEdge); 2] = [(b"/rustls-0.", NoTlsEdge::Rustls), (b"BoringSSL", NoTlsEdge::BoringSsl)];

/// The places in a library, or in a program that holds one.
///
/// # Errors
/// [`NoTlsEdge`] where one is not found for certain.
pub fn tls_edge(binary: &Binary, release: Release) -> Result<Vec<TlsSite>, NoTlsEdge> {
    if let Some(marks) = tls_marks::edge(binary) {
        return Ok(marks);
    }
    match openssl::edge(binary, release) {
        Err(NoOpensslEdge::NoOpenSsl) => {}
        // Later versions have another table and another record: neither is taken for the other.
        Err(NoOpensslEdge::NoRead | NoOpensslEdge::NoWrite) => {
            return openssl_layer::edge(binary, release).map_err(NoTlsEdge::Openssl);
        }
        found => return found.map_err(NoTlsEdge::Openssl),
    }
    match go_tls::edge(binary, release) {
        Err(NoGoEdge::NoGo) => {
            let kept = KEPT.iter().find(|(text, _)| binary.holds(text));
            Err(kept.map_or(NoTlsEdge::None, |(_, library)| *library))
        }
        found => found.map_err(NoTlsEdge::Go),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_without_a_known_edge_is_named() {
        let bytes = std::fs::read("/bin/true").expect("it can be read");
        let told = |kept: &[u8]| {
            let binary = Binary::of("program".into(), [&bytes[..], kept].concat()).expect("a program");
            tls_edge(&binary, Release(6, 18))
        };
        assert_eq!(told(b""), Err(NoTlsEdge::None));
        assert_eq!(told(b"src/rustls-0.23.46/src/conn.rs"), Err(NoTlsEdge::Rustls));
        assert_eq!(told(b"OpenSSL 1.1.1 (compatible; BoringSSL)"), Err(NoTlsEdge::BoringSsl));
    }
}
