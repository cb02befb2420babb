//! The user that the server becomes when it was started as root.

use crate::io::epoll::check;
use std::ffi::{CStr, CString};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;

/// Bytes for an entry of the list of users; no entry has more.
const ENTRY_BYTES: usize = 64 << 10;
/// Groups of one user.
const GROUPS_MAX: usize = 65_536;

/// A user with its groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) uid: libc::uid_t,
    pub(crate) gid: libc::gid_t,
    groups: Vec<libc::gid_t>,
}

impl User {
    /// Looks a name up.
    ///
    /// # Errors
    ///
    /// No user has the name, or the system cannot tell.
    pub(crate) fn named(name: &str) -> io::Result<Self> {
        let text = CString::new(name)?;
        // SAFETY: all zeros is a valid value of this plain structure.
        let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
        let mut room = vec![0; ENTRY_BYTES];
        let mut found = std::ptr::null_mut();
        let (at, bytes) = (room.as_mut_ptr(), room.len());
        // SAFETY: all that is passed lives over the call, and the room has the length that is said.
        let failed = unsafe { libc::getpwnam_r(text.as_ptr(), &raw mut entry, at, bytes, &raw mut found) };
        if failed != 0 {
            return Err(io::Error::from_raw_os_error(failed));
        }
        if found.is_null() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "there is no such user"));
        }
        let groups = groups(&text, entry.pw_gid)?;
        Ok(Self { name: name.to_owned(), uid: entry.pw_uid, gid: entry.pw_gid, groups })
    }

    /// Whether it may do something with a file (a bit of one class of chmod(2): 4 read, 2 write, 1 execute or enter), by
    /// the file's mode; root may read all, enter all directories, and execute what anyone may.
    pub(crate) fn may(&self, metadata: &Metadata, bit: u32) -> bool {
        let mode = metadata.mode();
        if self.uid == 0 {
            return bit != 1 || metadata.is_dir() || mode & 0o111 != 0;
        }
        let is_in_group = self.gid == metadata.gid() || self.groups.contains(&metadata.gid());
        let shift = if self.uid == metadata.uid() {
            6
        } else if is_in_group {
            3
        } else {
            0
        };
        mode >> shift & bit == bit
    }

    /// Becomes this user in all threads, with its groups and no others, and makes sure that there is no way back.
    ///
    /// # Errors
    ///
    /// The system refuses, as it does for every user but root, or the process could still regain root's rights.
    pub(crate) fn become_it(&self) -> io::Result<()> {
        let Self { uid, gid, groups, .. } = self;
        // SAFETY: the calls take no pointers.
        let (is_it, is_root) = unsafe { (libc::geteuid() == *uid && libc::getegid() == *gid, libc::geteuid() == 0) };
        if is_it && !is_root {
            return Ok(());
        }
        // SAFETY: the list lives over the call and has the length that is said.
        check(unsafe { libc::setgroups(groups.len(), groups.as_ptr()) })?;
        // SAFETY: the calls take no pointers. Groups come first: without root's rights they cannot be changed.
        unsafe {
            check(libc::setresgid(*gid, *gid, *gid))?;
            check(libc::setresuid(*uid, *uid, *uid))?;
            if *uid != 0 && libc::setresuid(0, 0, 0) == 0 {
                return Err(io::Error::other("root's rights could not be given up"));
            }
        }
        Ok(())
    }
}

/// Has this process and all its threads become a user, with its groups and no others.
///
/// # Errors
///
/// There is no such user, or the system refuses it, as it does for every user but root.
pub fn become_user(name: &str) -> io::Result<()> {
    User::named(name)?.become_it()
}

/// Has the access log belong to the user who will write it, where root has opened it.
pub(crate) fn give_to(file: &File, user: &User) -> io::Result<()> {
    std::os::unix::fs::fchown(file, Some(user.uid), Some(user.gid))
}

fn groups(name: &CStr, own: libc::gid_t) -> io::Result<Vec<libc::gid_t>> {
    let mut groups = vec![0; 64];
    loop {
        let mut count = i32::try_from(groups.len()).unwrap_or(i32::MAX);
        // SAFETY: the list lives over the call and has the length that is said.
        let found = unsafe { libc::getgrouplist(name.as_ptr(), own, groups.as_mut_ptr(), &raw mut count) };
        if found >= 0 {
            groups.truncate(count.unsigned_abs() as usize);
            return Ok(groups);
        }
        if groups.len() >= GROUPS_MAX {
            return Err(io::Error::other("it is in too many groups"));
        }
        groups.resize(groups.len() * 2, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_with_their_groups() {
        let root = User::named("root").expect("everywhere");
        assert_eq!((root.uid, root.gid), (0, 0));
        assert!(root.groups.contains(&0));
        assert_eq!(User::named("no-user-of-this-name").expect_err("no such user").kind(), io::ErrorKind::NotFound);
        assert!(User::named("a\0b").is_err());
    }
}
