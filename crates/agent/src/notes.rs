//! What a client tells of a transaction, as it came: the agent decodes it only where it is shown.
//!
//! Hardly any transaction is shown whole, but all of them bring their details. So the bytes are appended as they come,
//! and become [`Attributes`] where they are shown, grow long, or are about waits and threads.

use crate::attributes::Attributes;
use std::borrow::Cow;
use weir_wire::arm::{DETAIL_BYTES, Detail, Field, MOST_PIECE_BYTES, PIECE_HEAD, Piece};
use weir_wire::{MAX_SLOTS, SLOT_BYTES, Slot};

/// Bytes that are put behind each other; what is longer is read, as later values may take the place of earlier ones.
const MOST_BYTES: usize = 4096;
/// Added to the field of what is a share of a piece: behind its head stand where in the piece it begins and how long that
/// is, two bytes each.
const IS_SHARE: u8 = 0x80;
/// Bytes before a share.
const SHARE_HEAD: usize = PIECE_HEAD + 4;

/// What was told of one transaction.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Notes {
    /// Pieces as they came, and shares of longer ones. Nothing, if they were read.
    raw: Vec<u8>,
    /// A user is among them.
    has_user: bool,
    attributes: Option<Box<Attributes>>,
}

impl Notes {
    /// Those that [`Notes::raw`] gave.
    #[must_use]
    pub fn of_raw(raw: Vec<u8>) -> Self {
        let has_user = shares(&raw).any(|(detail, _)| detail.field == Field::User as u8);
        Self { raw, has_user, attributes: None }
    }

    /// As bytes; empty where nothing was told, or where it was read already.
    #[must_use]
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// Takes the bytes away, and leaves what was read.
    #[must_use]
    pub fn take_raw(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.raw)
    }

    /// Whether nothing was told.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.raw.is_empty() && self.attributes.is_none()
    }

    /// Takes a record's share of a piece. `room` is how many bytes may still be kept; `buffer` gives an empty one that
    /// may have room already.
    pub fn piece(&mut self, detail: Detail, payload: &[Slot], room: usize, buffer: impl FnOnce() -> Vec<u8>) {
        let share = share(detail, payload);
        if !self.is_plain(detail, share, room) {
            self.attributes().piece(detail, share, room);
            return;
        }
        if self.raw.capacity() == 0 {
            self.raw = buffer();
        }
        self.has_user |= detail.field == Field::User as u8;
        put(&mut self.raw, detail, share);
    }

    /// Takes a record's short pieces, which stand behind each other, with `room` and `buffer` as for one.
    pub fn pieces(&mut self, payload: &[Slot], room: usize, buffer: impl FnOnce() -> Vec<u8>) {
        let bytes = bytes_of(payload);
        let (mut rest, mut are_known, mut has_user) = (bytes, true, false);
        while let Some((piece, behind)) = Piece::read(rest).filter(|(piece, _)| piece.field != 0) {
            are_known &= Field::from_code(piece.field).is_some();
            has_user |= piece.field == Field::User as u8;
            rest = behind;
        }
        let whole = &bytes[..bytes.len() - rest.len()];
        if are_known && self.attributes.is_none() && self.raw.len() + whole.len() <= MOST_BYTES && whole.len() <= room {
            if self.raw.capacity() == 0 {
                self.raw = buffer();
            }
            self.has_user |= has_user;
            self.raw.extend_from_slice(whole);
            return;
        }
        let (mut rest, mut room) = (whole, room);
        while let Some((piece, behind)) = Piece::read(rest) {
            room -= self.attributes().piece(whole_of(piece), piece.bytes, room).min(room);
            rest = behind;
        }
    }

    /// Whether a share can stand there as it came.
    fn is_plain(&self, detail: Detail, share: &[u8], room: usize) -> bool {
        let more = SHARE_HEAD + share.len();
        self.attributes.is_none()
            && self.raw.len() + more <= MOST_BYTES
            && more <= room
            && detail.whole_bytes as usize <= MOST_PIECE_BYTES
            && Field::from_code(detail.field).is_some()
    }

    /// All of it, read, to add to it what is no piece.
    pub fn attributes(&mut self) -> &mut Attributes {
        if self.attributes.is_none() {
            self.attributes = Some(Box::new(read(&self.raw)));
            self.raw = Vec::new();
        }
        self.attributes.get_or_insert_default()
    }

    /// All of it, read; `None` = nothing was told.
    #[must_use]
    pub fn read(&self) -> Option<Cow<'_, Attributes>> {
        match &self.attributes {
            Some(attributes) => Some(Cow::Borrowed(attributes)),
            None => (!self.raw.is_empty()).then(|| Cow::Owned(read(&self.raw))),
        }
    }

    /// What was read already: waits and threads stand nowhere else.
    #[must_use]
    pub fn as_read(&self) -> Option<&Attributes> {
        self.attributes.as_deref()
    }

    /// The user, as text.
    #[must_use]
    pub fn user(&self) -> Option<Cow<'_, str>> {
        if let Some(attributes) = &self.attributes {
            return attributes.text(Field::User).map(Cow::Owned);
        }
        if !self.has_user {
            return None;
        }
        let mut users = shares(&self.raw).filter(|(detail, _)| detail.field == Field::User as u8);
        let (detail, bytes) = users.next()?;
        if users.next().is_none() && detail.offset == 0 && bytes.len() == detail.whole_bytes as usize {
            return Some(String::from_utf8_lossy(bytes));
        }
        // Attributes in shares, or more than once.
        read(&self.raw).text(Field::User).map(Cow::Owned)
    }

    /// Bytes that it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.raw.len() + self.attributes.as_ref().map_or(0, |attributes| attributes.bytes())
    }
}

