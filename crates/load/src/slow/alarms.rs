//! When each connection is to be looked at: a heap with at most one time for each slot.

use crate::schedule::scheduler::NEVER;

/// The place of a slot that waits for no time.
const NOWHERE: u32 = u32::MAX;

/// The times of all slots; its memory is bounded by their number, and taken when it is made.
#[derive(Debug)]
pub(crate) struct Alarms {
    /// Slots, those behind the half of a place no earlier than it (a binary heap).
    heap: Vec<u32>,
    /// Of each slot: its place in the heap, and its time.
    places: Vec<u32>,
    times_ns: Vec<u64>,
}

impl Alarms {
    pub(crate) fn new(slots: usize) -> Self {
        Self { heap: Vec::with_capacity(slots), places: vec![NOWHERE; slots], times_ns: vec![NEVER; slots] }
    }

    /// The slot whose time is the first, and that time.
    #[inline]
    pub(crate) fn first(&self) -> Option<(usize, u64)> {
        let slot = *self.heap.first()? as usize;
        Some((slot, self.times_ns[slot]))
    }

    /// Sets a slot's time in place of the one that it had; [`NEVER`] takes it out.
    pub(crate) fn set(&mut self, slot: usize, time_ns: u64) {
        let before_ns = std::mem::replace(&mut self.times_ns[slot], time_ns);
        let place = self.places[slot];
        if time_ns == NEVER {
            if place != NOWHERE {
                self.take_out(slot, place as usize);
            }
        } else if place == NOWHERE {
            self.heap.push(slot as u32);
            self.rise(self.heap.len() - 1);
        } else if time_ns < before_ns {
            self.rise(place as usize);
        } else {
            self.sink(place as usize);
        }
    }

    fn take_out(&mut self, slot: usize, place: usize) {
        self.places[slot] = NOWHERE;
        self.heap.swap_remove(place);
        if place < self.heap.len() {
            self.rise(place);
            self.sink(self.places[self.heap[place] as usize] as usize);
        }
    }

    fn time_at(&self, place: usize) -> u64 {
        self.times_ns[self.heap[place] as usize]
    }

    /// Moves what is at a place towards the front as far as its time is earlier.
    fn rise(&mut self, mut place: usize) {
        while place > 0 && self.time_at(place) < self.time_at((place - 1) / 2) {
            self.heap.swap(place, (place - 1) / 2);
            self.places[self.heap[place] as usize] = place as u32;
            place = (place - 1) / 2;
        }
        self.places[self.heap[place] as usize] = place as u32;
    }

    /// Moves what is at a place towards the end as far as its time is later.
    fn sink(&mut self, mut place: usize) {
        loop {
            let children = 2 * place + 1..(2 * place + 3).min(self.heap.len());
            let Some(child) = children.min_by_key(|child| self.time_at(*child)) else { break };
            if self.time_at(child) >= self.time_at(place) {
                break;
            }
            self.heap.swap(place, child);
            self.places[self.heap[place] as usize] = place as u32;
            place = child;
        }
        self.places[self.heap[place] as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_is_always_the_earliest(
            steps in prop::collection::vec((0usize..20, prop_oneof![3 => 0u64..50, 1 => Just(NEVER)]), 0..400),
        ) {
            let mut alarms = Alarms::new(20);
            let mut times = [NEVER; 20];
            for (slot, time_ns) in steps {
                alarms.set(slot, time_ns);
                times[slot] = time_ns;
                let earliest = times.iter().copied().min().filter(|time| *time != NEVER);
                prop_assert_eq!(alarms.first().map(|(_, time)| time), earliest);
                if let Some((slot, time)) = alarms.first() {
                    prop_assert_eq!(times[slot], time);
                }
            }
            let mut all = Vec::new();
            while let Some((slot, time)) = alarms.first() {
                all.push(time);
                alarms.set(slot, NEVER);
            }
            let mut wanted: Vec<u64> = times.into_iter().filter(|time| *time != NEVER).collect();
            wanted.sort_unstable();
            prop_assert_eq!(all, wanted);
            prop_assert_eq!(alarms.heap.capacity(), 20);
        }
    }
}
