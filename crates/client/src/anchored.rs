//! A server that shows the very certificate that the user trusts.
//!
//! `openssl req -x509` makes a certificate that is its own authority. Given by `--ca`, it is a trust anchor, and what an
//! anchor may be is the user's to say (RFC 5280 6.1): OpenSSL, and curl with it, takes it from the server, too. The library
//! refuses an authority that is used as a server's certificate, so this verifier takes its place for those alone.

use crate::validity::Validity;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};
use std::sync::Arc;

/// Believes what another verifier believes, and servers that show one of the anchors themselves.
///
/// The name must match, and the time must be right, as for all others.
#[derive(Debug)]
pub struct Anchored {
    within: Arc<dyn ServerCertVerifier>,
    anchors: Vec<CertificateDer<'static>>,
}

impl Anchored {
    /// A verifier for these anchors, which `within` trusts, too.
    #[must_use]
    pub fn new(within: Arc<dyn ServerCertVerifier>, anchors: Vec<CertificateDer<'static>>) -> Self {
        Self { within, anchors }
    }
}

/// Whether the library refused a certificate only because nothing is above it.
fn is_own_authority(error: &Error) -> bool {
    match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => true,
        // The library has no kind of its own for it.
        Error::InvalidCertificate(CertificateError::Other(error)) => error.to_string().contains("CaUsedAsEndEntity"),
        _ => false,
    }
}

impl ServerCertVerifier for Anchored {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.within.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        let Err(error) = verified else { return verified };
        if !is_own_authority(&error) || !self.anchors.iter().any(|anchor| anchor == end_entity) {
            return Err(error);
        }
        let validity = Validity::of(end_entity).ok_or(CertificateError::BadEncoding)?;
        let now_s = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        if now_s < validity.from_s {
            return Err(CertificateError::NotValidYet.into());
        }
        if now_s > validity.until_s {
            return Err(CertificateError::Expired.into());
        }
        verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.within.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.within.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.within.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests;
