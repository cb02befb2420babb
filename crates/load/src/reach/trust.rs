//! Whose certificates are believed, as the user says it.

use std::path::PathBuf;

/// How the server's certificate is judged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Trust {
    /// By the roots that the system trusts.
    #[default]
    System,
    /// By the certificates of this PEM file, or of all such files in this directory.
    File(PathBuf),
    /// Not at all.
    Anything,
}
