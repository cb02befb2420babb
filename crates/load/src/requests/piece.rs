//! One request of several that go out together.

/// One request of a batch of different ones.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) request: u32,
    /// Its length, once the batch is composed.
    pub(crate) bytes: u32,
}
