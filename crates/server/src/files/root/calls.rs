//! Opening below a directory: the calls of the kernel, and the names of a path.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd, RawFd};

/// `struct open_how` of openat2(2).
#[repr(C)]
pub(super) struct OpenHow {
    flags: u64,
    mode: u64,
    resolve: u64,
}

/// The names in a path.
pub(super) fn segments(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/').filter(|segment| !segment.is_empty() && *segment != b".")
}

pub(super) fn openat2(directory: RawFd, path: &[u8], flags: i32, resolve: u64) -> io::Result<File> {
    let path = CString::new(path)?;
    let how = OpenHow { flags: u64::from(flags.cast_unsigned()), mode: 0, resolve };
    // SAFETY: the path is terminated and the structure has the size that is passed; both live over the call.
    let fd =
        unsafe { libc::syscall(libc::SYS_openat2, directory, path.as_ptr(), &raw const how, size_of::<OpenHow>()) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and has no other owner; the kernel returns descriptors in the range of i32.
    Ok(unsafe { File::from_raw_fd(fd as RawFd) })
}

pub(super) fn open_at(directory: RawFd, path: &[u8], flags: i32) -> io::Result<File> {
    let path = CString::new(path)?;
    // SAFETY: the path is terminated and lives over the call.
    let fd = crate::io::epoll::check(unsafe { libc::openat(directory, path.as_ptr(), flags) })?;
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { File::from_raw_fd(fd) })
}
