//! What is told of a running transaction beside its begin and end: pieces of text and numbers, waits, threads.

use crate::transaction::{Blocked, Bound, MOST_STRETCHES};
use weir_wire::arm::{Detail, Field, MOST_PIECE_BYTES, Metric};

/// The most pieces that are kept of a transaction.
pub const MOST_PIECES: usize = 128;
/// The most waits that are kept of a transaction until it ends.
const MOST_WAITS: usize = 256;

/// A piece, whole or in the making.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Piece {
    field: u8,
    index: u8,
    whole_bytes: u32,
    bytes: Vec<u8>,
    /// The first value of a metric: a counter's increase counts from it.
    first: Option<Vec<u8>>,
}

impl Piece {
    fn is_whole(&self) -> bool {
        self.bytes.len() == self.whole_bytes as usize
    }
}

/// A wait for something outside; its begin or end may be read first, as they may stand in different lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Wait {
    block: u64,
    from_ns: Option<u64>,
    to_ns: Option<u64>,
    cause: u8,
}

/// A thread that works for the transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Work {
    thread: u32,
    from_ns: Option<u64>,
    to_ns: Option<u64>,
}

/// What an application told of one transaction.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Attributes {
    pieces: Vec<Piece>,
    waits: Vec<Wait>,
    work: Vec<Work>,
    /// Pieces that came damaged or found no room.
    pub pieces_lost: u32,
    /// Messages that were sent or received.
    pub messages: u32,
}

impl Attributes {
    /// Takes a record's share of a piece: no more than is left of the whole. `room` is how many bytes may still be kept; returns how many more are.
    pub fn piece(&mut self, detail: Detail, share: &[u8], room: usize) -> usize {
        if detail.field == Field::MetricNumber as u8 {
            return self.number(detail, share, room);
        }
        if detail.field == Field::Message as u8 && detail.offset == 0 {
            self.messages = self.messages.saturating_add(1);
        }
        let fits = (detail.whole_bytes as usize) <= MOST_PIECE_BYTES && share.len() <= room;
        if !fits || Field::from_code(detail.field).is_none() || !self.put(detail, share) {
            self.pieces_lost = self.pieces_lost.saturating_add(1);
            return 0;
        }
        share.len()
    }

    /// A metric's value in few bytes is kept as any other.
    fn number(&mut self, detail: Detail, share: &[u8], room: usize) -> usize {
        let metric =
            (detail.offset == 0 && detail.whole_bytes as usize == share.len()).then(|| Metric::of_number(share));
        let Some(metric) = metric.flatten() else {
            self.pieces_lost = self.pieces_lost.saturating_add(1);
            return 0;
        };
        let value = metric.to_value();
        let detail = Detail { field: Field::MetricValue as u8, whole_bytes: value.len() as u32, ..detail };
        self.piece(detail, &value, room)
    }

    fn put(&mut self, detail: Detail, share: &[u8]) -> bool {
        let at = self.pieces.iter().position(|piece| (piece.field, piece.index) == (detail.field, detail.index));
        if detail.offset > 0 {
            // The rest of what has begun, or of what was lost.
            let Some(piece) = at.map(|at| &mut self.pieces[at]) else { return false };
            let fits = piece.whole_bytes == detail.whole_bytes && piece.bytes.len() == usize::from(detail.offset);
            if fits {
                piece.bytes.extend_from_slice(share);
            }
            return fits;
        }
        let mut piece = Piece {
            field: detail.field,
            index: detail.index,
            whole_bytes: detail.whole_bytes,
            bytes: share.to_vec(),
            first: None,
        };
        match at {
            Some(at) => {
                let before = &mut self.pieces[at];
                if before.is_whole() && detail.field == Field::MetricValue as u8 {
                    piece.first = before.first.take().or_else(|| Some(std::mem::take(&mut before.bytes)));
                }
                *before = piece;
            }
            None if self.pieces.len() < MOST_PIECES => self.pieces.push(piece),
            None => return false,
        }
        true
    }

