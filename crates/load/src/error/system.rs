//! Errors of system calls.

use std::io;

/// Makes an error of a failed call's -1.
pub(crate) fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
