//! What a proxy says instead of connecting us.

use std::io;

/// A proxy did not let the connection through; the text is its own word, or what is wrong with its answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

impl Refusal {
    /// A refusal in our words, such as for an answer that makes no sense.
    pub(crate) fn new(words: &str) -> Self {
        Self(words.to_owned())
    }

    /// The refusal in an error of a connection, if it is one.
    pub(crate) fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> Self {
        Self::other(refusal)
    }
}
