//! The one lock, for rare work. No thread waits for it much longer than [`MOST_WAITS`] milliseconds.

use crate::process::Process;
use std::sync::atomic::Ordering;

const SPINS: u32 = 200;
const MOST_WAITS: u32 = 200;

/// Held until it is dropped.
pub(crate) struct Guard<'a>(&'a Process);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.lock.store(0, Ordering::Release);
    }
}

/// The number of the running task.
pub(crate) fn task() -> u32 {
    // SAFETY: it only asks.
    unsafe { libc::gettid() as u32 }
}

/// Whether a task of this process is still there.
pub(crate) fn lives(task: u32) -> bool {
    // SAFETY: signal 0 is not sent, only tried.
    let tried = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), task, 0) };
    // SAFETY: the place of this thread's own error.
    tried == 0 || unsafe { *libc::__errno_location() } != libc::ESRCH
}

/// Takes the lock; `None` = another has it for too long, or it is this thread's own, interrupted by a signal.
pub(crate) fn lock(process: &Process) -> Option<Guard<'_>> {
    let own = task();
    for round in 0..SPINS + MOST_WAITS {
        match process.lock.compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => return Some(Guard(process)),
            Err(holder) if holder == own => return None,
            Err(_) if round < SPINS => std::hint::spin_loop(),
            Err(_) => {
                let pause = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
                // SAFETY: both are of this function; being woken early is no harm.
                unsafe { libc::nanosleep(&raw const pause, std::ptr::null_mut()) };
            }
        }
    }
    // A thread that was ended in the midst of its work never gives it back.
    let holder = process.lock.load(Ordering::Relaxed);
    let taken = holder != 0
        && !lives(holder)
        && process.lock.compare_exchange(holder, own, Ordering::Acquire, Ordering::Relaxed).is_ok();
    taken.then_some(Guard(process))
}