/// What follows a record.
fn bytes_of(payload: &[Slot]) -> &[u8] {
    // SAFETY: the same memory, of which every byte is set.
    unsafe { std::slice::from_raw_parts(payload.as_ptr().cast::<u8>(), size_of_val(payload)) }
}

/// A record's share of a piece, of what follows it.
fn share(detail: Detail, payload: &[Slot]) -> &[u8] {
    let bytes = bytes_of(payload);
    let rest = (detail.whole_bytes as usize).saturating_sub(usize::from(detail.offset));
    &bytes[..rest.min(bytes.len()).min(DETAIL_BYTES)]
}

/// What a piece is that came in one.
fn whole_of(piece: Piece<'_>) -> Detail {
    Detail { field: piece.field, index: piece.index, offset: 0, whole_bytes: piece.bytes.len() as u32 }
}

/// Puts a share of a piece, or a whole one, behind the others.
fn put(raw: &mut Vec<u8>, detail: Detail, share: &[u8]) {
    let is_whole = detail.offset == 0 && detail.whole_bytes as usize == share.len();
    let [low, high] = (share.len() as u16).to_ne_bytes();
    raw.extend_from_slice(&[detail.field | if is_whole { 0 } else { IS_SHARE }, detail.index, low, high]);
    if !is_whole {
        raw.extend_from_slice(&detail.offset.to_ne_bytes());
        raw.extend_from_slice(&(detail.whole_bytes as u16).to_ne_bytes());
    }
    raw.extend_from_slice(share);
}

/// What stands there: each share with what it is of.
fn shares(mut raw: &[u8]) -> impl Iterator<Item = (Detail, &[u8])> {
    std::iter::from_fn(move || {
        if raw.first()? & IS_SHARE == 0 {
            let (piece, behind) = Piece::read(raw)?;
            raw = behind;
            return Some((whole_of(piece), piece.bytes));
        }
        let ([field, index, low, high, from @ .., c, d], behind) = raw.split_first_chunk::<SHARE_HEAD>()?;
        let (share, behind) = behind.split_at_checked(usize::from(u16::from_ne_bytes([*low, *high])))?;
        raw = behind;
        let whole_bytes = u32::from(u16::from_ne_bytes([*c, *d]));
        Some((
            Detail { field: field & !IS_SHARE, index: *index, offset: u16::from_ne_bytes(*from), whole_bytes },
            share,
        ))
    })
}

fn read(raw: &[u8]) -> Attributes {
    let mut attributes = Attributes::default();
    for (detail, share) in shares(raw) {
        attributes.piece(detail, share, usize::MAX);
    }
    attributes
}

