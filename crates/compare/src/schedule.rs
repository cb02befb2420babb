//! The order in which slices are measured, drawn from a seed.
use serde::{Deserialize, Serialize};

use crate::plan::Plan;

/// Whose slice of a block it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The subject with this index.
    Subject(usize),
    /// The baseline once more, for the noise floor.
    Again,
}

/// A block to be measured: a slice for each role, one right after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedBlock {
    /// Index of the case.
    pub case: usize,
    /// The roles in the order in which they are measured.
    pub order: Vec<Role>,
}

/// The blocks of an experiment, in rounds: a round has one block of every case.
///
/// The cases of a round are in random order, and so are the roles of a block; every second block of a case has the order
/// of the one before turned round, so that of any two roles each comes first equally often, and what the second slice
/// has of the first one's warmth falls on both alike. The baseline's second slice lies among the others, so that the
/// noise floor comes from the same minutes as the comparison. Equal plans give an equal order, and a case that ends
/// early does not change that of the others.
#[derive(Debug, Clone)]
pub struct Schedule {
    random: fastrand::Rng,
    /// For each case: its subjects, its blocks so far, and the order of the last one.
    cases: Vec<(Vec<usize>, usize, Vec<Role>)>,
    blocks: usize,
    aa_blocks: usize,
}

impl Schedule {
    /// The schedule of a plan.
    #[must_use]
    pub fn new(plan: &Plan) -> Self {
        let cases = plan.cases.iter().map(|case| (case.subjects().collect(), 0, Vec::new())).collect();
        let (blocks, aa_blocks) = (plan.repetitions.blocks, plan.repetitions.aa_blocks);
        Self { random: fastrand::Rng::with_seed(plan.seed), cases, blocks, aa_blocks }
    }

    /// The blocks of the next round; none at the end.
    pub fn round(&mut self) -> Vec<PlannedBlock> {
        let mut round = Vec::with_capacity(self.cases.len());
        for (case, (subjects, done, last)) in self.cases.iter_mut().enumerate() {
            if *done == self.blocks {
                continue;
            }
            // Spread evenly over the blocks, as a line is over the dots of a screen.
            let repeats = (*done + 1) * self.aa_blocks / self.blocks > *done * self.aa_blocks / self.blocks;
            if *done % 2 == 0 {
                *last = subjects.iter().map(|subject| Role::Subject(*subject)).chain([Role::Again]).collect();
                self.random.shuffle(last);
            } else {
                last.reverse();
            }
            let order = last.iter().copied().filter(|role| repeats || *role != Role::Again).collect();
            *done += 1;
            round.push(PlannedBlock { case, order });
        }
        self.random.shuffle(&mut round);
        round
    }

    /// Slices of all rounds that are left, those of the cases named only.
    #[must_use]
    pub fn slices_left(&self, counts: impl Fn(usize) -> bool) -> usize {
        let of_case = |(subjects, done, _): &(Vec<usize>, usize, Vec<Role>)| {
            let repeats = self.aa_blocks - done * self.aa_blocks / self.blocks.max(1);
            subjects.len() * (self.blocks - done) + repeats
        };
        self.cases.iter().enumerate().filter(|(case, _)| counts(*case)).map(|(_, found)| of_case(found)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn schedule(cases: &[usize], blocks: usize, aa_blocks: usize, seed: u64) -> Schedule {
        let cases = cases.iter().map(|subjects| ((0..*subjects).collect(), 0, Vec::new())).collect();
        Schedule { random: fastrand::Rng::with_seed(seed), cases, blocks, aa_blocks }
    }

    fn all(mut schedule: Schedule) -> Vec<Vec<PlannedBlock>> {
        std::iter::from_fn(|| Some(schedule.round()).filter(|round| !round.is_empty())).collect()
    }

    proptest! {
        #[test]
        fn everything_is_planned_once_and_orders_are_balanced(
            cases in prop::collection::vec(1..5_usize, 1..4), blocks in 1..30_usize, share in 0.0..=1.0_f64, seed: u64,
        ) {
            let aa_blocks = (blocks as f64 * share) as usize;
            let fresh = schedule(&cases, blocks, aa_blocks, seed);
            let rounds = all(fresh.clone());
            prop_assert_eq!(&rounds, &all(fresh.clone()));
            prop_assert_eq!(rounds.len(), blocks);
            let slices: usize = rounds.iter().flatten().map(|block| block.order.len()).sum();
            prop_assert_eq!(slices, fresh.slices_left(|_| true));
            for (case, subjects) in cases.iter().enumerate() {
                let of_case: Vec<&PlannedBlock> = rounds.iter().flatten().filter(|block| block.case == case).collect();
                prop_assert_eq!(of_case.len(), blocks);
                let repeated = of_case.iter().filter(|block| block.order.contains(&Role::Again)).count();
                prop_assert_eq!(repeated, aa_blocks);
                for subject in 1..*subjects {
                    let place = |block: &PlannedBlock, of: usize| block.order.iter().position(|role| *role == Role::Subject(of));
                    let first = of_case.iter().filter(|block| place(block, subject) < place(block, 0)).count();
                    prop_assert!(first.abs_diff(blocks - first) <= 1, "{first} of {blocks}");
                }
            }
        }
    }

    #[test]
    fn seeds_differ() {
        assert_ne!(all(schedule(&[2], 20, 10, 1)), all(schedule(&[2], 20, 10, 2)));
    }
}
