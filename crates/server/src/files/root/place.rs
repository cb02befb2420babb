//! Where a root lies: its path, which may lead to another directory after a deploy, and the directory that is served.
//!
//! Sites are deployed by switching a symbolic link or by renaming directories. So the server checks the path again and
//! again; it keeps the directory open until the path leads to another one that can be opened.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Looks in a row that have to fail before that is told unasked: between two steps of a deploy there may be nothing.
const FAILURES_UNTOLD: u32 = 1;

/// The path of a root, with the directory that it has led to last.
#[derive(Debug)]
pub(crate) struct Place {
    path: PathBuf,
    directory: RwLock<Arc<File>>,
    /// The user that it has to belong to, where that user could lead it elsewhere: no link is followed then.
    owner: Option<u32>,
    failures: Mutex<u32>,
}

/// What a look at a path has shown.
#[derive(Debug)]
pub(crate) enum Look {
    /// It leads where it has led before.
    Same,
    /// It leads to another directory, with this name, which is the root from now on.
    Moved(PathBuf),
    /// It leads to nothing that could be served. The directory of before stays the root. False = it need not be told.
    Failed(io::Error, bool),
}

impl Place {
    /// Opens the directory that the path leads to.
    ///
    /// # Errors
    ///
    /// What the system says, with the kinds `NotFound`, `NotADirectory` and `PermissionDenied` among it.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let directory = RwLock::new(Arc::new(open(path)?));
        Ok(Self { path: path.to_owned(), directory, owner: None, failures: Mutex::default() })
    }

    /// Opens the directory of a user, which is no link and belongs to that user.
    ///
    /// # Errors
    ///
    /// What the system says, `ELOOP` or `ENOTDIR` for a link among it, or that it belongs to another user.
    pub(crate) fn open_of(path: &Path, owner: u32) -> io::Result<Self> {
        let directory = RwLock::new(Arc::new(open_own(path, owner)?));
        Ok(Self { path: path.to_owned(), directory, owner: Some(owner), failures: Mutex::default() })
    }

    /// The directory that is served.
    pub(crate) fn directory(&self) -> Arc<File> {
        Arc::clone(&self.directory.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// As it was given.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Looks where the path leads to now; `is_asked` = a failure is told in any case.
    pub(crate) fn follow(&self, is_asked: bool) -> Look {
        let found = self.moved();
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        match found {
            Ok(None) => {
                *failures = 0;
                Look::Same
            }
            Ok(Some(directory)) => {
                *failures = 0;
                let name = std::fs::read_link(format!("/proc/self/fd/{}", directory.as_raw_fd()));
                *self.directory.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(directory);
                Look::Moved(name.unwrap_or_else(|_| self.path.clone()))
            }
            Err(error) => {
                *failures = failures.saturating_add(1);
                Look::Failed(error, is_asked || *failures == FAILURES_UNTOLD + 1)
            }
        }
    }

    /// The directory that the path leads to; none if it is the one that is served.
    fn moved(&self) -> io::Result<Option<File>> {
        let served = self.directory().metadata()?;
        let directory = match self.owner {
            Some(owner) => {
                if is_same(&std::fs::symlink_metadata(&self.path)?, &served) {
                    return Ok(None);
                }
                open_own(&self.path, owner)?
            }
            None => {
                if is_same(&std::fs::metadata(&self.path)?, &served) {
                    return Ok(None);
                }
                open(&self.path)?
            }
        };
        let is_another = !is_same(&directory.metadata()?, &served);
        Ok(is_another.then_some(directory))
    }
}

/// Opens a directory as a root. One that may be passed through and not be listed (mode 711) is opened as that.
fn open(path: &Path) -> io::Result<File> {
    let opened = File::options().read(true).custom_flags(libc::O_DIRECTORY).open(path);
    match &opened {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !may_be_listed(path) => {
            // The last name has it refused where it may not even be passed through.
            File::options().read(true).custom_flags(libc::O_DIRECTORY | libc::O_PATH).open(path.join("."))
        }
        _ => opened,
    }
}

/// Opens a directory that is no link, and that belongs to a user.
fn open_own(path: &Path, owner: u32) -> io::Result<File> {
    let directory = File::options().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(path)?;
    if directory.metadata()?.uid() != owner {
        return Err(io::Error::other("it belongs to another user"));
    }
    Ok(directory)
}

/// Whether all users may list a directory; a refusal has another reason then.
pub(crate) fn may_be_listed(path: &Path) -> bool {
    const LISTED_BY_ALL: u32 = 0o004;
    std::fs::metadata(path).is_ok_and(|metadata| metadata.mode() & LISTED_BY_ALL != 0)
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_user_leads_a_directory_nowhere_else() {
        let top = releases();
        let own = std::fs::metadata(top.path()).expect("stats").uid();
        let path = top.path().join("1");
        let place = Place::open_of(&path, own).expect("opens");
        assert!(Place::open_of(&path, own + 1).is_err());
        assert!(Place::open_of(&top.path().join("current"), own).is_err());
        let served = inode(&place.directory());
        std::fs::remove_dir(&path).expect("removes");
        symlink("2", &path).expect("links");
        assert!(matches!(place.follow(true), Look::Failed(..)));
        assert_eq!(inode(&place.directory()), served);
    }

    fn releases() -> tempfile::TempDir {
        let top = tempfile::tempdir().expect("a directory");
        for release in ["1", "2"] {
            std::fs::create_dir_all(top.path().join(release)).expect("creates");
        }
        symlink("1", top.path().join("current")).expect("links");
        top
    }

    fn inode(directory: &File) -> u64 {
        directory.metadata().expect("stats").ino()
    }

    #[test]
    fn a_switched_link_is_followed() {
        let top = releases();
        let at = |name: &str| top.path().join(name);
        for given in ["current", "current/", "./current/."] {
            std::fs::remove_file(at("current")).expect("removes");
            symlink("1", at("current")).expect("links");
            let place = Place::open(&at(given)).expect("opens");
            assert!(matches!(place.follow(false), Look::Same));
            symlink("2", at("new")).expect("links");
            std::fs::rename(at("new"), at("current")).expect("renames");
            let Look::Moved(name) = place.follow(false) else { panic!("not followed: {given}") };
            assert!(name.ends_with("2"), "{name:?}");
            assert_eq!(inode(&place.directory()), std::fs::metadata(at("2")).expect("stats").ino());
            assert!(matches!(place.follow(false), Look::Same));
        }
    }

    #[test]
    fn a_directory_in_the_place_of_another_is_followed() {
        let top = releases();
        let at = |name: &str| top.path().join(name);
        let place = Place::open(&at("1")).expect("opens");
        std::fs::rename(at("1"), at("old")).expect("renames");
        assert!(matches!(place.follow(false), Look::Failed(_, false)), "between two steps");
        std::fs::rename(at("2"), at("1")).expect("renames");
        let new = std::fs::metadata(at("1")).expect("stats").ino();
        assert!(matches!(place.follow(false), Look::Moved(_)));
        assert_eq!(inode(&place.directory()), new);
    }

    #[test]
    fn what_leads_nowhere_is_told_once_and_leaves_the_root() {
        let top = releases();
        let at = |name: &str| top.path().join(name);
        let place = Place::open(&at("current")).expect("opens");
        let before = inode(&place.directory());
        std::fs::remove_file(at("current")).expect("removes");
        for target in ["none", "file"] {
            std::fs::write(at("file"), "no directory").expect("writes");
            symlink(target, at("current")).expect("links");
            let told = [false, false, true, false].map(|is_asked| match place.follow(is_asked) {
                Look::Failed(_, is_told) => is_told,
                look => panic!("{target}: {look:?}"),
            });
            assert_eq!(told, [false, true, true, false], "{target}");
            assert_eq!(inode(&place.directory()), before);
            std::fs::remove_file(at("current")).expect("removes");
            symlink("1", at("current")).expect("links");
            assert!(matches!(place.follow(false), Look::Same), "it is back");
            std::fs::remove_file(at("current")).expect("removes");
        }
    }
}
