//! Plain files that a configuration names.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use thiserror::Error;

/// Why a file that a configuration names cannot be used.
#[derive(Debug, Error)]
pub(super) enum FileError {
    /// The system refuses to open or to read it.
    #[error(transparent)]
    Unreadable(#[from] io::Error),
    /// It is a directory, or a device.
    #[error("it is no file")]
    NoFile,
    /// It is not UTF-8.
    #[error("it is no text")]
    NoText,
    /// It has more bytes than are allowed.
    #[error("it is too large")]
    TooLarge,
}

/// Reads a plain file that may not be larger.
pub(super) fn read_file(path: &Path, bytes_max: u64) -> Result<Vec<u8>, FileError> {
    // A pipe would keep the reader waiting.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(FileError::NoFile);
    }
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max { Err(FileError::TooLarge) } else { Ok(bytes) }
}