    /// A wait begins or ends.
    pub fn wait(&mut self, block: u64, begins: bool, time_ns: u64) {
        let open =
            |wait: &Wait| wait.block == block && if begins { wait.from_ns.is_none() } else { wait.to_ns.is_none() };
        let at = self.waits.iter().position(open).unwrap_or(self.waits.len());
        if at >= MOST_WAITS {
            self.pieces_lost = self.pieces_lost.saturating_add(1);
            return;
        }
        if at == self.waits.len() {
            self.waits.push(Wait { block, from_ns: None, to_ns: None, cause: 0 });
        }
        let wait = &mut self.waits[at];
        if begins {
            wait.from_ns = Some(time_ns);
            wait.cause = cause_of(&mut self.pieces);
        } else {
            wait.to_ns = Some(time_ns);
        }
    }

    /// A thread begins or ends to work for it.
    pub fn bind(&mut self, thread: u32, begins: bool, time_ns: u64) {
        let open = |work: &&mut Work| {
            work.thread == thread && if begins { work.from_ns.is_none() } else { work.to_ns.is_none() }
        };
        let (from_ns, to_ns) = if begins { (Some(time_ns), None) } else { (None, Some(time_ns)) };
        if let Some(work) = self.work.iter_mut().find(open) {
            work.from_ns = work.from_ns.or(from_ns);
            work.to_ns = work.to_ns.or(to_ns);
        } else if self.work.len() < MOST_STRETCHES {
            self.work.push(Work { thread, from_ns, to_ns });
        } else {
            self.pieces_lost = self.pieces_lost.saturating_add(1);
        }
    }

    /// How long it was blocked until its end, overlapping waits once; and the waits.
    #[must_use]
    pub fn blocked(&self, start_ns: u64, end_ns: u64) -> (u64, Vec<Blocked>) {
        let known = self.waits.iter().filter_map(|wait| {
            let from_ns = wait.from_ns?.max(start_ns);
            let to_ns = wait.to_ns.unwrap_or(end_ns).min(end_ns);
            (from_ns < to_ns).then_some(Blocked { from_ns, to_ns, cause: wait.cause })
        });
        let mut waits: Vec<Blocked> = known.collect();
        waits.sort_unstable_by_key(|wait| (wait.from_ns, wait.to_ns));
        let (mut blocked_ns, mut until_ns) = (0u64, 0u64);
        for wait in &waits {
            blocked_ns += wait.to_ns.saturating_sub(wait.from_ns.max(until_ns));
            until_ns = until_ns.max(wait.to_ns);
        }
        waits.truncate(MOST_STRETCHES);
        (blocked_ns, waits)
    }

    /// Which threads worked for it when.
    #[must_use]
    pub fn bound(&self, end_ns: u64) -> Vec<Bound> {
        let known = self.work.iter().filter_map(|work| {
            let (from_ns, to_ns) = (work.from_ns?, work.to_ns.unwrap_or(end_ns).min(end_ns));
            (from_ns <= to_ns).then_some(Bound { thread: work.thread, from_ns, to_ns })
        });
        known.collect()
    }

    /// Whole pieces of a field, by index: index, last value, first value.
    pub fn pieces(&self, field: Field) -> impl Iterator<Item = (u8, &[u8], Option<&[u8]>)> {
        let wanted = self.pieces.iter().filter(move |piece| piece.field == field as u8 && piece.is_whole());
        wanted.map(|piece| (piece.index, piece.bytes.as_slice(), piece.first.as_deref()))
    }

    /// The first whole piece of a field, as text.
    #[must_use]
    pub fn text(&self, field: Field) -> Option<String> {
        self.pieces(field).next().map(|piece| String::from_utf8_lossy(piece.1).into_owned())
    }

    /// Pieces that were begun, but not to their end.
    #[must_use]
    pub fn unfinished_pieces(&self) -> u32 {
        self.pieces.iter().filter(|piece| !piece.is_whole()).count() as u32
    }

