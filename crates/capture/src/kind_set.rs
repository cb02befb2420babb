//! Which kinds of records a source of events wants, so that all others pass it by.

use weir_wire::{KINDS, Kind};

/// Kinds have codes below this.
const CODES: usize = 0x800;

/// A set of kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KindSet([u64; CODES / 64]);

impl KindSet {
    /// None.
    pub const NONE: Self = Self([0; CODES / 64]);
    /// All, also those that this version does not know.
    pub const ALL: Self = Self([u64::MAX; CODES / 64]);

    /// These.
    #[must_use]
    pub fn of(kinds: &[Kind]) -> Self {
        kinds.iter().fold(Self::NONE, |set, kind| set.with(*kind as u16))
    }

    /// Those of the table whose code is wanted.
    pub(crate) fn of_those(is_wanted: impl Fn(u16) -> bool) -> Self {
        let wanted = KINDS.iter().map(|spec| spec.code).filter(|code| is_wanted(*code));
        wanted.fold(Self::NONE, Self::with)
    }

    fn with(mut self, code: u16) -> Self {
        if let Some(word) = self.0.get_mut(usize::from(code) / 64) {
            *word |= 1 << (code % 64);
        }
        self
    }

    pub(crate) fn or(mut self, other: Self) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(word, more)| *word |= more);
        self
    }

    /// Whether it has a code; those beyond all kinds are in [`KindSet::ALL`] alone.
    #[inline]
    pub(crate) fn has(&self, code: u16) -> bool {
        self.0.get(usize::from(code) / 64).map_or(self.0[0] & 1 != 0, |word| word >> (code % 64) & 1 != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_it_is_made_of() {
        let (set, more) = (KindSet::of(&[Kind::Switch, Kind::SocketReady]), KindSet::of(&[Kind::ArmPieces]));
        for spec in KINDS {
            let wanted = [Kind::Switch, Kind::SocketReady].map(|kind| kind as u16).contains(&spec.code);
            assert_eq!(set.has(spec.code), wanted, "{}", spec.name);
            assert_eq!(set.or(more).has(spec.code), wanted || spec.code == Kind::ArmPieces as u16, "{}", spec.name);
            assert!(KindSet::ALL.has(spec.code) && !KindSet::NONE.has(spec.code));
        }
        assert!(KindSet::ALL.has(u16::MAX) && !set.has(u16::MAX), "a kind of a later version");
        assert_eq!(KindSet::of_those(|code| code == Kind::ArmPieces as u16), more);
    }
}
