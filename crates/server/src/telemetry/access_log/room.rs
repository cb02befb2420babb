//! The buffer that a line is written into. Short texts and numbers take a few instructions each.

/// A line of the log under way. What does not fit is counted, not written: a caller that finds it short makes more room
/// and writes the whole line again, so that no step between has to allocate.
pub(super) struct Room<'r> {
    bytes: &'r mut [u8],
    used: usize,
    is_short: bool,
}

impl<'r> Room<'r> {
    pub(super) fn new(bytes: &'r mut [u8]) -> Self {
        Self { bytes, used: 0, is_short: false }
    }

    /// Bytes that were written so far, or would have been.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Whether some of it did not fit.
    pub(super) fn is_short(&self) -> bool {
        self.is_short
    }

    #[inline]
    pub(super) fn byte(&mut self, byte: u8) {
        match self.bytes.get_mut(self.used) {
            Some(place) => *place = byte,
            None => self.is_short = true,
        }
        self.used += 1;
    }

    /// The first `used` of some bytes; the others may be written behind them.
    #[inline]
    pub(super) fn some<const N: usize>(&mut self, bytes: [u8; N], used: usize) {
        match self.bytes.get_mut(self.used..).and_then(<[u8]>::first_chunk_mut) {
            Some(place) => *place = bytes,
            None => self.is_short = true,
        }
        self.used += used;
    }

    /// A text that is short more often than not: its two ends, which may overlap.
    #[inline]
    pub(super) fn text(&mut self, text: &[u8]) {
        match text.len() {
            0..4 => text.iter().for_each(|&byte| self.byte(byte)),
            4..8 => self.ends::<4>(text),
            8..16 => self.ends::<8>(text),
            16..=32 => self.ends::<16>(text),
            _ => self.long(text),
        }
    }

    #[inline]
    fn ends<const N: usize>(&mut self, text: &[u8]) {
        let place = self.bytes.get_mut(self.used..).and_then(|rest| rest.get_mut(..text.len()));
        match (text.first_chunk::<N>(), text.last_chunk::<N>(), place) {
            (Some(first), Some(last), Some(place)) => {
                place[..N].copy_from_slice(first);
                place[text.len() - N..].copy_from_slice(last);
            }
            _ => self.is_short = true,
        }
        self.used += text.len();
    }

    fn long(&mut self, text: &[u8]) {
        match self.bytes.get_mut(self.used..).and_then(|rest| rest.get_mut(..text.len())) {
            Some(place) => place.copy_from_slice(text),
            None => self.is_short = true,
        }
        self.used += text.len();
    }

    /// A number.
    #[inline]
    pub(super) fn decimal(&mut self, number: u64) {
        // Below a hundred, so that it fits.
        let [tens, ones] = PAIRS[(number % 100) as usize];
        match number {
            0..10 => self.byte(ones),
            10..100 => self.some([tens, ones], 2),
            // One digit more.
            100..1000 => self.some([b'0' + (number / 100) as u8, tens, ones], 3),
            _ => self.long_decimal(number),
        }
    }

    /// The same for one of four digits or more.
    fn long_decimal(&mut self, mut number: u64) {
        let mut digits = [b'0'; 20];
        let mut at = digits.len();
        while number > 9 {
            at -= 2;
            // Below a hundred.
            digits[at..at + 2].copy_from_slice(&PAIRS[(number % 100) as usize]);
            number /= 100;
        }
        if number > 0 {
            at -= 1;
            digits[at] = b'0' + number as u8;
        }
        self.text(&digits[at..]);
    }
}

/// The numbers below a hundred, in two digits.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut number = 0;
    while number < pairs.len() {
        // Digits.
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_are_those_of_the_library(number: u64, shift in 0_u32..64) {
            let mut bytes = [0; 24];
            let mut room = Room::new(&mut bytes);
            room.decimal(number >> shift);
            let used = room.used();
            prop_assert!(!room.is_short());
            let expected = (number >> shift).to_string();
            prop_assert_eq!(&bytes[..used], expected.as_bytes());
        }

        #[test]
        fn texts_are_written_as_they_are_or_told_to_be_too_long(
            texts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..50), 0..6), room in 0_usize..300,
        ) {
            let mut bytes = vec![0; room];
            let mut room = Room::new(&mut bytes);
            texts.iter().for_each(|text| room.text(text));
            let (used, is_short, whole) = (room.used(), room.is_short(), texts.concat());
            prop_assert_eq!(used, whole.len());
            prop_assert_eq!(is_short, used > bytes.len());
            if !is_short {
                prop_assert_eq!(&bytes[..used], whole);
            }
        }

        #[test]
        fn what_stands_behind_some_bytes_is_written_over(first: [u8; 8], used in 0_usize..=8, second: [u8; 8]) {
            let mut bytes = [0; 16];
            let mut room = Room::new(&mut bytes);
            room.some(first, used);
            room.some(second, 8);
            prop_assert!(!room.is_short());
            prop_assert_eq!(&bytes[..used + 8], [&first[..used], &second].concat());
        }
    }
}
