//! Bodies in files. A file has no head: what it belongs to is known in memory only.
//!
//! The cache begins empty at each start. A body that outlives the server would have to be trusted: another program may
//! have changed it, and a purge that came in between would be lost. Each server has a folder of its own within the
//! directory, so that one that takes over runs beside the one before, and holds a lock on it; at start a thread removes
//! the folders that no server holds any more.

use super::meter::{Hold, Meter};
use super::rules::DiskRules;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The beginning of the name of each folder that belongs to a server; nothing else in the directory is touched.
const FOLDER: &str = "weir-cache-";
/// The file in it that is locked.
const LOCK: &str = "lock";
/// Files are spread over so many folders.
const SPREAD: u64 = 16;

/// Where the bodies are.
#[derive(Debug)]
pub(crate) struct Disk {
    folder: PathBuf,
    pub(crate) meter: Arc<Meter>,
    next: AtomicU64,
    /// Of servers that have ended.
    left_over: Mutex<Vec<LeftOver>>,
    /// Held as long as this server runs.
    _lock: File,
}

impl Disk {
    /// Makes a folder for this server, and finds those of servers that have ended.
    ///
    /// # Errors
    ///
    /// Of the file system: the directory cannot be written to.
    pub(crate) fn open(rules: &DiskRules) -> io::Result<Self> {
        fs::create_dir_all(&rules.directory)?;
        let mut made = Err(io::ErrorKind::AlreadyExists.into());
        for attempt in 0..1000_u32 {
            let folder = rules.directory.join(format!("{FOLDER}{}-{attempt}", std::process::id()));
            made = fs::create_dir(&folder).map(|()| folder);
            match &made {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                _ => break,
            }
        }
        let folder = made?;
        let lock = File::create(folder.join(LOCK))?;
        if !try_lock(&lock) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        for name in 0..SPREAD {
            fs::create_dir(folder.join(format!("{name:02x}")))?;
        }
        let left_over = Mutex::new(left_over(&rules.directory, &folder));
        Ok(Self { folder, meter: Meter::new(rules.bytes), next: AtomicU64::new(0), left_over, _lock: lock })
    }

    /// Has the folders of servers that have ended removed, in a thread. A server that confines itself does so first.
    ///
    /// # Errors
    ///
    /// The thread cannot be started.
    pub(crate) fn clean(&self) -> io::Result<()> {
        let folders = std::mem::take(&mut *self.left_over.lock().unwrap_or_else(PoisonError::into_inner));
        if folders.is_empty() {
            return Ok(());
        }
        std::thread::Builder::new().name("cache-cleaning".to_owned()).spawn(move || remove(folders)).map(drop)
    }

    /// Begins a file.
    ///
    /// # Errors
    ///
    /// Of the file system.
    pub(crate) fn create(&self) -> io::Result<Growing> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let path = self.folder.join(format!("{:02x}/{number:016x}", number % SPREAD));
        let growing = path.with_extension("new");
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&growing)?;
        Ok(Growing { file, growing, path, bytes: 0, hold: Hold::new(&self.meter), end: End::Removed })
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A body that still goes to a client is open, and needs no name.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn try_lock(file: &File) -> bool {
    // SAFETY: the descriptor is open as long as `file` is borrowed.
    unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) == 0 }
}

/// Removes folders, and then lets go of their locks.
fn remove(folders: Vec<LeftOver>) {
    for left_over in folders {
        let _ = fs::remove_dir_all(&left_over.folder);
    }
}

/// A folder of a server that has ended.
#[derive(Debug)]
struct LeftOver {
    folder: PathBuf,
    /// Held, so that no other server removes it as well.
    _lock: Option<File>,
}

/// The folders of servers that have ended. One without a lock file is just being made, or half removed: it goes
/// only if it has been so for a minute.
fn left_over(directory: &Path, own: &Path) -> Vec<LeftOver> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(directory) else { return found };
    for entry in entries.flatten() {
        let path = entry.path();
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(FOLDER));
        if !is_ours || path == own || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let lock = File::open(path.join(LOCK)).ok();
        let is_left_over = match &lock {
            Some(lock) => try_lock(lock),
            None => entry
                .metadata()
                .and_then(|metadata| metadata.modified())
                .is_ok_and(|at| at.elapsed().is_ok_and(|since| since > std::time::Duration::from_secs(60))),
        };
        if is_left_over {
            found.push(LeftOver { folder: path, _lock: lock });
        }
    }
    found
}

