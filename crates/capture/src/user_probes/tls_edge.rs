//! The edge of a TLS library: the places where records that it has opened are handed over, and where it is given bytes to
//! seal. Each is seen once there, before it is encrypted and after it is decrypted.

use super::binary::Binary;
use super::go_tls::{self, NoGoEdge};
use super::openssl::{self, NoOpensslEdge};
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
}

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
        found => return found.map_err(NoTlsEdge::Openssl),
    }
    match go_tls::edge(binary, release) {
        Err(NoGoEdge::NoGo) => Err(NoTlsEdge::None),
        found => found.map_err(NoTlsEdge::Go),
    }
}
