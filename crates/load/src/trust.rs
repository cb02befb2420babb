//! Which certificates are believed.

use crate::options::Trust;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::path::PathBuf;
use std::sync::Arc;

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsSetupError {
    /// The file of `--ca` cannot be read, or holds no certificate.
    #[error("{}: no PEM certificate can be read from it: {cause}", path.display())]
    CaFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// The system has no trusted roots.
    #[error(
        "the system has no trusted certificates ({cause}); install ca-certificates, or give --ca FILE or --insecure"
    )]
    NoRoots {
        /// What was missing.
        cause: String,
    },
    /// The host cannot stand in a certificate.
    #[error("{host}: not a name that a certificate can be for")]
    Name {
        /// The host.
        host: String,
    },
    /// The TLS library refused the set-up.
    #[error("TLS cannot be set up: {0}")]
    Library(#[from] rustls::Error),
}

/// The set-up that all connections of a run share; only HTTP/1.1 is offered, and every handshake is a full one.
pub(crate) fn client_config(trust: &Trust) -> Result<Arc<ClientConfig>, TlsSetupError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    let mut config = match trust {
        Trust::Anything => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Unverified { provider }))
            .with_no_client_auth(),
        Trust::File(path) => builder.with_root_certificates(roots_of_file(path)?).with_no_client_auth(),
        Trust::System => builder.with_root_certificates(roots_of_system()?).with_no_client_auth(),
    };
    // Each connection stands for another user, and a user who comes for the first time resumes nothing.
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// The name that the server's certificate must be for.
pub(crate) fn server_name(host: &str) -> Result<ServerName<'static>, TlsSetupError> {
    ServerName::try_from(host.to_owned()).map_err(|_| TlsSetupError::Name { host: host.to_owned() })
}

fn roots_of_file(path: &PathBuf) -> Result<RootCertStore, TlsSetupError> {
    let wrong = |cause: String| TlsSetupError::CaFile { path: path.clone(), cause };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))? {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    if roots.is_empty() { Err(wrong("it holds none".to_owned())) } else { Ok(roots) }
}

fn roots_of_system() -> Result<RootCertStore, TlsSetupError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Systems carry odd old roots that the verifier cannot use; the others still serve.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let cause = found.errors.first().map_or_else(|| "none found".to_owned(), ToString::to_string);
        return Err(TlsSetupError::NoRoots { cause });
    }
    Ok(roots)
}

/// Believes any certificate, as `--insecure` asks; the handshake's signatures are still checked.
#[derive(Debug)]
struct Unverified {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
