//! Verifiers that judge all certificates alike.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};
use std::sync::Arc;

/// What becomes of every certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Believed,
    Refused,
}

/// Judges all certificates alike; the handshake's signatures are still checked.
#[derive(Debug)]
pub struct Alike {
    provider: Arc<CryptoProvider>,
    verdict: Verdict,
}

impl Alike {
    /// Believes any certificate, as `--insecure` asks.
    #[must_use]
    pub fn believing(provider: Arc<CryptoProvider>) -> Self {
        Self { provider, verdict: Verdict::Believed }
    }

    /// Believes no certificate, as where the system trusts none: TLS fails by the certificate's name, and plain HTTP works.
    #[must_use]
    pub fn refusing(provider: Arc<CryptoProvider>) -> Self {
        Self { provider, verdict: Verdict::Refused }
    }
}

impl ServerCertVerifier for Alike {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.verdict {
            Verdict::Believed => Ok(ServerCertVerified::assertion()),
            Verdict::Refused => Err(CertificateError::UnknownIssuer.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
