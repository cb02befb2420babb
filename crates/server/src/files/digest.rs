//! Digests of content.

use crate::http::response::Digest;

/// The digest of bytes in memory.
pub(crate) fn digest_of(bytes: &[u8]) -> Digest {
    of_ring(&ring::digest::digest(&ring::digest::SHA256, bytes))
}

pub(super) fn of_ring(digest: &ring::digest::Digest) -> Digest {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest.as_ref());
    Digest(bytes)
}
