//! What runs for each transaction: a start and a stop.
//!
//! Where no agent listens, a start is three loads and a stop is a comparison. Where an agent listens, each is a look at
//! the switch, a read of the clock, a slot of 32 bytes in the thread's own lane, and the position that makes it seen.
//! No system call (the clock is read in the vDSO), no lock, no memory that is not there already. The clock is read last
//! in a start and first in a stop, so that as little as can be of this counts as the transaction's own time.

use crate::lane;
use crate::memory::revived;
use crate::place::{Place, Telling};
use crate::process::{Process, process};
use crate::thread::{is_left_out, mine};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use weir_wire::arm::{
    ARM_2, BOUND, CORRELATED, HAS_ARRIVAL, HAS_PARENT, HEAD_DEFAULT_SWITCH, HEAD_HEARTBEAT, Handle, Identity,
    MOST_DEFINITIONS, SWITCH_OFF, SWITCH_ON, SWITCHES_AT, TRACE,
};
use weir_wire::{Kind, Slot};

/// What a transaction begins with.
#[derive(Debug, Clone, Copy, Default)]
pub struct Begin {
    /// The number of its definition, 0 = unknown.
    pub transaction: u16,
    /// The number of its application's instance, 0 = unknown.
    pub instance: u16,
    /// Of [`TRACE`], [`BOUND`], [`CORRELATED`] and [`ARM_2`]; others are ignored.
    pub flags: u8,
    /// Its parent.
    pub parent: Option<Identity>,
    /// When its request arrived, as [`now_ns`] gives it; 0 = not known.
    pub arrival_ns: u64,
}

/// Begins a transaction; `Handle(0)` = it is not recorded: no agent listens, the switch is off, or there is no room.
#[inline(always)]
#[must_use]
pub fn start(transaction: u16, instance: u16) -> Handle {
    let process = process();
    let head = process.head.load(Ordering::Acquire);
    if !head.is_null() && Process::word(head, HEAD_HEARTBEAT).load(Ordering::Relaxed) == 0 {
        return Handle(0);
    }
    // A function of its own, so that a start without an agent does not even save a register.
    start_recorded(process, head, transaction, instance)
}

#[inline(never)]
fn start_recorded(process: &Process, head: *mut AtomicU64, transaction: u16, instance: u16) -> Handle {
    if !head.is_null()
        && switch(head, transaction) == SWITCH_ON
        && let Some(mine) = lane::own(process)
    {
        return mine.write(|place| {
            if !place.has_room(1) {
                return Handle(0);
            }
            let handle = place.handle();
            let of = u64::from(transaction) | u64::from(instance) << 16;
            let kind = Kind::ArmStart as u64 | place.task;
            place.put([now_ns(), kind, handle.0, of]);
            handle
        });
    }
    start_seldom(transaction, instance)
}

/// A child's first, a thread's first, or one that the switch may leave out.
#[cold]
#[inline(never)]
fn start_seldom(transaction: u16, instance: u16) -> Handle {
    start_with(&Begin { transaction, instance, ..Begin::default() }, |_| {})
}

