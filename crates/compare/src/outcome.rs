//! Everything that an experiment measured; verdicts are derived from it.
use serde::{Deserialize, Serialize};

use crate::accounting::CpuAccounting;
use crate::measured_slice::Slice;
use crate::observed::Observed;
use crate::plan::Plan;
use crate::schedule::Role;

/// The facts of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// What was planned.
    pub plan: Plan,
    /// How CPU time was counted.
    pub accounting: CpuAccounting,
    /// Whether servers were started for each slice.
    pub restarted: bool,
    /// Why it ended.
    pub ending: Ending,
    /// The complete blocks in the order in which they were measured.
    pub blocks: Vec<Block>,
    /// The observed slices, which tell the parts of responses and are in no figure of the blocks.
    #[serde(default)]
    pub observed: Vec<Observed>,
    /// Why there are none, or fewer than were asked for, where there are not.
    #[serde(default)]
    pub unobserved: Option<String>,
}

/// Why an experiment ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// All of the plan was done, or every case was precise enough.
    Done,
    /// The budget of time was used up.
    Budget,
    /// It was told to stop.
    Interrupted,
    /// A server or a load failed after some blocks were complete, and again when that was repeated: why.
    Failed(String),
}

/// A slice of each subject of a case, measured one right after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// Index of the case.
    pub case: usize,
    /// In which life of the servers: how often all had been started before, where that is not done for each slice.
    #[serde(default)]
    pub life: usize,
    /// The slices in the order in which they were measured.
    pub slices: Vec<BlockSlice>,
    /// The attempts at it before, each of which a slice that failed has ended; nothing else is known of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedSlice>,
}

/// A slice that failed, so that its block was measured again from its begin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedSlice {
    /// Whose; `None` where a server did not start before the block.
    pub role: Option<Role>,
    /// Why, with what its command printed last.
    pub why: String,
}

/// A slice and whose it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BlockSlice {
    /// Whose.
    pub role: Role,
    /// What was measured.
    #[serde(flatten)]
    pub slice: Slice,
}

impl Block {
    /// The slice of a role.
    #[must_use]
    pub fn of(&self, role: Role) -> Option<&Slice> {
        self.slices.iter().find(|found| found.role == role).map(|found| &found.slice)
    }

    /// The slices of the baseline and of a subject.
    #[must_use]
    pub fn pair(&self, baseline: usize, subject: usize) -> Option<(&Slice, &Slice)> {
        Some((self.of(Role::Subject(baseline))?, self.of(Role::Subject(subject))?))
    }

    /// The two slices of the baseline, where it was measured twice: in the block's order if `in_order`, else the repeated
    /// one second.
    #[must_use]
    pub fn twice(&self, baseline: usize, in_order: bool) -> Option<(&Slice, &Slice)> {
        let (one, other) = (self.of(Role::Subject(baseline))?, self.of(Role::Again)?);
        let place = |role| self.slices.iter().position(|found| found.role == role);
        let turned = in_order && place(Role::Again) < place(Role::Subject(baseline));
        Some(if turned { (other, one) } else { (one, other) })
    }
}

impl Outcome {
    /// The blocks of one case.
    pub fn blocks_of(&self, case: usize) -> impl Iterator<Item = &Block> {
        self.blocks.iter().filter(move |block| block.case == case)
    }

    /// The pairs of slices of a case: a subject's behind its baseline's.
    #[must_use]
    pub fn pairs(&self, case: usize, subject: usize) -> Vec<(&Slice, &Slice)> {
        let baseline = self.plan.cases.get(case).map_or(0, crate::plan::Case::baseline);
        self.blocks_of(case).filter_map(|block| block.pair(baseline, subject)).collect()
    }

    /// The pairs of slices of the baseline against itself.
    #[must_use]
    pub fn repeated(&self, case: usize, in_order: bool) -> Vec<(&Slice, &Slice)> {
        let baseline = self.plan.cases.get(case).map_or(0, crate::plan::Case::baseline);
        self.blocks_of(case).filter_map(|block| block.twice(baseline, in_order)).collect()
    }
}
