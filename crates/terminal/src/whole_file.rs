//! Files that a reader finds whole at any time.

use std::io::Write;
use std::path::Path;

/// Whether a file is replaced as a whole; devices and pipes are written to.
pub fn replaced(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|metadata| metadata.is_file()) || !file.exists()
}

/// The folder that a file is in, or is to be in.
pub fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Writes a file such that a reader finds the old one or the new one at any time, never half of one.
///
/// # Errors
/// Those of the file system; nothing is left of a new one.
pub fn write_whole(file: &Path, content: impl AsRef<[u8]>) -> std::io::Result<()> {
    let content = content.as_ref();
    if !replaced(file) {
        return std::fs::OpenOptions::new().write(true).open(file)?.write_all(content);
    }
    // A link stays one: what it leads to is replaced.
    let file = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let mut fresh = tempfile::Builder::new();
    // As any program would make it: who may read it is up to the user's mask.
    let mut fresh = fresh
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666))
        .prefix(".weir-")
        .tempfile_in(folder_of(&file))?;
    fresh.write_all(content)?;
    fresh.persist(file).map_err(|error| error.error)?;
    Ok(())
}
