//! A lock that one loop holds for some nanoseconds with each request, and the controller now and then. Its release is a
//! plain store, where a mutex needs a locked instruction, and it wakes no thread.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Tries to lock statistics that another thread has locked, some 20 us in all.
const TRIES: u32 = 400;
/// The pause between two such rounds of [`StatsLock::wait`]: the holder may not have a CPU.
const PAUSE: Duration = Duration::from_micros(50);

/// Content that one thread at a time has open.
#[derive(Default)]
pub(crate) struct StatsLock<T> {
    is_open: AtomicBool,
    content: UnsafeCell<T>,
}

// SAFETY: only the thread that set the flag gets a reference to the content, and no other thread sets the flag until it
// is cleared. So one thread at a time has the content, which may go from one to another.
unsafe impl<T: Send> Sync for StatsLock<T> {}

/// Locked statistics; they are unlocked when this is dropped, also where a thread panics.
pub(crate) struct Open<'a, T> {
    stats: &'a StatsLock<T>,
    /// It is as good as the only reference to the content.
    content: PhantomData<&'a mut T>,
}

impl<T> StatsLock<T> {
    /// Opens it if no thread has it open.
    #[inline]
    pub(crate) fn try_open(&self) -> Option<Open<'_, T>> {
        let is_mine = self.is_open.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok();
        is_mine.then_some(()).map(|()| Open { stats: self, content: PhantomData })
    }

    /// Opens what another thread has open for moments only; `None`: it did not close it.
    #[inline]
    pub(crate) fn open(&self) -> Option<Open<'_, T>> {
        self.try_open().or_else(|| self.open_soon())
    }

    #[cold]
    fn open_soon(&self) -> Option<Open<'_, T>> {
        (0..TRIES).find_map(|_| {
            std::hint::spin_loop();
            self.try_open()
        })
    }

    /// Opens it however long that takes: for the controller.
    pub(crate) fn wait(&self) -> Open<'_, T> {
        loop {
            if let Some(open) = self.open() {
                return open;
            }
            std::thread::sleep(PAUSE);
        }
    }
}

impl<T> Deref for Open<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the flag is this one's.
        unsafe { &*self.stats.content.get() }
    }
}

impl<T> DerefMut for Open<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the flag is this one's, and `self` is borrowed alone.
        unsafe { &mut *self.stats.content.get() }
    }
}

impl<T> Drop for Open<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.stats.is_open.store(false, Ordering::Release);
    }
}

impl<T> fmt::Debug for StatsLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatsLock").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_has_it_open_and_nothing_is_lost() {
        let stats = StatsLock::<[u64; 2]>::default();
        let add = |times: u32| {
            for _ in 0..times {
                let mut open = stats.wait();
                open[0] += 1;
                let before = open[0];
                std::hint::black_box(&mut open[1]);
                open[1] += 1;
                assert_eq!((open[0], open[1]), (before, before));
            }
        };
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(|| add(50_000)))));
        assert_eq!(*stats.wait(), [200_000; 2]);
    }

    #[test]
    fn who_finds_it_open_goes_without_and_a_panic_closes_it() {
        let stats = StatsLock::<u64>::default();
        let open = stats.open().expect("it is not open");
        assert!(stats.try_open().is_none() && stats.open().is_none());
        drop(open);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _open = stats.open();
            panic!("with the statistics locked");
        }));
        assert!(panicked.is_err() && stats.open().is_some());
    }
}
