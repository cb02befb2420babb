//! How a server is reached: over which socket, through what, and under which protection.

pub(crate) mod base64;
pub(crate) mod pin;
pub(crate) mod reasons;
pub(crate) mod sessions;
pub(crate) mod tls;
pub(crate) mod tls_words;

use crate::LoadError;

pub use pin::{Pin, PinError};
pub use reasons::Reason;
pub use tls::{Tls, TlsVersion, cipher_names};

/// How a server is reached; by default directly, over TCP, with what the URL says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reach {
    /// How a connection is encrypted where the URL is `https`.
    pub tls: Tls,
}

impl Reach {
    /// Whether it can be done, over an encrypted connection or not.
    pub(crate) fn check(&self, encrypted: bool) -> Result<(), LoadError> {
        let tls = &self.tls;
        if !encrypted && !tls.is_default() {
            return Err(LoadError::Options(
                "options of TLS (such as --cert, --sni, --pin, --tls) need an https:// URL",
            ));
        }
        if tls.key.is_some() && tls.certificate.is_none() {
            return Err(LoadError::Options("a private key (--key) needs its certificate (--cert)"));
        }
        Ok(())
    }
}
