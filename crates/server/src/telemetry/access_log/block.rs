//! The size of the blocks that loops hand to the writer.

/// Bytes that a loop collects before it hands them over.
pub(super) const BLOCK_BYTES: usize = 32 << 10;

/// Bytes that a block's memory may have to be used again.
pub(super) const KEPT_AFTER_MAX: usize = 2 * BLOCK_BYTES;

/// Some whole lines.
pub(super) struct Block {
    pub(super) text: Vec<u8>,
    pub(super) lines: u64,
}
