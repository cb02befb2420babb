//! Plain files that a configuration names.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Reads a plain file that may not be larger.
pub(super) fn read_file(path: &Path, bytes_max: u64) -> Result<Vec<u8>, String> {
    // A pipe would keep the reader waiting.
    let file =
        File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(|error| error.to_string())?;
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("it is no file".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > bytes_max { Err("it is too large".to_owned()) } else { Ok(bytes) }
}
