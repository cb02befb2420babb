//! What bounds a run by workers.

/// The version of what orchestrator and workers say to each other.
pub const PROTOCOL: u32 = 2;
/// The most workers of a run.
pub const WORKERS_MAX: usize = 128;
/// The longest frame, bytes.
pub const FRAME_BYTES_MAX: usize = 32 << 20;
/// The most bytes of files that a run sends to each of its workers.
pub const FILES_BYTES_MAX: usize = 64 << 20;
/// The most bytes of a file in one frame.
pub const PIECE_BYTES_MAX: usize = 256 << 10;
/// A worker that hears nothing from its orchestrator for so long ends its load, nanoseconds.
pub const ORPHANED_NS: u64 = 5_000_000_000;
/// A worker that says nothing for so long is lost, nanoseconds.
pub const SILENT_NS: u64 = 10_000_000_000;
/// The most bytes of a worker's record of its requests.
pub const RECORD_BYTES_MAX: u64 = 4 << 30;
