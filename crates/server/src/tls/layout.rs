//! Where the records of a response begin and end. It is known without a log of records, also of those that are still to
//! be made, so that another process makes the same records of the same bytes.
//!
//! A record of other bytes under the same key and number would give both away (RFC 5116, section 5.1.1).

use super::records::PLAINTEXT_BYTES_MAX;

/// Plaintext of a full record.
const FULL: u64 = PLAINTEXT_BYTES_MAX as u64;

/// Where records have ended that were not full. All others since the older of the two places are full ones.
///
/// Places are bytes of a session's plaintext, from where this process began with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Cuts {
    sealed: i64,
    short: [i64; 2],
}

/// The records of a response from a place on that is known, to its end. Places are bytes of the response.
///
/// From `known_from` on records are full but for the one that ends at `joint`; from there on all are full but for the
/// response's last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) known_from: u64,
    pub(super) joint: u64,
    pub(super) end: u64,
}

/// A byte of the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    /// How many records come before its own.
    pub(super) record: u64,
    /// The first byte of the response in its record.
    pub(super) at: u64,
    /// Its place within the record.
    pub(super) skip: u64,
}

impl Cuts {
    /// Notes bytes that were sealed together: into full records, and a last one that may be short.
    #[inline]
    pub(super) fn note(&mut self, bytes: usize) {
        self.sealed += bytes as i64;
        if !bytes.is_multiple_of(PLAINTEXT_BYTES_MAX) {
            self.short = [self.short[1], self.sealed];
        }
    }

    /// Those of a session that goes on with the record at this place of a response.
    pub(super) fn within(layout: &Layout, at: u64) -> Self {
        // Below the bound of contents.
        let [known_from, joint, at] = [layout.known_from, layout.joint, at].map(u64::cast_signed);
        let last = if at < joint { known_from } else { joint };
        Self { sealed: at, short: [known_from, last] }
    }

    /// The records of the response under way, of which so many bytes are sealed; none if the last one holds bytes of
    /// what was before.
    pub(super) fn layout(&self, sealed: u64, end: u64) -> Option<Layout> {
        let start = self.sealed - i64::try_from(sealed).ok()?;
        let [older, newer] = self.short;
        let known_from = if start >= newer {
            next_of(newer, start)
        } else if start > older {
            next_of(older, start).min(newer)
        } else {
            older
        };
        let joint = known_from.max(newer);
        // Neither lies before the response.
        let [known_from, joint] = [known_from, joint].map(|place| (place - start).unsigned_abs());
        (joint <= sealed && sealed <= end).then_some(Layout { known_from, joint, end })
    }
}

/// The first end of a full record that is not before `from`, where one ended at `at`.
fn next_of(at: i64, from: i64) -> i64 {
    at + (from - at).unsigned_abs().next_multiple_of(FULL).cast_signed()
}

impl Layout {
    /// Whether its places are in order; `at` is to be the beginning of a record.
    pub(super) fn is_sound(&self, at: u64) -> bool {
        let in_order = self.known_from <= self.joint && self.joint <= self.end && self.end < 1 << 53;
        in_order
            && (self.known_from..self.end).contains(&at)
            && (at == self.joint || self.of_run(at).is_multiple_of(FULL))
    }

    fn of_run(&self, at: u64) -> u64 {
        at - if at < self.joint { self.known_from } else { self.joint }
    }

    /// Bytes of the response in the record that begins at this place.
    pub(super) fn record_bytes(&self, at: u64) -> u64 {
        let end = if at < self.joint { self.joint } else { self.end };
        (end - at).min(FULL)
    }

    /// How many records there are from `known_from` to the end of one.
    pub(super) fn records(&self, to: u64) -> u64 {
        let first = to.min(self.joint) - self.known_from;
        first.div_ceil(FULL) + to.saturating_sub(self.joint).div_ceil(FULL)
    }

    /// Bytes of these records, of which each has so many beside its plaintext.
    pub(super) fn sealed_bytes(&self, to: u64, expansion: u64) -> u64 {
        to - self.known_from + self.records(to) * expansion
    }

