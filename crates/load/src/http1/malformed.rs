//! What came is no response.

use weir_client::Unlike;

pub(crate) use weir_client::HEAD_BYTES_MAX;

/// What came is not a response of HTTP/1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an HTTP/1 response: {0}")]
pub struct Malformed(pub Box<str>);

impl Malformed {
    /// The same with these words.
    pub(crate) fn new(words: impl Into<Box<str>>) -> Self {
        Self(words.into())
    }
}

impl From<Unlike> for Malformed {
    fn from(unlike: Unlike) -> Self {
        Self::new(unlike.0)
    }
}
