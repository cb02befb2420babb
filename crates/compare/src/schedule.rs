//! The order in which blocks are measured, drawn from a seed.
use serde::{Deserialize, Serialize};

/// One of the two that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The one that is held against: the numerator is B's.
    A,
    /// The one that is judged.
    B,
}

impl Side {
    /// The other one.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

/// What a block holds against what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BlockKind {
    /// B against A.
    Ab,
    /// A against itself, for the noise floor.
    Aa,
}

/// A block to be measured: two slices, one right after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedBlock {
    /// Index of the case.
    pub case: usize,
    /// What is held against what.
    pub kind: BlockKind,
    /// Whose slice comes first. In a block of A against itself, B's role is played by A.
    pub first: Side,
}

/// The blocks of an experiment in random order: of every case, `blocks` of B against A and
/// `aa_blocks` of A against itself.
///
/// Half of each begin with A and half with B (an odd one is drawn), so that what the second
/// slice has of the first one's warmth falls on both alike. Kinds and cases are shuffled together,
/// so that the noise floor comes from the same hours as the comparison. Equal arguments give an
/// equal order.
#[must_use]
pub fn schedule(cases: usize, blocks: usize, aa_blocks: usize, seed: u64) -> Vec<PlannedBlock> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut planned = Vec::with_capacity(cases * (blocks + aa_blocks));
    for case in 0..cases {
        for (kind, count) in [(BlockKind::Ab, blocks), (BlockKind::Aa, aa_blocks)] {
            let mut first = if random.bool() { Side::A } else { Side::B };
            for _ in 0..count {
                planned.push(PlannedBlock { case, kind, first });
                first = first.other();
            }
        }
    }
    random.shuffle(&mut planned);
    planned
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn everything_is_planned_once_and_orders_are_balanced(cases in 1..4_usize, blocks in 0..30_usize, aa in 0..30_usize, seed: u64) {
            let planned = schedule(cases, blocks, aa, seed);
            prop_assert_eq!(&planned, &schedule(cases, blocks, aa, seed));
            for case in 0..cases {
                for (kind, count) in [(BlockKind::Ab, blocks), (BlockKind::Aa, aa)] {
                    let of_kind = || planned.iter().filter(|block| block.case == case && block.kind == kind);
                    let a_first = of_kind().filter(|block| block.first == Side::A).count();
                    prop_assert_eq!(of_kind().count(), count);
                    prop_assert!(a_first.abs_diff(count - a_first) <= 1);
                }
            }
        }
    }

    #[test]
    fn seeds_differ() {
        assert_ne!(schedule(1, 20, 10, 1), schedule(1, 20, 10, 2));
    }
}
