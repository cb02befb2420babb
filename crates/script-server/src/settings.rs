//! What a script server is to do.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// What a script server is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where it listens.
    pub listen: SocketAddr,
    /// How TLS is spoken; none if it is not.
    pub tls: Option<TlsFiles>,
    /// Connections at once; further ones are closed.
    pub connections_max: usize,
    /// How long a connection is kept without a request.
    pub idle: Duration,
    /// Names of variables that scripts get from peers besides those that say something of a request.
    pub accept: Vec<String>,
    /// Where scripts lie.
    pub mounts: Vec<Mount>,
}

/// Files in PEM, and whose certificates are taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate that is shown, followed by its chain.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authorities of the peers' certificates.
    pub ca: PathBuf,
    /// Names (subjectAltName of RFC 5280 section 4.2.1.6) of which a peer's certificate has at least one; all
    /// certificates of the authorities are taken if there are none.
    pub names: Vec<String>,
}

/// A directory with scripts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// What of a request's path stands for the directory, with a slash at its beginning and at its end.
    pub prefix: String,
    /// The directory.
    pub root: PathBuf,
    /// How names of scripts end; each file is one if there are none.
    pub endings: Vec<String>,
    /// Where the runners of its pool listen, a Unix socket.
    pub socket: PathBuf,
    /// Requests at once, those that wait for a runner included; more get 503.
    pub requests_max: usize,
}