/// Lengths and places stand in two bytes each.
const _: () = assert!(MOST_PIECE_BYTES < 1 << 16 && MAX_SLOTS * SLOT_BYTES < 1 << 16);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn piece(notes: &mut Notes, field: Field, index: u8, piece: &[u8]) {
        for (number, share) in piece.chunks(DETAIL_BYTES).enumerate() {
            let mut slots = vec![Slot::default(); share.len().div_ceil(SLOT_BYTES)];
            for (at, byte) in share.iter().enumerate() {
                slots[at / SLOT_BYTES][at % SLOT_BYTES / 8] |=
                    u64::from_ne_bytes([*byte, 0, 0, 0, 0, 0, 0, 0]) << (at % 8 * 8);
            }
            let offset = (number * DETAIL_BYTES) as u16;
            let detail = Detail { field: field as u8, index, offset, whole_bytes: piece.len() as u32 };
            notes.piece(detail, &slots, usize::MAX, Vec::new);
        }
    }

    #[test]
    fn the_user_is_known_however_it_was_told() {
        let long = "u".repeat(DETAIL_BYTES + 1);
        for users in [&["customer"][..], &["one", "two"], &[&long]] {
            let mut notes = Notes::default();
            piece(&mut notes, Field::Uri, 0, b"/");
            assert_eq!(notes.user(), None);
            for user in users {
                piece(&mut notes, Field::User, 0, user.as_bytes());
            }
            let last = users.last().copied();
            assert_eq!(notes.user().as_deref(), last);
            assert_eq!(Notes::of_raw(notes.raw().to_vec()).user().as_deref(), last);
            assert!(!notes.raw().is_empty());
            notes.attributes();
            assert_eq!((notes.user().as_deref(), notes.raw()), (last, &[][..]));
        }
    }

    #[test]
    fn a_value_that_is_told_again_and_again_takes_no_more_room() {
        let mut notes = Notes::default();
        for value in 0..100_000u64 {
            piece(&mut notes, Field::MetricValue, 1, &value.to_ne_bytes());
            assert!(notes.bytes() <= MOST_BYTES);
        }
        let attributes = notes.read().expect("told").into_owned();
        let values: Vec<_> = attributes.pieces(Field::MetricValue).collect();
        assert_eq!(values, [(1, &99_999u64.to_ne_bytes()[..], Some(&0u64.to_ne_bytes()[..]))]);
    }

    proptest! {
        /// Pieces read the same in any packing, and invalid ones are counted.
        #[test]
        fn short_pieces_are_read_as_if_each_had_come_by_itself(
            pieces in proptest::collection::vec((1u8..30, 0u8..2, proptest::collection::vec(any::<u8>(), 0..20)), 0..10),
            is_read_at_once: bool,
        ) {
            let (mut notes, mut attributes, mut packed) = (Notes::default(), Attributes::default(), Vec::new());
            for (field, index, bytes) in &pieces {
                if packed.len() + PIECE_HEAD + bytes.len() <= MAX_SLOTS * SLOT_BYTES {
                    packed.extend([*field, *index, bytes.len() as u8, 0]);
                    packed.extend(bytes);
                    attributes.piece(whole_of(Piece { field: *field, index: *index, bytes }), bytes, usize::MAX);
                }
            }
            packed.resize(packed.len().next_multiple_of(SLOT_BYTES), 0);
            let slots: Vec<Slot> = packed.as_chunks::<SLOT_BYTES>().0.iter()
                .map(|slot| std::array::from_fn(|word| u64::from_ne_bytes(std::array::from_fn(|byte| slot[word * 8 + byte]))))
                .collect();
            if is_read_at_once {
                notes.attributes();
            }
            notes.pieces(&slots, usize::MAX, Vec::new);
            prop_assert_eq!(notes.user().map(Cow::into_owned), attributes.text(Field::User));
            prop_assert_eq!(notes.read().map(Cow::into_owned).unwrap_or_default(), attributes);
        }

        #[test]
        fn no_payload_breaks_it(slots in proptest::collection::vec(any::<[u64; 4]>(), 0..9), room in 0usize..300) {
            let mut notes = Notes::default();
            notes.pieces(&slots, room, Vec::new);
            notes.pieces(&slots, room, Vec::new);
            let _ = (notes.user(), notes.read().map(Cow::into_owned));
            prop_assert!(notes.raw().len() <= 2 * MAX_SLOTS * SLOT_BYTES);
        }

        /// Any records read late as if each piece had been read when it came.
        #[test]
        fn nothing_is_read_otherwise_for_being_read_late(
            records in proptest::collection::vec((1u8..26, 0u8..2, 0u16..3, 0u32..5000, 0usize..9, any::<u64>()), 0..60),
        ) {
            let (mut notes, mut attributes) = (Notes::default(), Attributes::default());
            for (field, index, shares, whole_bytes, slots, word) in records {
                let detail = Detail { field, index, offset: shares * DETAIL_BYTES as u16, whole_bytes };
                let payload = vec![[word; 4]; slots];
                attributes.piece(detail, share(detail, &payload), usize::MAX);
                notes.piece(detail, &payload, usize::MAX, Vec::new);
                if notes.as_read().is_none() {
                    notes = Notes::of_raw(notes.take_raw());
                }
            }
            prop_assert_eq!(notes.user().map(Cow::into_owned), attributes.text(Field::User));
            let empty = attributes == Attributes::default();
            let late = notes.read().map(Cow::into_owned);
            prop_assert!(late == Some(attributes) || empty && late.is_none());
        }
    }
}
