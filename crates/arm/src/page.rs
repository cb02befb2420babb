//! Makes the process's page at the first registration.

use crate::process::{EMPTY, PROCESS, Process, process};
use crate::thread;
use std::ptr;
use std::sync::atomic::Ordering;

/// The process's page, made if it is not there; `None` = this kernel wipes no pages, so nothing can be recorded.
pub(crate) fn own() -> Option<&'static Process> {
    let found = process();
    if !ptr::eq(found, &EMPTY) {
        return Some(found);
    }
    let bytes = size_of::<Process>();
    // SAFETY: a new anonymous mapping touches nothing that exists.
    let page = unsafe {
        libc::mmap(
            ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if page == libc::MAP_FAILED {
        return None;
    }
    let empty = (&raw const EMPTY).cast_mut();
    // SAFETY: the range is the mapping that was just made.
    let wiped = unsafe { libc::madvise(page, bytes, libc::MADV_WIPEONFORK) } == 0;
    // Zeros are a valid process. Another thread may have been faster, and then its page counts.
    if wiped && PROCESS.compare_exchange(empty, page.cast(), Ordering::AcqRel, Ordering::Acquire).is_ok() {
        thread::watch_ends();
    } else {
        // SAFETY: no other code has seen this mapping.
        unsafe { libc::munmap(page, bytes) };
    }
    wiped.then(process)
}
