//! Requests of a server: what each of them tells is known beforehand, so that it begins and ends by one short way each.
//!
//! What is told is what [`crate::start_with`] and [`crate::stop_with`] tell. But a begin reads the clock once at most, and
//! what is told goes into the lane itself, behind the begin's record or the end's, rather than into a buffer first and
//! then into a record of its own; where the lane has not room for it side by side, those two do it.

use crate::hot::{
    Begin, arrival_slot, at_unix_ns, is_of, listener, put_start, start_at, start_with, start_words, stop_with, switch,
};
use crate::lane;
use crate::place::{Place, Telling};
use crate::process::{Process, process};
use std::ptr;
use std::sync::atomic::Ordering;
use weir_wire::arm::{
    Field, HEAD_HEARTBEAT, Handle, Identity, MOST_PACKED_BYTES, Metric, PIECE_HEAD, SWITCH_OFF, SWITCH_ON, piece_head,
};
use weir_wire::{Kind, MAX_SLOTS, SLOT_BYTES, Slot};

/// Begins a request that came at a real time, in microseconds since 1970 and passed already.
///
/// Gives its handle, as [`start_with`] does, and when it came by the clock of [`crate::now_ns`]; `begin` need not say that.
#[inline(always)]
#[must_use]
pub fn start_request(begin: &Begin, arrived_unix_us: i64) -> (Handle, u64) {
    let process = process();
    let Some(head) = listener(process) else { return (Handle(0), 0) };
    let arrived_unix_ns = arrived_unix_us.saturating_mul(1000);
    let Some(mine) = lane::own(process).filter(|_| switch(head, begin.transaction) == SWITCH_ON) else {
        return start_seldom(begin, arrived_unix_ns);
    };
    let now_ns = mine.clock.now_ns();
    let arrival_ns = mine.clock.at_unix_ns_by(now_ns, arrived_unix_ns);
    let begin = Begin { arrival_ns, ..*begin };
    let put = mine.write(|place| put_start(place, &begin, SWITCH_ON, || now_ns));
    (put.map_or(Handle(0), |put| put.0), arrival_ns)
}

/// Begins a request at a time that was read already, and for as many as [`start_at`] has it, of which there is more to tell.
///
/// That is asked for once, and another time where it has not enough [`Room`].
#[inline(always)]
#[must_use]
pub fn start_request_at(
    begin: &Begin,
    one_in: u32,
    time_ns: u64,
    tell: impl FnOnce(&mut Room) -> Option<()>,
    tell_at_length: impl FnOnce(&mut Telling<'_>),
) -> Handle {
    let process = process();
    let Some(head) = listener(process) else { return Handle(0) };
    if let Some(mine) = lane::own(process).filter(|_| switch(head, begin.transaction) == SWITCH_ON) {
        let for_many = if one_in > 1 { one_in.min(SWITCH_OFF - 1) } else { SWITCH_ON };
        if let Some(handle) = mine.write(|place| put_told_start(place, begin, for_many, time_ns, tell)) {
            return handle;
        }
    }
    start_at(begin, one_in, time_ns, tell_at_length)
}

/// Writes a begin, and what it tells, where it belongs; `None` = there is no such room, and nothing is written.
#[inline(always)]
fn put_told_start(
    place: &mut Place,
    begin: &Begin,
    one_in: u32,
    time_ns: u64,
    tell: impl FnOnce(&mut Room) -> Option<()>,
) -> Option<Handle> {
    // The record, what belongs to it and what it tells, and zeros behind that.
    let record = place.run(2 + MAX_SLOTS as u64)?;
    let handle = place.handle();
    // SAFETY: as in `put_stop`; parent and arrival take two of the most slots.
    unsafe {
        let mut first = record.add(SLOT_BYTES);
        let end = first.add(MOST_PACKED_BYTES);
        for slot in [begin.parent.map(Identity::slot), arrival_slot(begin)].into_iter().flatten() {
            first.cast::<Slot>().write(slot);
            first = first.add(SLOT_BYTES);
        }
        let mut room = Room { next: first, end };
        tell(&mut room)?;
        room.next.cast::<[u8; SLOT_BYTES]>().write([0; SLOT_BYTES]);
        let slots = room.next.offset_from_unsigned(record).div_ceil(SLOT_BYTES) as u64;
        let (kind, of) = start_words(begin, one_in);
        record.cast::<Slot>().write([time_ns, kind | (slots - 1) << 24 | place.task, handle.0, of]);
        place.written += slots;
    }
    Some(handle)
}

/// A thread's first, or one that the switch may leave out.
#[cold]
#[inline(never)]
fn start_seldom(begin: &Begin, arrived_unix_ns: i64) -> (Handle, u64) {
    let arrival_ns = at_unix_ns(arrived_unix_ns);
    (start_with(&Begin { arrival_ns, ..*begin }, |_| {}), arrival_ns)
}

/// What takes the pieces that are told with a begin or an end; `None` = it has no room for them.
pub trait Pieces {
    /// A piece; `index` is its place in a list.
    fn piece(&mut self, field: Field, index: u8, bytes: &[u8]) -> Option<()>;
    /// Values of metrics, from this slot on.
    fn numbers<const N: usize>(&mut self, slot: u8, metrics: [Metric; N]) -> Option<()>;
    /// An address, behind the number of its format.
    fn address(&mut self, format: i16, bytes: &[u8]) -> Option<()>;
}

/// It takes all of them: those that are long go into records of their own, those without room are counted.
impl Pieces for Telling<'_> {
    fn piece(&mut self, field: Field, index: u8, bytes: &[u8]) -> Option<()> {
        Telling::piece(self, field, index, bytes);
        Some(())
    }

    fn numbers<const N: usize>(&mut self, slot: u8, metrics: [Metric; N]) -> Option<()> {
        for (slot, metric) in (slot..).zip(metrics) {
            self.number(slot, metric);
        }
        Some(())
    }

    fn address(&mut self, format: i16, bytes: &[u8]) -> Option<()> {
        Telling::piece(self, Field::Address, 0, &[&format.to_ne_bytes(), bytes].concat());
        Some(())
    }
}

