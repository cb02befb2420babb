//! The operations of the directory, written once over all engines.

mod core;
mod locks;
mod memory;
mod nodes;
mod operations;
mod policies;
mod publications;
mod removed;

pub(crate) use core::Agreed;
pub use policies::POLICY_BYTES_MAX;
pub use publications::{MANIFEST_PIECE_BYTES, VERSIONS_KEPT};
