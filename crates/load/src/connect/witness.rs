//! What was said of a server's certificate: QUIC passes on no more of it than a text.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};
use std::cell::RefCell;
use std::sync::Arc;

/// What was said of the last certificate that was looked at.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) enum Verdict {
    /// None was looked at: a session that is resumed shows none.
    #[default]
    None,
    Believed,
    Refused(Error),
}

thread_local! {
    /// A loop takes it right after the datagram that brought the certificate, on the same thread.
    static LAST: RefCell<Verdict> = const { RefCell::new(Verdict::None) };
}

/// Takes what was said last on this thread.
pub(crate) fn take() -> Verdict {
    LAST.take()
}

/// Passes everything on to another verifier, and notes what that says.
#[derive(Debug)]
pub(crate) struct Witnessed(pub(crate) Arc<dyn ServerCertVerifier>);

fn noted<T>(result: Result<T, Error>) -> Result<T, Error> {
    LAST.set(match &result {
        Ok(_) => Verdict::Believed,
        Err(error) => Verdict::Refused(error.clone()),
    });
    result
}

impl ServerCertVerifier for Witnessed {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        noted(self.0.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        noted(self.0.verify_tls12_signature(message, certificate, signature))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        noted(self.0.verify_tls13_signature(message, certificate, signature))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
