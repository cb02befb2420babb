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

/// Content that one thread at a time has locked.
#[derive(Default)]
pub(crate) struct StatsLock<T> {
    is_locked: AtomicBool,
    content: UnsafeCell<T>,
}

// SAFETY: only the thread that set the flag gets a reference to the content, and no other thread sets the flag until it
// is cleared. So one thread at a time has the content, which may go from one to another.
unsafe impl<T: Send> Sync for StatsLock<T> {}

/// Locked statistics; they are unlocked when this is dropped, also where a thread panics.
pub(crate) struct StatsGuard<'a, T> {
    stats: &'a StatsLock<T>,
    /// It is as good as the only reference to the content.
    content: PhantomData<&'a mut T>,
}

impl<T> StatsLock<T> {
    /// Locks it if no thread has it locked.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<StatsGuard<'_, T>> {
        let is_mine = self.is_locked.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok();
        is_mine.then_some(()).map(|()| StatsGuard { stats: self, content: PhantomData })
    }

    /// Locks what another thread locks for moments only; `None`: it did not unlock it.
    #[inline]
    pub(crate) fn lock(&self) -> Option<StatsGuard<'_, T>> {
        self.try_lock().or_else(|| self.lock_soon())
    }

    #[cold]
    fn lock_soon(&self) -> Option<StatsGuard<'_, T>> {
        (0..TRIES).find_map(|_| {
            std::hint::spin_loop();
            self.try_lock()
        })
    }

    /// Locks it however long that takes: for the controller.
    pub(crate) fn wait(&self) -> StatsGuard<'_, T> {
        loop {
            if let Some(guard) = self.lock() {
                return guard;
            }
            std::thread::sleep(PAUSE);
        }
    }
}

impl<T> Deref for StatsGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the flag is this one's.
        unsafe { &*self.stats.content.get() }
    }
}

impl<T> DerefMut for StatsGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the flag is this one's, and `self` is borrowed alone.
        unsafe { &mut *self.stats.content.get() }
    }
}

impl<T> Drop for StatsGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.stats.is_locked.store(false, Ordering::Release);
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
                let mut guard = stats.wait();
                guard[0] += 1;
                let before = guard[0];
                std::hint::black_box(&mut guard[1]);
                guard[1] += 1;
                assert_eq!((guard[0], guard[1]), (before, before));
            }
        };
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(|| add(50_000)))));
        assert_eq!(*stats.wait(), [200_000; 2]);
    }

    #[test]
    fn who_finds_it_open_goes_without_and_a_panic_closes_it() {
        let stats = StatsLock::<u64>::default();
        let guard = stats.lock().expect("it is not locked");
        assert!(stats.try_lock().is_none() && stats.lock().is_none());
        drop(guard);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _guard = stats.lock();
            panic!("with the statistics locked");
        }));
        assert!(panicked.is_err() && stats.lock().is_some());
    }
}