/// Begins a transaction of which there is more to tell; `tell` runs only where it is recorded.
#[must_use]
pub fn start_with(begin: &Begin, tell: impl FnOnce(&mut Telling<'_>)) -> Handle {
    start_timed(begin, SWITCH_ON, now_ns, tell)
}

/// The same for a program that has read the clock already ([`now_ns`]), and perhaps has left others out by itself.
///
/// It began at `time_ns`, which is not before what this thread has recorded last. It stands for `one_in` of its kind:
/// 0 and 1 for itself alone.
#[must_use]
pub fn start_at(begin: &Begin, one_in: u32, time_ns: u64, tell: impl FnOnce(&mut Telling<'_>)) -> Handle {
    start_timed(begin, one_in, || time_ns, tell)
}

#[inline(always)]
fn start_timed(
    begin: &Begin,
    of_program: u32,
    clock: impl FnOnce() -> u64,
    tell: impl FnOnce(&mut Telling<'_>),
) -> Handle {
    let process = process();
    let Some(head) = listener(process) else { return Handle(0) };
    let one_in = switch(head, begin.transaction);
    if one_in != SWITCH_ON && (one_in == SWITCH_OFF || is_left_out(one_in)) {
        return left_out(process, head);
    }
    let one_in = if of_program > 1 { of_program.saturating_mul(one_in.max(1)).min(SWITCH_OFF - 1) } else { one_in };
    lane::write(process, head, |place| {
        let Some((handle, time_ns)) = put_start(place, begin, one_in, clock) else { return Handle(0) };
        let mut telling = Telling::new(place, handle, time_ns);
        tell(&mut telling);
        telling.flush();
        handle
    })
    .unwrap_or(Handle(0))
}

/// Writes a begin, of `one_in`; gives its handle and its time. `None` = no room.
#[inline(always)]
pub(crate) fn put_start(
    place: &mut Place,
    begin: &Begin,
    one_in: u32,
    clock: impl FnOnce() -> u64,
) -> Option<(Handle, u64)> {
    let more = u8::from(begin.parent.is_some()) + u8::from(begin.arrival_ns != 0);
    if !place.has_room(1 + u64::from(more)) {
        return None;
    }
    let (kind, of) = start_words(begin, one_in);
    let handle = place.handle();
    let time_ns = clock();
    place.put([time_ns, kind | u64::from(more) << 24 | place.task, handle.0, of]);
    if let Some(parent) = begin.parent {
        place.put(parent.slot());
    }
    if let Some(arrival) = arrival_slot(begin) {
        place.put(arrival);
    }
    Some((handle, time_ns))
}

/// What a begin's record says of it in its second word, but for its slots and its thread, and in its last.
#[inline(always)]
pub(crate) fn start_words(begin: &Begin, one_in: u32) -> (u64, u64) {
    let flags = begin.flags & (TRACE | BOUND | CORRELATED | ARM_2)
        | if begin.parent.is_some() { HAS_PARENT } else { 0 }
        | if begin.arrival_ns != 0 { HAS_ARRIVAL } else { 0 };
    let of = u64::from(begin.transaction) | u64::from(begin.instance) << 16 | u64::from(one_in) << 32;
    (Kind::ArmStart as u64 | u64::from(flags) << 16, of)
}

/// The slot that says when its request arrived, if that is known.
#[inline(always)]
pub(crate) fn arrival_slot(begin: &Begin) -> Option<Slot> {
    (begin.arrival_ns != 0).then_some([begin.arrival_ns, 0, 0, 0])
}

/// Ends a transaction (status: 0 = good, 1 = aborted, 2 = failed, 3 = unknown); `false` = the handle is not of this process.
#[inline(always)]
pub fn stop(handle: Handle, status: u32) -> bool {
    handle.0 == 0 || stop_recorded(handle, status)
}

#[inline(never)]
fn stop_recorded(handle: Handle, status: u32) -> bool {
    event(Kind::ArmStop, handle, u64::from(status), |_| {})
}

/// Ends a transaction of which there is more to tell.
pub fn stop_with(handle: Handle, status: u32, tell: impl FnOnce(&mut Telling<'_>)) -> bool {
    event(Kind::ArmStop, handle, u64::from(status), tell)
}

/// A sign of life of a transaction, and what there is to tell; `false` = the handle is not of this process.
pub fn update_with(handle: Handle, tell: impl FnOnce(&mut Telling<'_>)) -> bool {
    event(Kind::ArmUpdate, handle, 0, tell)
}

/// A transaction is not to be counted; `false` = the handle is not of this process.
pub fn discard(handle: Handle) -> bool {
    event(Kind::ArmDiscard, handle, 0, |_| {})
}

/// The running thread works for a transaction, or no longer; `false` = the handle is not of this process.
pub fn bind(handle: Handle, bound: bool) -> bool {
    event(Kind::ArmBind, handle, u64::from(bound), |_| {})
}

/// A transaction begins to wait for something outside; gives the wait's number, 0 = not recorded.
///
/// `None` = the handle is not of this process.
pub fn block(handle: Handle, tell: impl FnOnce(&mut Telling<'_>)) -> Option<u64> {
    let mut number = 0;
    event_numbered(Kind::ArmBlock, handle, |own| own.0, |own| number = own.0, tell).then_some(number)
}

/// That wait is over; `false` = the handle is not of this process.
pub fn unblock(handle: Handle, block: u64) -> bool {
    event(Kind::ArmUnblock, handle, block, |_| {})
}

#[inline(always)]
fn event(kind: Kind, handle: Handle, b: u64, tell: impl FnOnce(&mut Telling<'_>)) -> bool {
    event_numbered(kind, handle, |_| b, |_| {}, tell)
}

/// One record of a transaction, behind what is told with it. Its second operand may be a number of its own.
#[inline(always)]
fn event_numbered(
    kind: Kind,
    handle: Handle,
    b: impl FnOnce(Handle) -> u64,
    recorded: impl FnOnce(Handle),
    tell: impl FnOnce(&mut Telling<'_>),
) -> bool {
    if handle.0 == 0 {
        return true;
    }
    let process = process();
    let generation = process.generation.load(Ordering::Relaxed);
    if !is_of(handle, generation) {
        return false;
    }
    let head = process.head.load(Ordering::Acquire);
    if head.is_null() || Process::word(head, HEAD_HEARTBEAT).load(Ordering::Relaxed) == 0 {
        return true;
    }
    let time_ns = now_ns();
    let _ = lane::write(process, head, |place| {
        let mut telling = Telling::new(place, handle, time_ns);
        tell(&mut telling);
        // What is told with an end is in the end's own record.
        if kind != Kind::ArmStop {
            telling.flush();
        }
        let own = telling.place.handle();
        if telling.record(kind, b(own)) {
            recorded(own);
        }
    });
    true
}

/// Whether a handle was given out by this process and not by a parent; a negative one never was.
#[inline(always)]
pub(crate) fn is_of(handle: Handle, generation: u64) -> bool {
    handle.0 >> 55 == generation
}

/// The head of the memory, if an agent listens.
#[inline(always)]
pub(crate) fn listener(process: &Process) -> Option<*mut AtomicU64> {
    let mut head = process.head.load(Ordering::Acquire);
    if head.is_null() {
        head = revived();
    }
    (!head.is_null() && Process::word(head, HEAD_HEARTBEAT).load(Ordering::Relaxed) != 0).then_some(head)
}

/// What the agent says of a definition: on, off or one of so many.
#[inline(always)]
pub(crate) fn switch(head: *mut AtomicU64, transaction: u16) -> u32 {
    let number = usize::from(transaction);
    if number == 0 || number >= MOST_DEFINITIONS {
        return Process::word(head, HEAD_DEFAULT_SWITCH).load(Ordering::Relaxed) as u32;
    }
    // SAFETY: the switches lie in the mapped head, and the number is below their count.
    unsafe { &*head.cast::<AtomicU32>().add(SWITCHES_AT / 4 + number) }.load(Ordering::Relaxed)
}

#[cold]
fn left_out(process: &Process, head: *mut AtomicU64) -> Handle {
    let _ = lane::write(process, head, |place| place.skip());
    Handle(0)
}

/// The clock of all records: CLOCK_MONOTONIC in nanoseconds.
#[inline]
#[must_use]
pub fn now_ns() -> u64 {
    mine().clock.now_ns()
}

/// That clock at a real time in nanoseconds since 1970 that has passed: exact to microseconds, and wrong for 10 ms where
/// the real time was set anew. A time that is still to come is now.
#[must_use]
pub fn at_unix_ns(unix_ns: i64) -> u64 {
    mine().clock.at_unix_ns(unix_ns)
}
