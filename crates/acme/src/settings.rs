//! What a caller chooses.

use std::path::PathBuf;

/// The directory of Let's Encrypt.
pub const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";
/// The directory of Let's Encrypt for trials: clients do not trust its certificates, and its rate limits are high.
pub const LETS_ENCRYPT_STAGING: &str = "https://acme-staging-v02.api.letsencrypt.org/directory";

/// How control of a name is proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChallengeKind {
    /// A file at port 80 (RFC 8555 section 8.3).
    Http01,
    /// A certificate at port 443 (RFC 8737).
    TlsAlpn01,
}

impl ChallengeKind {
    /// The type of the challenge in ACME's messages.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Http01 => "http-01",
            Self::TlsAlpn01 => "tls-alpn-01",
        }
    }
}

/// An account that the authority knows from elsewhere (RFC 8555 section 7.3.4).
#[derive(Clone, PartialEq, Eq)]
pub struct ExternalAccount {
    /// The identifier of its key.
    pub key_id: String,
    /// A file with its key, in base64url.
    pub key_file: PathBuf,
}

impl std::fmt::Debug for ExternalAccount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExternalAccount").field("key_file", &self.key_file).finish_non_exhaustive()
    }
}

/// From whom certificates come, and where they are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The URL of the authority's directory: https, or http on a loopback address.
    pub directory: String,
    /// Addresses that the authority may write to, as `mailto:NAME@HOST`; may be empty.
    pub contact: Vec<String>,
    /// The directory that keeps what is obtained.
    pub storage: PathBuf,
    /// A file of PEM with the only authorities that the directory's own certificate may come from, in place of the
    /// system's.
    pub ca: Option<PathBuf>,
    /// How control of names is proved; after a failure the next one is tried. At least one.
    pub challenges: Vec<ChallengeKind>,
    /// An account that the authority knows from elsewhere, which some require.
    pub external_account: Option<ExternalAccount>,
}
