//! What can go wrong with the directory, each with what to do.

use crate::atoms::ManifestError;
use std::path::PathBuf;

/// Why an operation on the directory failed.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// The engine gave no answer, and nothing was changed.
    #[error("the directory in {engine} does not answer: {why}; see whether it runs and can be reached")]
    Away {
        /// Which engine, with its place.
        engine: String,
        /// What failed.
        why: String,
    },
    /// The engine did not say whether it carried a change out.
    #[error(
        "the directory in {engine} did not say whether it carried out the change: {why}; read it, and repeat the \
         change if it is missing"
    )]
    Unsure {
        /// Which engine, with its place.
        engine: String,
        /// What failed.
        why: String,
    },
    /// Another change came first.
    #[error("{what} is at version {found}, not {expected}: another change came first; read it and decide again")]
    Conflict {
        /// What was to be changed.
        what: String,
        /// The version that the caller expected; 0 for none.
        expected: u64,
        /// The version that is current; 0 for none.
        found: u64,
    },
    /// Others changed the same thing again and again.
    #[error("{what} was changed by others {tries} times meanwhile; try again")]
    Contended {
        /// What was to be changed.
        what: String,
        /// How often it was tried.
        tries: u32,
    },
    /// What was named does not exist.
    #[error("{what} is not in the directory; see what there is with `weir cluster status`")]
    Missing {
        /// What was named.
        what: String,
    },
    /// The lock is no longer held under this epoch.
    #[error("the lock {lock} is not held under epoch {epoch} any more; stop acting under it, and acquire it anew")]
    LockLost {
        /// The lock.
        lock: String,
        /// The epoch of the caller.
        epoch: u64,
    },
    /// A node of this name is there, with another identity.
    #[error("another node is called {name}; give this one another name, or let the other leave first")]
    NodeTaken {
        /// The name.
        name: String,
    },
    /// All numbers of nodes are given.
    #[error("the directory has {most} nodes, which is the most; let one leave first")]
    NodesFull {
        /// The most nodes.
        most: u16,
    },
    /// The name cannot be used.
    #[error("the name {name:?} cannot be used: take 1 to 128 letters, digits, `.`, `_` or `-`, and no dot at first")]
    Name {
        /// The name, without control characters.
        name: String,
    },
    /// The duration of a lease cannot be used.
    #[error("a time to live of {ms} ms cannot be used; take 1 s to 1 day")]
    TimeToLive {
        /// What was given, milliseconds.
        ms: u128,
    },
    /// Something has too many bytes.
    #[error("{what} has {bytes} bytes; at most {most} are possible")]
    TooLarge {
        /// What it is.
        what: String,
        /// Its bytes.
        bytes: usize,
        /// The most.
        most: usize,
    },
    /// The publication took longer than its pieces were kept.
    #[error("the pieces of the manifest of {site} expired before they were published; try again")]
    TooSlow {
        /// The site.
        site: String,
    },
    /// There is no room.
    #[error("the directory in {engine} is full: {why}; make room on its disk, or raise its bound")]
    Full {
        /// Which engine, with its place.
        engine: String,
        /// What it said.
        why: String,
    },
    /// The engine does not allow this.
    #[error("the directory in {engine} refuses: {why}; see that it knows our certificate and is of a known version")]
    Denied {
        /// Which engine, with its place.
        engine: String,
        /// What it said.
        why: String,
    },
    /// An entry, or the file, cannot be read.
    #[error(
        "{what} of the directory cannot be read: {why}; a newer weir or another program wrote it, or it is damaged"
    )]
    Damaged {
        /// A key or a file.
        what: String,
        /// What is wrong.
        why: String,
    },
    /// A setting cannot be used.
    #[error("the directory's setting `{setting}` cannot be used: {why}")]
    Setting {
        /// Which setting.
        setting: &'static str,
        /// What is wrong, and what would be right.
        why: String,
    },
    /// A file cannot be read or written.
    #[error("{}: {why}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// What is wrong, and what to do.
        why: String,
    },
    /// A manifest in the directory is wrong.
    #[error("the manifest of {site}, version {version}: {error}")]
    Manifest {
        /// The site.
        site: String,
        /// The version.
        version: u64,
        /// What is wrong.
        error: ManifestError,
    },
}

impl DirectoryError {
    /// Whether the engine could not be reached, so that last known values are the best there is.
    #[must_use]
    pub fn is_away(&self) -> bool {
        matches!(self, Self::Away { .. } | Self::Unsure { .. })
    }
}