/// What becomes of a file that is being written.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Removed,
    Kept,
}

/// A body that is being written, under a name of its own.
#[derive(Debug)]
pub(crate) struct Growing {
    file: File,
    growing: PathBuf,
    path: PathBuf,
    bytes: u64,
    hold: Hold,
    end: End,
}

impl Growing {
    /// Appends. It goes to the page cache: the loop waits only if the kernel has too much to write already.
    ///
    /// # Errors
    ///
    /// Of the file system; `StorageFull` also if the bound of the settings is reached.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if !self.hold.grow(bytes.len() as u64) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.file.write_all(bytes)?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Gives the whole file its name.
    ///
    /// # Errors
    ///
    /// Of the file system.
    pub(crate) fn finish(mut self) -> io::Result<DiskBody> {
        let stamp = Stamp::of(&self.file)?;
        if stamp.bytes != self.bytes {
            return Err(io::ErrorKind::InvalidData.into());
        }
        fs::rename(&self.growing, &self.path)?;
        self.end = End::Kept;
        let hold = std::mem::replace(&mut self.hold, Hold::new(&Meter::new(0)));
        Ok(DiskBody { path: std::mem::take(&mut self.path), stamp, _hold: hold })
    }
}

impl Drop for Growing {
    fn drop(&mut self) {
        if self.end == End::Removed {
            let _ = fs::remove_file(&self.growing);
        }
    }
}

/// What tells a file from a changed one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    bytes: u64,
    modified_ns: (i64, i64),
}

impl Stamp {
    fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let modified_ns = (metadata.mtime(), metadata.mtime_nsec());
        Ok(Self { inode: metadata.ino(), bytes: metadata.len(), modified_ns })
    }
}

/// A body in a file, which is removed with this.
#[derive(Debug)]
pub(crate) struct DiskBody {
    path: PathBuf,
    stamp: Stamp,
    _hold: Hold,
}

impl DiskBody {
    pub(crate) fn bytes(&self) -> u64 {
        self.stamp.bytes
    }

    /// Opens it.
    ///
    /// # Errors
    ///
    /// Of the file system; `InvalidData` if the file is not what was written.
    pub(crate) fn open(&self) -> io::Result<File> {
        let file = File::open(&self.path)?;
        if Stamp::of(&file)? == self.stamp { Ok(file) } else { Err(io::ErrorKind::InvalidData.into()) }
    }
}

impl Drop for DiskBody {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(directory: &Path) -> DiskRules {
        DiskRules { directory: directory.to_owned(), bytes: 100, object: 50 }
    }

    #[test]
    fn a_body_is_what_was_written_or_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let disk = Disk::open(&rules(folder.path())).expect("opens");
        let write = |text: &[u8]| {
            let mut growing = disk.create().expect("begins");
            growing.write(text).map(|()| growing.finish().expect("ends"))
        };
        let body = write(b"hello").expect("fits");
        assert_eq!(io::read_to_string(body.open().expect("opens")).expect("reads"), "hello");
        assert_eq!((body.bytes(), disk.meter.used()), (5, 5));
        assert!(write(&[0; 96]).is_err());
        fs::write(&body.path, "hullo").expect("writes");
        File::options().write(true).open(&body.path).expect("opens").set_len(4).expect("cuts");
        assert!(body.open().is_err());
        let path = body.path.clone();
        drop(body);
        assert!(!path.exists());
        assert_eq!(disk.meter.used(), 0);
    }

    #[test]
    fn only_folders_without_a_server_are_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let running = Disk::open(&rules(folder.path())).expect("opens");
        let (ended, others) = (folder.path().join("weir-cache-1-0"), folder.path().join("photographs"));
        for path in [&ended, &others] {
            fs::create_dir(path).expect("a folder");
            fs::write(path.join(LOCK), "").expect("a file");
        }
        let own = folder.path().join("weir-cache-none");
        remove(left_over(folder.path(), &own));
        assert!(running.folder.exists() && others.exists() && !ended.exists());
        let path = running.folder.clone();
        drop(running);
        assert!(!path.exists());
    }
}