/// Room in the lane itself: for as many bytes as a record may tell, one behind the other.
pub struct Room {
    next: *mut u8,
    end: *mut u8,
}

impl Room {
    /// Where so many bytes go.
    #[inline(always)]
    fn take(&mut self, bytes: usize) -> Option<*mut u8> {
        let at = self.next;
        // SAFETY: it is held against the end, which is not before it.
        unsafe {
            if bytes > self.end.offset_from_unsigned(at) {
                return None;
            }
            self.next = at.add(bytes);
        }
        Some(at)
    }
}

impl Pieces for Room {
    #[inline(always)]
    fn piece(&mut self, field: Field, index: u8, bytes: &[u8]) -> Option<()> {
        let at = self.take(PIECE_HEAD + bytes.len())?;
        // SAFETY: there is room for that.
        unsafe {
            at.cast::<[u8; PIECE_HEAD]>().write(piece_head(field, index, bytes.len()));
            copy_few(bytes, at.add(PIECE_HEAD));
        }
        Some(())
    }

    #[inline(always)]
    fn numbers<const N: usize>(&mut self, slot: u8, metrics: [Metric; N]) -> Option<()> {
        /// Its format and its usage, and all bytes of its value.
        const MARKS: usize = 2;
        const MOST: usize = PIECE_HEAD + MARKS + 8;
        let mut at = self.take(N * MOST)?;
        for (slot, metric) in (slot..).zip(metrics) {
            let length = MARKS + 8 - metric.value.leading_zeros() as usize / 8;
            // SAFETY: there is room for as many of the longest ones. All bytes of a value are copied, and those that are
            // zeros are written over by the next piece.
            unsafe {
                at.cast::<[u8; PIECE_HEAD]>().write(piece_head(Field::MetricNumber, slot, length));
                at.add(PIECE_HEAD).cast::<[u8; MARKS]>().write([metric.format, metric.usage]);
                at.add(PIECE_HEAD + MARKS).cast::<u64>().write_unaligned(metric.value.to_le());
                at = at.add(PIECE_HEAD + length);
            }
        }
        self.next = at;
        Some(())
    }

