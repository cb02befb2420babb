//! The descriptors of the process: an extension that prints, reads its standard input or starts programs must not touch
//! those of the protocol.

use std::ffi::CString;
use std::io;
use std::os::fd::RawFd;

/// The stream of variables, when the process starts.
const VARIABLES: RawFd = 3;
/// Where the descriptors go, if the limit of open files allows; else above [`PLACE_LOW`].
const PLACE: RawFd = 200;
const PLACE_LOW: RawFd = 4;
/// Variables of the protocol that extensions and their programs must not inherit.
const HIDDEN: [&str; 4] = ["CGIPLUSIN", "CGIPLUSEOF", "CGIPLUSEOT", "CGIPLUSESC"];

/// The process cannot begin.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    /// The environment has no sentinel.
    #[error("CGIPLUSEOF is not set: this process is started by weir's runner of scripts, not by hand")]
    NoSentinel,
    /// A descriptor is missing.
    #[error(
        "descriptor {number} of the protocol is missing ({source}): start this process by weir's runner of scripts"
    )]
    NoDescriptor {
        /// Which one.
        number: RawFd,
        /// What the system says.
        source: io::Error,
    },
}

/// The descriptors of the protocol, moved and closed on exec, and the sentinel.
#[derive(Debug)]
pub(crate) struct Streams {
    pub(crate) variables: RawFd,
    pub(crate) body: RawFd,
    pub(crate) response: RawFd,
    pub(crate) sentinel: Vec<u8>,
}

impl Streams {
    /// Moves the descriptors, gives the extension others in their place, and hides the sentinels. To be called before
    /// the process has threads that read the environment.
    pub(crate) fn take() -> Result<Self, StartError> {
        let sentinel = std::env::var("CGIPLUSEOF").ok().filter(|text| !text.is_empty());
        let sentinel = sentinel.ok_or(StartError::NoSentinel)?.into_bytes();
        let streams = Self { variables: moved(VARIABLES)?, body: moved(0)?, response: moved(1)?, sentinel };
        for name in HIDDEN {
            // SAFETY: the caller has promised that no other thread reads the environment.
            unsafe { std::env::remove_var(name) };
        }
        // SAFETY: plain system calls on descriptors of this process; the texts are NUL-terminated. If /dev/null is
        // missing, the standard input stays closed.
        unsafe {
            libc::close(VARIABLES);
            libc::close(0);
            libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY);
            libc::dup2(2, 1);
            // What an extension prints is in the log line by line, not when the process ends.
            libc::setvbuf(stdout, std::ptr::null_mut(), libc::_IOLBF, 0);
        }
        Ok(streams)
    }
}

unsafe extern "C" {
    /// The stream of the C library.
    static mut stdout: *mut libc::FILE;
}

/// A copy of a descriptor, out of the way and closed on exec.
fn moved(number: RawFd) -> Result<RawFd, StartError> {
    for place in [PLACE, PLACE_LOW] {
        // SAFETY: a system call without pointers.
        let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, place) };
        if copy >= 0 {
            return Ok(copy);
        }
    }
    Err(StartError::NoDescriptor { number, source: io::Error::last_os_error() })
}

/// Reads once; 0 at the end. An interrupted read is an error of kind `Interrupted`.
pub(crate) fn read(from: RawFd, to: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the memory is valid for writes of its length.
    let count = unsafe { libc::read(from, to.as_mut_ptr().cast(), to.len()) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// Reads once at an offset of a file; 0 at the end.
pub(crate) fn read_at(from: RawFd, to: &mut [u8], offset: u64) -> io::Result<usize> {
    let offset = i64::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the memory is valid for writes of its length.
    let count = unsafe { libc::pread(from, to.as_mut_ptr().cast(), to.len(), offset) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// Writes all bytes.
pub(crate) fn write_all(to: RawFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        // SAFETY: the memory is valid for reads of its length.
        let count = unsafe { libc::write(to, bytes.as_ptr().cast(), bytes.len()) };
        match usize::try_from(count) {
            Ok(count) => bytes = &bytes[count..],
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

/// Whether the other end of a pipe is open.
pub(crate) fn is_connected(to: RawFd) -> bool {
    let mut asked = libc::pollfd { fd: to, events: 0, revents: 0 };
    // SAFETY: one entry, valid for reads and writes.
    unsafe { libc::poll(&raw mut asked, 1, 0) };
    asked.revents & (libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) == 0
}

/// Makes the folder of a file the working directory, as CGI has it. A folder that cannot be entered changes nothing.
pub(crate) fn enter_folder_of(path: &[u8]) {
    let end = path.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at.max(1));
    if let Ok(folder) = CString::new(&path[..end]) {
        // SAFETY: the text is NUL-terminated.
        unsafe { libc::chdir(folder.as_ptr()) };
    }
}
