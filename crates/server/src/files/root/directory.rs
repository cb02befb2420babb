//! The directory that is the top of everything that is served.

use super::place::Place;
use crate::error::BindError;
use crate::files::root::calls::segments;
use crate::files::settings::Symlinks;
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// An open directory as the top of everything that is served.
#[derive(Debug)]
pub(crate) struct Root {
    pub(super) directory: File,
    /// Whether openat2 is there: Linux 5.6 has it, but a sandbox may forbid it.
    pub(super) has_openat2: Cell<bool>,
    pub(super) symlinks: Symlinks,
    /// Its path as it was given, from the top of the file system: links may name it so.
    given: Option<PathBuf>,
}

impl Root {
    pub(crate) fn open_directory(path: &Path) -> Result<Self, BindError> {
        let place = Place::open(path).map_err(|source| BindError::of_root(path, source))?;
        place.directory().try_clone().map(Self::of).map_err(|source| BindError::of_root(path, source))
    }

    /// The same of a directory that is open already.
    pub(crate) fn of(directory: File) -> Self {
        Self { directory, has_openat2: Cell::new(true), symlinks: Symlinks::default(), given: None }
    }

    /// Another directory as the root, of which the same holds.
    pub(crate) fn moved_to(&self, directory: File) -> Self {
        Self { directory, has_openat2: self.has_openat2.clone(), symlinks: self.symlinks, given: self.given.clone() }
    }

    /// The same with these symbolic links followed; `given` is the path that it was opened by.
    pub(crate) fn following(self, symlinks: Symlinks, given: &Path) -> Self {
        Self { symlinks, given: std::path::absolute(given).ok(), ..self }
    }

    /// Whether both are the same directory; their paths may differ.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let id = |root: &Self| root.directory.metadata().ok().map(|metadata| (metadata.dev(), metadata.ino()));
        id(self).is_some_and(|own| id(other) == Some(own))
    }

    /// A second handle on the same directory, for another loop.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        let directory = self.directory.try_clone()?;
        let (has_openat2, given) = (self.has_openat2.clone(), self.given.clone());
        Ok(Self { directory, has_openat2, symlinks: self.symlinks, given })
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

    /// What of an absolute path lies below the root; none if it does not. If the root was moved meanwhile the result
    /// may be wrong: then another file below the root is found, or none.
    pub(super) fn below<'p>(&self, path: &'p [u8]) -> Option<Vec<&'p [u8]>> {
        let own = std::fs::read_link(format!("/proc/self/fd/{}", self.directory.as_raw_fd())).ok();
        own.iter().chain(&self.given).find_map(|top| {
            let mut rest = segments(path);
            segments(top.as_os_str().as_bytes()).all(|segment| rest.next() == Some(segment)).then(|| rest.collect())
        })
    }
}
