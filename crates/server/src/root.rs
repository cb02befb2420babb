//! The root directory: opens what is below it, and nothing else whatever a path or a symbolic link says.

use crate::error::BindError;
use std::cell::Cell;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Directories below each other in one path.
const DEPTH_MAX: usize = 256;
/// How often an open is repeated when a rename next to it made the kernel unsure.
const ATTEMPTS_MAX: usize = 8;

/// `struct open_how` of openat2(2).
#[repr(C)]
struct OpenHow {
    flags: u64,
    mode: u64,
    resolve: u64,
}

/// An open directory as the top of everything that is served.
#[derive(Debug)]
pub(crate) struct Root {
    directory: File,
    /// Whether openat2 is there: Linux 5.6 has it, but a sandbox may forbid it.
    has_openat2: Cell<bool>,
}

impl Root {
    pub(crate) fn open_directory(path: &Path) -> Result<Self, BindError> {
        let mut options = File::options();
        options.read(true).custom_flags(libc::O_DIRECTORY);
        let directory = options.open(path).map_err(|source| {
            let path = path.to_owned();
            match source.kind() {
                io::ErrorKind::NotFound => BindError::RootMissing { path },
                io::ErrorKind::NotADirectory => BindError::RootNotDirectory { path },
                _ => BindError::Root { path, source },
            }
        })?;
        Ok(Self { directory, has_openat2: Cell::new(true) })
    }

    /// The same of a directory that is open already.
    pub(crate) fn of(directory: File) -> Self {
        Self { directory, has_openat2: Cell::new(true) }
    }

    /// Whether both are the same directory, whatever path led there.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let id = |root: &Self| root.directory.metadata().ok().map(|metadata| (metadata.dev(), metadata.ino()));
        id(self).is_some_and(|own| id(other) == Some(own))
    }

    /// A second handle on the same directory, for another loop.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { directory: self.directory.try_clone()?, has_openat2: self.has_openat2.clone() })
    }

    /// Opens a file or directory for reading. `path` begins with a slash and is taken from the root.
    ///
    /// Relative symbolic links that stay below the root are followed; absolute ones and those that leave it
    /// fail with `EXDEV`. Where openat2 is missing every symbolic link fails with `ELOOP`.
    pub(crate) fn open(&self, path: &[u8]) -> io::Result<File> {
        self.open_below(path, libc::O_RDONLY)
    }

    /// Opens just for a look at what it is.
    pub(crate) fn open_for_stat(&self, path: &[u8]) -> io::Result<File> {
        self.open_below(path, libc::O_PATH)
    }

    /// Whether an open file lies where its path says, with no symbolic link on the way. False where /proc is missing.
    pub(crate) fn is_straight(&self, file: &File, path: &[u8]) -> bool {
        let at = |file: &File| std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok();
        let (Some(top), Some(found)) = (at(&self.directory), at(file)) else { return false };
        let trimmed = |path: &[u8]| path.strip_suffix(b"/").unwrap_or(path).to_vec();
        let expected = [trimmed(top.as_os_str().as_bytes()), trimmed(path)].concat();
        trimmed(found.as_os_str().as_bytes()) == expected
    }

    #[cfg(test)]
    pub(crate) fn forbid_openat2(&self) {
        self.has_openat2.set(false);
    }

    fn open_below(&self, path: &[u8], access: i32) -> io::Result<File> {
        // Without O_NONBLOCK a pipe that lies in the directory would hold up the whole loop. With O_PATH nothing
        // is opened in that sense, and openat2 refuses flags that mean nothing.
        let reading = if access == libc::O_PATH { 0 } else { libc::O_NOCTTY | libc::O_NONBLOCK };
        let flags = access | libc::O_CLOEXEC | reading;
        let relative = path.strip_prefix(b"/").unwrap_or(path);
        let relative = if relative.is_empty() { b"." } else { relative };
        for _ in 0..ATTEMPTS_MAX {
            if !self.has_openat2.get() {
                return walk(self.directory.as_raw_fd(), relative, flags);
            }
            let error = match openat2(self.directory.as_raw_fd(), relative, flags) {
                Ok(file) => return Ok(file),
                Err(error) => error,
            };
            match error.raw_os_error() {
                Some(libc::ENOSYS | libc::EPERM) => self.has_openat2.set(false),
                Some(libc::EAGAIN | libc::EINTR) => {}
                _ => return Err(error),
            }
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }
}

