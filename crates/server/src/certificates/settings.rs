//! The files of certificates.

use std::path::PathBuf;

/// The files of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CertificateFiles {
    /// The certificate, then those that lead from it to an authority, in PEM.
    pub certificate: PathBuf,
    /// Its private key, in PEM: PKCS #8, PKCS #1 or SEC 1.
    pub key: PathBuf,
    /// What its authority says of it, an OCSP response in DER, which is sent along while it is not out of date.
    pub ocsp: Option<PathBuf>,
}

impl CertificateFiles {
    /// Those of a certificate and its key.
    pub fn new(certificate: PathBuf, key: PathBuf) -> Self {
        Self { certificate, key, ocsp: None }
    }

    /// All of them.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.certificate, &self.key].into_iter().chain(&self.ocsp)
    }
}
