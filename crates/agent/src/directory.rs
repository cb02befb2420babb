//! The ARM directory: where clients announce their memory and the agent has its socket.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The variable that names the directory.
pub const DIRECTORY_VARIABLE: &str = "WEIR_ARM_DIR";
/// The most entries that one look at the directory goes through.
pub const MOST_ENTRIES: usize = 65_536;

/// The directory that clients on this host use: the variable's, or `/run/weir/arm` where that is one, or
/// `/dev/shm/weir-arm`.
#[must_use]
pub fn usual() -> PathBuf {
    let named = std::env::var_os(DIRECTORY_VARIABLE).filter(|name| !name.is_empty());
    let run = Path::new("/run/weir/arm");
    let found = || if run.is_dir() { run.to_owned() } else { PathBuf::from("/dev/shm/weir-arm") };
    named.map_or_else(found, PathBuf::from)
}

/// The directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// It could not be made.
    #[error("{0}: cannot be made: {1}; make it (mode 1777), or name another by WEIR_ARM_DIR")]
    Make(PathBuf, #[source] io::Error),
    /// It could not be opened.
    #[error("{0}: cannot be opened as a directory (a symbolic link is not followed): {1}")]
    Open(PathBuf, #[source] io::Error),
    /// Everybody may remove what others put there.
    #[error("{0}: everybody may remove what others put there; give it mode 1777 (chmod 1777 {0})")]
    NotSticky(PathBuf),
}

/// The ARM directory, opened: what happens to its path later does not matter.
#[derive(Debug)]
pub struct Directory {
    folder: File,
    path: PathBuf,
}

impl Directory {
    /// Opens it, and makes it if it does not exist.
    ///
    /// # Errors
    /// When it cannot be made or opened, or is not safe.
    pub fn open(path: &Path) -> Result<Self, DirectoryError> {
        if !path.exists() {
            let made = fs::DirBuilder::new().recursive(true).mode(0o755).create(path);
            // The mode of creation is cut by the umask; that of the last folder is to be exactly this.
            let made = made.and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o1777)));
            made.map_err(|error| DirectoryError::Make(path.to_owned(), error))?;
        }
        let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        let opened = fs::OpenOptions::new().read(true).custom_flags(flags).open(path);
        let folder = opened.map_err(|error| DirectoryError::Open(path.to_owned(), error))?;
        let facts = folder.metadata().map_err(|error| DirectoryError::Open(path.to_owned(), error))?;
        if facts.mode() & 0o002 != 0 && facts.mode() & 0o1000 == 0 {
            return Err(DirectoryError::NotSticky(path.to_owned()));
        }
        Ok(Self { folder, path: path.to_owned() })
    }

    /// Its path, as it was named.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of an entry, by way of the opened directory.
    #[must_use]
    pub fn entry(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{name}", self.folder.as_raw_fd()))
    }

    /// The announcements that stand there, at most `most`, and whether there are more entries than are looked at.
    #[must_use]
    pub fn announcements(&self, most: usize) -> (Vec<Announcement>, bool) {
        let Ok(entries) = fs::read_dir(self.entry(".")) else { return (Vec::new(), false) };
        let (mut found, mut seen) = (Vec::new(), 0);
        for entry in entries.flatten() {
            seen += 1;
            if seen > MOST_ENTRIES || found.len() >= most {
                return (found, true);
            }
            found.extend(Announcement::of_name(&entry.file_name()));
        }
        (found, false)
    }

    /// The user that made an announcement: the owner of the file, if it is a regular file.
    #[must_use]
    pub fn owner(&self, announcement: Announcement) -> Option<u32> {
        let facts = fs::symlink_metadata(self.entry(&announcement.name())).ok()?;
        facts.file_type().is_file().then(|| facts.uid())
    }

    /// Removes the announcement of a process that has gone. A failure does not matter.
    pub fn remove(&self, announcement: Announcement) {
        let _ = fs::remove_file(self.entry(&announcement.name()));
    }

    /// Whether an entry is a socket, and whose.
    #[must_use]
    pub fn socket_owner(&self, name: &str) -> Option<u32> {
        let facts = fs::symlink_metadata(self.entry(name)).ok()?;
        facts.file_type().is_socket().then(|| facts.uid())
    }
}

/// A client's announcement, `PID-FD`: a file without content whose name says where its memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Announcement {
    /// The process.
    pub pid: u32,
    /// Its descriptor of the memory.
    pub descriptor: u32,
}

impl Announcement {
    /// Reads an entry's name; `None` for one that is no announcement.
    #[must_use]
    pub fn of_name(name: &OsStr) -> Option<Self> {
        let (pid, descriptor) = name.to_str()?.split_once('-')?;
        let number = |digits: &str| {
            let plain = (1..=10).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_digit());
            let number =
                plain.then(|| digits.parse::<u32>().ok()).flatten().filter(|number| *number <= i32::MAX as u32)?;
            // Only one way of writing each, so that no memory has two names.
            (number.to_string() == digits).then_some(number)
        };
        Some(Self { pid: number(pid).filter(|pid| *pid > 0)?, descriptor: number(descriptor)? })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}-{}", self.pid, self.descriptor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn other_names_are_no_announcements() {
        for name in ["agent.sock", "1", "-1", "1-", "0-3", "01-3", "1-3-5", "99999999999-1", "4294967295-1", "1-+3"] {
            assert_eq!(Announcement::of_name(OsStr::new(name)), None, "{name}");
        }
    }

    #[test]
    fn a_directory_in_which_all_may_remove_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("arm");
        let directory = Directory::open(&path).expect("it is made");
        assert_eq!(fs::metadata(&path).expect("made").mode() & 0o7777, 0o1777);
        fs::write(path.join("12-3"), "").expect("written");
        fs::write(path.join("else"), "").expect("written");
        assert_eq!(directory.announcements(10).0, [Announcement { pid: 12, descriptor: 3 }]);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).expect("ours");
        assert!(matches!(Directory::open(&path), Err(DirectoryError::NotSticky(_))));
        std::os::unix::fs::symlink(&path, folder.path().join("link")).expect("made");
        assert!(matches!(Directory::open(&folder.path().join("link")), Err(DirectoryError::Open(..))));
    }

    proptest! {
        #[test]
        fn names_come_back(pid in 1u32..=i32::MAX as u32, descriptor in 0u32..=i32::MAX as u32) {
            let announcement = Announcement { pid, descriptor };
            prop_assert_eq!(Announcement::of_name(OsStr::new(&announcement.name())), Some(announcement));
        }

        #[test]
        fn no_name_breaks_the_reader(name in ".{0,40}") {
            let _ = Announcement::of_name(OsStr::new(&name));
        }
    }
}
