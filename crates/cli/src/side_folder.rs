//! Directories that servers have left which were killed: the next server removes them.
//!
//! Such a directory is called NAME-PROCESS-NUMBER. Its server holds a lock on it (flock(2)) that ends with the process,
//! however that ends. The number of the process alone would not do: the process may be one of another namespace
//! (pid_namespaces(7)) that shares the directory above.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Entries of the directory above that are looked at.
const LOOKS_MAX: usize = 10_000;
/// Digits of the number behind that of the process.
const NUMBER_DIGITS: usize = 8;
/// Bits of a mode: write by group and others.
const WRITE_BY_OTHERS: u32 = 0o022;

/// Takes a lock on a directory of this process, until the process ends.
pub(crate) fn hold(folder: &Path) -> io::Result<()> {
    let file = open(folder)?;
    lock(&file, libc::LOCK_SH)?;
    // Another server may have taken it for one that was left, in the moment before.
    if fs::metadata(folder)?.ino() != file.metadata()?.ino() {
        return Err(io::Error::other("another server has removed it; start this one again"));
    }
    // The end of the process closes it.
    let _ = file.into_raw_fd();
    Ok(())
}

/// Removes directories that are called as this one is, and whose servers are dead; how many.
pub(crate) fn remove_dead(folder: &Path) -> usize {
    let (Some(above), Some((kind, _))) = (folder.parent(), parts(folder)) else { return 0 };
    let entries = fs::read_dir(above).into_iter().flatten().flatten().take(LOOKS_MAX);
    let paths = entries.map(|entry| entry.path());
    let of_dead = paths.filter(|path| parts(path).is_some_and(|(other, pid)| other == kind && !is_alive(pid)));
    of_dead.filter(|path| is_ours(path, above) && remove(path)).count()
}

/// The name and the process of a directory.
fn parts(folder: &Path) -> Option<(&str, libc::pid_t)> {
    let mut parts = folder.file_name()?.to_str()?.rsplitn(3, '-');
    let (number, pid, kind) = (parts.next()?, parts.next()?, parts.next()?);
    let is_number = number.len() == NUMBER_DIGITS && number.bytes().all(|byte| byte.is_ascii_hexdigit());
    let pid = pid.parse().ok().filter(|&pid: &libc::pid_t| pid > 0)?;
    is_number.then_some((kind, pid))
}

/// Whether a process has this number that may be the server; this one has made no directory yet.
fn is_alive(pid: libc::pid_t) -> bool {
    // SAFETY: the call takes no memory, and signal 0 only asks.
    let is_there = unsafe { libc::kill(pid, 0) } == 0 || io::Error::last_os_error().raw_os_error() == Some(libc::EPERM);
    is_there && pid.unsigned_abs() != std::process::id()
}

/// Whether it was made by a server of this user.
fn is_ours(path: &Path, above: &Path) -> bool {
    // SAFETY: the call takes nothing, and cannot fail.
    let own = unsafe { libc::geteuid() };
    // Root gives some to the server's user; where only root makes directories, these are root's nevertheless.
    let is_own_place = above.metadata().is_ok_and(|above| above.uid() == own && above.mode() & WRITE_BY_OTHERS == 0);
    path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir() && (metadata.uid() == own || is_own_place))
}

/// Removes one, unless a server holds it.
fn remove(path: &Path) -> bool {
    let Ok(file) = open(path) else { return false };
    lock(&file, libc::LOCK_EX | libc::LOCK_NB).is_ok() && fs::remove_dir_all(path).is_ok()
}

fn open(folder: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(folder)
}

fn lock(file: &File, how: libc::c_int) -> io::Result<()> {
    // SAFETY: the call takes no memory of ours.
    match unsafe { libc::flock(file.as_raw_fd(), how) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn only_directories_of_dead_servers_are_removed() {
        let above = tempfile::tempdir().expect("a directory");
        let at = |name: String| above.path().join(name);
        let mut ended = Command::new("true").stdin(Stdio::null()).spawn().expect("it starts");
        ended.wait().expect("it ends");
        let (dead, own) = (ended.id(), std::process::id());
        let names = [
            (format!("weir-x-{dead}-0123abcd"), false),
            // A process that had this one's number before.
            (format!("weir-x-{own}-0123abcd"), false),
            (format!("weir-x-{dead}-00000000"), true),
            ("weir-x-1-0123abcd".to_owned(), true),
            (format!("weir-y-{dead}-0123abcd"), true),
            (format!("weir-x-{dead}-0123abc"), true),
            (format!("weir-x-{dead}-0123abcg"), true),
            ("weir-x--1-0123abcd".to_owned(), true),
            ("weir-x-0-0123abcd".to_owned(), true),
        ];
        for (name, _) in &names {
            fs::create_dir(at(name.clone())).expect("creates");
            fs::write(at(name.clone()).join("a.sock"), "").expect("writes");
        }
        let link = at(format!("weir-x-{dead}-11111111"));
        std::os::unix::fs::symlink(at(format!("weir-y-{dead}-0123abcd")), &link).expect("links");
        // Its server is one that this process does not see.
        let held = open(&at(format!("weir-x-{dead}-00000000"))).expect("it is there");
        lock(&held, libc::LOCK_SH).expect("is held");
        assert_eq!(remove_dead(&at(format!("weir-x-{own}-22222222"))), 2);
        for (name, stays) in &names {
            assert_eq!(at(name.clone()).is_dir(), *stays, "{name}");
        }
        assert!(link.is_symlink());
        drop(held);
        assert_eq!(remove_dead(&at(format!("weir-x-{own}-22222222"))), 1);
        assert_eq!(remove_dead(Path::new("weir-x")), 0);
    }

    #[test]
    fn a_directory_that_was_removed_is_not_held() {
        let above = tempfile::tempdir().expect("a directory");
        let folder = above.path().join("weir-x-1-01234567");
        assert!(hold(&folder).is_err());
        fs::create_dir(&folder).expect("creates");
        hold(&folder).expect("is held");
        assert!(!remove(&folder) && folder.is_dir());
    }
}
