//! The user that scripts run as.

use crate::fork;
use std::ffi::CString;
use std::io;

/// The user and its group, and its groups besides.
#[derive(Debug, Clone)]
pub(crate) struct Account {
    name: CString,
    pub(crate) uid: libc::uid_t,
    pub(crate) gid: libc::gid_t,
}

/// The account of a name, by the system's database of users (getpwnam(3)).
pub(crate) fn find(name: &str) -> Option<Account> {
    let name = CString::new(name).ok()?;
    // SAFETY: the function gives a structure that lives until its next call; this process has one thread.
    let entry = unsafe { libc::getpwnam(name.as_ptr()).as_ref() }?;
    Some(Account { name, uid: entry.pw_uid, gid: entry.pw_gid })
}

/// Makes this process one of that user, which may still become another user and end processes of others, and nothing
/// else of root's rights (capabilities(7)).
pub(crate) fn become_one_that_changes(account: &Account) -> io::Result<()> {
    const KILL: u32 = 5;
    const SETGID: u32 = 6;
    const SETUID: u32 = 7;
    // SAFETY: the call takes no memory of ours.
    if unsafe { libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    become_one(account)?;
    fork::keep_capabilities(1 << KILL | 1 << SETGID | 1 << SETUID)?;
    // SAFETY: the call takes no memory of ours.
    unsafe { libc::prctl(libc::PR_SET_KEEPCAPS, 0, 0, 0, 0) };
    Ok(())
}

/// Makes this process one of that user, for good.
pub(crate) fn become_one(account: &Account) -> io::Result<()> {
    // SAFETY: the calls read the name and change only this process.
    let is_done = unsafe {
        libc::initgroups(account.name.as_ptr(), account.gid) == 0
            && libc::setgid(account.gid) == 0
            && libc::setuid(account.uid) == 0
    };
    if is_done { Ok(()) } else { Err(io::Error::last_os_error()) }
}
