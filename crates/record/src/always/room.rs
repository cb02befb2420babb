//! Room on the disk: whether a recording ended for want of it, and whether there is some again.

use std::ffi::CString;
use std::io::{Error, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Bytes that must be free before a recording begins again: some windows of a busy server.
pub(super) const ENOUGH: u64 = 4 << 20;
/// Files that must be free: a run's own, and a segment for each CPU.
const ENOUGH_FILES: u64 = 64;

/// Whether something failed because a disk is full.
pub(super) fn is_wanting(error: &anyhow::Error) -> bool {
    let full = |error: &Error| error.kind() == ErrorKind::StorageFull;
    error.chain().any(|cause| cause.downcast_ref::<Error>().is_some_and(full))
}

/// Whether there is room in a directory; yes where the system does not tell, so that a try finds out.
pub(super) fn is_there(directory: &Path) -> bool {
    let Ok(path) = CString::new(directory.as_os_str().as_bytes()) else { return true };
    // SAFETY: an all-zero statvfs is valid; the call reads the path and writes the structure, which live through it.
    let found = unsafe {
        let mut found: libc::statvfs = std::mem::zeroed();
        (libc::statvfs(path.as_ptr(), &raw mut found) == 0).then_some(found)
    };
    found.is_none_or(|found| {
        // A file system that makes its files as it goes tells of none.
        let files = found.f_files == 0 || found.f_favail >= ENOUGH_FILES;
        files && found.f_bavail.saturating_mul(found.f_frsize) >= ENOUGH
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn a_full_disk_is_told_from_other_failures_however_deep_it_lies() {
        let failed = |kind: ErrorKind| Err::<(), Error>(kind.into()).context("writing").context("recording");
        assert!(is_wanting(&failed(ErrorKind::StorageFull).expect_err("it failed")));
        assert!(!is_wanting(&failed(ErrorKind::PermissionDenied).expect_err("it failed")));
        assert!(is_there(Path::new("/no/such/directory")), "unknown counts as room");
        assert!(!is_there(Path::new("/proc")), "nothing can be written there");
    }
}
