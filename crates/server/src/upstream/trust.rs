//! Which certificates of upstreams are believed, and what the server shows of itself: read with the configuration.

use super::settings::UpstreamTls;
use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use thiserror::Error;

/// Bytes of a file with certificates that are read: a bundle of all public authorities has some 250 KiB.
const FILE_BYTES_MAX: u64 = 8 << 20;
/// Servers whose sessions are kept for resumption, of one upstream and all loops.
const SESSIONS_MAX: usize = 256;

/// Why TLS cannot be spoken with an upstream.
#[derive(Debug, Error)]
pub(crate) enum TrustError {
    /// A file cannot be read.
    #[error("{path} cannot be read: {source}", path = path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A file has no certificate in PEM, or a broken one.
    #[error("{path} has no certificate in PEM that can be read", path = path.display())]
    NoCertificate { path: PathBuf },
    /// A file has no key in PEM.
    #[error("{path} has no private key in PEM that can be read", path = path.display())]
    NoKey { path: PathBuf },
    /// The system has no list of authorities.
    #[error("this system has no list of authorities (package ca-certificates)")]
    NoRoots,
    /// The key is not that of the certificate, or is of a kind that is not known.
    #[error("the key {path} cannot be used with its certificate: {source}", path = path.display())]
    Unusable {
        path: PathBuf,
        #[source]
        source: rustls::Error,
    },
    /// What the library says otherwise.
    #[error("TLS cannot be set up: {0}")]
    Library(#[from] rustls::Error),
}

/// What handshakes with the servers of one upstream need; all loops share it, and the sessions that are resumed.
pub(crate) struct Trust {
    pub(super) config: Arc<ClientConfig>,
}

impl fmt::Debug for Trust {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What it was made of stands in the rules.
        formatter.debug_struct("Trust").finish_non_exhaustive()
    }
}

impl Trust {
    /// Reads the files of an upstream, and notes their digest among the rules: changed files make another upstream.
    ///
    /// # Errors
    ///
    /// [`TrustError`] says which file is wrong, and how.
    pub(crate) fn load(tls: &mut UpstreamTls) -> Result<Self, TrustError> {
        let mut digest = ::ring::digest::Context::new(&::ring::digest::SHA256);
        let roots = match &tls.ca {
            Some(path) => authorities(path, &mut digest)?,
            None => system_roots()?,
        };
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions()?.with_root_certificates(roots);
        let mut config = match &tls.client {
            Some(client) => {
                let text = read(&client.certificate, &mut digest)?;
                let chain = certificates(&client.certificate, &text)?;
                let text = read(&client.key, &mut digest)?;
                let key = PrivateKeyDer::from_pem_slice(&text);
                let key = key.map_err(|_| TrustError::NoKey { path: client.key.clone() })?;
                let unusable = |source| TrustError::Unusable { path: client.key.clone(), source };
                builder.with_client_auth_cert(chain, key).map_err(unusable)?
            }
            None => builder.with_no_client_auth(),
        };
        config.resumption = Resumption::in_memory_sessions(SESSIONS_MAX);
        tls.digest.copy_from_slice(digest.finish().as_ref());
        Ok(Self { config: Arc::new(config) })
    }
}

/// The name that a certificate is checked for: a DNS name, or an address.
pub(crate) fn server_name(text: &str) -> Option<ServerName<'static>> {
    ServerName::try_from(text.to_owned()).ok()
}

/// The authorities of the system: read once, as a confined server may not be able to read them later.
fn system_roots() -> Result<Arc<RootCertStore>, TrustError> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    if let Some(roots) = ROOTS.get() {
        return Ok(Arc::clone(roots));
    }
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    // Nothing is remembered, so that a reload finds a list that was installed since.
    if added == 0 { Err(TrustError::NoRoots) } else { Ok(Arc::clone(ROOTS.get_or_init(|| Arc::new(roots)))) }
}

fn authorities(path: &Path, digest: &mut ::ring::digest::Context) -> Result<Arc<RootCertStore>, TrustError> {
    let text = read(path, digest)?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path, &text)? {
        roots.add(certificate).map_err(|_| TrustError::NoCertificate { path: path.to_owned() })?;
    }
    Ok(Arc::new(roots))
}

fn certificates(path: &Path, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, TrustError> {
    let none = || TrustError::NoCertificate { path: path.to_owned() };
    let found = CertificateDer::pem_slice_iter(text).collect::<Result<Vec<_>, _>>().map_err(|_| none())?;
    if found.is_empty() { Err(none()) } else { Ok(found) }
}

/// Reads a file, no more of it than any list of certificates has.
fn read(path: &Path, digest: &mut ::ring::digest::Context) -> Result<Vec<u8>, TrustError> {
    let mut bytes = Vec::new();
    let unreadable = |source| TrustError::Unreadable { path: path.to_owned(), source };
    let file = File::open(path).map_err(unreadable)?;
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(unreadable)?;
    digest.update(&(bytes.len() as u64).to_le_bytes());
    digest.update(&bytes);
    Ok(bytes)
}
