//! The rights that a program which is executed could gain.

use std::io;

/// No program that is started, and none is, gets more rights than this one: what both restrictions ask for.
pub(super) fn no_new_privileges() -> io::Result<()> {
    // SAFETY: the call takes no pointers.
    crate::io::epoll::check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }).map(drop)
}
