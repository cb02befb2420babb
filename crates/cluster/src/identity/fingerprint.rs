//! The fingerprint by which a token pins the authority.

use ring::digest::{SHA256, digest};
use rustls_pki_types::CertificateDer;

/// The SHA-256 of a certificate.
pub(crate) fn fingerprint(certificate: &CertificateDer<'_>) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, certificate).as_ref());
    bytes
}
