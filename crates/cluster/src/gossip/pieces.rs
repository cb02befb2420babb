//! Messages in pieces that fit into one Ethernet frame, so that no datagram is cut by the network.

/// Bytes of a message in one datagram.
const PIECE_BYTES: usize = 1_200;
/// Bytes of a message: those of the largest that chitchat sends.
const MESSAGE_BYTES_MAX: usize = 1 << 16;
const PIECES_MAX: usize = MESSAGE_BYTES_MAX.div_ceil(PIECE_BYTES);
/// Number of the message, place of the piece, number of pieces.
const HEAD_BYTES: usize = 4 + 1 + 1;
/// Bytes of a piece with its head.
pub(super) const BODY_BYTES_MAX: usize = HEAD_BYTES + PIECE_BYTES;

/// The pieces of a message; none if it is too large.
pub(super) fn cut(number: u32, message: &[u8]) -> Option<Vec<Vec<u8>>> {
    let count = message.len().div_ceil(PIECE_BYTES);
    let count = u8::try_from(count).ok().filter(|count| (1..=PIECES_MAX).contains(&usize::from(*count)))?;
    let piece = |(place, part): (u8, &[u8])| {
        let mut piece = Vec::with_capacity(HEAD_BYTES + part.len());
        piece.extend(number.to_be_bytes());
        piece.extend([place, count]);
        piece.extend(part);
        piece
    };
    Some((0..count).zip(message.chunks(PIECE_BYTES)).map(piece).collect())
}

/// What a piece has come to.
#[derive(Debug, PartialEq, Eq)]
pub enum Whole {
    /// More pieces are to come.
    NotYet,
    /// The message is whole.
    Message(Vec<u8>),
    /// It is none, or one before it is missing.
    Refused,
}

/// The pieces of a peer's message that have come. They come in the order of their numbers or not at all.
#[derive(Debug, Default)]
pub struct Pieces {
    number: u32,
    next: u8,
    count: u8,
    bytes: Vec<u8>,
}

impl Pieces {
    /// Takes a piece.
    pub fn take(&mut self, piece: &[u8]) -> Whole {
        let Some((&[a, b, c, d, place, count], part)) = piece.split_first_chunk::<HEAD_BYTES>() else {
            return Whole::Refused;
        };
        let number = u32::from_be_bytes([a, b, c, d]);
        let is_last = place.checked_add(1) == Some(count);
        let is_right = place < count && usize::from(count) <= PIECES_MAX;
        // Only the last one may be shorter.
        let is_full = part.len() == PIECE_BYTES || is_last && (1..PIECE_BYTES).contains(&part.len());
        if place == 0 {
            *self = Self { number, next: 0, count, bytes: Vec::new() };
        }
        if !is_right || !is_full || (number, place, count) != (self.number, self.next, self.count) {
            *self = Self::default();
            return Whole::Refused;
        }
        self.bytes.extend(part);
        self.next += 1;
        if is_last { Whole::Message(std::mem::take(&mut self.bytes)) } else { Whole::NotYet }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| at as u8).collect()
    }

    #[test]
    fn a_message_that_is_too_large_is_not_cut() {
        assert_eq!(cut(1, &[]), None);
        assert_eq!(cut(1, &message(PIECES_MAX * PIECE_BYTES + 1)), None);
        assert_eq!(cut(1, &message(65_507)).map(|pieces| pieces.len()), Some(PIECES_MAX));
    }

    #[test]
    fn a_message_with_a_lost_piece_is_none_and_the_next_one_is() {
        let (first, second) = (cut(1, &message(5_000)).unwrap(), cut(2, &message(3_000)).unwrap());
        let mut pieces = Pieces::default();
        assert_eq!(pieces.take(&first[0]), Whole::NotYet);
        assert_eq!(pieces.take(&first[2]), Whole::Refused);
        assert_eq!(pieces.take(&first[3]), Whole::Refused);
        assert_eq!(pieces.take(&second[0]), Whole::NotYet);
        assert_eq!(pieces.take(&second[1]), Whole::NotYet);
        assert_eq!(pieces.take(&second[2]), Whole::Message(message(3_000)));
        assert_eq!(pieces.take(&second[2]), Whole::Refused, "twice");
    }

    proptest! {
        #[test]
        fn pieces_make_the_message_again(bytes in 1..=65_507_usize, number: u32) {
            let mut pieces = Pieces::default();
            let cut = cut(number, &message(bytes)).expect("fits");
            for piece in &cut[..cut.len() - 1] {
                prop_assert_eq!(pieces.take(piece), Whole::NotYet);
            }
            prop_assert_eq!(pieces.take(&cut[cut.len() - 1]), Whole::Message(message(bytes)));
        }

        #[test]
        fn any_bytes_stay_within_the_bound(parts in proptest::collection::vec(
            proptest::collection::vec(any::<u8>(), 0..40), 0..20,
        )) {
            let mut pieces = Pieces::default();
            for part in parts {
                pieces.take(&part);
                prop_assert!(pieces.bytes.len() <= MESSAGE_BYTES_MAX + PIECE_BYTES);
            }
        }
    }
}
