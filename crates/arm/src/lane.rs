//! Which lane a thread writes into: one of its own, or for a single call one of the shared lanes.

use crate::lock::{lives, task};
use crate::memory;
use crate::place::Place;
use crate::process::Process;
use crate::thread::{Mine, mine, positions, tell_end, word};
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};
use weir_wire::arm::{
    HEAD_LANELESS, HEAD_LANES_USED, Handle, LANE_OWNER, LANE_READ, LANE_WRITTEN, LANES, SHARED_LANES,
};

/// Lanes that threads may own.
const OWN_LANES: u32 = (LANES - SHARED_LANES) as u32;
/// A thread that got no lane asks again after so many calls.
const ASK_AGAIN: u32 = 4096;

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
