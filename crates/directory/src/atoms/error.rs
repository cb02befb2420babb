//! What can go wrong with manifests and content, each with what to do.

use super::digest::Digest;
use std::io;
use std::path::{Path, PathBuf};

/// Why a text is no manifest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// Its first line is another.
    #[error("it does not begin with `weir-manifest 1`; another version of weir wrote it")]
    Version,
    /// It has too many bytes.
    #[error("it has {bytes} bytes, and at most {most} are possible; publish the site in parts")]
    TooLong {
        /// Its bytes.
        bytes: usize,
        /// The most.
        most: usize,
    },
    /// It has too many files.
    #[error("it has {files} files, and at most {most} are possible; publish the site in parts")]
    TooMany {
        /// Its files.
        files: usize,
        /// The most.
        most: usize,
    },
    /// A line is wrong.
    #[error("line {line}: {why}; publish the site again")]
    Line {
        /// Its number, from 1 on.
        line: usize,
        /// What is wrong.
        why: &'static str,
    },
    /// A path is wrong.
    #[error("the path {path:?}: {why}; rename it")]
    Path {
        /// The path.
        path: String,
        /// What is wrong.
        why: &'static str,
    },
    /// Its digest is another than that of the version.
    #[error("its digest is {found}, not {expected}; publish the site again")]
    Digest {
        /// That of the version.
        expected: Digest,
        /// That of the text.
        found: Digest,
    },
}

/// Why content cannot be kept, read or exported.
#[derive(Debug, thiserror::Error)]
pub enum AtomError {
    /// A file or a folder.
    #[error("{}: {error}; it must exist and be accessible for this user, with room on its disk", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Something in a published folder that cannot be published.
    #[error("{}: {why}", path.display())]
    NotPublishable {
        /// Its path.
        path: PathBuf,
        /// What is wrong, and what to do.
        why: &'static str,
    },
    /// A manifest cannot be made.
    #[error("no manifest can be made: {0}")]
    Manifest(#[from] ManifestError),
    /// The bytes are not those of the digest.
    #[error("the bytes that came as {expected} are {found}; fetch them from another node")]
    Digest {
        /// What was asked for.
        expected: Digest,
        /// What came.
        found: Digest,
    },
    /// More or fewer bytes came than were announced.
    #[error("{found} bytes came as {digest}, not {expected}; fetch them from another node")]
    Length {
        /// What was asked for.
        digest: Digest,
        /// Its bytes.
        expected: u64,
        /// What came; one more than expected stands for all more.
        found: u64,
    },
    /// The store has no room left.
    #[error("the store has {used} of {most} bytes, and {wanted} more do not fit; evict some, or raise its bound")]
    Full {
        /// Its bytes.
        used: u64,
        /// The most.
        most: u64,
        /// What should have gone in, bytes.
        wanted: u64,
    },
    /// The store does not have this.
    #[error("the store does not have {digest}; fetch it from another node first")]
    Missing {
        /// What was asked for.
        digest: Digest,
    },
}

/// Names the file of an error.
pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> AtomError {
    let path = path.to_owned();
    move |error| AtomError::File { path, error }
}
