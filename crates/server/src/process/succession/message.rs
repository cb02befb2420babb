//! Messages in memory that two processes share: each in a slot, the slots in a circle. Senders never wait; a reader that
//! is too late learns that it has missed something.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Messages that are kept.
const SLOTS: usize = 16;
/// Bytes of a message: as many as a request of the admin address has.
pub(super) const BYTES_MAX: usize = 8 << 10;
/// Of these so many are sent and received together.
const WORD_BYTES: usize = 8;

/// The circle. All zero is one without a message.
#[repr(C)]
pub(super) struct Messages {
    /// Numbers that senders have taken; the first message has the number 0.
    taken: AtomicU64,
    slots: [Slot; SLOTS],
}

#[repr(C)]
struct Slot {
    /// The number of the message that is whole, and 1; 0 = there is none.
    whole: AtomicU64,
    bytes: AtomicU64,
    words: [AtomicU64; BYTES_MAX / WORD_BYTES],
}

/// What the reader finds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// This message.
    Message(Vec<u8>),
    /// It was overwritten.
    Lost,
}

impl Messages {
    /// Sends a message; its number. None if it is too long.
    pub(super) fn send(&self, message: &[u8]) -> Option<u64> {
        if message.len() > BYTES_MAX {
            return None;
        }
        let number = self.taken.fetch_add(1, Ordering::AcqRel);
        let slot = &self.slots[number as usize % SLOTS];
        slot.whole.store(0, Ordering::Relaxed);
        // A reader that gets a word of this message then sees that the former one is not whole any more.
        fence(Ordering::Release);
        slot.bytes.store(message.len() as u64, Ordering::Relaxed);
        for (word, bytes) in slot.words.iter().zip(message.chunks(WORD_BYTES)) {
            let mut whole = [0; WORD_BYTES];
            whole[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_ne_bytes(whole), Ordering::Relaxed);
        }
        slot.whole.store(number + 1, Ordering::Release);
        Some(number)
    }

    /// The message of this number; none if it was not sent yet. A message whose sender has died within it counts as lost
    /// once another one was sent.
    pub(super) fn receive(&self, number: u64) -> Option<Found> {
        let taken = self.taken.load(Ordering::Acquire);
        if taken <= number {
            return None;
        }
        let slot = &self.slots[number as usize % SLOTS];
        if slot.whole.load(Ordering::Acquire) != number + 1 {
            return (taken > number + 1).then_some(Found::Lost);
        }
        let length = usize::try_from(slot.bytes.load(Ordering::Relaxed)).unwrap_or(usize::MAX).min(BYTES_MAX);
        let words = slot.words.iter().map(|word| word.load(Ordering::Relaxed).to_ne_bytes());
        let mut message: Vec<u8> = words.take(length.div_ceil(WORD_BYTES)).flatten().collect();
        message.truncate(length);
        // Another sender may have begun with the slot meanwhile.
        fence(Ordering::Acquire);
        let is_same = slot.whole.load(Ordering::Relaxed) == number + 1
            && self.taken.load(Ordering::Relaxed) - number <= SLOTS as u64;
        Some(if is_same { Found::Message(message) } else { Found::Lost })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn messages() -> Box<Messages> {
        // SAFETY: all zero is a value of it: it has numbers only.
        unsafe { Box::new(std::mem::zeroed()) }
    }

    #[test]
    fn what_is_sent_is_received_and_what_was_overwritten_is_told() {
        let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
        proptest!(config, |(sizes in proptest::collection::vec(0..BYTES_MAX + 1, 0..40), before in 0..40_usize)| {
            let messages = messages();
            let message = |number: usize| vec![number as u8; sizes[number]];
            for number in 0..sizes.len() {
                prop_assert_eq!(messages.receive(number as u64), None);
                prop_assert_eq!(messages.send(&message(number)), Some(number as u64));
                if number < before {
                    prop_assert_eq!(messages.receive(number as u64), Some(Found::Message(message(number))));
                }
            }
            for number in 0..sizes.len() {
                let expected = if sizes.len() - number > SLOTS { Found::Lost } else { Found::Message(message(number)) };
                prop_assert_eq!(messages.receive(number as u64), Some(expected));
            }
        });
        assert_eq!(messages().send(&vec![0; BYTES_MAX + 1]), None);
    }

    #[test]
    fn a_reader_that_is_too_late_never_gets_a_mixed_message() {
        const COUNT: u64 = 5000;
        let messages = messages();
        std::thread::scope(|scope| {
            let sender = &messages;
            scope.spawn(move || {
                for round in 0..COUNT {
                    sender.send(&vec![round as u8; 1 + round as usize % 300]);
                }
            });
            let mut number = 0;
            while number < COUNT {
                match messages.receive(number) {
                    Some(Found::Message(bytes)) => {
                        assert!(bytes.windows(2).all(|two| two[0] == two[1]), "{bytes:?}");
                        number += 1;
                    }
                    Some(Found::Lost) => number += 1,
                    None => std::thread::yield_now(),
                }
            }
        });
    }
}
