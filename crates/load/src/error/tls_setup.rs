//! Why TLS cannot be set up.

use std::path::PathBuf;

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
    /// The client's certificate or key cannot be read.
    #[error("{}: no PEM {what} can be read from it: {cause}", path.display())]
    Identity {
        /// The file.
        path: PathBuf,
        /// What was looked for.
        what: &'static str,
        /// What is wrong with it.
        cause: String,
    },
    /// The key belongs to another certificate.
    #[error("the private key (--key) is not that of the certificate (--cert)")]
    OtherKey,
    /// A cipher suite that is not known.
    #[error("{name}: no such cipher suite; there are {known}, and those of TLS 1.2 by their OpenSSL names too")]
    Cipher {
        /// What was given.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// No suite is of a version that is offered.
    #[error("none of the cipher suites (--ciphers) belongs to the version of TLS that is asked for (--tls)")]
    NoCipher,
    /// The TLS library refused the set-up.
    #[error("TLS cannot be set up: {0}")]
    Library(#[from] rustls::Error),
}
