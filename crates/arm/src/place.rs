//! A place in a lane where one call writes its records.

use std::sync::atomic::{AtomicU64, Ordering};
use weir_wire::arm::{
    DETAIL_BYTES, Detail, Field, Handle, LANE_DROPPED, LANE_READ, LANE_SKIPPED, LANE_SLOTS, LANE_WRITTEN,
    MOST_PIECE_BYTES,
};
use weir_wire::{Kind, SLOT_BYTES, Slot};

const SLOT_WORDS: usize = SLOT_BYTES / 8;

/// What a call needs to write into a lane that nobody else writes into meanwhile.
pub(crate) struct Place {
    pub(crate) ring: *mut AtomicU64,
    pub(crate) positions: *mut AtomicU64,
    /// What a handle of the lane's slot 0 would be.
    pub(crate) first: u64,
    /// The thread, where records have it: in the upper half of their second word.
    pub(crate) task: u64,
    /// Slots written, those of this call included, which the reader does not know yet.
    pub(crate) written: u64,
    /// The reader's position when it was last looked at: looking again costs a cache miss.
    pub(crate) read: u64,
}

impl Place {
    fn position(&self, index: usize) -> &AtomicU64 {
        // SAFETY: the positions of a lane stay mapped, and the index is one of the layout's.
        unsafe { &*self.positions.add(index) }
    }

    /// Whether so many slots find room; where they do not, a record is counted as dropped.
    #[inline(always)]
    pub(crate) fn has_room(&mut self, slots: u64) -> bool {
        // The reader is another process: a position of it that lies ahead is no room, not an endless one.
        if (self.written + slots).wrapping_sub(self.read) <= LANE_SLOTS as u64 {
            return true;
        }
        // By value, so that the place itself stays in registers.
        let looked = look_again(self.positions, self.written + slots);
        self.read = looked.unwrap_or(self.read);
        looked.is_some()
    }

    /// The handle of what is written next.
    #[inline(always)]
    pub(crate) fn handle(&self) -> Handle {
        Handle(self.first | self.written & ((1 << 48) - 1))
    }

    /// Writes the next slot; it has room.
    #[inline(always)]
    pub(crate) fn put(&mut self, slot: Slot) {
        let at = (self.written as usize & (LANE_SLOTS - 1)) * SLOT_WORDS;
        for (index, word) in slot.into_iter().enumerate() {
            // SAFETY: the mask keeps it within the lane, which stays mapped.
            unsafe { &*self.ring.add(at + index) }.store(word, Ordering::Relaxed);
        }
        self.written += 1;
    }

    /// Writes a record and its slots; `false` = no room.
    #[inline(always)]
    pub(crate) fn record(&mut self, time_ns: u64, kind: Kind, flags: u8, handle: u64, b: u64, slots: &[Slot]) -> bool {
        if !self.has_room(1 + slots.len() as u64) {
            return false;
        }
        let head = kind as u64 | u64::from(flags) << 16 | (slots.len() as u64) << 24 | self.task;
        self.put([time_ns, head, handle, b]);
        for slot in slots {
            self.put(*slot);
        }
        true
    }

    /// Counts a transaction that the switch left out.
    pub(crate) fn skip(&self) {
        let skipped = self.position(LANE_SKIPPED);
        skipped.store(skipped.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Tells the reader of everything that was written.
    #[inline(always)]
    pub(crate) fn publish(&self) {
        self.position(LANE_WRITTEN).store(self.written, Ordering::Release);
    }
}

/// The reader's position, if up to `end` there is room by now; else a record is counted as dropped.
#[cold]
#[inline(never)]
fn look_again(positions: *mut AtomicU64, end: u64) -> Option<u64> {
    // SAFETY: the positions of a lane stay mapped, and the indices are the layout's.
    let (read, dropped) = unsafe { (&*positions.add(LANE_READ), &*positions.add(LANE_DROPPED)) };
    let read = read.load(Ordering::Acquire);
    if end.wrapping_sub(read) <= LANE_SLOTS as u64 {
        return Some(read);
    }
    dropped.store(dropped.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    None
}

/// What is told with a transaction: user, context, metrics and the like.
pub struct Telling<'a> {
    pub(crate) place: &'a mut Place,
    pub(crate) handle: Handle,
    pub(crate) time_ns: u64,
}

impl Telling<'_> {
    /// Tells one piece; `index` is its place in a list. Bytes beyond 4,096 are cut; pieces without room are counted.
    pub fn piece(&mut self, field: Field, index: u8, bytes: &[u8]) {
        let whole = &bytes[..bytes.len().min(MOST_PIECE_BYTES)];
        let mut offset = 0;
        loop {
            let share = &whole[offset..whole.len().min(offset + DETAIL_BYTES)];
            let operand =
                Detail { field: field as u8, index, offset: offset as u16, whole_bytes: whole.len() as u32 }.operand();
            let slots = share.len().div_ceil(SLOT_BYTES) as u64;
            if self.place.has_room(1 + slots) {
                let head = Kind::ArmDetail as u64 | slots << 24 | self.place.task;
                self.place.put([self.time_ns, head, self.handle.0, operand]);
                for bytes in share.chunks(SLOT_BYTES) {
                    self.place.put(slot_of(bytes));
                }
            }
            offset += share.len();
            if offset >= whole.len() {
                break;
            }
        }
    }
}

/// Up to a slot's bytes as a slot, with zeros behind.
#[inline(always)]
fn slot_of(bytes: &[u8]) -> Slot {
    let mut whole = [0; SLOT_BYTES];
    whole[..bytes.len()].copy_from_slice(bytes);
    let mut slot = Slot::default();
    for (word, bytes) in slot.iter_mut().zip(whole.as_chunks().0) {
        *word = u64::from_ne_bytes(*bytes);
    }
    slot
}