fn openat2(directory: RawFd, path: &[u8], flags: i32) -> io::Result<File> {
    let path = CString::new(path)?;
    let how = OpenHow {
        flags: u64::from(flags.cast_unsigned()),
        mode: 0,
        resolve: libc::RESOLVE_BENEATH | libc::RESOLVE_NO_MAGICLINKS,
    };
    // SAFETY: the path is terminated and the structure has the size that is passed; both live over the call.
    let fd =
        unsafe { libc::syscall(libc::SYS_openat2, directory, path.as_ptr(), &raw const how, size_of::<OpenHow>()) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and owned by nobody else; the kernel returns descriptors in the range of i32.
    Ok(unsafe { File::from_raw_fd(fd as RawFd) })
}

/// Does what openat2 would do, a segment at a time, but follows no symbolic link at all.
fn walk(directory: RawFd, path: &[u8], flags: i32) -> io::Result<File> {
    let wants_directory = path.ends_with(b"/");
    let mut segments = path.split(|&byte| byte == b'/').filter(|segment| !segment.is_empty()).peekable();
    let mut above: Option<OwnedFd> = None;
    for _ in 0..DEPTH_MAX {
        let Some(segment) = segments.next() else {
            return Err(io::ErrorKind::NotFound.into());
        };
        if segment == b".." {
            return Err(io::Error::from_raw_os_error(libc::EXDEV));
        }
        let last = segments.peek().is_none();
        let kind = if !last {
            libc::O_PATH | libc::O_DIRECTORY
        } else if wants_directory {
            libc::O_DIRECTORY
        } else {
            0
        };
        let flags = if last { flags | kind } else { kind | libc::O_CLOEXEC };
        let name = CString::new(segment)?;
        let at = above.as_ref().map_or(directory, AsRawFd::as_raw_fd);
        // SAFETY: the name is terminated and lives over the call.
        let fd = crate::epoll::check(unsafe { libc::openat(at, name.as_ptr(), flags | libc::O_NOFOLLOW) })?;
        // SAFETY: the descriptor is new and owned by nobody else.
        let opened = unsafe { OwnedFd::from_raw_fd(fd) };
        if last {
            let file = File::from(opened);
            // With O_PATH the link itself is opened instead of failing.
            if file.metadata()?.is_symlink() {
                return Err(io::Error::from_raw_os_error(libc::ELOOP));
            }
            return Ok(file);
        }
        above = Some(opened);
    }
    Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn nothing_outside_the_root_opens_with_or_without_openat2() {
        let outer = tempfile::tempdir().expect("a directory");
        std::fs::write(outer.path().join("secret"), "s").expect("writes");
        let top = outer.path().join("www");
        std::fs::create_dir_all(top.join("a/b")).expect("creates");
        std::fs::write(top.join("a/b/file"), "f").expect("writes");
        symlink("../secret", top.join("up")).expect("links");
        symlink(outer.path().join("secret"), top.join("absolute")).expect("links");
        symlink("..", top.join("a/over")).expect("links");
        symlink("a/b/file", top.join("inside")).expect("links");
        let root = Root::open_directory(&top).expect("opens");
        for forbid in [false, true] {
            if forbid {
                root.forbid_openat2();
            }
            assert!(root.open(b"/a/b/file").is_ok());
            assert!(root.open_for_stat(b"/a/b/file").is_ok());
            assert!(root.open(b"/").expect("opens").metadata().expect("stats").is_dir());
            assert!(root.open(b"/a/b/").expect("opens").metadata().expect("stats").is_dir());
            assert_eq!(root.open(b"/inside").is_ok(), !forbid);
            for bad in ["/up", "/absolute", "/../secret", "/a/over/../secret", "/a/b/file/", "/none", "/a/../../secret"]
            {
                assert!(root.open(bad.as_bytes()).is_err(), "{bad}");
                assert!(root.open_for_stat(bad.as_bytes()).is_err(), "{bad}");
            }
        }
    }
}
