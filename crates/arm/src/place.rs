//! A place in a lane where one call writes its records.

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use weir_wire::arm::{
    DETAIL_BYTES, Detail, Field, Handle, LANE_DROPPED, LANE_READ, LANE_SKIPPED, LANE_SLOTS, LANE_WRITTEN,
    MOST_PACKED_BYTES, MOST_PIECE_BYTES, Metric, PIECE_HEAD, piece_head,
};
use weir_wire::{Kind, SLOT_BYTES, Slot};

const SLOT_WORDS: usize = SLOT_BYTES / 8;

/// What a call needs to write into a lane. No other call writes into the lane meanwhile.
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

    /// Where the next slots lie, if so many are free and side by side; what is not free now may be at a look
    /// ([`Place::has_room`]).
    #[inline(always)]
    pub(crate) fn run(&self, slots: u64) -> Option<*mut u8> {
        let at = self.written as usize & (LANE_SLOTS - 1);
        let is_free = (self.written + slots).wrapping_sub(self.read) <= LANE_SLOTS as u64;
        // SAFETY: the mask keeps it within the lane, which stays mapped.
        (is_free && at + slots as usize <= LANE_SLOTS).then(|| unsafe { self.ring.add(at * SLOT_WORDS) }.cast())
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
///
/// Short pieces stand behind each other in one record: what comes with an end is in the end's own.
pub struct Telling<'a> {
    pub(crate) place: &'a mut Place,
    pub(crate) handle: Handle,
    pub(crate) time_ns: u64,
    /// Bytes of `packed` that are set.
    used: usize,
    /// Pieces that are not in the lane yet, with room for one slot of zeros behind them.
    packed: MaybeUninit<[u8; MOST_PACKED_BYTES + SLOT_BYTES]>,
}

impl<'a> Telling<'a> {
    #[inline(always)]
    pub(crate) fn new(place: &'a mut Place, handle: Handle, time_ns: u64) -> Self {
        Self { place, handle, time_ns, used: 0, packed: MaybeUninit::uninit() }
    }

    /// Tells one piece; `index` is its place in a list. Bytes beyond 4,096 are cut; pieces without room are counted.
    #[inline]
    pub fn piece(&mut self, field: Field, index: u8, bytes: &[u8]) {
        if field == Field::MetricValue
            && let Some(metric) = Metric::of_value(bytes)
        {
            self.number(index, metric);
        } else if bytes.len() <= MOST_PACKED_BYTES - PIECE_HEAD {
            self.pack(field, index, bytes);
        } else {
            self.long_piece(field, index, bytes);
        }
    }

    /// A piece that finds room in a record with others.
    #[inline(always)]
    fn pack(&mut self, field: Field, index: u8, bytes: &[u8]) {
        let whole = PIECE_HEAD + bytes.len();
        if self.used + whole > MOST_PACKED_BYTES {
            self.flush();
        }
        let at = self.packed.as_mut_ptr().cast::<u8>();
        // SAFETY: a piece is no longer than the most, so behind a flush, and else as was compared, it ends within that.
        unsafe {
            let at = at.add(self.used);
            at.cast::<[u8; PIECE_HEAD]>().write(piece_head(field, index, bytes.len()));
            ptr::copy_nonoverlapping(bytes.as_ptr(), at.add(PIECE_HEAD), bytes.len());
        }
        self.used += whole;
    }

    /// Tells the value of a metric. All its bytes are copied, and those that are zeros are written over by the next piece.
    #[inline(always)]
    pub fn number(&mut self, index: u8, metric: Metric) {
        let (number, length) = metric.to_number();
        if self.used + PIECE_HEAD + number.len() > MOST_PACKED_BYTES {
            self.flush();
        }
        // SAFETY: as was just compared, all of it ends within the most.
        unsafe {
            let at = self.packed.as_mut_ptr().cast::<u8>().add(self.used);
            at.cast::<[u8; PIECE_HEAD]>().write(piece_head(Field::MetricNumber, index, length));
            at.add(PIECE_HEAD).cast::<[u8; 10]>().write(number);
        }
        self.used += PIECE_HEAD + length;
    }

    /// Writes the pieces that are not in the lane yet.
    #[inline(always)]
    pub(crate) fn flush(&mut self) {
        if self.used > 0 {
            self.flush_some();
        }
    }

    #[cold]
    #[inline(never)]
    fn flush_some(&mut self) {
        let _ = self.record(Kind::ArmPieces, 0);
        self.used = 0;
    }

    /// Writes a record with the pieces behind it; `false` = it has no room, not even without them.
    #[inline(always)]
    pub(crate) fn record(&mut self, kind: Kind, b: u64) -> bool {
        let mut slots = self.used.div_ceil(SLOT_BYTES);
        if !self.place.has_room(1 + slots as u64) {
            if slots == 0 || !self.place.has_room(1) {
                return false;
            }
            slots = 0;
        }
        let head = kind as u64 | (slots as u64) << 24 | self.place.task;
        self.place.put([self.time_ns, head, self.handle.0, b]);
        if slots == 0 {
            return true;
        }
        let packed = self.packed.as_mut_ptr().cast::<u8>();
        // SAFETY: what is set ends a slot before the end at the latest, so the zeros and all words of these slots are
        // within it; the words need not be aligned.
        unsafe {
            packed.add(self.used).cast::<[u8; SLOT_BYTES]>().write([0; SLOT_BYTES]);
            for slot in 0..slots {
                self.place.put(packed.add(slot * SLOT_BYTES).cast::<Slot>().read_unaligned());
            }
        }
        true
    }

    /// A piece that needs records of its own.
    #[cold]
    #[inline(never)]
    fn long_piece(&mut self, field: Field, index: u8, bytes: &[u8]) {
        self.flush();
        let whole = &bytes[..bytes.len().min(MOST_PIECE_BYTES)];
        for (number, share) in whole.chunks(DETAIL_BYTES).enumerate() {
            let offset = (number * DETAIL_BYTES) as u16;
            let operand = Detail { field: field as u8, index, offset, whole_bytes: whole.len() as u32 }.operand();
            let slots = share.len().div_ceil(SLOT_BYTES) as u64;
            if self.place.has_room(1 + slots) {
                let head = Kind::ArmDetail as u64 | slots << 24 | self.place.task;
                self.place.put([self.time_ns, head, self.handle.0, operand]);
                for bytes in share.chunks(SLOT_BYTES) {
                    self.place.put(slot_of(bytes));
                }
            }
        }
    }
}

/// Up to a slot's bytes as a slot, with zeros behind.
fn slot_of(bytes: &[u8]) -> Slot {
    let mut whole = [0; SLOT_BYTES];
    whole[..bytes.len()].copy_from_slice(bytes);
    let mut slot = Slot::default();
    for (word, bytes) in slot.iter_mut().zip(whole.as_chunks().0) {
        *word = u64::from_ne_bytes(*bytes);
    }
    slot
}
