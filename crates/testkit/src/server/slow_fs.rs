//! A file system whose `fsync` is slow: `weir-faulty slow-fs`.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::faulty::Faulty;
use super::process::Process;
use super::start::{StartError, own_directory, read_log, spawn, wait_until};

/// A mounted file system of one directory, with files in memory, which every user may write; dropping
/// it unmounts it. It is served by a process of the name `weir-slow-fs`.
#[derive(Debug)]
pub struct SlowFs {
    dir: PathBuf,
    process: Process,
    // Declared last: the directory can be removed when nothing is mounted on it any more.
    _own: TempDir,
}

impl SlowFs {
    /// Mounts it; each `fsync` takes so many milliseconds, and everything else none. It takes root.
    pub fn mount(fsync_ms: u32) -> Result<Self, StartError> {
        let own = own_directory().map_err(StartError::Prepare)?;
        let dir = own.path().join("slow");
        std::fs::create_dir(&dir).map_err(StartError::Prepare)?;
        let log = own.path().join("output.log");
        let mut command = Command::new(Faulty::program());
        command.arg("slow-fs").arg(&dir).args(["--ms", &fsync_ms.to_string()]);
        let mut process = spawn(command, &log, None, libc::SIGTERM)?;
        wait_until(&mut process, &[&log], || read_log(&log).contains("mounted on").then_some(()))?;
        Ok(Self { dir, process, _own: own })
    }

    /// Where its files are.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The process that serves it.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }
}
