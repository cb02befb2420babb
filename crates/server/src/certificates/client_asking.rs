//! Asks clients for certificates while they shake hands, where the host that they name wants any.
//!
//! Whether a certificate is good is found out for each host by its own authorities, with the first request: the answer
//! to a client without a good one says why, which an alert of TLS cannot. The handshake proves that the client has the
//! key.

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, UnixTime};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    /// Whether the handshake that has its turn asks: rustls finds the server's certificate by the name in a hello, and
    /// asks for the client's within the same call.
    static ASKS: Cell<bool> = const { Cell::new(false) };
}

/// Whether a client that names this host, or none, is asked.
pub(crate) type AskedHosts = dyn Fn(Option<&str>) -> bool + Send + Sync;

/// Some host of this process asks, or has asked.
static SOME_HOST_ASKS: AtomicBool = AtomicBool::new(false);

/// Takes note that some host asks.
pub(crate) fn expect() {
    SOME_HOST_ASKS.store(true, Ordering::Relaxed);
}

/// A connection begins: what rustls keeps of its handshake for the proof of a client's key is kept if any host asks.
pub(crate) fn begin() {
    ASKS.set(SOME_HOST_ASKS.load(Ordering::Relaxed));
}

/// A hello was read.
pub(super) fn found(asks: bool) {
    ASKS.set(asks);
}

/// Asks for certificates and takes any whose key the client has.
#[derive(Debug)]
pub(super) struct Asking {
    algorithms: WebPkiSupportedAlgorithms,
}

impl Asking {
    pub(super) fn new() -> Self {
        Self { algorithms: ring::default_provider().signature_verification_algorithms }
    }
}

impl ClientCertVerifier for Asking {
    fn offer_client_auth(&self) -> bool {
        ASKS.get()
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // None: then a client may show any certificate (RFC 8446 section 4.2.4, RFC 5246 section 7.4.4).
        &[]
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
