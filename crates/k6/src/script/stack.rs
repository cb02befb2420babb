//! The memory of a user's stack: what its script used once is given back while it waits for long.

use corosensei::stack::{DefaultStack, Stack};
use std::time::Duration;
use weir_scenario::behaviour::Wants;

/// What stays below the place where a script waits, for the calls that suspend it, in bytes.
const MARGIN_BYTES: usize = 4 << 10;
/// From such a wait on the memory is worth the system call, and the page faults that follow.
const LONG: Duration = Duration::from_secs(1);

/// Where a stack lies.
#[derive(Debug, Clone, Copy)]
pub(super) struct StackArea {
    lowest: usize,
    highest: usize,
}

impl StackArea {
    pub(super) fn of(stack: &DefaultStack) -> Self {
        Self { lowest: stack.limit().get(), highest: stack.base().get() }
    }

    /// Gives back what lies below the caller's frames, if these are on this stack.
    #[inline(never)]
    pub(super) fn give_back(self) {
        let local = 0_u8;
        let here = std::ptr::from_ref(&local) as usize;
        if !(self.lowest..self.highest).contains(&here) {
            return;
        }
        // SAFETY: the question has no other effect.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096).max(1);
        let begin = self.lowest.next_multiple_of(page);
        let end = here.saturating_sub(MARGIN_BYTES) / page * page;
        if end > begin {
            // SAFETY: the pages are of this stack, and below all that is in use of it: the frames of the call lie within
            // the margin. They are zeros when they are used again. If the call fails, they stay.
            unsafe { libc::madvise(begin as *mut libc::c_void, end - begin, libc::MADV_DONTNEED) };
        }
    }
}

/// Whether a script waits for long.
pub(super) fn is_long(wants: &Wants) -> bool {
    match wants {
        Wants::Sleep(time) | Wants::Listen(Some(time)) => *time >= LONG,
        Wants::Listen(None) => true,
        _ => false,
    }
}
