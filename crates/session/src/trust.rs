//! Which certificates are believed.

use std::path::PathBuf;

/// Which certificates are believed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Trust {
    /// Those that the system trusts.
    #[default]
    System,
    /// Those that the certificates of a PEM file sign.
    File(PathBuf),
    /// All.
    Anything,
}

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
#[error("{}: no PEM certificate can be read from it: {cause}", path.display())]
pub struct TrustError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub cause: String,
}
