//! The record: 32 bytes, and continuation slots of 32 bytes behind it.

/// Size of a record and of a continuation slot, in bytes.
pub const SLOT_BYTES: usize = 32;

/// The most continuation slots that one record may carry.
pub const MAX_SLOTS: usize = 8;

/// Four 64-bit words: what a record occupies, and what a continuation slot holds.
pub type Slot = [u64; 4];

/// One event.
///
/// `slots` continuation slots of raw payload follow it in the stream; a reader that does not know `kind` skips them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Record {
    /// When it happened, in nanoseconds of the segment's clock (CLOCK_MONOTONIC for our own sources).
    pub time_ns: u64,
    /// What happened: a [`crate::Kind`] code, kept as a number so that unknown kinds survive a copy.
    pub kind: u16,
    /// Bits whose meaning the kind gives.
    pub flags: u8,
    /// How many continuation slots follow, at most [`MAX_SLOTS`].
    pub slots: u8,
    /// The CPU for kernel events, the thread of the source for others.
    pub lane: u32,
    /// First operand; the kind names it.
    pub a: u64,
    /// Second operand; the kind names it.
    pub b: u64,
}

impl Record {
    /// The record as four words, in the order of the wire.
    #[must_use]
    pub fn to_slot(self) -> Slot {
        let head = u64::from(self.kind)
            | u64::from(self.flags) << 16
            | u64::from(self.slots) << 24
            | u64::from(self.lane) << 32;
        [self.time_ns, head, self.a, self.b]
    }

    /// The record that four words hold. Every bit pattern is a record; whether its kind is known is the reader's to ask.
    #[must_use]
    pub fn from_slot(slot: Slot) -> Self {
        let [time_ns, head, a, b] = slot;
        Self {
            time_ns,
            kind: head as u16,
            flags: (head >> 16) as u8,
            slots: (head >> 24) as u8,
            lane: (head >> 32) as u32,
            a,
            b,
        }
    }

    /// The two 32-bit halves of the first operand, low half first.
    #[must_use]
    pub fn a_halves(self) -> (u32, u32) {
        (self.a as u32, (self.a >> 32) as u32)
    }
}

/// Packs text into continuation slots: the length in the first byte, then the bytes; longer text is cut at a
/// character's boundary.
#[must_use]
pub fn text_slots(text: &str) -> Vec<Slot> {
    let most = (MAX_SLOTS * SLOT_BYTES - 1).min(usize::from(u8::MAX));
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut bytes = Vec::with_capacity(1 + end);
    bytes.push(end as u8);
    bytes.extend_from_slice(&text.as_bytes()[..end]);
    bytes.resize(bytes.len().div_ceil(SLOT_BYTES) * SLOT_BYTES, 0);
    bytes
        .chunks_exact(SLOT_BYTES)
        .map(|chunk| {
            let mut slot = Slot::default();
            for (word, raw) in slot.iter_mut().zip(chunk.chunks_exact(8)) {
                *word = raw.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
            }
            slot
        })
        .collect()
}

/// Reads what [`text_slots`] wrote; damaged text comes back with replacement characters, never as an error.
#[must_use]
pub fn text_from_slots(slots: &[Slot]) -> String {
    let bytes: Vec<u8> = slots.iter().flatten().flat_map(|word| word.to_le_bytes()).collect();
    let Some((&length, text)) = bytes.split_first() else { return String::new() };
    String::from_utf8_lossy(&text[..text.len().min(usize::from(length))]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_four_words_survive_the_round_trip(slot: [u64; 4]) {
            prop_assert_eq!(Record::from_slot(slot).to_slot(), slot);
        }

        #[test]
        fn text_survives_up_to_its_bound(text in ".{0,300}") {
            let back = text_from_slots(&text_slots(&text));
            prop_assert!(text.starts_with(&back));
            prop_assert!(back.len() == text.len() || back.len() > 250);
        }
    }
}
