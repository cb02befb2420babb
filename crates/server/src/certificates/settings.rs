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
    /// The host for which another process obtains and renews it (ACME). The files may be missing then: until they are
    /// there, handshakes for the host are refused (`unrecognized_name`).
    pub obtained_for: Option<String>,
}

impl CertificateFiles {
    /// Those of a certificate and its key.
    pub fn new(certificate: PathBuf, key: PathBuf) -> Self {
        Self { certificate, key, ocsp: None, obtained_for: None }
    }

    /// That of a host that another process obtains: the certificate, its chain and its key are in one file.
    #[must_use]
    pub fn obtained(host: String, file: PathBuf) -> Self {
        Self { certificate: file.clone(), key: file, ocsp: None, obtained_for: Some(host) }
    }

    /// All of them.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.certificate, &self.key].into_iter().chain(&self.ocsp)
    }
}

/// How a host's name is proved to an authority, as a configuration says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObtainBy {
    /// Over HTTP in the clear (RFC 8555 section 8.3).
    Http01,
    /// By a handshake of TLS (RFC 8737).
    TlsAlpn01,
}

/// From whom certificates are obtained by ACME, as a configuration says it: for the program that obtains them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObtainOptions {
    /// The URL of the authority's directory, or `letsencrypt` or `letsencrypt-staging`.
    pub directory: String,
    /// Addresses of mail that the authority may write to.
    pub contact: Vec<String>,
    /// The directory in which what was obtained is kept.
    pub storage: PathBuf,
    /// A file with the authorities of the directory's own certificate, in place of the system's.
    pub ca: Option<PathBuf>,
    /// The challenge that proves names; none: the first one that the addresses of the server allow.
    pub challenge: Option<ObtainBy>,
    /// An account that the authority knows from elsewhere: the identifier of its key, and the file with it.
    pub external_account: Option<(String, PathBuf)>,
    /// The hosts, in the order of the configuration.
    pub hosts: Vec<String>,
}

impl ObtainOptions {
    /// The file in which the certificate and the key of a host are kept.
    #[must_use]
    pub fn file(&self, host: &str) -> PathBuf {
        self.storage.join("hosts").join(host).join("certificate.pem")
    }
}
