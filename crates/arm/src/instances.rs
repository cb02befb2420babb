//! Instances of applications that are running: what a transaction is started in.

use crate::hot::{listener, now_ns};
use crate::page::own;
use crate::process::process;
use crate::{lane, memory, registry};
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use weir_wire::Kind;
use weir_wire::arm::{MOST_DEFINITIONS, Sort};

/// Generation << 16 | how often the instance was begun and not ended. A parent's count is not its child's.
static RUNNING: [AtomicU32; MOST_DEFINITIONS] = [const { AtomicU32::new(0) }; MOST_DEFINITIONS];

/// The handle of each while it runs, else 0. A parent's handles have another generation than its child.
static HANDLES: [AtomicI64; MOST_DEFINITIONS] = [const { AtomicI64::new(0) }; MOST_DEFINITIONS];

/// What tells handles of instances from other numbers.
const MARK: i64 = 0x61_706c;

/// Begins an instance (a definition of [`Sort::Instance`]); gives its handle, over 0, or 0 for a number that is none.
///
/// The same instance may be begun several times; it ends when it has been ended as often.
#[must_use]
pub fn begin_instance(instance: u16) -> i64 {
    if registry::sort_of(instance) != Some(Sort::Instance) {
        return 0;
    }
    let Some(process) = own() else { return 0 };
    let _ = memory::ensure(process);
    let generation = process.generation.load(Ordering::Relaxed) as u32;
    let begun = |word: u32| Some(generation << 16 | (count(word, generation) + 1).min(0xffff));
    let before = RUNNING[usize::from(instance)].fetch_update(Ordering::Relaxed, Ordering::Relaxed, begun);
    if before.is_ok_and(|word| count(word, generation) == 0) {
        tell(instance, true);
    }
    let handle = MARK << 24 | i64::from(generation) << 16 | i64::from(instance);
    HANDLES[usize::from(instance)].store(handle, Ordering::Release);
    handle
}

/// Ends it; `false` = it is not running, or the handle is another process's.
pub fn end_instance(handle: i64) -> bool {
    let Some(instance) = instance_of(handle) else { return false };
    let generation = process().generation.load(Ordering::Relaxed) as u32;
    let ended = |word| Some(generation << 16 | count(word, generation).checked_sub(1)?);
    let before = RUNNING[usize::from(instance)].fetch_update(Ordering::Relaxed, Ordering::Relaxed, ended);
    if before.is_ok_and(|word| count(word, generation) == 1) {
        HANDLES[usize::from(instance)].store(0, Ordering::Release);
        tell(instance, false);
    }
    instance == 0 || before.is_ok()
}

/// The number of a running instance; `None` = it is not running, or the handle is another process's. 0 is always 0.
#[must_use]
pub fn instance_of(handle: i64) -> Option<u16> {
    let running = running_instance(handle);
    (running != 0 || handle == 0).then_some(running)
}

/// The number of a running instance; 0 = it is none. What a start asks first.
#[inline(always)]
#[must_use]
pub fn running_instance(handle: i64) -> u16 {
    let generation = process().generation.load(Ordering::Relaxed) as u8;
    let place = &HANDLES[handle as usize % MOST_DEFINITIONS];
    if place.load(Ordering::Relaxed) == handle && (handle >> 16) as u8 == generation { handle as u16 } else { 0 }
}

fn count(word: u32, generation: u32) -> u32 {
    if word >> 16 == generation { word & 0xffff } else { 0 }
}

fn tell(instance: u16, runs: bool) {
    let process = process();
    if let Some(head) = listener(process) {
        let _ = lane::write(process, head, |place| {
            place.record(now_ns(), Kind::ArmInstance, 0, u64::from(instance), u64::from(runs), &[])
        });
    }
}
