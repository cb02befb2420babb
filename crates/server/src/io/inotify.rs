//! inotify(7): the kernel reports changes in directories.

use crate::io::epoll::check;
use std::cell::RefCell;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// What changes a directory's files, their names or their readability.
const MASK: u32 = libc::IN_MODIFY
    | libc::IN_ATTRIB
    | libc::IN_CREATE
    | libc::IN_DELETE
    | libc::IN_MOVED_FROM
    | libc::IN_MOVED_TO
    | libc::IN_DELETE_SELF
    | libc::IN_MOVE_SELF
    | libc::IN_ONLYDIR;
/// Bytes taken from the kernel at once: some hundred events.
const BUFFER_BYTES: usize = 16 << 10;

/// An instance of inotify.
#[derive(Debug)]
pub(crate) struct Inotify {
    fd: OwnedFd,
    buffer: RefCell<Box<[u8]>>,
}

/// Something happened in a watched directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event<'b> {
    /// The watch.
    pub(crate) watch: i32,
    pub(crate) mask: u32,
    /// Of what lies in the directory; empty for the directory itself.
    pub(crate) name: &'b [u8],
}

impl Inotify {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: the call takes no pointers.
        let fd = check(unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) })?;
        // SAFETY: the descriptor is new and has no other owner.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) }, buffer: RefCell::new(vec![0; BUFFER_BYTES].into()) })
    }

    /// Watches an open directory; the same one gets the same number again.
    pub(crate) fn add(&self, directory: &File) -> io::Result<i32> {
        // By its descriptor: a path could lead elsewhere by now.
        let path = CString::new(format!("/proc/self/fd/{}", directory.as_raw_fd()))?;
        // SAFETY: the path is terminated and lives over the call.
        check(unsafe { libc::inotify_add_watch(self.fd.as_raw_fd(), path.as_ptr(), MASK) })
    }

    pub(crate) fn remove(&self, watch: i32) {
        // SAFETY: the call takes no pointers; a watch that has gone already is no loss.
        unsafe { libc::inotify_rm_watch(self.fd.as_raw_fd(), watch) };
    }

    /// Hands over what has happened since; whether there may be more. Watches may be added and removed meanwhile.
    pub(crate) fn read(&self, mut each: impl FnMut(Event<'_>)) -> bool {
        let mut buffer = self.buffer.borrow_mut();
        // SAFETY: the kernel writes at most the slice's length into it.
        let read = unsafe { libc::read(self.fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) };
        let Some(read) = usize::try_from(read).ok().filter(|&read| read > 0) else { return false };
        events(&buffer[..read], &mut each);
        true
    }
}

impl AsRawFd for Inotify {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// Takes apart what the kernel writes: `struct inotify_event` with a name that is filled up with zeros.
fn events(mut bytes: &[u8], each: &mut impl FnMut(Event<'_>)) {
    const HEAD: usize = size_of::<libc::inotify_event>();
    let word = |bytes: &[u8], at: usize| {
        bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map_or(0, u32::from_ne_bytes)
    };
    while bytes.len() >= HEAD {
        let (watch, mask, len) = (word(bytes, 0).cast_signed(), word(bytes, 4), word(bytes, 12) as usize);
        let Some(name) = bytes.get(HEAD..HEAD + len) else { return };
        let end = memchr::memchr(0, name).unwrap_or(name.len());
        each(Event { watch, mask, name: &name[..end] });
        bytes = &bytes[HEAD + len..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_the_name_of_what_changed() {
        let directory = tempfile::tempdir().expect("a directory");
        let inotify = Inotify::new().expect("an instance");
        let open = File::open(directory.path()).expect("opens");
        let watch = inotify.add(&open).expect("watches");
        assert_eq!(inotify.add(&open).expect("watches"), watch);
        std::fs::write(directory.path().join("a name"), "x").expect("writes");
        let mut seen = Vec::new();
        while inotify.read(|event| seen.push((event.watch, event.mask, event.name.to_vec()))) {}
        assert!(seen.contains(&(watch, libc::IN_CREATE, b"a name".to_vec())), "{seen:?}");
        assert!(seen.contains(&(watch, libc::IN_MODIFY, b"a name".to_vec())), "{seen:?}");
        inotify.remove(watch);
        std::fs::write(directory.path().join("other"), "x").expect("writes");
        let mut after = Vec::new();
        while inotify.read(|event| after.push(event.mask)) {}
        assert_eq!(after, [libc::IN_IGNORED]);
    }

    #[test]
    fn pieces_of_events_end_the_reading() {
        let mut count = 0;
        for len in 0..40 {
            events(&vec![1; len], &mut |_| count += 1);
        }
        assert_eq!(count, 0);
    }
}
