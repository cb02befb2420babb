//! Authorities that a host believes about its clients, and the certificates that they have revoked.

use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

/// Bytes of a file with authorities or revoked certificates.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Why authorities cannot be used.
#[derive(Debug, Error)]
pub(crate) enum ClientAuthoritiesError {
    #[error("{path}: {source}; give a file in PEM", path = path.display())]
    Unreadable { path: PathBuf, source: pem::Error },
    #[error("{path} holds {what}; give a file in PEM with at least one", path = path.display())]
    Empty { path: PathBuf, what: &'static str },
    #[error("{path}: {source}; give certificates of authorities", path = path.display())]
    Unusable { path: PathBuf, source: rustls::Error },
    #[error("{path}: {source}; give lists that these authorities have signed", path = path.display())]
    Lists { path: PathBuf, source: rustls::server::VerifierBuilderError },
}

/// Authorities of a host, and their lists of revoked certificates.
#[derive(Debug)]
pub(crate) struct ClientAuthorities {
    verifier: Arc<dyn ClientCertVerifier>,
}

impl ClientAuthorities {
    /// Reads the certificates of authorities, and lists of revoked ones (RFC 5280 section 5), all in PEM.
    ///
    /// # Errors
    ///
    /// What is wrong with the files.
    pub(crate) fn load(ca: &Path, crl: Option<&Path>) -> Result<Self, ClientAuthoritiesError> {
        let mut roots = RootCertStore::empty();
        for root in items::<CertificateDer<'static>>(ca, "no certificate")? {
            let unusable = |source| ClientAuthoritiesError::Unusable { path: ca.to_owned(), source };
            roots.add(root).map_err(unusable)?;
        }
        let lists =
            crl.map(|crl| items::<CertificateRevocationListDer<'static>>(crl, "no list of revoked certificates"));
        let lists = lists.transpose()?.unwrap_or_default();
        let provider = Arc::new(ring::default_provider());
        let mut builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        if !lists.is_empty() {
            // An old list may lack what was revoked since.
            builder = builder.with_crls(lists).enforce_revocation_expiration();
        }
        let path = crl.unwrap_or(ca).to_owned();
        let verifier = builder.build().map_err(|source| ClientAuthoritiesError::Lists { path, source })?;
        Ok(Self { verifier })
    }

    /// Whether one of them stands for a certificate now: the first of the chain, whose others lead to it.
    ///
    /// # Errors
    ///
    /// Why not, as rustls says it.
    pub(crate) fn judge(&self, chain: &[CertificateDer<'static>]) -> Result<(), rustls::Error> {
        let (first, others) = chain.split_first().ok_or(rustls::Error::NoCertificatesPresented)?;
        self.verifier.verify_client_cert(first, others, UnixTime::now()).map(|_| ())
    }
}

/// What a file in PEM has of a kind: at least one.
fn items<T: PemObject>(path: &Path, none: &'static str) -> Result<Vec<T>, ClientAuthoritiesError> {
    let unreadable = |source| ClientAuthoritiesError::Unreadable { path: path.to_owned(), source };
    let text = read(path).map_err(|source| unreadable(pem::Error::Io(source)))?;
    let items = T::pem_slice_iter(&text).collect::<Result<Vec<T>, _>>().map_err(unreadable)?;
    if items.is_empty() {
        return Err(ClientAuthoritiesError::Empty { path: path.to_owned(), what: none });
    }
    Ok(items)
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        // What is cut off could be what was revoked.
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it has more than 64 MiB"));
    }
    Ok(bytes)
}
