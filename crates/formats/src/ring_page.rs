//! A page of the kernel's ring buffer, as `trace_pipe_raw` gives it: Linux, `include/linux/ring_buffer.h`,
//! `kernel/trace/ring_buffer.c`.

use crate::section::unsigned;

/// The bits of a page's length, above which stand flags.
const LENGTH: u64 = (1 << 27) - 1;
/// Events were lost before this page.
const MISSED: u64 = 1 << 31;
/// How many were lost stands behind the page's last event.
const MISSED_STORED: u64 = 1 << 30;

const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

/// A page that is being read.
#[derive(Debug)]
pub(crate) struct RingPage {
    bytes: Vec<u8>,
    /// Where the next event begins, and where the last ends.
    next: usize,
    end: usize,
    at_ns: u64,
    is_big_endian: bool,
    /// Events that were lost before the page: `None` for none, 0 if their number is not told.
    pub(crate) lost: Option<u64>,
}

/// What one event of a page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RingEvent {
    pub(crate) at_ns: u64,
    /// Where its bytes lie in the page.
    pub(crate) from: usize,
    pub(crate) to: usize,
}

impl RingPage {
    /// Begins a page; its header is the time, of eight bytes, and a length of four or eight.
    pub(crate) fn new(bytes: Vec<u8>, long_bytes: usize, is_big_endian: bool) -> Option<Self> {
        let at_ns = unsigned(bytes.get(..8)?, is_big_endian);
        let commit = unsigned(bytes.get(8..8 + long_bytes)?, is_big_endian);
        let begin = 8 + long_bytes;
        let end = begin.checked_add((commit & LENGTH) as usize).filter(|end| *end <= bytes.len())?;
        let lost = (commit & MISSED != 0).then(|| {
            let stored = bytes.get(end..end + long_bytes).filter(|_| commit & MISSED_STORED != 0);
            stored.map_or(0, |stored| unsigned(stored, is_big_endian))
        });
        Some(Self { bytes, next: begin, end, at_ns, is_big_endian, lost })
    }

    pub(crate) fn bytes(&self, event: RingEvent) -> &[u8] {
        &self.bytes[event.from..event.to]
    }

    /// Its memory, for the next page.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn word(&self, at: usize) -> Option<u32> {
        let bytes = self.bytes.get(at..at + 4).filter(|_| at + 4 <= self.end)?;
        Some(unsigned(bytes, self.is_big_endian) as u32)
    }

    /// The next event; `None` at the page's end, and where it is damaged.
    pub(crate) fn next(&mut self) -> Option<RingEvent> {
        loop {
            let head = self.word(self.next)?;
            // The bits are taken from the other end where bytes are.
            let (kind, delta) =
                if self.is_big_endian { (head >> 27, head & LENGTH as u32) } else { (head & 31, head >> 5) };
            let from = self.next + 4;
            match kind {
                PADDING if delta == 0 => return None,
                PADDING => {
                    self.at_ns += u64::from(delta);
                    self.next = from.checked_add(self.word(from)? as usize)?;
                }
                TIME_EXTEND => {
                    let more = u64::from(self.word(from)?);
                    self.at_ns = self.at_ns.wrapping_add(more << 27 | u64::from(delta));
                    self.next = from + 4;
                }
                TIME_STAMP => {
                    let more = u64::from(self.word(from)?);
                    // The five highest bits do not change while a trace is made.
                    self.at_ns = self.at_ns & !((1 << 59) - 1) | more << 27 | u64::from(delta);
                    self.next = from + 4;
                }
                kind => {
                    self.at_ns += u64::from(delta);
                    let (from, length) = match kind {
                        0 => (from + 4, (self.word(from)? as usize).checked_sub(4)?),
                        words => (from, words as usize * 4),
                    };
                    let to = from.checked_add(length).filter(|to| *to <= self.end)?;
                    self.next = from.checked_add(length.next_multiple_of(4))?;
                    return Some(RingEvent { at_ns: self.at_ns, from, to });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(words: &[u32], flags: u64) -> RingPage {
        let mut bytes = 1_000u64.to_le_bytes().to_vec();
        bytes.extend(((words.len() as u64 * 4) | flags).to_le_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend(7u64.to_le_bytes());
        RingPage::new(bytes, 8, false).expect("a page")
    }

    #[test]
    fn times_add_up_over_events_of_each_kind() {
        // One word of data, after 5 ns; a time extend of 2^27 + 3; a long event after 1 ns; a time stamp; padding.
        let mut page = page(&[1 | 5 << 5, 9, 30 | 3 << 5, 1, 1 << 5, 8, 8, 31 | 2 << 5, 0, 1, 9, 29, 0], 0);
        let mut next = || page.next().map(|event| (event.at_ns, event.to - event.from));
        let extended = 1_005 + 3 + (1 << 27);
        assert_eq!([next(), next(), next(), next()], [Some((1_005, 4)), Some((extended + 1, 4)), Some((2, 4)), None]);
    }

    #[test]
    fn what_was_lost_before_a_page_is_told() {
        assert_eq!((page(&[], 0).lost, page(&[], MISSED).lost), (None, Some(0)));
        assert_eq!(page(&[], MISSED | MISSED_STORED).lost, Some(7));
    }

    #[test]
    fn lengths_beyond_the_page_end_it() {
        for words in [&[28u32][..], &[0, 4_000], &[0, 3], &[29 | 1 << 5, u32::MAX], &[30]] {
            assert_eq!(page(words, 0).next(), None, "{words:?}");
        }
        assert!(RingPage::new(vec![0xff; 16], 8, false).is_none() && RingPage::new(vec![0; 9], 8, false).is_none());
    }
}
