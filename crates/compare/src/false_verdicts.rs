//! How many false verdicts an experiment may give, and what follows for its length.
use weir_measure::comparison::BLOCKS_FOR_A_VERDICT;
use weir_measure::signed_rank;

/// The chance of one false verdict or more among all of an experiment, at most.
pub const FALSE_VERDICTS: f64 = 0.05;

/// The fewest blocks that can give a verdict when so many comparisons are made at once.
#[must_use]
pub fn blocks_for_a_verdict(comparisons: usize) -> usize {
    signed_rank::fewest_pairs(FALSE_VERDICTS / comparisons.max(1) as f64).max(BLOCKS_FOR_A_VERDICT)
}
