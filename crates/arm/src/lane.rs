//! Which lane a thread writes into: one of its own, or for a single call one of the shared lanes.

use crate::clock::Clock;
use crate::lock::{lives, task};
use crate::memory;
use crate::place::Place;
use crate::process::{Process, process};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, compiler_fence};
use weir_wire::arm::{
    HEAD_LANELESS, HEAD_LANES_USED, Handle, LANE_OWNER, LANE_READ, LANE_WRITTEN, LANES, POSITION_WORDS, POSITIONS_AT,
    SHARED_LANES,
};

/// Lanes that threads may own.
const OWN_LANES: u32 = (LANES - SHARED_LANES) as u32;
/// A thread that got no lane asks again after so many calls.
const ASK_AGAIN: u32 = 4096;

/// What a thread knows of its lane. Its fields are atomic only because a signal's handler may see them.
pub(crate) struct Mine {
    /// The token of the process whose lane it is: a forked child has another. 0 = none.
    pub(crate) token: AtomicU64,
    /// A write is under way, or a lane is being looked for: a signal's handler keeps away from it.
    pub(crate) busy: AtomicBool,
    /// The thread is ending and has given its lane back.
    ended: AtomicBool,
    ring: AtomicPtr<AtomicU64>,
    positions: AtomicPtr<AtomicU64>,
    lane: AtomicU32,
    /// As in [`Place`].
    first: AtomicU64,
    task: AtomicU64,
    written: AtomicU64,
    read: AtomicU64,
    /// Calls until a lane is asked for again.
    wait: AtomicU32,
    /// For the choice of samples.
    seed: AtomicU64,
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

/// The thread's own lane, if it has one and no write into it was interrupted.
#[inline(always)]
pub(crate) fn own(process: &Process) -> Option<&'static Mine> {
    let mine = mine();
    let has_one = mine.token.load(Ordering::Relaxed) == process.token.load(Ordering::Relaxed);
    (has_one && !mine.busy.load(Ordering::Relaxed)).then_some(mine)
}

/// Has records written: into the thread's own lane where it has one; `None` = no lane could be had, which is counted.
#[inline(always)]
pub(crate) fn write<R>(process: &Process, head: *mut AtomicU64, records: impl FnOnce(&mut Place) -> R) -> Option<R> {
    match own(process) {
        Some(mine) => Some(mine.write(records)),
        None => elsewhere(process, head, mine(), records),
    }
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

impl Mine {
    /// Into the thread's own lane, which it has.
    #[inline(always)]
    pub(crate) fn write<R>(&self, records: impl FnOnce(&mut Place) -> R) -> R {
        self.busy.store(true, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        let before = self.written.load(Ordering::Relaxed);
        let mut place = Place {
            ring: self.ring.load(Ordering::Relaxed),
            positions: self.positions.load(Ordering::Relaxed),
            first: self.first.load(Ordering::Relaxed),
            task: self.task.load(Ordering::Relaxed),
            written: before,
            read: self.read.load(Ordering::Relaxed),
        };
        let result = records(&mut place);
        place.publish();
        self.written.store(place.written, Ordering::Relaxed);
        self.read.store(place.read, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        self.busy.store(false, Ordering::Relaxed);
        result
    }

    /// Takes a free lane for the thread, or one whose thread has gone without a word.
    fn claim(&self, process: &Process, head: *mut AtomicU64) -> bool {
        let wait = self.wait.load(Ordering::Relaxed);
        if wait > 0 || self.ended.load(Ordering::Relaxed) {
            self.wait.store(wait.saturating_sub(1), Ordering::Relaxed);
            return false;
        }
        self.wait.store(ASK_AGAIN, Ordering::Relaxed);
        let own = task();
        for dead_ones in [false, true] {
            for lane in 0..OWN_LANES {
                let owner = word(head, lane, LANE_OWNER);
                let holder = owner.load(Ordering::Relaxed) as u32;
                if (holder != 0) == dead_ones && !(dead_ones && lives(holder)) && take(owner, holder, own) {
                    if self.settle(process, head, lane, own) {
                        self.wait.store(0, Ordering::Relaxed);
                        return true;
                    }
                    owner.store(0, Ordering::Release);
                    return false;
                }
            }
        }
        false
    }

    /// Notes all about the lane that was taken; `false` = it cannot be mapped.
    fn settle(&self, process: &Process, head: *mut AtomicU64, lane: u32, own: u32) -> bool {
        let ring = memory::lane(process, lane);
        if ring.is_null() {
            return false;
        }
        used(head, lane);
        self.ring.store(ring, Ordering::Relaxed);
        self.positions.store(positions(head, lane), Ordering::Relaxed);
        self.lane.store(lane, Ordering::Relaxed);
        self.first.store(first(process, lane), Ordering::Relaxed);
        self.task.store(u64::from(own) << 32, Ordering::Relaxed);
        self.written.store(word(head, lane, LANE_WRITTEN).load(Ordering::Acquire), Ordering::Relaxed);
        self.read.store(word(head, lane, LANE_READ).load(Ordering::Acquire), Ordering::Relaxed);
        self.token.store(process.token.load(Ordering::Relaxed), Ordering::Relaxed);
        tell_end();
        true
    }
}

/// The thread has no lane, or is in the midst of a write that a signal has interrupted.
#[cold]
#[inline(never)]
fn elsewhere<R>(
    process: &Process,
    head: *mut AtomicU64,
    mine: &Mine,
    records: impl FnOnce(&mut Place) -> R,
) -> Option<R> {
    if !mine.busy.load(Ordering::Relaxed) {
        mine.busy.store(true, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        let claimed = mine.claim(process, head);
        compiler_fence(Ordering::SeqCst);
        mine.busy.store(false, Ordering::Relaxed);
        if claimed {
            return Some(mine.write(records));
        }
    }
    let own = task();
    for round in 0..2 * SHARED_LANES as u32 {
        let lane = OWN_LANES + (own.wrapping_add(round)) % SHARED_LANES as u32;
        let owner = word(head, lane, LANE_OWNER);
        if !take(owner, 0, own) {
            continue;
        }
        let ring = memory::lane(process, lane);
        if ring.is_null() {
            owner.store(0, Ordering::Release);
            break;
        }
        used(head, lane);
        let mut place = Place {
            ring,
            positions: positions(head, lane),
            first: first(process, lane),
            task: u64::from(own) << 32,
            written: word(head, lane, LANE_WRITTEN).load(Ordering::Acquire),
            read: word(head, lane, LANE_READ).load(Ordering::Acquire),
        };
        let result = records(&mut place);
        place.publish();
        owner.store(0, Ordering::Release);
        return Some(result);
    }
    Process::word(head, HEAD_LANELESS).fetch_add(1, Ordering::Relaxed);
    None
}

/// What a handle of a lane's slot 0 would be.
fn first(process: &Process, lane: u32) -> u64 {
    Handle::new(process.generation.load(Ordering::Relaxed) as u8, lane, 0).0
}

fn take(owner: &AtomicU64, holder: u32, own: u32) -> bool {
    owner.compare_exchange(u64::from(holder), u64::from(own), Ordering::Acquire, Ordering::Relaxed).is_ok()
}

/// Readers look as far as this lane from now on.
fn used(head: *mut AtomicU64, lane: u32) {
    Process::word(head, HEAD_LANES_USED).fetch_max(u64::from(lane) + 1, Ordering::Release);
}

fn positions(head: *mut AtomicU64, lane: u32) -> *mut AtomicU64 {
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

fn tell_end() {
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
