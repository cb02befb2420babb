//! Pieces one behind the other, as in a definition, in [`crate::Kind::ArmPieces`] and behind [`crate::Kind::ArmStart`] and
//! [`crate::Kind::ArmStop`].

use super::field::Field;
use crate::{MAX_SLOTS, SLOT_BYTES};

/// Bytes before a piece's own: field, index, length (2 bytes).
pub const PIECE_HEAD: usize = 4;
/// The most bytes of all pieces of one record, with their heads.
pub const MOST_PACKED_BYTES: usize = MAX_SLOTS * SLOT_BYTES;

/// What stands before a piece of so many bytes, fewer than 65,536.
#[inline(always)]
#[must_use]
pub fn piece_head(field: Field, index: u8, length: usize) -> [u8; PIECE_HEAD] {
    let [low, high] = (length as u16).to_ne_bytes();
    [field as u8, index, low, high]
}

/// A piece that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece<'a> {
    /// The code of its [`Field`], or of one that a later version knows; 0 = what is behind the last one of a record.
    pub field: u8,
    /// Which one of a list.
    pub index: u8,
    /// Its own bytes.
    pub bytes: &'a [u8],
}

impl<'a> Piece<'a> {
    /// The first of some pieces, and what is behind it; `None` where none is whole.
    #[inline]
    #[must_use]
    pub fn read(pieces: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let ([field, index, low, high], behind) = pieces.split_first_chunk::<PIECE_HEAD>()?;
        let (bytes, behind) = behind.split_at_checked(usize::from(u16::from_ne_bytes([*low, *high])))?;
        Some((Self { field: *field, index: *index, bytes }, behind))
    }
}

/// The value of a metric that is valid and has no divisor: of both forms that it is told in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// How the value is to be understood: of the standard's formats, those of a single number.
    pub format: u8,
    /// What it is used for.
    pub usage: u8,
    /// Its value.
    pub value: u64,
}

impl Metric {
    /// Reads a [`Field::MetricValue`]; `None` where it is not valid, has a divisor or is a text.
    #[inline(always)]
    #[must_use]
    pub fn of_value(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; 16] = bytes.try_into().ok()?;
        let [format, usage, 1, 0, 0, 0, 0, 0, value @ ..] = *bytes else { return None };
        matches!(format, 1 | 2 | 4 | 5 | 7 | 8).then_some(Self { format, usage, value: u64::from_ne_bytes(value) })
    }

    /// As a [`Field::MetricValue`].
    #[must_use]
    pub fn to_value(self) -> [u8; 16] {
        let mut bytes = [self.format, self.usage, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        bytes[8..].copy_from_slice(&self.value.to_ne_bytes());
        bytes
    }

    /// As a [`Field::MetricNumber`]: so many of these bytes.
    #[inline(always)]
    #[must_use]
    pub fn to_number(self) -> ([u8; 10], usize) {
        let [a, b, c, d, e, f, g, h] = self.value.to_le_bytes();
        ([self.format, self.usage, a, b, c, d, e, f, g, h], 2 + (8 - self.value.leading_zeros() as usize / 8))
    }

    /// Reads a [`Field::MetricNumber`]; `None` where it is none.
    #[must_use]
    pub fn of_number(bytes: &[u8]) -> Option<Self> {
        let ([format, usage], value) = bytes.split_first_chunk()?;
        let mut whole = [0; 8];
        whole.get_mut(..value.len())?.copy_from_slice(value);
        Some(Self { format: *format, usage: *usage, value: u64::from_le_bytes(whole) })
    }
}
