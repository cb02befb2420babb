//! Which peers are believed, and what this host shows of itself.

use crate::settings::TlsFiles;
use rustls::client::verify_server_name;
use rustls::crypto::ring;
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{AlertDescription, CertificateError, RootCertStore, ServerConfig, ServerConnection};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of a file with certificates that are read.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// TLS cannot be spoken with these files.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// A file cannot be read.
    #[error("{} cannot be read: {source}; give a file that can", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file has no certificate.
    #[error("{} has no certificate in PEM that can be read; give one", .0.display())]
    NoCertificate(PathBuf),
    /// A file has no private key.
    #[error("{} has no private key in PEM that can be read; give the one of `certificate`", .0.display())]
    NoKey(PathBuf),
    /// The key is of another certificate, or of a kind that is not known.
    #[error("{} cannot be used with its certificate: {source}; give the key that the certificate was made for", path.display())]
    Unusable {
        /// The file with the key.
        path: PathBuf,
        /// What the library says.
        source: rustls::Error,
    },
    /// The authorities are none.
    #[error("{} cannot be used: {why}; give certificates of authorities", path.display())]
    Authorities {
        /// The file with them.
        path: PathBuf,
        /// What the library says.
        why: String,
    },
    /// A name of a certificate is none.
    #[error("{0} is no name of a certificate; write one such as web.example.org")]
    Name(String),
    /// What the library says otherwise.
    #[error("TLS cannot be set up: {0}; report this")]
    Library(#[from] rustls::Error),
}

/// A peer that is not believed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Untrusted {
    #[error("it shows no certificate; give its upstream client_certificate and client_key")]
    NoCertificate,
    #[error("its certificate is of an authority that `ca` does not hold")]
    UnknownAuthority,
    #[error("its certificate has expired, or is not valid yet; renew it, and look at the clocks of both hosts")]
    OutOfTime,
    #[error("its certificate cannot be believed: {0}")]
    Certificate(CertificateError),
    #[error("its certificate is for none of `names`")]
    OtherName,
    #[error("it does not believe this server's certificate ({0:?}); look at `ca` and `server_name` of its upstream")]
    RefusedBy(AlertDescription),
    #[error("it does not speak TLS; write tls: before its upstream's address")]
    NoTls,
    #[error("it went away in the handshake")]
    Gone,
    #[error("its handshake took too long")]
    Late,
    #[error("{0}")]
    Library(rustls::Error),
}

impl TrustError {
    /// Whether this process lacks the right to read a file.
    pub(crate) fn is_denied(&self) -> bool {
        matches!(self, Self::Unreadable { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
    }
}

impl Untrusted {
    pub(crate) fn of(error: rustls::Error) -> Self {
        use rustls::Error;
        match error {
            Error::NoCertificatesPresented => Self::NoCertificate,
            Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
                Self::UnknownAuthority
            }
            Error::InvalidCertificate(
                CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. },
            ) => Self::OutOfTime,
            Error::InvalidCertificate(error) => Self::Certificate(error),
            Error::AlertReceived(
                alert @ (AlertDescription::UnknownCA
                | AlertDescription::BadCertificate
                | AlertDescription::CertificateUnknown
                | AlertDescription::CertificateExpired
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::UnrecognisedName
                | AlertDescription::DecryptError),
            ) => Self::RefusedBy(alert),
            Error::InvalidMessage(_) => Self::NoTls,
            error => Self::Library(error),
        }
    }
}

/// What handshakes need.
#[derive(Debug)]
pub(crate) struct Trust {
    pub(crate) config: Arc<ServerConfig>,
    names: Vec<ServerName<'static>>,
    /// The certificates of the authorities.
    authorities: Vec<CertificateDer<'static>>,
    files: TlsFiles,
}

impl Trust {
    /// Reads the files, and whether certificate and key are those of `kept`: so it is if they are the same files, and may
    /// not be read any more.
    pub(crate) fn load(files: &TlsFiles, kept: Option<&Self>) -> Result<(Self, bool), TrustError> {
        let provider = Arc::new(ring::default_provider());
        let mut roots = RootCertStore::empty();
        let of_roots = |why: String| TrustError::Authorities { path: files.ca.clone(), why };
        let authorities = certificates(&files.ca)?;
        for certificate in &authorities {
            roots.add(certificate.clone()).map_err(|error| of_roots(error.to_string()))?;
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build();
        let verifier = verifier.map_err(|error| of_roots(error.to_string()))?;
        let unusable = |source| TrustError::Unusable { path: files.key.clone(), source };
        let builder = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(verifier);
        let is_same = |kept: &&Self| (&kept.files.certificate, &kept.files.key) == (&files.certificate, &files.key);
        let (config, keeps_key) = match (shown(files), kept.filter(is_same)) {
            (Err(error), Some(kept)) if error.is_denied() => {
                (builder.with_cert_resolver(Arc::clone(&kept.config.cert_resolver)), true)
            }
            (shown, _) => {
                let (chain, key) = shown?;
                (builder.with_single_cert(chain, key).map_err(unusable)?, false)
            }
        };
        let name = |name: &String| ServerName::try_from(name.clone()).map_err(|_| TrustError::Name(name.clone()));
        let names = files.names.iter().map(name).collect::<Result<_, _>>()?;
        Ok((Self { config: Arc::new(config), names, authorities, files: files.clone() }, keeps_key))
    }

    /// Whether it believes the peers that another one believes, and no others.
    pub(crate) fn believes_as(&self, other: &Self) -> bool {
        (&self.names, &self.authorities) == (&other.names, &other.authorities)
    }

    /// Looks whether the peer's certificate has one of the names.
    pub(crate) fn check_name(&self, tls: &ServerConnection) -> Result<(), Untrusted> {
        if self.names.is_empty() {
            return Ok(());
        }
        let certificate = tls.peer_certificates().and_then(<[_]>::first).ok_or(Untrusted::NoCertificate)?;
        let certificate = ParsedCertificate::try_from(certificate).map_err(Untrusted::of)?;
        let has_one = self.names.iter().any(|name| verify_server_name(&certificate, name).is_ok());
        if has_one { Ok(()) } else { Err(Untrusted::OtherName) }
    }
}

/// What this host shows, and its key.
fn shown(files: &TlsFiles) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TrustError> {
    let chain = certificates(&files.certificate)?;
    let key = PrivateKeyDer::from_pem_slice(&read(&files.key)?);
    Ok((chain, key.map_err(|_| TrustError::NoKey(files.key.clone()))?))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TrustError> {
    let text = read(path)?;
    let found = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>().unwrap_or_default();
    if found.is_empty() { Err(TrustError::NoCertificate(path.to_owned())) } else { Ok(found) }
}

fn read(path: &Path) -> Result<Vec<u8>, TrustError> {
    let unreadable = |source| TrustError::Unreadable { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}
