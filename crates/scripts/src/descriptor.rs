//! Pipes and descriptors that do not block.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Numbers below this are for scripts: a descriptor with one would be in the way when it is put there.
const FIRST: libc::c_int = 10;

/// Modes of pipes that processes of other users may open anew: their end of it alone.
pub(crate) const WRITTEN_BY_ALL: libc::mode_t = 0o622;
pub(crate) const READ_BY_ALL: libc::mode_t = 0o644;

/// A pipe whose ends are closed in programs that are started: first the end that is read.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: the kernel writes two numbers.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: they are open, and of no one else.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

/// Has reads and writes of this end return at once.
pub(crate) fn set_nonblocking(fd: &impl AsRawFd) -> io::Result<()> {
    // SAFETY: the call takes no memory of ours.
    match unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Has a pipe hold so many bytes, if the user may have that much; else it holds what it did.
pub(crate) fn widen(fd: &impl AsRawFd, bytes: usize) {
    // SAFETY: the call takes no memory of ours.
    unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETPIPE_SZ, bytes as libc::c_int) };
}

/// The same with a number that no script has.
pub(crate) fn above(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // SAFETY: the call takes no memory of ours.
    match unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, FIRST) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: it is open, and of no one else.
        number => Ok(unsafe { OwnedFd::from_raw_fd(number) }),
    }
}

/// Lets processes of other users open this end anew by its name in /proc, as scripts do with /dev/stderr.
pub(crate) fn open_to_others(fd: &impl AsRawFd, mode: libc::mode_t) -> io::Result<()> {
    // SAFETY: the call takes no memory of ours.
    match unsafe { libc::fchmod(fd.as_raw_fd(), mode) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What a read or a write came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moved {
    /// So many bytes, at least one.
    Bytes(usize),
    /// None now; or a signal came between.
    None,
    /// The other end is closed, or fails.
    Over,
}

fn moved(result: isize) -> Moved {
    match result {
        0 => Moved::Over,
        1.. => Moved::Bytes(result.cast_unsigned()),
        _ => match io::Error::last_os_error().raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR) => Moved::None,
            _ => Moved::Over,
        },
    }
}

/// Reads behind what a buffer holds, at most `most` bytes.
pub(crate) fn read(fd: RawFd, most: usize, buffer: &mut Vec<u8>) -> Moved {
    buffer.reserve(most);
    let room = buffer.spare_capacity_mut();
    // SAFETY: the kernel writes at most so many bytes, for which there is room.
    let moved = moved(unsafe { libc::read(fd, room.as_mut_ptr().cast(), most) });
    if let Moved::Bytes(bytes) = moved {
        // SAFETY: so many bytes were written behind the others.
        unsafe { buffer.set_len(buffer.len() + bytes) };
    }
    moved
}

/// Writes some bytes.
pub(crate) fn write(fd: RawFd, bytes: &[u8]) -> Moved {
    if bytes.is_empty() {
        return Moved::None;
    }
    // SAFETY: the kernel reads these bytes.
    moved(unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) })
}

/// Bytes that wait in a pipe.
pub(crate) fn waiting(fd: RawFd) -> usize {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes one number.
    match unsafe { libc::ioctl(fd, libc::FIONREAD, &raw mut bytes) } {
        0 => usize::try_from(bytes).unwrap_or(0),
        _ => 0,
    }
}

/// Closes the descriptors that this process has got from the one that forked it, but for its own ones, which are above.
pub(crate) fn close_inherited() {
    // SAFETY: nothing uses these descriptors any more: the runner's have higher numbers.
    unsafe { libc::close_range(3, FIRST.unsigned_abs() - 1, 0) };
}
