//! A small run that is kept as long as it is written: the collector needs a place, and what is watched is taken from its
//! memory.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use thiserror::Error;
use weir_trace::{Run, WriteError};

/// Locked as long as the folder is in use.
const LOCK: &str = "in-use";
/// A younger folder may be one whose lock is about to be taken.
const OLD_ENOUGH: Duration = Duration::from_secs(60);

/// Why there is no place for the run.
#[derive(Debug, Error)]
#[error("{path}: cannot be written: {why}; make room, or name another directory by TMPDIR")]
pub(crate) struct PassingRunError {
    path: PathBuf,
    /// Not as a source: it is in the words above.
    why: io::Error,
}

/// The run in its folder below the directory for temporary files, which goes with it.
#[derive(Debug)]
pub(crate) struct PassingRun {
    pub(crate) run: Run,
    _lock: File,
    _folder: TempDir,
}

impl PassingRun {
    /// Makes one for `weir NAME`, and removes those that killed commands of this name left behind.
    ///
    /// # Errors
    /// [`PassingRunError`].
    pub(crate) fn create(name: &str) -> Result<Self, PassingRunError> {
        let (within, prefix) = (std::env::temp_dir(), format!("weir-{name}-"));
        remove_left(&within, &prefix);
        let folder = tempfile::Builder::new().prefix(&prefix).tempdir_in(&within);
        let folder = folder.map_err(|why| PassingRunError { path: within, why })?;
        let lock = folder.path().join(LOCK);
        let held = File::create(&lock).and_then(|file| lock_now(&file).map(|()| file));
        let held = held.map_err(|why| PassingRunError { path: lock, why })?;
        let run = Run::create(&folder.path().join("run")).map_err(|error| match error {
            WriteError::Io { path, source: why } => PassingRunError { path, why },
            WriteError::NotEmpty(path) => PassingRunError { path, why: io::ErrorKind::DirectoryNotEmpty.into() },
        })?;
        Ok(Self { run, _lock: held, _folder: folder })
    }
}

/// Removes this user's folders that no process holds. What cannot be removed stays, and is no reason not to begin.
fn remove_left(within: &Path, prefix: &str) {
    // SAFETY: the call has no arguments and cannot fail.
    let own = unsafe { libc::geteuid() };
    for entry in fs::read_dir(within).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(prefix) {
            continue;
        }
        let (folder, lock) = (entry.path(), entry.path().join(LOCK));
        let is_ours = fs::symlink_metadata(&folder).is_ok_and(|found| found.is_dir() && found.uid() == own);
        let is_old = fs::symlink_metadata(&lock)
            .and_then(|found| found.modified())
            .is_ok_and(|made| made.elapsed().is_ok_and(|age| age > OLD_ENOUGH));
        if is_ours && is_old && File::open(&lock).and_then(|file| lock_now(&file)).is_ok() {
            let _ = fs::remove_dir_all(&folder);
        }
    }
}

/// Takes the lock of a file (flock(2)), which the kernel gives up with the process, or says at once that another has it.
fn lock_now(file: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open, and the call takes no pointers.
    match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    fn left(within: &Path, name: &str, age: Duration) -> File {
        fs::create_dir(within.join(name)).expect("creates");
        let lock = File::create(within.join(name).join(LOCK)).expect("creates");
        lock.set_modified(SystemTime::now() - age).expect("sets");
        lock
    }

    #[test]
    fn what_a_killed_command_left_is_removed_and_nothing_else() {
        let within = tempfile::tempdir().expect("a directory");
        let (old, young) = (2 * OLD_ENOUGH, OLD_ENOUGH / 2);
        drop(left(within.path(), "weir-top-killed", old));
        drop(left(within.path(), "weir-top-begins", young));
        drop(left(within.path(), "weir-watch-other", old));
        let runs = left(within.path(), "weir-top-runs", old);
        lock_now(&runs).expect("none has it");
        fs::create_dir(within.path().join("weir-top-no-lock")).expect("creates");
        remove_left(within.path(), "weir-top-");
        let mut stay: Vec<_> =
            fs::read_dir(within.path()).expect("reads").map(|entry| entry.expect("one").file_name()).collect();
        stay.sort();
        assert_eq!(stay, ["weir-top-begins", "weir-top-no-lock", "weir-top-runs", "weir-watch-other"]);
    }
}
