//! Handles of 32 bits, which ARM 2.0 has: a bounded table from them to ours.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use weir_wire::arm::Handle;

/// Transactions that may run at once; the low 16 bits of a short handle are its place.
const PLACES: usize = 1 << 16;
/// Places that are tried before one that is in use is taken from its transaction.
const MOST_TRIES: u32 = 64;

struct Entry {
    /// The short handle; 0 = free.
    short: AtomicU32,
    handle: AtomicU64,
}

static ENTRIES: [Entry; PLACES] = [const { Entry { short: AtomicU32::new(0), handle: AtomicU64::new(0) } }; PLACES];
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A short name for a handle, over 0; 0 for `Handle(0)`. It is kept until [`release`].
///
/// Where a program leaves all of them running, the oldest nearby loses its name: its stop is then not recorded.
#[must_use]
pub fn shorten(handle: Handle) -> i32 {
    if handle.0 == 0 {
        return 0;
    }
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    // Another salt each time round, so that a name that was released is not soon another's.
    let named = |place: u32| (((next >> 16) % 0x7fff + 1) << 16) | place & 0xffff;
    for step in 0..MOST_TRIES {
        let short = named(next.wrapping_add(step));
        let entry = &ENTRIES[short as usize % PLACES];
        if entry.short.compare_exchange(0, short, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            entry.handle.store(handle.0, Ordering::Release);
            return short as i32;
        }
    }
    let short = named(next);
    let entry = &ENTRIES[short as usize % PLACES];
    entry.short.store(short, Ordering::Relaxed);
    entry.handle.store(handle.0, Ordering::Release);
    short as i32
}

/// The handle of a short name; `Handle(0)` if there is none of that name.
#[must_use]
pub fn lengthen(short: i32) -> Handle {
    if short <= 0 {
        return Handle(0);
    }
    let entry = &ENTRIES[short as usize % PLACES];
    let handle = entry.handle.load(Ordering::Acquire);
    let is_it = entry.short.load(Ordering::Acquire) == short as u32;
    Handle(if is_it { handle } else { 0 })
}

/// The handle of a short name, which is free from now on.
pub fn release(short: i32) -> Handle {
    let handle = lengthen(short);
    if short > 0 {
        let entry = &ENTRIES[short as usize % PLACES];
        let _ = entry.short.compare_exchange(short as u32, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
    handle
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_given_taken_back_and_run_out_without_harm() {
        assert_eq!((shorten(Handle(0)), lengthen(0), release(-5)), (0, Handle(0), Handle(0)));
        let first = shorten(Handle(77));
        assert!(first > 0 && lengthen(first) == Handle(77) && release(first) == Handle(77));
        assert_eq!((lengthen(first), release(first)), (Handle(0), Handle(0)));
        let names: Vec<i32> = (0..3 * PLACES as u64).map(|number| shorten(Handle(number + 1))).collect();
        assert!(names.iter().all(|name| *name > 0));
        let known = names.iter().enumerate().filter(|(at, name)| lengthen(**name) == Handle(*at as u64 + 1)).count();
        assert_eq!(known, PLACES);
    }
}
