//! What a caller chooses about files: which links are followed, which compressed forms are sent.

use std::str::FromStr;
use thiserror::Error;

/// Which symbolic links are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Symlinks {
    /// None.
    Never,
    /// Those that lead to something below the root, by a relative path or by one that begins with the root's own.
    #[default]
    Within,
    /// Of these, those whose owner is also the owner of the file or directory that they lead to.
    Owner,
    /// All, wherever they lead: a user who can make a link in the root can have any file served. A server that confines
    /// itself does not reach files outside its roots, so that both together are refused.
    Anywhere,
}

/// A word that does not say which symbolic links are followed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{word:?} is neither never nor within nor owner nor anywhere")]
pub struct UnknownSymlinks {
    /// The word as it was given.
    pub word: String,
}

impl FromStr for Symlinks {
    type Err = UnknownSymlinks;

    fn from_str(text: &str) -> Result<Self, UnknownSymlinks> {
        match text {
            "never" => Ok(Self::Never),
            "within" => Ok(Self::Within),
            "owner" => Ok(Self::Owner),
            "anywhere" => Ok(Self::Anywhere),
            _ => Err(UnknownSymlinks { word: text.to_owned() }),
        }
    }
}

/// Which compressed forms clients that take them get (RFC 9110 section 12.5.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compression {
    /// Send `file.br`, `file.zst` or `file.gz` in place of `file`, if it is not older. Default: yes.
    pub neighbours: bool,
    /// Compress what is text, once, in a thread beside the loops, and keep it in memory. Default: yes.
    pub on_the_fly: bool,
    /// Bytes from which on that is done. Default: 1 KiB.
    pub bytes_min: u64,
    /// Bytes up to which that is done. Default: 1 MiB.
    pub bytes_max: u64,
}

impl Compression {
    /// Files are sent as they are.
    pub(crate) const NONE: Self = Self { neighbours: false, on_the_fly: false, bytes_min: 0, bytes_max: 0 };
}

impl Default for Compression {
    fn default() -> Self {
        Self { neighbours: true, on_the_fly: true, bytes_min: 1 << 10, bytes_max: 1 << 20 }
    }
}