    #[inline(always)]
    fn address(&mut self, format: i16, bytes: &[u8]) -> Option<()> {
        let length = size_of::<i16>() + bytes.len();
        let at = self.take(PIECE_HEAD + length)?;
        // SAFETY: there is room for that.
        unsafe {
            at.cast::<[u8; PIECE_HEAD]>().write(piece_head(Field::Address, 0, length));
            at.add(PIECE_HEAD).cast::<[u8; 2]>().write(format.to_ne_bytes());
            copy_few(bytes, at.add(PIECE_HEAD + 2));
        }
        Some(())
    }
}

/// Ends a request (status: as for [`crate::stop`]); `false` = the handle is not of this process.
///
/// What it tells is asked for by the time of its end: once, and another time where it has not enough [`Room`].
#[inline(always)]
pub fn stop_request(
    handle: Handle,
    status: u32,
    tell: impl FnOnce(&mut Room, u64) -> Option<()>,
    tell_at_length: impl FnOnce(&mut Telling<'_>, u64),
) -> bool {
    if handle.0 == 0 {
        return true;
    }
    let process = process();
    if !is_of(handle, process.generation.load(Ordering::Relaxed)) {
        return false;
    }
    let head = process.head.load(Ordering::Acquire);
    if head.is_null() || Process::word(head, HEAD_HEARTBEAT).load(Ordering::Relaxed) == 0 {
        return true;
    }
    if let Some(mine) = lane::own(process) {
        let time_ns = mine.clock.now_ns();
        if mine.write(|place| put_stop(place, handle, status, time_ns, tell)).is_some() {
            return true;
        }
    }
    stop_with(handle, status, |telling| {
        let time_ns = telling.time_ns;
        tell_at_length(telling, time_ns);
    })
}

/// Writes the end, and what it tells, where it belongs; `None` = there is no such room, and nothing is written.
#[inline(always)]
fn put_stop(
    place: &mut Place,
    handle: Handle,
    status: u32,
    time_ns: u64,
    tell: impl FnOnce(&mut Room, u64) -> Option<()>,
) -> Option<()> {
    // The record, what it tells, and zeros behind that.
    let record = place.run(2 + MAX_SLOTS as u64)?;
    // SAFETY: the run has as many slots; what is told takes no more than the most, and the zeros no more than a slot
    // behind it. No other thread writes into unpublished slots, and no agent reads them.
    unsafe {
        let first = record.add(SLOT_BYTES);
        let mut room = Room { next: first, end: first.add(MOST_PACKED_BYTES) };
        tell(&mut room, time_ns)?;
        room.next.cast::<[u8; SLOT_BYTES]>().write([0; SLOT_BYTES]);
        let slots = room.next.offset_from_unsigned(first).div_ceil(SLOT_BYTES) as u64;
        let head = Kind::ArmStop as u64 | slots << 24 | place.task;
        record.cast::<[u64; 4]>().write([time_ns, head, handle.0, u64::from(status)]);
        place.written += 1 + slots;
    }
    Some(())
}

/// Copies bytes: a few of them without a call, as most texts of a request are short.
///
/// # Safety
/// There is room for them, apart from where they are.
#[inline(always)]
unsafe fn copy_few(from: &[u8], to: *mut u8) {
    /// The first and the last bytes of `from`, which may be the same in part.
    ///
    /// # Safety
    /// There are as many, and there is room for them.
    #[inline(always)]
    unsafe fn both_ends<const N: usize>(from: &[u8], to: *mut u8) {
        let behind = from.len() - N;
        // SAFETY: as the caller promises.
        unsafe {
            let first = from.as_ptr().cast::<[u8; N]>().read();
            let last = from.as_ptr().add(behind).cast::<[u8; N]>().read();
            to.cast::<[u8; N]>().write(first);
            to.add(behind).cast::<[u8; N]>().write(last);
        }
    }
    // SAFETY: as the caller promises.
    unsafe {
        match from.len() {
            8..=16 => both_ends::<8>(from, to),
            17..=32 => both_ends::<16>(from, to),
            4..=7 => both_ends::<4>(from, to),
            2..=3 => both_ends::<2>(from, to),
            _ => ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()),
        }
    }
}
