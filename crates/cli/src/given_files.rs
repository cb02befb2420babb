//! Files that several commands read.

use std::path::Path;
use weir_terminal::text_file::{self, TextFileError};

/// The largest file of ARM directives that is read, in bytes.
pub(crate) const ARM_BYTES_MAX: u64 = 16 << 20;

/// Reads a policy, at most as many bytes as a policy may have.
pub(crate) fn read_policy(path: &Path) -> Result<String, TextFileError> {
    text_file::read(path, weir_adapt::POLICY_BYTES_MAX as u64 + 1)
}
