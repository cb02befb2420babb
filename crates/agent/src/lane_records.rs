//! Records from the slots of a lane, which a client may have filled with anything.

use weir_wire::{MAX_SLOTS, Record, Slot};

/// What became of some slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// Slots that were used up: whole records.
    pub slots: usize,
    /// A record said that it has more continuation slots than any can; nothing behind it can be read.
    pub damaged: bool,
}

/// Hands over whole records; the last one may be cut off, and stays for the next time.
pub fn take(slots: &[Slot], mut each: impl FnMut(Record, &[Slot])) -> Taken {
    let mut at = 0;
    while let Some((slot, behind)) = slots.get(at..).and_then(<[Slot]>::split_first) {
        let record = Record::from_slot(*slot);
        let length = usize::from(record.slots);
        if length > MAX_SLOTS {
            return Taken { slots: at, damaged: true };
        }
        let Some(payload) = behind.get(..length) else { break };
        each(record, payload);
        at += 1 + length;
    }
    Taken { slots: at, damaged: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn records_come_out_whole_and_in_order(lengths in proptest::collection::vec(0u8..=8, 0..40), cut in 0usize..10) {
            let mut slots = Vec::new();
            for (number, &length) in lengths.iter().enumerate() {
                slots.push(Record { time_ns: number as u64, slots: length, ..Record::default() }.to_slot());
                slots.extend(std::iter::repeat_n([number as u64; 4], usize::from(length)));
            }
            let there = slots.len().saturating_sub(cut);
            let mut seen = 0u64;
            let taken = take(&slots[..there], |record, payload| {
                assert_eq!((record.time_ns, payload.len()), (seen, usize::from(lengths[seen as usize])));
                assert!(payload.iter().all(|slot| *slot == [seen; 4]));
                seen += 1;
            });
            prop_assert!(!taken.damaged && there - taken.slots <= MAX_SLOTS);
            let whole: usize = lengths[..seen as usize].iter().map(|length| 1 + usize::from(*length)).sum();
            prop_assert_eq!(taken.slots, whole);
        }

        #[test]
        fn no_slots_break_it(slots in proptest::collection::vec(any::<[u64; 4]>(), 0..40)) {
            let taken = take(&slots, |_, payload| assert!(payload.len() <= MAX_SLOTS));
            prop_assert!(taken.slots <= slots.len());
        }
    }
}
