//! By which interface of the kernel bytes come and go.

use std::str::FromStr;
use thiserror::Error;

/// How a loop waits, and how bytes of connections in the clear that are kept come and go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Io {
    /// By io_uring where the kernel has it (Linux 6.1 and later) and lets it be used, else by epoll.
    #[default]
    Auto,
    /// A call for each reception and each transmission, told by epoll when there is something to do.
    Epoll,
    /// By io_uring, or the server does not start.
    Uring,
}

/// A word that names no such interface.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{word:?} is neither auto nor epoll nor io_uring")]
pub struct UnknownIo {
    /// The word as it was given.
    pub word: String,
}

impl FromStr for Io {
    type Err = UnknownIo;

    fn from_str(text: &str) -> Result<Self, UnknownIo> {
        match text {
            "auto" => Ok(Self::Auto),
            "epoll" => Ok(Self::Epoll),
            "io_uring" => Ok(Self::Uring),
            _ => Err(UnknownIo { word: text.to_owned() }),
        }
    }
}
