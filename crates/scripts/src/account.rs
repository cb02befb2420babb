//! The user that scripts run as.

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
