//! Prefetches what the next looks of a tick read. A tick comes once a second; by then other work of the CPU has evicted
//! the data from the caches.

use super::State;
use super::store::Store;
use super::subjects::{Session, Slots};

/// So many looks before: the series of readings, which know where their values are.
const SERIES: usize = 6;
/// The values.
const VALUES: usize = 3;
/// An atom itself, which knows of its rules and readings.
const ITSELF: usize = 10;

/// A line of most processors' caches, in bytes.
const LINE: usize = 64;
/// Lines of several things at most: more would drive out each other.
const LINES_MAX: usize = 8;

impl State {
    /// Looks at these atoms follow, in this order.
    pub(crate) fn expect_atoms(&self, due: &[u32]) {
        let atom = |ahead: usize| self.atoms.get(*due.get(ahead)? as usize);
        if let Some(atom) = atom(ITSELF) {
            ask_for(atom);
        }
        if let Some(atom) = atom(SERIES) {
            ask_for_some(&atom.instances);
            self.store.expect(&atom.slots);
        }
        if let Some(atom) = atom(VALUES) {
            self.store.expect_values(&atom.slots);
        }
    }

    /// Looks at these sessions follow, in this order.
    pub(crate) fn expect_sessions(&self, from: usize) {
        let session = |ahead: usize| self.sessions.get(from + ahead).and_then(Option::as_ref);
        if let Some(Session { instances, slots, atom, .. }) = session(SERIES) {
            ask_for_some(instances);
            self.store.expect(slots);
            self.atoms.get(atom.0 as usize).into_iter().for_each(ask_for);
        }
        if let Some(session) = session(VALUES) {
            self.store.expect_values(&session.slots);
        }
    }
}

impl Store {
    #[inline]
    fn expect(&self, slots: &Slots) {
        for &slot in slots {
            // A state that was read from elsewhere may have any number here.
            if slot != 0
                && let Some(series) = self.series.get(slot as usize)
            {
                ask_for(series);
            }
        }
    }

    #[inline]
    fn expect_values(&self, slots: &Slots) {
        for &slot in slots {
            if slot != 0
                && let Some(Some(series)) = self.series.get(slot as usize)
            {
                let (earlier, later) = series.parts();
                ask_for_some(earlier);
                ask_for_some(later);
            }
        }
    }
}

/// Asks for the lines of the cache in which they lie, if these are as few as usual.
#[inline]
fn ask_for_some<T>(what: &[T]) {
    let mut offset = 0;
    while offset < size_of_val(what).min(LINES_MAX * LINE) {
        prefetch(what.as_ptr().cast::<u8>().wrapping_add(offset));
        offset += LINE;
    }
    if let Some(last) = what.last() {
        prefetch(std::ptr::from_ref(last).cast());
    }
}

/// Asks for all lines of the cache in which it lies.
#[inline]
fn ask_for<T>(what: &T) {
    let begin = std::ptr::from_ref(what).cast::<u8>();
    let mut offset = 0;
    while offset < size_of::<T>() {
        prefetch(begin.wrapping_add(offset));
        offset += LINE;
    }
    // Where it begins in the middle of one it ends in another.
    prefetch(begin.wrapping_add(size_of::<T>() - 1));
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn prefetch(at: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: the instruction is there on every x86-64, reads nothing for the program and fails on no address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
}

/// Elsewhere nothing in the stable language asks for it.
#[cfg(not(target_arch = "x86_64"))]
fn prefetch(_: *const u8) {}
