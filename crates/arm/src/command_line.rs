//! The command line of the process, which is told with each application.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// So much of it is told, bytes.
const MOST: usize = 1024;

static KEPT: AtomicPtr<Vec<u8>> = AtomicPtr::new(ptr::null_mut());

/// The command line as it was at the first registration, with blanks between its words.
pub(crate) fn command_line() -> &'static [u8] {
    let kept = KEPT.load(Ordering::Acquire);
    if !kept.is_null() {
        // SAFETY: what is kept is never freed.
        return unsafe { &*kept };
    }
    let read = Box::into_raw(Box::new(read()));
    match KEPT.compare_exchange(ptr::null_mut(), read, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: it was just made, and from now on it is never freed.
        Ok(_) => unsafe { &*read },
        Err(faster) => {
            // SAFETY: no other code has seen this one, and the other is never freed.
            unsafe {
                drop(Box::from_raw(read));
                &*faster
            }
        }
    }
}

fn read() -> Vec<u8> {
    let mut bytes = vec![0; MOST];
    // SAFETY: a constant path; the read fills at most these bytes.
    let length = unsafe {
        let descriptor = libc::open(c"/proc/self/cmdline".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if descriptor < 0 {
            return Vec::new();
        }
        let length = libc::read(descriptor, bytes.as_mut_ptr().cast(), bytes.len());
        libc::close(descriptor);
        length
    };
    bytes.truncate(usize::try_from(length).unwrap_or(0));
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    for byte in &mut bytes {
        if *byte == 0 {
            *byte = b' ';
        }
    }
    bytes
}