    /// The byte that is so far behind the beginning of the first record; none behind the last.
    pub(super) fn find(&self, offset: u64, expansion: u64) -> Option<Found> {
        if offset >= self.sealed_bytes(self.end, expansion) {
            return None;
        }
        let before = self.sealed_bytes(self.joint, expansion);
        let (run, records, offset) = match offset.checked_sub(before) {
            Some(behind) => (self.joint, self.records(self.joint), behind),
            None => (self.known_from, 0, offset),
        };
        let (of_run, skip) = (offset / (FULL + expansion), offset % (FULL + expansion));
        Some(Found { record: records + of_run, at: run + of_run * FULL, skip })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A session that seals these bytes, call by call: the ends of all records.
    fn sealed(calls: &[usize]) -> (Cuts, Vec<u64>) {
        let (mut cuts, mut ends, mut at) = (Cuts::default(), vec![0], 0);
        for &call in calls {
            cuts.note(call);
            let mut left = call as u64;
            while left > 0 {
                let record = left.min(FULL);
                at += record;
                left -= record;
                ends.push(at);
            }
        }
        (cuts, ends)
    }

    #[test]
    fn a_file_whose_head_is_a_record_of_its_own_is_known_from_its_beginning() {
        let (mut cuts, _) = sealed(&[5_000, 300, 65_536, 65_536]);
        let layout = cuts.layout(300 + 131_072, 1 << 20).expect("is known");
        assert_eq!(layout, Layout { known_from: 0, joint: 300, end: 1 << 20 });
        // A short record in the middle hides where the head ended.
        cuts.note(100);
        assert_eq!(
            cuts.layout(300 + 131_172, 1 << 20).map(|known| (known.known_from, known.joint)),
            Some((300, 131_472))
        );
    }

    #[test]
    fn a_record_that_holds_the_end_of_an_earlier_response_is_none_of_this_one() {
        let (cuts, _) = sealed(&[100, 65_536]);
        // It began 70 bytes behind the beginning of the first full record.
        let layout = cuts.layout(65_466, 1 << 20).expect("is known");
        assert_eq!((layout.known_from, layout.joint), (FULL - 70, FULL - 70));
        let (cuts, _) = sealed(&[100, 500]);
        assert!(cuts.layout(70, 1 << 20).is_none_or(|known| known.known_from == 70), "its only record is not its own");
    }

    #[test]
    fn what_is_out_of_order_is_not_sound() {
        let layout = Layout { known_from: 10, joint: 500, end: 40_000 };
        for at in [10, 500, 500 + FULL, 500 + 2 * FULL] {
            assert!(layout.is_sound(at), "{at}");
        }
        for at in [0, 9, 11, 499, 501, 40_000] {
            assert!(!layout.is_sound(at), "{at}");
        }
        assert!(!Layout { known_from: 501, ..layout }.is_sound(501));
        assert!(!Layout { joint: 40_001, ..layout }.is_sound(10));
        assert!(!Layout { end: u64::MAX, ..layout }.is_sound(10));
    }

    proptest! {
        #[test]
        fn records_are_where_they_were_made(
            calls in proptest::collection::vec(prop_oneof![
                1_usize..40_000, (1_usize..5).prop_map(|full| full * PLAINTEXT_BYTES_MAX),
            ], 1..12),
            start in 0_usize..12,
            inside in 0_u64..20_000,
            to_go in 1_u64..100_000,
            expansion in 21_u64..30,
            offset in 0_u64..1 << 20,
        ) {
            let (cuts, ends) = sealed(&calls);
            let all: u64 = calls.iter().map(|call| *call as u64).sum();
            // A response may begin within a record, behind the end of another one.
            let start = (calls.iter().take(start).map(|call| *call as u64).sum::<u64>() + inside).min(all);
            let Some(layout) = cuts.layout(all - start, all - start + to_go) else { return Ok(()) };
            let known = ends.iter().filter(|end| **end >= start + layout.known_from);
            let own: Vec<u64> = known.map(|end| end - start).collect();
            prop_assert_eq!(own[0], layout.known_from, "a record begins there");
            for (record, ends) in own.windows(2).enumerate() {
                prop_assert!(layout.is_sound(ends[0]));
                prop_assert_eq!(layout.record_bytes(ends[0]), ends[1] - ends[0]);
                prop_assert_eq!(layout.records(ends[1]), record as u64 + 1);
            }
            // Any byte of the records, also of those to come.
            let whole = layout.sealed_bytes(layout.end, expansion);
            let offset = offset % (whole + 5);
            match layout.find(offset, expansion) {
                None => prop_assert!(offset >= whole),
                Some(Found { record, at, skip }) => {
                    prop_assert!(layout.is_sound(at));
                    prop_assert_eq!(layout.records(at), record);
                    prop_assert_eq!(layout.sealed_bytes(at, expansion) + skip, offset);
                    prop_assert!(skip < layout.record_bytes(at) + expansion);
                    // A session that goes on there knows where the next response begins.
                    let (mut again, mut next) = (Cuts::within(&layout, at), at);
                    while next < layout.end {
                        again.note(layout.record_bytes(next) as usize);
                        next += layout.record_bytes(next);
                    }
                    again.note(300);
                    let expected = Layout { known_from: 0, joint: 300, end: 900 };
                    prop_assert_eq!(again.layout(300, 900), Some(expected));
                }
            }
        }
    }
}