    /// Bytes that its pieces take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let pieces = self.pieces.iter().map(|piece| piece.bytes.len() + piece.first.as_ref().map_or(0, Vec::len));
        pieces.sum::<usize>() + self.waits.len() * size_of::<Wait>() + self.work.len() * size_of::<Work>()
    }

    /// Adds what was told elsewhere, behind what is here.
    pub fn append(&mut self, other: Self) {
        for piece in other.pieces {
            let at = self.pieces.iter().position(|own| (own.field, own.index) == (piece.field, piece.index));
            match at {
                Some(at) => self.pieces[at] = piece,
                None if self.pieces.len() < MOST_PIECES => self.pieces.push(piece),
                None => self.pieces_lost = self.pieces_lost.saturating_add(1),
            }
        }
        self.pieces_lost = self.pieces_lost.saturating_add(other.pieces_lost);
        self.messages = self.messages.saturating_add(other.messages);
    }
}

/// The cause that was told before a wait: it is that wait's alone.
fn cause_of(pieces: &mut Vec<Piece>) -> u8 {
    let at = pieces.iter().position(|piece| piece.field == Field::BlockCause as u8 && piece.is_whole());
    let bytes = at.map(|at| pieces.remove(at).bytes);
    bytes.and_then(|bytes| bytes.first().copied()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_wire::arm::DETAIL_BYTES;

    /// A piece as a client writes it.
    fn write(attributes: &mut Attributes, field: Field, index: u8, piece: &[u8]) {
        for (number, share) in piece.chunks(DETAIL_BYTES).enumerate() {
            let offset = (number * DETAIL_BYTES) as u16;
            let detail = Detail { field: field as u8, index, offset, whole_bytes: piece.len() as u32 };
            attributes.piece(detail, share, usize::MAX);
        }
    }

    #[test]
    fn the_last_value_counts_and_a_metric_keeps_its_first() {
        let mut attributes = Attributes::default();
        for value in [&b"one"[..], b"two", b"three"] {
            write(&mut attributes, Field::User, 0, value);
            write(&mut attributes, Field::MetricValue, 2, value);
        }
        assert_eq!(attributes.text(Field::User).as_deref(), Some("three"));
        let metrics: Vec<_> = attributes.pieces(Field::MetricValue).collect();
        assert_eq!(metrics, [(2, &b"three"[..], Some(&b"one"[..]))]);
    }

    #[test]
    fn overlapping_waits_count_once_and_what_is_open_ends_with_the_transaction() {
        let mut attributes = Attributes::default();
        for (block, from_ns, to_ns) in [(1, 100, Some(300)), (2, 200, Some(400)), (3, 900, None)] {
            // The end may be read before the begin.
            if let Some(to_ns) = to_ns {
                attributes.wait(block, false, to_ns);
            }
            attributes.wait(block, true, from_ns);
        }
        let (blocked_ns, waits) = attributes.blocked(150, 1000);
        assert_eq!((blocked_ns, waits.len()), (250 + 100, 3));
    }

    proptest! {
        #[test]
        fn pieces_of_any_length_come_back(piece in proptest::collection::vec(any::<u8>(), 1..MOST_PIECE_BYTES)) {
            let mut attributes = Attributes::default();
            write(&mut attributes, Field::Diagnosis, 0, &piece);
            prop_assert_eq!(attributes.pieces(Field::Diagnosis).next(), Some((0, piece.as_slice(), None)));
            prop_assert_eq!((attributes.pieces_lost, attributes.unfinished_pieces(), attributes.bytes()), (0, 0, piece.len()));
        }

        #[test]
        fn nothing_breaks_it(details in proptest::collection::vec((any::<u64>(), 0..DETAIL_BYTES), 0..300), times in proptest::collection::vec((0u64..4, any::<bool>(), any::<u64>()), 0..300)) {
            let mut attributes = Attributes::default();
            for (operand, length) in details {
                attributes.piece(Detail::of_operand(operand), &vec![0; length], 10_000);
            }
            for (block, begins, time_ns) in times {
                attributes.wait(block, begins, time_ns);
                attributes.bind(block as u32, begins, time_ns);
            }
            let (blocked_ns, waits) = attributes.blocked(1000, 5000);
            prop_assert!(blocked_ns <= 4000 && waits.len() <= MOST_STRETCHES);
            prop_assert!(attributes.bound(5000).len() <= MOST_STRETCHES && attributes.bytes() < MOST_PIECES * MOST_PIECE_BYTES * 2);
        }
    }
}
