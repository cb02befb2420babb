//! Content that lies on other machines, as the program that runs the server brings it.

use super::application::Wake;
use std::fmt;
use std::sync::Arc;

/// A part of content that is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WantedContent<'w> {
    /// The path that was asked for, from the root of its site.
    pub path: &'w [u8],
    /// The SHA-256 of the whole content.
    pub digest: [u8; 32],
    /// Its bytes.
    pub bytes: u64,
    /// The first byte that is wanted.
    pub from: u64,
    /// One past the last.
    pub to: u64,
}

/// The content does not come.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct ContentAway {
    /// In words for the client.
    pub why: String,
}

/// Brings content that lies elsewhere; see [`crate::Options::elsewhere`].
pub trait Elsewhere: fmt::Debug + Send + Sync {
    /// Begins to bring a part. It must not block; `wake` says that there is more.
    fn begin(&self, wanted: &WantedContent<'_>, wake: Wake) -> Box<dyn IncomingContent>;
}

/// A part of content on its way here. It is dropped when nothing wants it any more.
pub trait IncomingContent: fmt::Debug {
    /// The next bytes, in order; none if the wake will say when there are some. It must not block.
    ///
    /// # Errors
    ///
    /// [`ContentAway`], if no more comes.
    fn next(&mut self) -> Result<Option<Vec<u8>>, ContentAway>;
}

/// What brings it, among the settings of a site.
#[derive(Debug, Clone)]
pub(crate) struct ElsewhereHandle(pub(crate) Arc<dyn Elsewhere>);
