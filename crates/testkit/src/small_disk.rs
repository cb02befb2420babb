//! A file system that is soon full.

use crate::require;
use std::path::Path;
use std::process::{Command, Stdio};

/// A file system of its own in memory, unmounted with the value.
#[derive(Debug)]
pub struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// Mounts one of this size, MiB; `None` where that is not allowed, which is printed and counted.
    #[must_use]
    pub fn mount(mib: u32) -> Option<Self> {
        let folder = tempfile::tempdir().ok()?;
        let size = format!("size={mib}m");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "weir-small-disk"]).arg(folder.path()).stderr(Stdio::null());
        require::or_skip(mount.status().is_ok_and(|status| status.success()), "no file system can be mounted")?;
        Some(Self(folder))
    }

    /// Where it is mounted.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0.path()).status();
    }
}
