//! Which certificates are believed.

use crate::connect::session_store::Sessions;
use crate::connect::witness::Witnessed;
use crate::error::tls_setup::TlsSetupError;
use crate::reach::pin::Pin;
use crate::reach::protocol::Protocol;
use crate::reach::tls::{Identity, Tls};
use crate::reach::trust::Trust;
use crate::requests::host;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, OtherError, RootCertStore, SignatureScheme};
use std::path::PathBuf;
use std::sync::Arc;
use weir_client::{Alike, Anchored};

/// The set-up that all connections of a run share; as many sessions as connections are kept, if they are resumed.
pub(crate) fn client_config(
    trust: &Trust,
    tls: &Tls,
    connections: u32,
    protocol: Protocol,
) -> Result<Arc<ClientConfig>, TlsSetupError> {
    let provider = Arc::new(tls.provider()?);
    let verifier: Arc<dyn ServerCertVerifier> = match trust {
        Trust::Anything => Arc::new(Alike::believing(Arc::clone(&provider))),
        Trust::File(path) => {
            let (roots, anchors) = roots_of_file(path)?;
            Arc::new(Anchored::new(verifier_with(roots, &provider)?, anchors))
        }
        Trust::System => verifier_with(roots_of_system()?, &provider)?,
    };
    let verifier = match tls.pins.is_empty() {
        true => verifier,
        false => Arc::new(Pinned { within: verifier, pins: tls.pins.clone() }),
    };
    let verifier = match protocol {
        Protocol::Http3 { .. } => Arc::new(Witnessed(verifier)),
        Protocol::Http1 | Protocol::Http2 { .. } => verifier,
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(tls.versions())?
        // Either the library's own verifier, or one that was asked for to believe anything, perhaps behind pins.
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut config = match tls.identity()? {
        None => builder.with_no_client_auth(),
        Some(Identity { chain, key }) => builder.with_client_auth_cert(chain, key).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => TlsSetupError::OtherKey,
            error => error.into(),
        })?,
    };
    config.enable_early_data = matches!(protocol, Protocol::Http3 { early_data: true, .. });
    config.resumption = match tls.resume {
        // A connection that begins with requests of 0-RTT is over before what resumes it the next time has come.
        true if config.enable_early_data => Resumption::store(Arc::new(Sessions::new(2 * connections as usize))),
        true => Resumption::store(Arc::new(Sessions::new(connections as usize))),
        false => Resumption::disabled(),
    };
    config.enable_sni = tls.send_name;
    config.alpn_protocols.clone_from(&tls.alpn);
    Ok(Arc::new(config))
}

/// The same set-up with sessions of its own to be resumed, at most so many.
pub(crate) fn with_own_sessions(common: &ClientConfig, sessions: u32) -> Arc<ClientConfig> {
    let mut own = common.clone();
    own.resumption = Resumption::store(Arc::new(Sessions::new(sessions as usize)));
    Arc::new(own)
}

fn verifier_with(
    roots: RootCertStore,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, TlsSetupError> {
    let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    // It refuses only where there are no roots, of which both callers have made sure.
    Ok(builder.build().map_err(|error| rustls::Error::General(error.to_string()))?)
}

/// The name that the server's certificate must be for.
pub(crate) fn server_name(host: &str) -> Result<ServerName<'static>, TlsSetupError> {
    let wrong = || TlsSetupError::Name { host: host.to_owned() };
    // A certificate is for an address without its interface, and for a name in its ASCII form (RFC 9525 6.3).
    let name = if host.contains(':') {
        host::without_zone(host).to_owned()
    } else {
        host::named(host).map_err(|_| wrong())?
    };
    ServerName::try_from(name).map_err(|_| wrong())
}

/// The certificates of a file or of a folder's files, as what signs others and as themselves.
fn roots_of_file(path: &PathBuf) -> Result<(RootCertStore, Vec<CertificateDer<'static>>), TlsSetupError> {
    let wrong = |cause: String| TlsSetupError::CaFile { path: path.clone(), cause };
    let (mut roots, mut anchors) = (RootCertStore::empty(), Vec::new());
    let mut files = vec![path.clone()];
    if path.is_dir() {
        let entries = std::fs::read_dir(path).map_err(|error| wrong(error.to_string()))?;
        files = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|file| file.is_file()).collect();
        files.sort();
    }
    for file in files {
        for certificate in CertificateDer::pem_file_iter(&file).map_err(|error| wrong(error.to_string()))? {
            let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
            anchors.push(certificate.clone());
            roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
        }
    }
    if roots.is_empty() { Err(wrong("it holds none".to_owned())) } else { Ok((roots, anchors)) }
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

/// Believes only certificates of known keys, and of those only what another verifier believes, too.
#[derive(Debug)]
struct Pinned {
    within: Arc<dyn ServerCertVerifier>,
    pins: Vec<Pin>,
}

/// A certificate whose key is none of those that were pinned.
#[derive(Debug, thiserror::Error)]
#[error("the key of the server's certificate, {0}, is none of those that were pinned")]
struct NotPinned(Pin);

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let pin = Pin::of(ParsedCertificate::try_from(end_entity)?.subject_public_key_info().as_ref());
        if !self.pins.contains(&pin) {
            return Err(CertificateError::Other(OtherError(Arc::new(NotPinned(pin)))).into());
        }
        self.within.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.within.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.within.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.within.supported_verify_schemes()
    }
}
