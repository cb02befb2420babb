//! Why a script server cannot begin, or cannot take up a configuration.

use crate::trust::TrustError;
use std::io;
use std::net::SocketAddr;

/// A script server cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// It cannot listen.
    #[error("cannot listen on {0}: {1}; name another address by `listen`, or end what listens there")]
    Listen(SocketAddr, io::Error),
    /// TLS cannot be spoken.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The system has no descriptors.
    #[error("no sockets: {0}; have the system give more descriptors")]
    System(#[from] io::Error),
}
