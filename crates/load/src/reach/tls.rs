//! How connections are encrypted: certificates, names, versions, suites, sessions.

use crate::error::tls_setup::TlsSetupError;
use crate::reach::pin::Pin;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::ALL_CIPHER_SUITES;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};
use std::path::{Path, PathBuf};

/// How connections are encrypted where the URL is `https`; [`crate::Trust`] says which certificates are believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// The client's certificate and those that lead to its authority (PEM); the key too unless `key` is given.
    pub certificate: Option<PathBuf>,
    /// The certificate's private key (PEM).
    pub key: Option<PathBuf>,
    /// The name that the server is asked for and that its certificate must have; the URL's host where there is none.
    pub name: Option<String>,
    /// Whether the name is sent to the server (SNI).
    pub send_name: bool,
    /// Whether a connection resumes the session of a former one instead of making a whole handshake.
    pub resume: bool,
    /// Public keys that the server's certificate may have; any where there are none.
    pub pins: Vec<Pin>,
    /// The one version to offer; 1.3 and 1.2 where there is none.
    pub version: Option<TlsVersion>,
    /// Cipher suites to offer, the preferred first, by the names of [`cipher_names`] or by those of OpenSSL; all that
    /// there are where none is given.
    pub ciphers: Vec<String>,
    /// Protocols that are offered (ALPN), the preferred first.
    pub alpn: Vec<Vec<u8>>,
}

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsVersion {
    /// RFC 5246.
    Tls12,
    /// RFC 8446.
    Tls13,
}

impl Default for Tls {
    fn default() -> Self {
        Self {
            certificate: None,
            key: None,
            name: None,
            send_name: true,
            // Each connection stands for another user, and a user who comes for the first time resumes nothing.
            resume: false,
            pins: Vec::new(),
            version: None,
            ciphers: Vec::new(),
            alpn: vec![b"http/1.1".to_vec()],
        }
    }
}

impl Tls {
    /// Whether anything differs from what is done without being asked.
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The cryptography with the suites that may be used.
    pub(crate) fn provider(&self) -> Result<CryptoProvider, TlsSetupError> {
        let mut provider = rustls::crypto::ring::default_provider();
        if !self.ciphers.is_empty() {
            provider.cipher_suites = self.ciphers.iter().map(|name| cipher(name)).collect::<Result<_, _>>()?;
        }
        let offered = self.versions();
        if !provider.cipher_suites.iter().any(|suite| offered.iter().any(|version| suite.version() == *version)) {
            return Err(TlsSetupError::NoCipher);
        }
        Ok(provider)
    }

    /// The versions to offer.
    pub(crate) fn versions(&self) -> &'static [&'static SupportedProtocolVersion] {
        static TLS12: [&SupportedProtocolVersion; 1] = [&rustls::version::TLS12];
        static TLS13: [&SupportedProtocolVersion; 1] = [&rustls::version::TLS13];
        match self.version {
            None => rustls::DEFAULT_VERSIONS,
            Some(TlsVersion::Tls12) => &TLS12,
            Some(TlsVersion::Tls13) => &TLS13,
        }
    }

    /// The client's certificate and key.
    pub(crate) fn identity(&self) -> Result<Option<Identity>, TlsSetupError> {
        let Some(certificate) = &self.certificate else { return Ok(None) };
        let unreadable = |path: &Path, what: &'static str, cause: String| TlsSetupError::Identity {
            path: path.to_path_buf(),
            what,
            cause,
        };
        let wrong = |cause: String| unreadable(certificate, "certificate", cause);
        let chain: Vec<_> = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect)
            .map_err(|error: rustls::pki_types::pem::Error| wrong(error.to_string()))?;
        if chain.is_empty() {
            return Err(wrong("it holds none".to_owned()));
        }
        let file = self.key.as_ref().unwrap_or(certificate);
        let key = PrivateKeyDer::from_pem_file(file).map_err(|error| {
            let cause = match error {
                rustls::pki_types::pem::Error::NoItemsFound => "it holds none that is not encrypted".to_owned(),
                error => error.to_string(),
            };
            unreadable(file, "private key", cause)
        })?;
        Ok(Some(Identity { chain, key }))
    }
}

/// A client's certificate with those above it, and its key.
pub(crate) struct Identity {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
}

/// The names of all cipher suites that can be offered, those of TLS 1.3 first.
#[must_use]
pub fn cipher_names() -> Vec<String> {
    ALL_CIPHER_SUITES.iter().map(standard_name).collect()
}

/// The suite's name in IANA's list.
fn standard_name(suite: &SupportedCipherSuite) -> String {
    let own = suite.suite().as_str().unwrap_or_default();
    match own.strip_prefix("TLS13_") {
        Some(rest) => format!("TLS_{rest}"),
        None => own.to_owned(),
    }
}

/// The suite's name in OpenSSL: `ECDHE-RSA-AES128-GCM-SHA256`; those of TLS 1.3 have no other there.
fn name_in_openssl(standard: &str) -> String {
    let short = standard.trim_start_matches("TLS_").replace("_WITH", "").replace("AES_", "AES");
    // The hash of this one goes without saying there.
    short.replace("POLY1305_SHA256", "POLY1305").replace('_', "-")
}

/// The suite's name in OpenSSL, for any version of TLS.
pub(crate) fn openssl_name(suite: &SupportedCipherSuite) -> String {
    let standard = standard_name(suite);
    if standard.contains("_WITH_") { name_in_openssl(&standard) } else { standard }
}

fn cipher(name: &str) -> Result<SupportedCipherSuite, TlsSetupError> {
    let is_it = |suite: &&SupportedCipherSuite| {
        standard_name(suite).eq_ignore_ascii_case(name) || openssl_name(suite).eq_ignore_ascii_case(name)
    };
    ALL_CIPHER_SUITES
        .iter()
        .find(is_it)
        .copied()
        .ok_or_else(|| TlsSetupError::Cipher { name: name.to_owned(), known: cipher_names().join(", ") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_have_two_names() {
        let names = cipher_names();
        assert_eq!((names.len(), names[0].as_str()), (9, "TLS_AES_256_GCM_SHA384"));
        for name in ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"] {
            assert_eq!(
                cipher(name).expect(name),
                rustls::crypto::ring::cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
            );
        }
        assert!(cipher("ecdhe-ecdsa-chacha20-poly1305").is_ok() && cipher("TLS_AES_128_GCM_SHA256").is_ok());
        let error = cipher("RC4-MD5").expect_err("it is gone").to_string();
        assert!(error.contains("RC4-MD5") && names.iter().all(|name| error.contains(name)), "{error}");
    }

    #[test]
    fn versions_and_suites_must_fit() {
        let with = |version, cipher: &str| {
            Tls { version: Some(version), ciphers: vec![cipher.to_owned()], ..Tls::default() }.provider().map(|_| ())
        };
        assert!(with(TlsVersion::Tls13, "TLS_AES_128_GCM_SHA256").is_ok());
        assert!(matches!(with(TlsVersion::Tls12, "TLS_AES_128_GCM_SHA256"), Err(TlsSetupError::NoCipher)));
        assert!(matches!(with(TlsVersion::Tls13, "ECDHE-RSA-AES128-GCM-SHA256"), Err(TlsSetupError::NoCipher)));
    }
}
