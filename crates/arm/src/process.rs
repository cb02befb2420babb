//! What belongs to this very process and not to its children: a page that the kernel wipes when the process forks.
//!
//! So a child finds zeros, however it was made (a raw `clone` included), and makes a memory of its own at its first
//! call; no handler of forks has to run, and no lock that another thread held stays locked.

use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};
use weir_wire::arm::{HEAD_HEARTBEAT, LANES};

/// Room for the path of an announcement, with its NUL.
pub(crate) const PATH_BYTES: usize = 512;

/// The page's content. All zeros is a process that has no memory.
#[repr(C)]
pub(crate) struct Process {
    /// The mapped head of the memory; null = there is none.
    pub(crate) head: AtomicPtr<AtomicU64>,
    /// The process's random number, not 0 once it has a generation.
    pub(crate) token: AtomicU64,
    /// How many memories this process and those that it was forked from have made, 1 to 255; 0 = none.
    pub(crate) generation: AtomicU64,
    /// The task that holds the lock of everything that is rare.
    pub(crate) lock: AtomicU32,
    /// 1 = a memory could not be had; asked again when something is registered.
    pub(crate) refused: AtomicU32,
    /// The memory file.
    pub(crate) descriptor: AtomicI32,
    /// The user who made it.
    pub(crate) user: AtomicU32,
    /// When the announcement was last looked after, nanoseconds.
    pub(crate) announced_ns: AtomicU64,
    /// Where each lane is mapped; null = not yet.
    pub(crate) lanes: [AtomicPtr<AtomicU64>; LANES],
    /// The path of the announcement, up to a NUL; empty = there is none.
    pub(crate) announced: [AtomicU8; PATH_BYTES],
}

/// What is seen before the first registration; never written.
pub(crate) static EMPTY: Process = Process {
    head: AtomicPtr::new(ptr::null_mut()),
    token: AtomicU64::new(0),
    generation: AtomicU64::new(0),
    lock: AtomicU32::new(0),
    refused: AtomicU32::new(0),
    descriptor: AtomicI32::new(0),
    user: AtomicU32::new(0),
    announced_ns: AtomicU64::new(0),
    lanes: [const { AtomicPtr::new(ptr::null_mut()) }; LANES],
    announced: [const { AtomicU8::new(0) }; PATH_BYTES],
};

/// The page, or [`EMPTY`] before it is made.
pub(crate) static PROCESS: AtomicPtr<Process> = AtomicPtr::new((&raw const EMPTY).cast_mut());

/// The process as it is: perhaps still empty, and then not to be written.
#[inline(always)]
pub(crate) fn process() -> &'static Process {
    // SAFETY: the pointer is that of a static, or of a page that is never unmapped; all of its fields are atomic.
    unsafe { &*PROCESS.load(Ordering::Acquire) }
}

impl Process {
    /// A word of what is mapped of the memory; `head` is not null, and the index is one of the layout's.
    #[inline(always)]
    pub(crate) fn word(head: *mut AtomicU64, index: usize) -> &'static AtomicU64 {
        // SAFETY: what is mapped stays so; the layout's indices are within it.
        unsafe { &*head.add(index) }
    }
}

/// Whether an agent listens to this process, as far as it has registered anything.
#[must_use]
pub fn listening() -> bool {
    let head = process().head.load(Ordering::Acquire);
    !head.is_null() && Process::word(head, HEAD_HEARTBEAT).load(Ordering::Relaxed) != 0
}
