//! What two ends of an encrypted connection agreed on, as an observer may ask for it.

use crate::reach::tls::openssl_name;
use rustls::{ClientConnection, NamedGroup, ProtocolVersion};
use weir_client::key_bits;

/// An encrypted connection's session, after its handshake.
#[derive(Debug)]
pub struct Secured<'a> {
    session: &'a ClientConnection,
}

impl<'a> Secured<'a> {
    pub(crate) fn new(session: &'a ClientConnection) -> Self {
        Self { session }
    }

    /// The version, as OpenSSL writes it: `TLSv1.3`.
    #[must_use]
    pub fn version(&self) -> &'static str {
        match self.session.protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
            Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
            _ => "unknown",
        }
    }

    /// The cipher suite by OpenSSL's name: `ECDHE-RSA-AES128-GCM-SHA256`, `TLS_AES_256_GCM_SHA384`.
    #[must_use]
    pub fn cipher(&self) -> String {
        self.session.negotiated_cipher_suite().map(|suite| openssl_name(&suite)).unwrap_or_default()
    }

    /// Bits of the cipher's key.
    #[must_use]
    pub fn cipher_bits(&self) -> u32 {
        let cipher = self.cipher();
        if cipher.contains("AES128") || cipher.contains("AES_128") { 128 } else { 256 }
    }

    /// The group of the key exchange and the bits of its keys: `X25519`, 253.
    #[must_use]
    pub fn group(&self) -> Option<(&'static str, u32)> {
        match self.session.negotiated_key_exchange_group()?.name() {
            NamedGroup::X25519 => Some(("X25519", 253)),
            NamedGroup::secp256r1 => Some(("ECDH prime256v1", 256)),
            NamedGroup::secp384r1 => Some(("ECDH secp384r1", 384)),
            _ => None,
        }
    }

    /// Bits of the public key in the server's certificate, where it is of a kind that is known.
    #[must_use]
    pub fn key_bits(&self) -> Option<u32> {
        key_bits(self.session.peer_certificates()?.first()?)
    }
}
