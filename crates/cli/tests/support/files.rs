//! Files of the tests: what is in them, and a disk that can be filled.
use std::fs;
use std::path::Path;
use std::process::Command;

use weir_testkit::require;

/// The bytes of all files of a directory.
pub(crate) fn contents(directory: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        bytes.extend(if path.is_dir() { contents(&path) } else { fs::read(&path).expect("readable") });
    }
    bytes
}

/// Whether a text stands somewhere in these bytes.
pub(crate) fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// A file system of its own in memory, unmounted with the test.
pub(crate) struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// Mounts one, where that is allowed.
    pub(crate) fn mount(mib: u32) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let size = format!("size={mib}m");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "weir-small"]).arg(folder.path()).status();
        require::or_skip(mounted.is_ok_and(|status| status.success()), "no file system can be mounted")?;
        Some(Self(folder))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a program that a failed test leaves behind may still hold files of it.
        let _ = Command::new("umount").arg("--lazy").arg(self.path()).status();
    }
}
