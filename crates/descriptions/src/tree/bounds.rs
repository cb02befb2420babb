//! How large a document may be, and why a text is none.

/// The deepest value.
pub(super) const DEPTH_MAX: usize = 128;
/// The most values of a document, those that aliases repeat included.
pub(super) const NODES_MAX: usize = 2_000_000;

/// Why a text is no document: its line and column from 1, and what is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {what}")]
pub(crate) struct TreeError {
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) what: String,
}
