//! The bounded ring between one producer and one consumer.
//!
//! Its memory is an array of 64-bit words that may as well be shared between processes: positions first, each on a
//! cache line of its own, then the slots.
//! The producer never waits: what finds no room is counted as dropped.
//! The consumer trusts nothing: a position that the producer cannot have reached yields nothing.

use crate::{MAX_SLOTS, Record, Slot};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Words before the first slot: three cache lines of 64 bytes for written, read and dropped.
pub const RING_HEADER_WORDS: usize = 24;
const WRITTEN: usize = 0;
const READ: usize = 8;
const DROPPED: usize = 16;
const SLOT_WORDS: usize = 4;

#[derive(Debug)]
struct Memory {
    words: Box<[AtomicU64]>,
    /// Slots; a power of two.
    capacity: u64,
}

impl Memory {
    fn slot(&self, position: u64) -> &[AtomicU64] {
        let start = RING_HEADER_WORDS + (position & (self.capacity - 1)) as usize * SLOT_WORDS;
        &self.words[start..start + SLOT_WORDS]
    }
}

/// Makes a ring of at least `slots` slots (rounded up to a power of two) in this process's memory.
#[must_use]
pub fn ring(slots: usize) -> (Producer, Consumer) {
    let capacity = slots.max(MAX_SLOTS + 1).next_power_of_two();
    let words = (0..RING_HEADER_WORDS + capacity * SLOT_WORDS).map(|_| AtomicU64::new(0)).collect();
    let memory = Arc::new(Memory { words, capacity: capacity as u64 });
    (Producer { memory: Arc::clone(&memory), written: 0, read_seen: 0 }, Consumer { memory, read: 0, damaged: 0 })
}

/// The writing end; one thread's.
#[derive(Debug)]
pub struct Producer {
    memory: Arc<Memory>,
    written: u64,
    /// The consumer's position when we last looked: looking again costs a cache miss.
    read_seen: u64,
}

impl Producer {
    /// Writes a record and its continuation slots, whole or not at all; false = no room, and counted as dropped.
    ///
    /// `record.slots` is set from the slots given; more than [`MAX_SLOTS`] are cut.
    pub fn push(&mut self, mut record: Record, slots: &[Slot]) -> bool {
        let slots = &slots[..slots.len().min(MAX_SLOTS)];
        record.slots = slots.len() as u8;
        let needed = 1 + slots.len() as u64;
        // The consumer's position is no more to be trusted than the producer's: one that lies ahead counts as no room.
        if (self.written + needed).wrapping_sub(self.read_seen) > self.memory.capacity {
            self.read_seen = self.memory.words[READ].load(Ordering::Acquire);
            if (self.written + needed).wrapping_sub(self.read_seen) > self.memory.capacity {
                self.memory.words[DROPPED].fetch_add(1, Ordering::Relaxed);
                return false;
            }
        }
        for (index, slot) in std::iter::once(&record.to_slot()).chain(slots).enumerate() {
            for (word, value) in self.memory.slot(self.written + index as u64).iter().zip(slot) {
                word.store(*value, Ordering::Relaxed);
            }
        }
        self.written += needed;
        self.memory.words[WRITTEN].store(self.written, Ordering::Release);
        true
    }
}

/// The reading end.
#[derive(Debug)]
pub struct Consumer {
    memory: Arc<Memory>,
    read: u64,
    /// Times that the rest of what was written had to be given up.
    damaged: u64,
}

impl Consumer {
    /// Hands what has been written since to `take`, at most `most` records; returns how many.
    pub fn drain(&mut self, most: usize, mut take: impl FnMut(Record, &[Slot])) -> usize {
        let written = self.memory.words[WRITTEN].load(Ordering::Acquire);
        if written.wrapping_sub(self.read) > self.memory.capacity {
            return 0;
        }
        let mut taken = 0;
        let mut payload = [Slot::default(); MAX_SLOTS];
        while self.read < written && taken < most {
            let record = Record::from_slot(self.load(self.read));
            let slots = usize::from(record.slots).min(MAX_SLOTS);
            if self.read + 1 + slots as u64 > written {
                // A length that reaches past what was written is damage: drop the rest. It is not known how many
                // records it was.
                self.read = written;
                self.damaged += 1;
                break;
            }
            for (index, slot) in payload[..slots].iter_mut().enumerate() {
                *slot = self.load(self.read + 1 + index as u64);
            }
            take(record, &payload[..slots]);
            self.read += 1 + slots as u64;
            taken += 1;
        }
        self.memory.words[READ].store(self.read, Ordering::Release);
        taken
    }

