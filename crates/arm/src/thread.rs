//! What a thread knows of its lane, and how it gives the lane back when it ends.

use crate::clock::Clock;
use crate::process::process;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use weir_wire::arm::{LANE_OWNER, POSITION_WORDS, POSITIONS_AT};

/// What a thread knows of its lane. Its fields are atomic only because a signal's handler may see them.
pub(crate) struct Mine {
    /// The token of the process whose lane it is: a forked child has another. 0 = none.
    pub(crate) token: AtomicU64,
    /// A write is under way, or a lane is being looked for: a signal's handler keeps away from it.
    pub(crate) busy: AtomicBool,
    /// The thread is ending and has given its lane back.
    pub(crate) ended: AtomicBool,
    pub(crate) ring: AtomicPtr<AtomicU64>,
    pub(crate) positions: AtomicPtr<AtomicU64>,
    pub(crate) lane: AtomicU32,
    /// As in [`crate::place::Place`].
    pub(crate) first: AtomicU64,
    pub(crate) task: AtomicU64,
    pub(crate) written: AtomicU64,
    pub(crate) read: AtomicU64,
    /// Calls until a lane is asked for again.
    pub(crate) wait: AtomicU32,
    /// For the choice of samples.
    pub(crate) seed: AtomicU64,
    pub(crate) clock: Clock,
}

thread_local! {
    /// Without a destructor, so that access to it is one address, also while the thread ends.
    static MINE: Mine = const {
        Mine {
            token: AtomicU64::new(0),
            busy: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            ring: AtomicPtr::new(ptr::null_mut()),
            positions: AtomicPtr::new(ptr::null_mut()),
            lane: AtomicU32::new(0),
            first: AtomicU64::new(0),
            task: AtomicU64::new(0),
            written: AtomicU64::new(0),
            read: AtomicU64::new(0),
            wait: AtomicU32::new(0),
            seed: AtomicU64::new(0),
            clock: Clock::new(),
        }
    };
}

/// What this thread knows of its lane.
#[inline(always)]
pub(crate) fn mine() -> &'static Mine {
    let mine = MINE.with(ptr::from_ref);
    // SAFETY: it has no destructor, so it is there until the thread is not; and it never leaves this module's calls.
    unsafe { &*mine }
}

/// Whether one of so many is left out, by the thread's own random numbers.
#[cold]
pub(crate) fn is_left_out(one_in: u32) -> bool {
    let mine = mine();
    let mut seed = mine.seed.load(Ordering::Relaxed);
    if seed == 0 {
        seed = (ptr::from_ref(mine) as u64 ^ process().token.load(Ordering::Relaxed)).max(1);
    }
    // Marsaglia's xorshift64.
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    mine.seed.store(seed, Ordering::Relaxed);
    ((seed >> 32) * u64::from(one_in)) >> 32 != 0
}

/// Where a lane's positions stand.
pub(crate) fn positions(head: *mut AtomicU64, lane: u32) -> *mut AtomicU64 {
    // SAFETY: within the positions of the mapped head, as the lane is below LANES.
    unsafe { head.add(POSITIONS_AT / 8 + lane as usize * POSITION_WORDS) }
}

/// A word of a lane's positions.
pub(crate) fn word(head: *mut AtomicU64, lane: u32, index: usize) -> &'static AtomicU64 {
    // SAFETY: within the positions of that lane, which stay mapped.
    unsafe { &*positions(head, lane).add(index) }
}

/// The key whose destructor runs at a thread's end, plus 1; 0 = there is none, and lanes are taken from the dead.
static KEY: AtomicU32 = AtomicU32::new(0);

/// From now on threads that end give their lanes back. A key, unlike a destructor of Rust, needs no memory for a thread
/// that first writes in a signal's handler.
pub(crate) fn watch_ends() {
    let mut key = 0;
    // SAFETY: the key is this function's own, and the destructor is never unloaded: the library stays.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(ended)) } == 0 {
        KEY.store(key + 1, Ordering::Release);
    }
}

/// Has this thread give its lane back at its end.
pub(crate) fn tell_end() {
    if let Some(key) = KEY.load(Ordering::Acquire).checked_sub(1) {
        // SAFETY: the key exists; the value is only a mark that is not null.
        unsafe { libc::pthread_setspecific(key, ptr::dangling()) };
    }
}

extern "C" fn ended(_: *mut libc::c_void) {
    let mine = mine();
    mine.ended.store(true, Ordering::Relaxed);
    let (process, token) = (process(), mine.token.swap(0, Ordering::Relaxed));
    let head = process.head.load(Ordering::Acquire);
    if token != 0 && token == process.token.load(Ordering::Relaxed) && !head.is_null() {
        word(head, mine.lane.load(Ordering::Relaxed), LANE_OWNER).store(0, Ordering::Release);
    }
}
