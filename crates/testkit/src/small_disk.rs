//! A file system that is soon full.

use crate::require;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A file system of its own in memory, unmounted with the value.
#[derive(Debug)]
pub struct SmallDisk {
    path: PathBuf,
    /// Where it is mounted, unless that is another one's.
    folder: Option<tempfile::TempDir>,
}

impl SmallDisk {
    /// Mounts one of this size, MiB; `None` where that is not allowed, which is printed and counted.
    #[must_use]
    pub fn mount(mib: u32) -> Option<Self> {
        let folder = tempfile::tempdir().ok()?;
        let mut disk = Self::mount_at(folder.path(), mib)?;
        disk.folder = Some(folder);
        Some(disk)
    }

    /// The same at a folder that there is.
    #[must_use]
    pub fn mount_at(path: &Path, mib: u32) -> Option<Self> {
        let size = format!("size={mib}m");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "weir-small-disk"]).arg(path).stderr(Stdio::null());
        require::or_skip(mount.status().is_ok_and(|status| status.success()), "no file system can be mounted")?;
        Some(Self { path: path.to_owned(), folder: None })
    }

    /// Where it is mounted.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.path).status();
    }
}