    /// Records that found no room since the ring was made, and one for each time that damage cost the rest of a batch.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.memory.words[DROPPED].load(Ordering::Relaxed).saturating_add(self.damaged)
    }

    fn load(&self, position: u64) -> Slot {
        let words = self.memory.slot(position);
        std::array::from_fn(|index| words[index].load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn numbered(number: u64) -> Record {
        Record { time_ns: number, kind: 1, ..Record::default() }
    }

    proptest! {
        /// Another process may write anything into the ring's memory: both ends go on, within their bounds.
        #[test]
        fn no_memory_breaks_it(writes in proptest::collection::vec((any::<proptest::sample::Index>(), prop_oneof![any::<u64>(), 0u64..100, Just(u64::MAX)]), 1..200)) {
            let (mut producer, mut consumer) = ring(16);
            for (round, (word, value)) in writes.iter().enumerate() {
                producer.push(numbered(round as u64), &[[1; 4]; 3]);
                let words = &producer.memory.words;
                words[word.index(words.len())].store(*value, Ordering::Relaxed);
                let taken = consumer.drain(5, |_, payload| assert!(payload.len() <= MAX_SLOTS));
                prop_assert!(taken <= 5);
                let _ = consumer.dropped();
            }
        }

        /// For any order of pushes and drains, what comes out is what went in, less what was counted as dropped.
        #[test]
        fn nothing_is_lost_uncounted(steps in proptest::collection::vec((0usize..5, 0usize..4), 1..200)) {
            let (mut producer, mut consumer) = ring(16);
            let (mut pushed, mut refused, mut seen) = (0u64, 0u64, Vec::new());
            for (slots, drain) in steps {
                let payload = vec![[pushed; 4]; slots];
                if !producer.push(numbered(pushed), &payload) { refused += 1; }
                pushed += 1;
                consumer.drain(drain, |record, payload| {
                    assert!(payload.iter().all(|slot| *slot == [record.time_ns; 4]));
                    seen.push(record.time_ns);
                });
            }
            consumer.drain(usize::MAX, |record, _| seen.push(record.time_ns));
            prop_assert_eq!(seen.len() as u64 + refused, pushed);
            prop_assert_eq!(consumer.dropped(), refused);
            prop_assert!(seen.windows(2).all(|pair| pair[0] < pair[1]));
        }
    }

    #[test]
    fn a_damaged_length_costs_the_batch_and_is_counted() {
        let (mut producer, mut consumer) = ring(16);
        producer.push(numbered(1), &[]);
        let damaged = Record { slots: 5, ..numbered(1) }.to_slot()[1];
        producer.memory.words[RING_HEADER_WORDS + 1].store(damaged, Ordering::Relaxed);
        assert_eq!(consumer.drain(10, |_, _| panic!("it is not whole")), 0);
        assert_eq!(consumer.dropped(), 1);
        producer.push(numbered(2), &[]);
        assert_eq!(consumer.drain(10, |record, _| assert_eq!(record, numbered(2))), 1);
    }

    #[test]
    fn two_threads_agree() {
        let (mut producer, mut consumer) = ring(64);
        let count = 200_000u64;
        let writer = std::thread::spawn(move || {
            let mut number = 0;
            while number < count {
                if producer.push(numbered(number), &[[number; 4]]) {
                    number += 1;
                } else {
                    std::thread::yield_now();
                }
            }
        });
        let mut next = 0;
        while next < count {
            let taken = consumer.drain(1000, |record, payload| {
                assert_eq!((record.time_ns, payload), (next, &[[next; 4]][..]));
                next += 1;
            });
            if taken == 0 {
                std::thread::yield_now();
            }
        }
        writer.join().expect("the writer ends");
    }
}
